"""The invariants that every reliability test checks, against the database itself.

I1 each acknowledged decision exists once; I2 so does each acknowledged reward; I3 stored and live states equal a
replay of the log; I4 they are finite, symmetric, positive definite; I5 what has no answer is absent or there once.
"""

from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy import Connection, text
from typer.testing import CliRunner

from prudent.__main__ import app
from prudent.ledger.verification import verify
from prudent.store.engines import create_read_engine, parse_database_url
from tests.trust.load import Record


@dataclass
class Findings:
    """What contradicts the invariants. lost: acknowledged and not there; doubled: there more than once."""

    lost: int = 0
    doubled: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def none(self) -> bool:
        """Whether all of them hold."""
        return not (self.lost or self.doubled or self.faults)

    def __str__(self) -> str:
        return f"lost {self.lost}, duplicated {self.doubled}, faults {len(self.faults)}"


def check(database_url: str, record: Record) -> Findings:
    """I1 to I5 on a database that may be in use. Raises what the database raises."""
    engine = create_read_engine(parse_database_url(database_url))
    findings = Findings()
    try:
        with engine.connect() as connection:
            _check_decisions(connection, record, findings)
            _check_rewards(connection, record, findings)
        for verdict in verify(engine):
            findings.faults += [f"{verdict.campaign_id}: {fault}" for fault in verdict.faults]
    finally:
        engine.dispose()
    return findings


def _check_decisions(connection: Connection, record: Record, findings: Findings) -> None:
    statement = "SELECT decision_id, campaign_id, arm_id FROM decisions JOIN campaigns ON campaigns.key = decisions.key"
    found: dict[str, list[tuple[str, str]]] = {}
    for decision_id, campaign_id, arm_id in connection.execute(text(statement)):
        found.setdefault(decision_id, []).append((campaign_id, arm_id))
    findings.doubled += sum(len(rows) > 1 for rows in found.values())
    findings.lost += sum(answer not in found.get(decision_id, []) for decision_id, answer in record.decisions.items())


def _check_rewards(connection: Connection, record: Record, findings: Findings) -> None:
    statement = "SELECT decision_id, key, sequence, reward FROM observations WHERE decision_id IS NOT NULL"
    found: dict[str, list[tuple[float, int]]] = {}
    places: Counter[tuple[int, int]] = Counter()
    for decision_id, key, sequence, reward in connection.execute(text(statement)):
        found.setdefault(decision_id, []).append((reward, sequence))
        places[key, sequence] += 1
    findings.doubled += sum(len(rows) > 1 for rows in found.values()) + sum(n > 1 for n in places.values())
    findings.lost += sum(answer not in found.get(decision_id, []) for decision_id, answer in record.rewards.items())


def prudent_verify(database_url: str, server_url: str | None = None) -> str:
    """The command that operators run, with a live server's states if there is one. Raises AssertionError."""
    arguments = ["verify", "--database-url", database_url, *([] if server_url is None else ["--url", server_url])]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert " 0 with faults" in done.stdout
    return done.stdout
