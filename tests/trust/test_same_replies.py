"""R19: the same commands, one after the other, on SQLite and on PostgreSQL: the same replies."""

import random
import re
from collections import Counter
from typing import Any

import httpx

from tests.conftest import MakeServer
from tests.promises import Promise, length

Json = dict[str, Any]
Call = tuple[str, str, Json | None]
ALGORITHMS = ("linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr")
MODELS = ("shared", "disjoint", "multi-armed")
ARMS = ("a", "b", "c", "d")
TIME = re.compile(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"')
OURS = re.compile(r'("(?:request_id|digest|next_cursor)":)"[^"]*"')
"""Ids of requests; digests of what has times in it, and the places of pages, which are times."""
MADE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Player:
    """Draws commands, right and wrong ones, knowing only what it has asked for. `#3` stands for a server's third id."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311  # a simulation
        self._campaigns: dict[str, str] = {}
        self._drawn: set[str] = set()
        """Campaigns whose decisions depend on their ids."""
        self._decisions: list[str] = []
        self._made = self._named = 0

    def next(self) -> Call:
        """The next command."""
        if len(self._campaigns) < 4 or self._draw.random() < 0.01:
            return self._create()
        commands = (
            (30, self._select),
            (30, self._reward),
            (6, self._observe),
            (6, self._batch),
            (5, self._read),
            (4, self._change),
            (4, self._nonsense),
            (1, self._delete),
        )
        (command,) = self._draw.choices([one for _, one in commands], [weight for weight, _ in commands])
        return command()

    def _name(self) -> str:
        return self._draw.choice([*self._campaigns, "unknown"]) if self._draw.random() < 0.05 else self._known()

    def _known(self) -> str:
        return self._draw.choice(list(self._campaigns))

    def _create(self) -> Call:
        name = f"c{self._draw.randrange(8)}"
        algorithm, model = self._draw.choice(ALGORITHMS), self._draw.choice(MODELS)
        rule = self._draw.choice(("optimistic", "randomized"))
        if name not in self._campaigns:
            self._campaigns[name] = model
            (self._drawn.add if rule == "randomized" else self._drawn.discard)(name)
        body: Json = {
            "campaign_id": name,
            "risk": {"measure": "mean"} if algorithm == "linucb" else {"measure": "expectile", "level": 0.2},
            "model": {"type": model} if model == "multi-armed" else {"type": model, "dimension": 2, "intercept": True},
            "arms": [{"arm_id": arm, "features": self._features() if model == "shared" else None} for arm in ARMS[:3]],
            "algorithm": {"name": algorithm, "warmup": self._draw.randrange(3), "exploration_rule": rule},
            "seed": 3,
        }
        if self._draw.random() < 0.2:
            body["reward"] = {"minimum": -2, "maximum": 2}
        return "POST", "/campaigns", body

    def _features(self) -> list[float]:
        return [self._draw.choice((0.0, -0.0, 1.0, 1e-300, 1e6, self._draw.gauss(0, 1))) for _ in range(2)]

    def _request(self) -> Json:
        name = self._name()
        body: Json = {"campaign_id": name, "explain": self._draw.random() < 0.1}
        kind = self._campaigns.get(name)
        if kind == "disjoint" or self._draw.random() < 0.02:
            body["context"] = self._features()
        elif kind == "shared" and self._draw.random() < 0.5:
            body["arms"] = [{"arm_id": arm, "features": self._features()} for arm in "acx"]
        if self._draw.random() < 0.1:
            body["exclude"] = [self._draw.choice(ARMS)]
        if self._draw.random() < 0.1:
            body["chosen_arm_id"] = self._draw.choice(ARMS)
        return body

    def _select(self) -> Call:
        body = self._request()
        if self._draw.random() < 0.2 and body["campaign_id"] not in self._drawn:  # and among equals: so one arm only
            self._made += 1
            self._decisions.append(f"#{self._made}")
            return "POST", "/select", {**body, "eligible": ["a"]}
        named = [one for one in self._decisions if not one.startswith("#")]  # a server's own draws among equals
        if named and self._draw.random() < 0.05:
            body["decision_id"] = self._draw.choice(named)
        else:
            self._named += 1
            body["decision_id"] = f"d{self._named}"
            self._decisions.append(body["decision_id"])
        return "POST", "/select", body

    def _one_reward(self) -> Json:
        recent = self._decisions[-20:] if self._draw.random() < 0.8 else self._decisions
        name = self._draw.choice(recent) if recent else "unknown"
        body: Json = {"decision_id": name, "reward": self._draw.choice((0, -0.0, 1.5, 1e9, self._draw.gauss(0, 1)))}
        if self._draw.random() < 0.05:
            body["arm_id"] = self._draw.choice(ARMS)
        return body

    def _reward(self) -> Call:
        return "POST", "/reward", self._one_reward()

    def _batch(self) -> Call:
        if self._draw.random() < 0.5:
            return "POST", "/reward/batch", {"items": [self._one_reward() for _ in range(self._draw.randrange(1, 20))]}
        items = []
        for _ in range(self._draw.randrange(1, 20)):
            self._named += 1
            items.append({**self._request(), "decision_id": f"d{self._named}"})
            self._decisions.append(f"d{self._named}")
        return "POST", "/select/batch", {"items": items}

    def _observe(self) -> Call:
        name = self._name()
        kind = self._campaigns.get(name)
        items = []
        for _ in range(self._draw.randrange(1, 5)):
            item: Json = {"arm_id": self._draw.choice(ARMS), "reward": self._draw.gauss(0, 1)}
            if kind != "multi-armed":
                item["features" if kind == "shared" else "context"] = self._features()
            if self._draw.random() < 0.5:
                item["observation_id"] = f"o{self._draw.randrange(200)}"
            items.append(item)
        return "POST", f"/campaigns/{name}/observations", {"items": items}

    def _read(self) -> Call:
        name = self._name()
        whose = self._draw.choice(("", "/model", "/report", "/decisions", "/export"))
        return "GET", self._draw.choice(("/campaigns", f"/campaigns/{name}{whose}", f"/campaigns/{name}{whose}")), None

    def _change(self) -> Call:
        name, arm = self._name(), self._draw.choice(ARMS)
        changes: list[Call] = [
            ("PATCH", f"/campaigns/{name}", {"status": self._draw.choice(("active", "active", "paused", "archived"))}),
            ("PATCH", f"/campaigns/{name}", {"algorithm": {"exploration": self._draw.choice((0.5, 2.0))}}),
            ("PATCH", f"/campaigns/{name}/arms/{arm}", {"status": self._draw.choice(("active", "active", "paused"))}),
            ("POST", f"/campaigns/{name}/arms", {"arm_id": "d"}),
        ]
        return self._draw.choice(changes)

    def _delete(self) -> Call:
        name = self._known()
        if self._draw.random() < 0.5:
            return "DELETE", f"/campaigns/{name}", None
        del self._campaigns[name]
        return "DELETE", f"/campaigns/{name}?confirm={name}", None

    def _nonsense(self) -> Call:
        bodies: list[Json] = [
            {},
            {"campaign_id": "c1", "decision_id": "é"},
            {"campaign_id": "\0"},
            {"decision_id": "d1", "reward": "1"},
            {"decision_id": "d1", "reward": 2e9},
            {"items": []},
            {"campaign_id": "c1", "unknown": 1},
        ]
        path = self._draw.choice(("/select", "/reward", "/campaigns", "/reward/batch", "/select/batch", "/nowhere"))
        return "POST", path, self._draw.choice(bodies)


class Side:
    """One of the servers, with the ids that it has made."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._made: dict[str, str] = {}

    def send(self, call: Call) -> tuple[int, str]:
        """Status and body, with its own ids and times taken out."""
        method, path, body = call
        reply = self._http.request(method, path, json=None if body is None else self._own(body))
        found = reply.text
        if path == "/select":
            for name in MADE.findall(found):
                self._made.setdefault(f"#{len(self._made) + 1}", name) if name not in self._made.values() else None
        for mark, name in self._made.items():
            found = found.replace(name, mark)
        return reply.status_code, OURS.sub(r'\1"-"', TIME.sub('"-"', found))

    def _own(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._own(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._own(one) for one in value]
        return self._made.get(value, value) if isinstance(value, str) else value


def where(number: int, call: Call, mine: tuple[int, str], theirs: tuple[int, str]) -> str:
    """A difference with what is around it."""
    place = next((n for n, (one, other) in enumerate(zip(mine[1], theirs[1], strict=False)) if one != other), -1)
    around = slice(max(0, place - 60), place + 60)
    return f"{number} {call}: {mine[0]} {mine[1][around]!r} and {theirs[0]} {theirs[1][around]!r}"


def test_the_same_commands_have_the_same_replies(
    make_server: MakeServer, sqlite_database: str, postgres_database: str, promise: Promise
) -> None:
    """R19. What was tried out on SQLite would decide, refuse or report otherwise in production."""
    count, player = length("COMMANDS", 600), Player(19)
    statuses: Counter[int] = Counter()
    different: list[tuple[int, Call, tuple[int, str], tuple[int, str]]] = []
    options: Json = {"timeout": 60, "trust_env": False}
    with (
        httpx.Client(base_url=make_server(sqlite_database).url, **options) as first,
        httpx.Client(base_url=make_server(postgres_database).url, **options) as second,
    ):
        one, other = Side(first), Side(second)
        for number in range(count):
            call = player.next()
            mine, theirs = one.send(call), other.send(call)
            statuses[mine[0]] += 1
            if mine != theirs:
                different.append((number, call, mine, theirs))
    listed = ", ".join(f"{status}: {times:,}" for status, times in sorted(statuses.items()))
    promise("R19", f"{count:,} commands ({listed}): {len(different)} replies differ")
    for one in different[:5]:
        print(where(*one))  # noqa: T201  # for whoever looks into a failure
    assert not different
    assert not any(status >= 500 for status in statuses)
    assert statuses[200] > count / 2
