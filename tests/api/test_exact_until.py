"""The end of exact fits over HTTP: where it is said, what is refused, and that a start and a move change nothing."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from prudent_client import Client
from tests.api.contract import (
    Json,
    assert_same_model,
    create,
    disjoint,
    model,
    multi_armed,
    ok,
    problem,
    read,
    reward,
    select,
    shared,
)
from tests.conftest import MakeServer
from tests.end_to_end.test_concurrency import verify
from tests.transfer.campaigns import bring, without_times

DEFAULT = {"name": "linucb-cr"}


@pytest.mark.parametrize(
    ("algorithm", "changes", "expected"),
    [
        ({}, {}, 10_000),
        ({"exact_until": None}, {}, None),
        ({"exact_until": 500}, {}, 500),
        ({"noise_scale": 0.5}, {}, None),
        ({"noise_scale": 0.5, "exact_until": 500}, {}, 500),
        ({"exploration_rule": "optimistic"}, {}, None),
        ({"bonus": "self-scaled"}, {}, None),
        ({"bonus": "self-scaled", "exact_until": 500}, {}, 500),
        ({"bonus": "self-normalized"}, {}, None),
        ({"name": "linucb"}, {"risk": {"measure": "mean"}}, None),
        ({"name": "linucb-onepass-cr"}, {}, None),
        ({}, {"risk": {"measure": "cvar", "level": 0.1}}, None),
        ({"forgetting": {"half_life": 100}}, {}, 10_000),
    ],
)
def test_the_creations_reply_says_when_it_ends(
    api: httpx.Client, algorithm: Json, changes: Json, expected: int | None
) -> None:
    """A campaign that changes its way of learning unannounced would be taken for a broken one."""
    request = multi_armed(**{"algorithm": DEFAULT | algorithm, **changes})
    reply = ok(api.post("/campaigns", json=request), 201)
    assert reply["algorithm"]["exact_until"] == expected
    assert ok(api.post("/campaigns", json=request)) == reply
    assert ok(api.post("/campaigns", json=request | {"algorithm": reply["algorithm"]})) == reply


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ({"name": "linucb"}, {"risk": {"measure": "mean"}}),
        ({"name": "linucb-onepass-cr"}, {}),
        ({"name": "linucb-ogd-cr"}, {}),
        (DEFAULT, {"risk": {"measure": "quantile", "level": 0.1}}),
        (DEFAULT | {"bonus": "self-normalized"}, {}),
    ],
)
def test_where_it_cannot_end_it_is_refused(api: httpx.Client, algorithm: Json, changes: Json) -> None:
    """A setting that does nothing would be believed to keep a campaign small."""
    request = multi_armed(**{"algorithm": algorithm | {"exact_until": 30}, **changes})
    problem(api.post("/campaigns", json=request), 422, "algorithm.exact_until")
    campaign = create(api, multi_armed(**{"algorithm": algorithm, **changes}))
    before = read(api, campaign)
    change = {"algorithm": {"exact_until": 30}}
    problem(api.patch(f"/campaigns/{campaign}", json=change), 422, "algorithm.exact_until")
    assert read(api, campaign) == before


@pytest.mark.parametrize("value", [0, -1, 1_000_000_001, 1.5, "30", True])
def test_what_is_no_number_of_observations_is_refused(api: httpx.Client, value: object) -> None:
    """0 would be taken for 'never' by some, and for 'at once' by others."""
    problem(api.post("/campaigns", json=shared(algorithm={"exact_until": value})), 422, "algorithm.exact_until")
    campaign = create(api, shared())
    problem(
        api.patch(f"/campaigns/{campaign}", json={"algorithm": {"exact_until": value}}), 422, "algorithm.exact_until"
    )


def play(api: httpx.Client, campaign: str, count: int, **fields: object) -> None:
    for number in range(count):
        decision = select(api, campaign, **fields)
        reward(api, decision["decision_id"], number % 7 - 3.0)


@pytest.mark.parametrize("make", [shared, disjoint, multi_armed])
def test_a_start_and_a_move_change_nothing(
    make_server: MakeServer, database_url: str, tmp_path: Path, make: Callable[..., Json]
) -> None:
    """Beyond the end of exact fits a state comes from a snapshot, from the log, or from a file: always the same one."""
    server = make_server(database_url, environment={"PRUDENT_SNAPSHOT_OBSERVATIONS": "10"})
    fields: Json = {"context": [0.5, 0.25]} if make is disjoint else {}
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        campaign = create(http, make(algorithm={"exact_until": 30}))
        play(http, campaign, 29, **fields)
        assert model(http, campaign)["one_pass"] is False
        verify(server, database_url)
        play(http, campaign, 1, **fields)
        before = model(http, campaign)
        assert before["one_pass"] is True
        assert before["state_digest"] is not None
        assert before["convergence"]["certified"] is None
        with Client(server.url) as client:
            assert client.model(campaign).one_pass
        play(http, campaign, 15, **fields)
        before = model(http, campaign)
        verify(server, database_url)
        server.stop()
        server.start()
        assert model(http, campaign) == before
        content = http.get(f"/campaigns/{campaign}/export").content
        other = make_server(f"sqlite:///{tmp_path}/other.db")
        with httpx.Client(base_url=other.url, timeout=60, trust_env=False) as there:
            assert bring(there, content)["algorithm"]["exact_until"] == 30
            assert_same_model(model(there, campaign), before)
            assert without_times(there.get(f"/campaigns/{campaign}/export").content) == without_times(content)
            for one in (http, there):
                ok(one.patch(f"/campaigns/{campaign}", json={"algorithm": {"exact_until": None}}))
                assert model(one, campaign)["one_pass"] is False
                ok(one.patch(f"/campaigns/{campaign}", json={"algorithm": {"exact_until": 40}}))
                assert model(one, campaign)["one_pass"] is True
            changed = http.get(f"/campaigns/{campaign}/export").content
        verify(other, other.database_url)
        third = make_server(f"sqlite:///{tmp_path}/third.db")
        with httpx.Client(base_url=third.url, timeout=60, trust_env=False) as there:
            bring(there, changed)
            assert_same_model(model(there, campaign), model(http, campaign))
    verify(server, database_url)
