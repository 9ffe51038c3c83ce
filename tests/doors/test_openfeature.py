"""Applications with OpenFeature's SDKs and stock OFREP providers, unmodified, as clients of the service."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext

from tests.api.contract import ok
from tests.conftest import migrate_empty
from tests.doors.conftest import VALUES, Application, ShiftedServer, StartApplication, create_flag
from tests.servers import Server

pytestmark = pytest.mark.slow

WAIT_SECONDS_MAX = 60
FALLBACKS: dict[str, Any] = {"word": "none", "layout": {}, "discount": 0.5, "columns": 0, "banner": False}


class PythonApplication:
    """Evaluates flags in this process."""

    def __init__(self, url: str) -> None:
        api.set_provider_and_wait(OFREPProvider(url), domain=url)
        self._client = api.get_client(domain=url)

    def evaluate(self, flag: str, fallback: Any, **context: Any) -> dict[str, Any]:
        """What the SDK says of a flag, in the words of that of JavaScript."""
        kinds = {str: "string", dict: "object", float: "float", int: "integer", bool: "boolean"}
        evaluate = getattr(self._client, f"get_{kinds[type(fallback)]}_details")
        details = evaluate(flag, fallback, EvaluationContext(context.pop("targetingKey", None), context))
        error = None if details.error_code is None else details.error_code.value
        return {
            "value": details.value,
            "variant": details.variant,
            "reason": str(details.reason),
            "flagMetadata": details.flag_metadata,
            "errorCode": error,
            "errorMessage": details.error_message,
        }


@pytest.fixture(params=["javascript", "python"])
def application(request: pytest.FixtureRequest, server: Server) -> Application | PythonApplication:
    """An application of the shared service in either language."""
    if request.param == "python":
        return PythonApplication(server.url)
    start: StartApplication = request.getfixturevalue("start_application")
    return start(server.url)


def post(server: Server, path: str, body: Any) -> Any:
    """Send JSON; the answer."""
    return ok(httpx.post(server.url + path, json=body, trust_env=False))


def read(server: Server, path: str) -> Any:
    """Ask; the answer."""
    return ok(httpx.get(server.url + path, trust_env=False))


@pytest.mark.parametrize("kind", VALUES)
def test_a_flag_has_values_of_any_kind(server: Server, application: Application | PythonApplication, kind: str) -> None:
    """An SDK that expects another type takes the fallback, and the campaign would learn what nobody was shown."""
    flag = create_flag(server.url, kind)
    seen = set()
    for subject in range(12):
        found = application.evaluate(flag, FALLBACKS[kind], targetingKey=f"user-{subject}")
        assert found.get("errorCode") is None, found
        assert found["value"] == VALUES[kind]["ab".index(found["variant"])]
        assert found["reason"] in {"TARGETING_MATCH", "SPLIT"}
        stored = read(server, f"/decisions/{found['flagMetadata']['decisionId']}")
        assert found["flagMetadata"] == {
            "decisionId": stored["decision_id"],
            "exploring": stored["exploring"],
            "observations": stored["observations"],
            "propensity": stored["propensity"],
        }
        seen.add(found["variant"])
    assert seen == {"a", "b"}


def test_a_subject_keeps_its_variant_over_restarts(tmp_path: Path, start_application: StartApplication) -> None:
    """A user would see another page after each deployment, or whenever an attribute changes."""
    server = Server(f"sqlite:///{tmp_path}/prudent.db", tmp_path / "server.log")
    migrate_empty(server.database_url)
    server.start()
    try:
        flag = create_flag(server.url, "word")
        first = {
            name: start_application(server.url).evaluate(flag, "none", targetingKey=name, plan="free") for name in "xyz"
        }
        server.stop()
        server.start()
        application, other = start_application(server.url), PythonApplication(server.url)
        for name, found in first.items():
            again = application.evaluate(flag, "none", targetingKey=name, plan="paid", page={"path": "/"})
            in_python = other.evaluate(flag, "none", targetingKey=name, country="PT")
            for one in (again, in_python):
                assert (one["value"], one["flagMetadata"]) == (found["value"], found["flagMetadata"])
    finally:
        server.kill()


def test_a_window_ends_at_its_boundary(tmp_path: Path, start_application: StartApplication) -> None:
    """Decisions that stood for ever would never follow what was learned; ones that ended early would show two arms."""
    server = ShiftedServer(tmp_path)
    migrate_empty(server.database_url)
    sticky = 30 * 86_400
    to_end = sticky - int(time.time()) % sticky
    found = []
    try:
        for ahead in (0, to_end - 3_600, to_end + 3_600):
            server.set_clock(ahead)
            server.start()
            if not found:
                flag = create_flag(server.url, "word", assignment={"sticky_seconds": sticky})
            found.append(start_application(server.url).evaluate(flag, "none", targetingKey="u")["flagMetadata"])
            server.stop()
    finally:
        server.kill()
    if to_end > 7_200:  # else this run began in the last hours of a window
        assert found[1] == found[0]
    assert found[2]["decisionId"] != found[1]["decisionId"]


def test_one_language_evaluates_and_another_rewards(server: Server, start_application: StartApplication) -> None:
    """Where the outcome is known, the decision's id seldom is: the subject must lead to the same decision."""
    flag = create_flag(server.url, "banner")
    application = start_application(server.url)
    for subject in range(5):
        found = application.evaluate(flag, False, targetingKey=f"user-{subject}")
        rewarded = post(server, "/reward", {"campaign_id": flag, "subject": f"user-{subject}", "reward": 1})
        assert rewarded["decision_id"] == found["flagMetadata"]["decisionId"]
        assert rewarded["arm_id"] == found["variant"]
        assert (
            PythonApplication(server.url).evaluate(flag, False, targetingKey=f"user-{subject}")["value"]
            == (found["value"])
        )


