"""The policy: which arm to recommend, given what has been observed.

The state is a deterministic fold of the campaign's log: ``observe`` takes the observations in order,
``score`` gives estimates and bonuses, from which `prudent.core.exploration` picks an arm. Nothing here knows arm ids,
clocks or databases.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dnrm2

from prudent.core.centring import Centre
from prudent.core.change import ChangeWatch
from prudent.core.confidence import Confidence, ConfidenceSettings
from prudent.core.encoding import Encoder, FeatureMap, categories_of
from prudent.core.estimators import Estimator, SolverCounts
from prudent.core.estimators.blocks import check_observation
from prudent.core.estimators.handover import minimum_of, one_pass_after, one_pass_of
from prudent.core.exploration import Scores
from prudent.core.floor import FloorCounts
from prudent.core.forgetting import Forgets, Forgetting
from prudent.core.intervals import RiskIntervals, risk_intervals
from prudent.core.measures import Measure
from prudent.core.scaling import Observed, Scaling, Seen
from prudent.core.self_normalized import SelfNormalized
from prudent.core.self_scaled import ScoreSums, SelfScaled
from prudent.core.snapshot import CorruptSnapshotError, pack, unpack


class _Learned(NamedTuple):
    """What learning again and going over to one pass replace: kept until the next mark, so that it can be restored."""

    estimator: Estimator
    centre: Centre | None
    feature_map: FeatureMap | Encoder
    counts: SolverCounts


class Policy:
    """State of one campaign: estimator, confidence and, for centred rewards, their centre.

    One block of parameters for the shared model; one per arm, in order of registration, for the disjoint one. Where
    rewards are centred, theta is the parameter of the rewards relative to their centre; what is published is in the
    user's unit. Without an intercept they cannot be: the centre is then only watched, to say how far from 0 they are.
    """

    def __init__(
        self,
        *,
        measure: Measure,
        estimator: Estimator,
        feature_map: FeatureMap | Encoder,
        confidence: ConfidenceSettings,
        exploration: float,
        blocks_at_creation: int,
        arms: int,
        centred: bool,
        fresh_estimator: Callable[[int], Estimator] | None = None,
        keeps_seen: bool = False,
        half_life: int = 0,
        exact_until: int | None = None,
    ) -> None:
        """fresh_estimator: for so many blocks; required where centres and scales are learned.

        keeps_seen: whether to count what the learned rows held of each feature. half_life: see `Forgetting`.
        exact_until: observations after which one pass takes over from the exact minimiser; None: never.
        """
        self.loss = measure.loss
        self.is_staged = measure.stages is not None
        """Whether the measure is learned in stages, about which nothing is guaranteed."""
        self._outcome = measure.outcome
        self._new_centre = (lambda: Centre(measure.centre)) if centred else None
        self.centre = None if self._new_centre is None else self._new_centre()
        self.is_centred = centred and feature_map.intercept
        """Whether rewards are learned relative to the centre."""
        self.estimator = estimator
        self.feature_map = feature_map
        is_learned = isinstance(feature_map, Encoder) and feature_map.is_learned
        self.scaling = Scaling(feature_map.dimension) if is_learned else None
        self.seen = Seen(feature_map.dimension) if keeps_seen else None
        self._categories = categories_of(feature_map)
        self.forgetting: Forgetting | None = None
        """None until something is to be forgotten."""
        self._fresh_estimator = fresh_estimator
        self._earlier_counts = SolverCounts()
        self._kept: _Learned | None = None
        self._exact_until = self.left_exact = exact_until
        """left_exact: observations until one pass takes over; None where it never does, or has done so."""
        self.features_above_bound = 0
        self.version = 0
        """Rises with everything that may change a score."""
        self.floor_counts = FloorCounts(arms)
        self.change_watch = ChangeWatch(len(estimator.theta), arms)
        self._marked = 0, self.left_exact
        self._has_marked_parts = True
        self._blocks_at_creation = blocks_at_creation
        is_self_scaled = confidence.bonus == "self-scaled"
        self._sums = ScoreSums(self.loss, arms, len(estimator.theta)) if is_self_scaled else None
        self._changed: set[int] = set()
        self.set_index(confidence, exploration)
        self.set_half_life(half_life)

    def set_index(self, confidence: ConfidenceSettings, exploration: float) -> None:
        """Change the settings of the index; what has been learned stays.

        Raises ValueError where the bonus becomes `self-scaled`, or no longer is: what it needs is learned all along.
        """
        if (confidence.bonus == "self-scaled") != self.is_self_scaled:
            raise ValueError("the bonus self-scaled is chosen once and for all")
        self.exploration = exploration
        blocks, dimension = self.estimator.theta.shape
        at_creation = self._blocks_at_creation
        self.confidence: Confidence | SelfScaled | SelfNormalized
        if self._sums is not None:
            self.confidence = SelfScaled(confidence, self._sums, blocks, dimension)
        elif confidence.bonus == "self-normalized":
            self.confidence = SelfNormalized(self.loss, confidence, blocks_at_creation=at_creation)
        else:
            self.confidence = Confidence(self.loss, confidence, blocks, dimension, blocks_at_creation=at_creation)
        self._everything_is_stale = True
        self.version += 1

    def set_half_life(self, half_life: int) -> None:
        """Forget with another half-life from now on, in observations; 0 for none. Raises ValueError if that cannot be.

        Part of the fold: to be called where the log says so, and not within what a mark may undo.
        """
        if self.forgetting is None and half_life:
            if not isinstance(self.estimator, Forgets) or self.is_self_scaled:
                raise ValueError("this estimator cannot forget")
            self.forgetting = Forgetting(0)
        if self.forgetting is not None:
            self.forgetting.change(half_life)
            self.version += 1

    def add_arm(self, *, has_block: bool) -> None:
        """Register one more arm. has_block: whether it has parameters of its own (disjoint model)."""
        self._mark_parts()
        self.floor_counts.add_arm()
        self.change_watch.add_arm(has_block=has_block)
        self.version += 1
        if self._sums is not None:
            self._sums.add_arm()
        if has_block:
            self.estimator.add_block()
            if self._sums is not None:
                self._sums.add_block()
            self._everything_is_stale = True

    def observe(
        self, block: int, features: NDArray[np.float64], reward: float, arm: int | None = None, sequence: int = 0
    ) -> None:
        """Learn one observation. Raises ValueError, and changes nothing, if it is not finite or of another length.

        features: (d,) as sent. arm: whose observation counts for the floor, the bonus `self-scaled` and the alarm, by
        order of registration. sequence: its row of the log, from 1, by which the alarm dates a change.
        """
        if features.shape != (self.feature_map.dimension,):  # one number would be taken for all of them
            raise ValueError(f"it has {features.size} features instead of {self.feature_map.dimension}")
        x = self.feature_map(features)
        reward = self._outcome(reward)
        self.version += 1
        blocks, dimension = self.estimator.theta.shape
        check_observation(block, blocks, dimension, x, reward)  # before anything changes
        self._mark_parts()
        if self.forgetting is not None:
            self._forget(self.forgetting)
        is_due = self.change_watch.observe(block, x, reward, arm, sequence)
        if self.scaling is not None and self.scaling.add(Observed(block, features, reward)):
            self._learn_again(self.scaling)
            x = self.feature_map(features)
            self._expect(range(len(self.estimator.theta)))
        else:
            self._learn(block, x, reward)
            if is_due:
                self._expect([block])
        if self.seen is not None:
            self.seen.add(features, self._categories)
        if arm is not None:
            self.floor_counts.observe(arm, reward)
        if self._sums is not None:
            # a score is that at the estimate just after its observation, whenever the estimate is next asked for
            self._changed.update(self.estimator.refresh())
            self._sums.observe(block, arm, reward - self.center, float(self.estimator.theta[block] @ x))

    def _forget(self, forgetting: Forgetting) -> None:
        """Forget a step before the next observation is learned, where one is due."""
        share = forgetting.observe()
        if share is None:
            return
        assert isinstance(self.estimator, Forgets)  # noqa: S101  # `set_half_life` has looked
        self.estimator.forget(share)
        self.floor_counts.forget(share)
        if self.centre is not None:
            self.centre.forget(forgetting.half_life)
        self._expect(self.change_watch.forget(share, forgetting.step))

    def _expect(self, blocks: Sequence[int]) -> None:
        """Look for changes by the estimates of now."""
        self._changed.update(self.estimator.refresh() if blocks else ())
        for block in blocks:  # while a snapshot is to come, by what does not depend on when estimates were asked for
            is_exact = self.left_exact is not None
            theta = minimum_of(self.estimator, block) if is_exact else self.estimator.theta[block]
            self.change_watch.renew(block, theta, self.center)

    def _learn(self, block: int, x: NDArray[np.float64], reward: float) -> None:
        if self.centre is not None and self.centre.observe(reward) and self.is_centred:
            self.estimator.recenter(self.centre.value)
        self.estimator.observe(block, x, reward)
        if self.left_exact is not None:
            self.left_exact -= 1
            if not self.left_exact:
                self._keep()
                self.estimator, self.left_exact = one_pass_after(self.estimator), None
        if dnrm2(x) > self.confidence.settings.feature_bound * (1 + 1e-12):
            self.features_above_bound += 1

    def _learn_again(self, scaling: Scaling) -> None:
        """Learn the rows so far with the centres and scales that they give."""
        if self._fresh_estimator is None or not isinstance(self.feature_map, Encoder):
            raise ValueError("centres and scales cannot be learned without a way to a fresh estimator")
        self._keep()
        self.feature_map = self.feature_map.scaled_by(scaling.center, scaling.scale)
        self.estimator, self.left_exact = self._fresh_estimator(len(self.estimator.theta)), self._exact_until
        self.centre = None if self._new_centre is None else self._new_centre()
        self.features_above_bound = 0
        for one in scaling.observed:
            self._learn(one.block, self.feature_map(one.row), one.reward)
        self.set_index(self.confidence.settings, self.exploration)

    def _keep(self) -> None:
        """Keep what is about to be replaced."""
        if self._kept is None:
            self._kept = _Learned(self.estimator, self.centre, self.feature_map, self._earlier_counts)
        self._earlier_counts = self.solver_counts

    def odd_values(self, row: NDArray[np.float64]) -> tuple[int, int]:
        """How many values of a row, (n,) as the log holds it, are missing, and how many are none of the categories."""
        return int(np.isnan(row).sum()), int((self._categories & (row == 0.0)).sum())

    def refresh(self) -> None:
        """Bring estimate and bonuses up to date with every observation so far."""
        changed: Sequence[int] = self.estimator.refresh()
        if self._changed:
            changed = sorted(self._changed.union(changed))
            self._changed.clear()
        if self._everything_is_stale:
            changed = range(len(self.estimator.theta))
        elif not changed:
            return
        self.confidence.refresh(self.estimator, changed)
        self._everything_is_stale = False

    def score(
        self,
        features: NDArray[np.float64],
        blocks: NDArray[np.intp] | None = None,
        arms: NDArray[np.intp] | None = None,
    ) -> Scores:
        """Estimate and bonus of each candidate, relative to the centre.

        features as sent: (K, d) for the shared model (``blocks`` None), or one context (d,) for ``blocks`` (K,).
        arms: (K,) by order of registration; the bonus `self-scaled` needs them where they are not the blocks.
        """
        self.refresh()
        confidence, x = self.confidence, self.feature_map(features)
        if not isinstance(confidence, Confidence):
            estimates, bonuses, depths, first = limits = confidence.score(x, blocks, arms)
            return Scores(estimates, bonuses, limits.widths(self.exploration), self.center, depths, first)
        estimates, bonuses = confidence.score(x, blocks)
        weighted = bonuses if self.exploration == 1.0 else self.exploration * bonuses
        return Scores(estimates, bonuses, weighted, self.center)

    @property
    def center(self) -> float:
        """The centre that rewards are learned relative to, in reward units; 0 where they are learned as they are."""
        return 0.0 if self.centre is None or not self.is_centred else self.centre.value

    @property
    def is_self_scaled(self) -> bool:
        """Whether the bonus is `self-scaled`, which knows registered arms only."""
        return self._sums is not None

    def parameters(self) -> NDArray[np.float64]:
        """Theta of each block in the user's unit, (B, d): the centre is part of the intercept."""
        theta = self.estimator.theta
        if not self.is_centred:
            return theta
        moved = theta.copy()
        moved[:, -1] += self.center
        return moved

    def intervals(self, features: NDArray[np.float64], blocks: NDArray[np.intp] | None = None) -> RiskIntervals:
        """Asymptotic 95% intervals for the risk of each candidate, in the user's unit, and why there is none.

        features, blocks: as in ``score``. Not the bonus, and no guarantee: see ``prudent.core.intervals``.
        """
        self.refresh()
        x = self.feature_map(features)
        rows = x if blocks is None else np.broadcast_to(x, (len(blocks), len(x)))
        found = risk_intervals(self.estimator, rows, blocks, has_intercept=self.feature_map.intercept)
        return found._replace(ends=found.ends + self.center)

    def parameter_intervals(self) -> NDArray[np.float64]:
        """Such intervals for each parameter, (B, d, 2); nan where there is none."""
        self.refresh()
        blocks, dimension = self.estimator.theta.shape
        rows, places = np.tile(np.eye(dimension), (blocks, 1)), np.repeat(np.arange(blocks), dimension)
        found = risk_intervals(self.estimator, rows, places, has_intercept=self.feature_map.intercept)
        ends = found.ends.reshape(blocks, dimension, 2)
        ends[:, -1] += self.center
        return ends

    def contributions(
        self, features: NDArray[np.float64], blocks: NDArray[np.intp] | None = None
    ) -> NDArray[np.float64]:
        """What each named feature, interaction and the intercept add to each candidate's estimate; rows sum to it."""
        self.refresh()
        theta = self.parameters()
        added = self.feature_map(features) * (theta[0] if blocks is None else theta[blocks])
        return self.feature_map.parts(added + 0.0)  # so that no feature adds -0.0

    def mark(self) -> None:
        """Remember this state; ``restore`` returns to it exactly. A new mark forgets the last one."""
        self._kept = None
        self.estimator.mark()
        self._has_marked_parts = False
        self._marked = self.features_above_bound, self.left_exact

    def _mark_parts(self) -> None:
        """Mark what changes only by learning and with new arms: selects, most of what runs, need not copy it."""
        if not self._has_marked_parts:
            for part in self._parts():
                part.mark()
            self._has_marked_parts = True

    def restore(self) -> None:
        """Undo everything since the mark."""
        if self._kept is not None:
            self.estimator, self.centre, self.feature_map, self._earlier_counts = self._kept
            self._kept = None
        self.estimator.restore()
        if self._has_marked_parts:
            for part in self._parts():
                part.restore()
        self.features_above_bound, self.left_exact = self._marked
        self.set_index(self.confidence.settings, self.exploration)

    def _parts(self) -> list[Centre | Scaling | Seen | ScoreSums | FloorCounts | ChangeWatch | Forgetting]:
        """What is learned beside the estimator."""
        counts = (self.floor_counts, self.change_watch, self.forgetting)
        parts = (self.centre, self.scaling, self.seen, self._sums, *counts)
        return [part for part in parts if part is not None]

    def dump(self) -> bytes | None:
        """All that was learned, as bytes; None from an estimator without snapshots, whose state is the log itself."""
        if not self.estimator.has_snapshots:
            return None
        self.refresh()  # the arrays then depend on the log only, not on when they were last asked for
        arrays = {name: one for part in self._parts() for name, one in part.arrays().items()}
        return pack({**self.estimator.arrays(), **arrays, "features_above_bound": np.array(self.features_above_bound)})

    def load(self, data: bytes) -> None:
        """Take over what ``dump`` returned, and add the arms that came since. Raises CorruptSnapshotError."""
        arrays = unpack(data)
        blocks = len(self.estimator.theta)
        try:
            above_bound = int(arrays.pop("features_above_bound"))
            if "forgetting" in arrays and self.forgetting is None:
                self.forgetting = Forgetting(0)
            if self.left_exact is None:
                self.estimator.load(arrays)
            else:
                self.estimator, self.left_exact = one_pass_of(self.estimator, arrays), None
            for part in self._parts():
                part.load(arrays)
        except (KeyError, ValueError) as error:
            raise CorruptSnapshotError(f"it is not a state of this estimator: {error}") from error
        if self.scaling is not None and isinstance(self.feature_map, Encoder):
            self.feature_map = self.feature_map.scaled_by(self.scaling.center, self.scaling.scale)
        self.features_above_bound = above_bound
        for _ in range(blocks - len(self.estimator.theta)):
            self.estimator.add_block()
        self._everything_is_stale = True
        self.version += 1

    @property
    def solver_counts(self) -> SolverCounts:
        """What solvers did since the state was made; zeros where there is none."""
        return self._earlier_counts.plus(self.estimator.convergence)

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds, without the interpreter's own overhead."""
        kept = sum(part.nbytes for part in (self.centre, self.scaling, self._sums) if part is not None)
        return self.estimator.nbytes + self.confidence.nbytes + kept
