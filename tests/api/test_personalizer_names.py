"""Personalizer's names and ids, which are any text, as ids of ours."""

import re

from hypothesis import given
from hypothesis import strategies as st

from prudent.api.doors.rank_requests import as_id, as_name, event_id_of, slot_id_of
from prudent.identifiers import ID_PATTERN


@given(st.lists(st.text(min_size=1, max_size=256), min_size=2, max_size=5, unique=True))
def test_every_text_has_an_id_of_its_own(names: list[str]) -> None:
    """Two actions would be one arm, or an action could not be asked for at all."""
    for make in (as_id, lambda name: event_id_of("c", name), lambda name: slot_id_of("c" * 128, "e", name)):
        ids = [make(name) for name in names]
        assert all(re.fullmatch(ID_PATTERN, one) and one not in {".", ".."} for one in ids)
        assert len(set(ids)) == len(names)
    for name in names:
        assert as_name(as_id(name)) == name or "~-" in as_id(name)


def test_plain_names_are_their_own_ids() -> None:
    """Nobody would find an arm or an event again that was called otherwise."""
    assert as_id("Red-Polo_Shirt.432") == "Red-Polo_Shirt.432"
    assert as_id("ice cream") == "ice~20cream"
    assert event_id_of("meals", "75269AD0") == "meals~~75269AD0"
    assert slot_id_of("meals", "75269AD0", "hero") == "meals~~75269AD0~_hero"