def test_many_evaluations_are_one_decision(server: Server, application: Application | PythonApplication) -> None:
    """Templates, loops and hooks evaluate a flag over and over."""
    flag = create_flag(server.url, "word")
    found = Counter(
        application.evaluate(flag, "none", targetingKey="u", turn=turn)["flagMetadata"]["decisionId"]
        for turn in range(200)
    )
    assert len(found) == 1
    assert len(read(server, f"/campaigns/{flag}/decisions")["items"]) == 1


def test_pages_that_evaluate_several_times_learn_what_they_earn(
    tmp_path: Path, start_application: StartApplication
) -> None:
    """With a decision for each evaluation, four of five would never be rewarded, and learn the default instead."""
    server = ShiftedServer(tmp_path)
    migrate_empty(server.database_url)
    server.start()
    rules = {"reward": {"timeout_seconds": 3_600, "default": 0}, "assignment": {"sticky_seconds": 366 * 86_400}}
    try:
        flag, other = create_flag(server.url, "word", **rules), create_flag(server.url, "word", **rules)
        application = start_application(server.url)
        for page in range(20):
            for _ in range(5):
                application.evaluate(flag, "none", targetingKey=f"page-{page}")
            post(server, "/reward", {"campaign_id": flag, "subject": f"page-{page}", "reward": 1})
        application.evaluate(other, "none", targetingKey="nobody")
        server.stop()
        server.set_clock(2 * 3_600)
        server.start()
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while read(server, f"/campaigns/{other}")["observations"] == 0:  # until defaults have been learned
            assert time.monotonic() < deadline
            time.sleep(0.05)
        arms = read(server, f"/campaigns/{flag}/report")["arms"]
        rewards = [arm["rewards"] for arm in arms if arm["rewards"]["n"]]
        assert sum(one["n"] for one in rewards) == 20
        assert {one["mean"] for one in rewards} == {1.0}
    finally:
        server.kill()


# The table of docs/openfeature.md, row by row


def test_what_the_sdks_need_is_always_there(server: Server, application: Application | PythonApplication) -> None:
    """The SDK of Python raises a KeyError where there is no variant or reason, JavaScript's fails without a value."""
    one_arm = create_flag(server.url, "word", arms=[{"arm_id": "only"}])
    found = application.evaluate(one_arm, "none", targetingKey="u")
    assert (found["value"], found["variant"], found["reason"]) == ("only", "only", "STATIC")
    anew = create_flag(server.url, "word", assignment={"sticky_seconds": None})
    found = application.evaluate(anew, "none")
    assert found["value"] in VALUES["word"]
    assert found["flagMetadata"].keys() == {"decisionId", "exploring", "observations", "propensity"}


def test_an_error_is_one_of_openfeature(server: Server, application: Application | PythonApplication) -> None:
    """What the SDKs cannot read becomes a parse error, and nobody learns that a context or a key is wrong."""
    model = {"type": "disjoint", "features": [{"name": "age"}, {"name": "member", "kind": "boolean"}]}
    flag = create_flag(server.url, "word", model=model)
    good = {"targetingKey": "u", "age": 40, "member": True}
    cases = [
        ("no-such-flag", good, "FLAG_NOT_FOUND", "there is no such campaign"),
        ("no such flag", good, "FLAG_NOT_FOUND", "there is no such flag"),
        (flag, good | {"targetingKey": ""}, "TARGETING_KEY_MISSING", "targetingKey"),
        (flag, good | {"age": "forty"}, "INVALID_CONTEXT", "context.age: must be a number"),
        (flag, {"targetingKey": "u", "age": 40}, "INVALID_CONTEXT", "context.member: is required"),
        (flag, good | {"targetingKey": "u" * 257}, "INVALID_CONTEXT", "context.targetingKey"),
    ]
    for name, context, code, words in cases:
        found = application.evaluate(name, "none", **context)
        assert (found["value"], found["errorCode"]) == ("none", code), found
        assert words in found["errorMessage"]
    assert read(server, f"/campaigns/{flag}/decisions")["items"] == []
    assert application.evaluate(flag, "none", **good, path="/", device={"os": "x"}).get("errorCode") is None


def test_a_paused_campaign_is_a_flag_that_is_off(server: Server, application: Application | PythonApplication) -> None:
    """Without an answer, each SDK would have another idea of what is off; a decision would be learned when resumed."""
    held = {"holdout": {"share": 0.1, "arm_id": "b"}}
    for status in ("paused", "archived"):
        for changes, value in (({}, "calm"), (held, "loud")):
            flag = create_flag(server.url, "word", **changes)
            httpx.patch(f"{server.url}/campaigns/{flag}", json={"status": status}, trust_env=False).raise_for_status()
            found = application.evaluate(flag, "none", targetingKey="u")
            assert (found["value"], found["reason"]) == (value, "DISABLED")
            assert read(server, f"/campaigns/{flag}/decisions")["items"] == []
