"""Every error of PostgreSQL's appendix has its meaning: our own, passing, or of a server that cannot."""

import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError

from prudent.store.failures import CANNOT, OURS, PASSING, SQLSTATES, Failure, Fault, classify, ends_session, fault_of

APPENDIX = {code: error for code, error in vars(errors)["_sqlcodes"].items() if error.sqlstate == code}
"""The codes that psycopg knows, which are those of the appendix "PostgreSQL Error Codes"."""
KNOWN: dict[Fault, str] = {
    OURS: "0A000 22003 22P02 22P05 23502 23514 42601 42P08 54000 54023",
    PASSING: "08003 08006 23503 23505 25P03 25P04 40001 40003 40P01 55P03 57P01 57P02 57P05 72000",
    CANNOT: "25006 25P02 26000 28P01 3D000 3F000 42501 42703 42P01 42P05 53100 53200 53300 55000 55006 57014 57P03 "
    "57P04 58030 58P01 F0000 HV000 P0001 XX000 XX001 XX002",
}


def test_the_appendix_is_sorted() -> None:
    """A class that nobody looked at made a read-only server (25006) our own defect at a92648e: 500, and ready."""
    assert len(APPENDIX) > 200
    assert not {code[:2] for code in APPENDIX} - SQLSTATES.keys()
    exceptions = {code for code in SQLSTATES if len(code) > 2}
    assert exceptions <= APPENDIX.keys()
    for code in exceptions:
        assert SQLSTATES[code] is not SQLSTATES[code[:2]], f"{code} does not differ from its class"


@pytest.mark.parametrize("fault", Fault)
def test_known_codes(fault: Fault) -> None:
    """Each would be answered wrongly: a defect hidden as 503, or a server's state shown as a defect."""
    codes = KNOWN[fault].split()
    assert codes
    assert set(codes) <= APPENDIX.keys()
    assert {code: fault_of(code) for code in codes} == dict.fromkeys(codes, fault)


def test_what_each_error_means_for_a_batch() -> None:
    """A server's state must never be a 500, and only what cannot go on needs another connection."""
    meanings = {OURS: Failure.DEFECT, PASSING: Failure.RERUN, CANNOT: Failure.UNAVAILABLE}
    for code, kind in APPENDIX.items():
        error = DBAPIError.instance("", None, kind("no"), errors.Error)
        assert isinstance(error, DBAPIError)
        assert classify(error) is (Failure.LOCKED if code == "55P03" else meanings[fault_of(code)]), code
        assert ends_session(error.orig) == (fault_of(code) is CANNOT), code


def test_a_code_of_a_later_version_is_the_servers() -> None:
    """Nobody can know it here: 503 and unready are safe, and the log says what it was."""
    assert fault_of("ZZ123") is CANNOT
