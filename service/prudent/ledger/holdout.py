"""Decisions that are held out: made by one arm, or uniformly, so that what the policy gains can be measured.

Who is held out depends on the campaign's seed and on the subject (of a decision without one, on its id) and on nothing
else, so a subject stays held out from window to window.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from prudent.campaigns import Holdout
from prudent.core.exploration import Choice

_UNIT = 2.0**-64
_TWO_INTEGERS = Struct(">2Q")


class Lot(NamedTuple):
    """Whether a decision is held out. chances: of each candidate, to be played if it is; position: the one to play."""

    is_held: bool
    position: int
    chances: list[float]
    share: float

    def settle(self, choice: Choice, chances: Sequence[float]) -> Choice:
        """What is played where the policy has made this choice, with these probabilities of all candidates."""
        position, own = choice.position, choice.propensity
        if self.is_held:
            position, own = self.position, chances[self.position]
            choice = choice._replace(position=position, reason="holdout")
        return choice._replace(propensity=self.share * self.chances[position] + (1.0 - self.share) * own)


def draw_lot(holdout: Holdout, arm_ids: Sequence[str], seed: int, unit: str) -> Lot | None:
    """The lot of a decision among these candidates; None if the arm to hold out for is not one of them.

    unit: the subject or, without one, the decision's id.
    """
    chances = held_chances(holdout, arm_ids)
    if chances is None:
        return None
    digest = blake2b(f"{seed}:{unit}".encode(), digest_size=16, person=b"holdout").digest()
    drawn, lot = _TWO_INTEGERS.unpack(digest)
    position = lot % len(arm_ids) if holdout.arm_id is None else arm_ids.index(holdout.arm_id)
    return Lot(drawn * _UNIT < holdout.share, position, chances, holdout.share)


def held_chances(holdout: Holdout, arm_ids: Sequence[str]) -> list[float] | None:
    """With what probability each of these is played if the decision is held out; None if its arm is not among them."""
    if holdout.arm_id is None:
        return [1.0 / len(arm_ids)] * len(arm_ids)
    return [float(one == holdout.arm_id) for one in arm_ids] if holdout.arm_id in arm_ids else None


def mixed(share: float, held: Sequence[float], chances: Sequence[float]) -> list[float]:
    """With what probability each candidate is played, where the policy has these and a share is held out."""
    return [share * one + (1.0 - share) * own for one, own in zip(held, chances, strict=True)]
