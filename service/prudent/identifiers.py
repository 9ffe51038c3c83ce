"""What an id may look like: of campaigns, arms and decisions, and the names of keys.

Ids that the service makes for decisions end with the key of their campaign, so that a reward finds its decision without
a look at other campaigns. It is a hint only: whoever gives ids of their own may give one that looks like these.
"""

import re

ID_PATTERN = r"^[A-Za-z0-9._~-]{1,128}$"
KEY_MAX = 2**32 - 1
"""Of keys that an id has room for."""
_WITH_KEY = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{4}([0-9a-f]{8})")


def is_id(text: str) -> bool:
    """Whether anything could have this id."""
    return re.fullmatch(ID_PATTERN, text) is not None


def key_in(decision_id: str) -> int | None:
    """The key of the campaign that the service has made this id for, if it is such an id."""
    found = _WITH_KEY.fullmatch(decision_id)
    return None if found is None else int(found[1], 16)
