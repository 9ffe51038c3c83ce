"""Packages that only some commands need: each belongs to an extra of the distribution `prudent`."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(Exception):
    """A package of an extra is not installed; the message says what needs it and how to install it."""


@contextmanager
def needed_for(purpose: str, extra: str) -> Iterator[None]:
    """Around the imports of an extra's packages. purpose: what needs them, as the subject of a sentence.

    Raises MissingExtraError where one of them is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith("prudent"):
            raise  # a defect of ours: no extra brings it
        raise MissingExtraError(f"{purpose} needs {package}: pip install 'prudent[{extra}]'") from error
