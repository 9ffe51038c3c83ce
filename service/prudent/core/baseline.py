"""A baseline: decisions leave a known arm only as far as they have earned, or are allowed, to be worse than it.

Each decision earns the allowance a share, the tolerance, of what the baseline arm is estimated to be worth. One for
another arm adds how much better than the baseline it surely is, by the lower end of its range, estimate - bonus;
usually less than nothing. What the allowance does not cover goes to the baseline. So if these ends hold, and the
estimates of the baseline are right, the decisions together are worth at least (1 - tolerance) times what the baseline
alone would have been, where that is positive; of losses, at most (1 + tolerance) times. The baseline enters by its
estimate at the time, not by an upper end: where that is too low, the decisions may be worth less.

The rule is that of conservative bandits: Wu, Shariff, Lattimore & Szepesvari 2016, "Conservative bandits", ICML; with
features Kazerouni, Ghavamzadeh, Abbasi-Yadkori & Van Roy 2017, "Conservative contextual linear bandits", NeurIPS. Their
guarantees need bonuses that are confidence limits, and an upper limit of the baseline; here nothing is claimed.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from prudent.core.exploration import PROPENSITY_MIN, Choice, Scores

LEARNED_MIN = 10
"""Observations of the campaign, before which a bonus does not know how much rewards scatter."""


class Baseline(NamedTuple):
    """What the past of a campaign, and a decision's scores, leave of K candidates to choose from.

    position: the baseline arm's; additions: what each candidate would add to the allowance; allowance: before the
    decision; both in reward units.
    """

    position: int
    additions: list[float]
    allowance: float

    def covers(self, position: int) -> bool:
        """Whether a candidate may be played: the baseline itself always."""
        return position == self.position or self.allowance + self.additions[position] >= 0.0

    def restrict(self, chances: Sequence[float]) -> list[float]:
        """With what probability each is played, where the exploration rule has these."""
        kept = [chance if self.covers(k) else 0.0 for k, chance in enumerate(chances)]
        kept[self.position] += sum(chance for k, chance in enumerate(chances) if not self.covers(k))
        return kept

    def settle(self, choice: Choice, restricted: Sequence[float]) -> Choice:
        """What is played where the exploration rule has made this choice. restricted: probabilities of `restrict`."""
        if self.covers(choice.position):
            return choice._replace(propensity=max(restricted[choice.position], PROPENSITY_MIN))
        own = restricted[self.position]
        return choice._replace(position=self.position, reason="baseline", propensity=max(own, PROPENSITY_MIN))


def additions(scores: Scores, position: int, tolerance: float, learned: int) -> list[float]:
    """Return what each of K candidates would add to the allowance, in reward units, with the baseline arm at position.

    learned: the observations that the scores rest on. -inf for a candidate whose lower end is not known.
    """
    usual = float(scores.estimates[position])
    earned = tolerance * abs(scores.estimate_of(position))
    found: list[float] = (scores.estimates - scores.bonuses + (earned - usual)).tolist()
    if learned < LEARNED_MIN:
        found = [-inf] * len(found)
    found[position] = earned
    return found
