"""What newcomers get wrong is answered so that they need not look into the code."""

import re

from tests.mistakes import MISTAKES, PAGE, page


def test_the_page_of_mistakes_shows_the_answers_of_today() -> None:
    """A table that is not compared goes stale. `python -m tests.mistakes` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_mistakes_are_many_and_their_answers_are_words() -> None:
    """A regular expression, a type's name or a class of ours is read by those who wrote it."""
    assert sum(map(len, MISTAKES.values())) == 54
    rows = re.findall(r"^\| .+ \| (\d+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 54
    for status, detail in rows:
        assert 400 <= int(status) < 500, detail
        assert len(detail) > 20, detail
        assert not re.search(r"\^|\$|Traceback|pydantic|Input|valid (number|string|array)|[a-z][A-Z]", detail), detail
