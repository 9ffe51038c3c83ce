"""A campaign's decisions as a data frame."""

from typing import TYPE_CHECKING, Any

from prudent_client.encoding import decode

if TYPE_CHECKING:
    from pandas import DataFrame

_COLUMNS = (
    "decision_id",
    "decided_at",
    "arm",
    "propensity",
    "reason",
    "reward",
    "greedy_arm",
    "recommended_arm",
    "observations",
    "rewarded_arm",
    "reward_source",
    "rewarded_at",
    "propensities",
    "candidates",
)
"""Of a table without rows. The others name their columns, with one for each feature."""
_INSTANTS = ("decided_at", "rewarded_at")


def pandas() -> Any:
    """The package. Raises ImportError, with what to install, where it is missing."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ImportError("a data frame needs pandas: pip install 'prudent-client[pandas]'", name="pandas") from error
    return pd


def to_frame(content: bytes) -> "DataFrame":
    """The data frame of an export in the format ndjson. Times are in UTC."""
    pd = pandas()
    rows = [decode(line) for line in content.splitlines()]
    frame = pd.DataFrame.from_records(rows, columns=None if rows else _COLUMNS)
    for name in _INSTANTS:
        frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    return frame
