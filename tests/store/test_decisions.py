"""What of a decision is shown."""

import pytest
from pydantic import BaseModel

from prudent.api.replies import SelectReply
from prudent.api.reports import LoggedDecisionReply
from prudent.store.decisions import shown_columns
from prudent.store.tables import DecisionRow


@pytest.mark.parametrize("reply", [SelectReply, LoggedDecisionReply])
def test_what_is_shown_is_documented(reply: type[BaseModel]) -> None:
    """A column that is added is in every reply at once; the API's description would not say so."""
    shown = shown_columns(DecisionRow._make(DecisionRow._fields))
    assert shown.keys() <= reply.model_fields.keys()
    assert shown["index"] == "index_value"
    assert "request_digest" not in shown
