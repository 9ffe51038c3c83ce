"""The trail in words: who changed what, and when."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from prudent.dashboard.formatting import NONE, shortened
from prudent.store.trail import TrailRow

SHOWN_MAX = 12
"""Changes on a campaign's page."""
LISTED_MAX = 200
"""Changes on the page of all."""


class Change(NamedTuple):
    """A line of the trail. at: microseconds; campaign_id: None of API keys; who: the key's name."""

    at: int
    campaign_id: str | None
    who: str
    via: str
    what: str


def changes(rows: Iterable[TrailRow]) -> list[Change]:
    """The rows in words, in their order."""
    return [Change(row.at, row.campaign_id, row.author or NONE, row.via, _what(row)) for row in rows]


def _what(row: TrailRow) -> str:
    named = row.action if row.subject is None else f"{row.action}: {row.subject}"
    detail: dict[str, Any] = {} if row.detail is None else orjson.loads(row.detail)
    said = ", ".join([named, *(_said(name, value) for name, value in detail.items())])
    return said[:1].upper() + said[1:]


def _said(name: str, value: Any) -> str:
    """A detail: a setting as it was and as it is, or a fact."""
    if isinstance(value, list):
        old, new = (shortened(one) for one in value)
        return f"{name} from {old} to {new}"
    return f"{name} {shortened(value)}"
