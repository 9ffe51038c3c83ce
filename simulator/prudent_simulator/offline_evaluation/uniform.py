"""Replays a log of uniformly random choices: the unbiased evaluation of a policy while it learns.

Source: Li, Chu, Langford & Wang, "Unbiased offline evaluation of contextual-bandit-based news article recommendation
algorithms", WSDM 2011. Row after row the policy is asked. Where it chooses what the log chose, the row is revealed to
it as its next round; every other row is as if it had never been. If the log's choices were uniform and its rows are
independent and alike, the M matched rows are distributed like the first M rounds of the policy, live.

A decision that is thrown away would count as a play in the service's warm-up. So the warm-up is played here, by the
service's rule (the least played arm; ties at random), and its rows go in as observations, which count as plays. From
then on the service decides; decisions that are not followed leave no trace in what it learns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from prudent_client import Decision
from prudent_simulator.offline_evaluation.campaign import observation, select_part
from prudent_simulator.offline_evaluation.estimates import FEW_ROWS, Resampled, Session, Value, rewards_of, shares
from prudent_simulator.offline_evaluation.reading import Columns, Log, LogError, Row
from prudent_simulator.runner import RunError

_SAME = 1e-6
_NEGLIGIBLE = 0.005


@dataclass(frozen=True)
class UniformReplay:
    """What a replay found. plays: matched rows by arm; policy: over the matched rows; log: over all rows.

    absent: how many arms the propensity says there were besides those of the campaign.
    """

    rows: int
    absent: int
    matched: int
    warmup_matched: int
    plays: dict[str, int]
    policy: Value
    log: Value


def with_uniform(log: Log, columns: Columns) -> Log:
    """The log of an experiment that drew each arm with the same probability. Raises LogError if it says another one."""
    if any(row.propensity is not None for row in log.rows):
        raise LogError(f"{log.path}: has the column {columns.propensity}: leave out --uniform")
    chance = 1.0 / len(log.arms)
    return replace(log, rows=[replace(row, propensity=chance) for row in log.rows])


def is_uniform(rows: Sequence[Row], arms: int) -> bool:
    """Say whether every candidate had the same propensity in every row, as far as printed digits can tell.

    arms: of the campaign, which are the candidates of rows without features. There may have been more arms than these,
    which the log lacks: the choices among those that it has were uniform all the same. Where features list all
    candidates, the propensity must be 1 / (their number).
    """
    candidates = [arms if row.features is None else len(row.features) for row in rows]
    common = common_propensity(rows)
    if common is None or len(set(candidates)) != 1:
        return False
    count, rounding = candidates[0], max(_half_unit(common), _SAME * common)
    is_listed = rows[0].features is not None
    return count * (common - rounding) <= 1.0 and (not is_listed or count * (common + rounding) >= 1.0)


def common_propensity(rows: Sequence[Row]) -> float | None:
    """Give the propensity that all rows have, None where they differ or have none.

    0.333, 0.333 and 0.334 are one: a replay that takes them for equal is biased by half a per cent at most.
    """
    known = [row.propensity for row in rows if row.propensity is not None]
    if len(known) < len(rows) or max(known) - min(known) > _NEGLIGIBLE * max(known):
        return None
    return known[0]


def _half_unit(printed: float) -> float:
    """Give half a unit of the last decimal that a number is printed with."""
    exponent = Decimal(repr(printed)).as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101  # the number is finite
    return 0.5 * 10.0**exponent


class _Replay:
    """The matched rows so far, and the plays of registered arms."""

    def __init__(self, session: Session, arms: Sequence[str], warmup: int) -> None:
        self.session, self.warmup = session, warmup
        self.plays = dict.fromkeys(arms, 0)
        self.matched: list[Row] = []
        self.warmup_matched = 0
        self._ties = np.random.default_rng((session.seed, 1))
        self._blocks = 0

    def _least_played(self, row: Row) -> list[str] | None:
        """Give the arms that the warm-up would choose from, None where it is over for the row's candidates."""
        eligible = [arm for arm in self.plays if row.features is None or arm in row.features]
        fewest = min((self.plays[arm] for arm in eligible), default=self.warmup)
        return [arm for arm in eligible if self.plays[arm] == fewest] if fewest < self.warmup else None

    def _learn(self, row: Row) -> None:
        self.matched.append(row)
        if row.arm in self.plays:
            self.plays[row.arm] += 1

    def run(self) -> None:
        """Go through the log."""
        rows = self.session.log.rows
        place = 0
        # Between two matches nothing is learned, so a few rows can be asked about at once.
        block_max = min(500, 2 * max(1, len(self.session.log.arms)))
        while place < len(rows):
            tied = self._least_played(rows[place])
            if tied is not None:
                self._warm_up(rows[place], tied)
                done = 1
            else:
                block = [rows[place]]
                while len(block) < min(block_max, len(rows) - place):
                    if self._least_played(rows[place + len(block)]) is not None:
                        break
                    block.append(rows[place + len(block)])
                done = self._ask(block)
            place += done
            self.session.on_step(done)

    def _warm_up(self, row: Row, tied: list[str]) -> None:
        if tied[int(self._ties.integers(len(tied)))] == row.arm:
            self.session.client.observe(self.session.campaign_id, [observation(row)])
            self._learn(row)
            self.warmup_matched += 1

    def _ask(self, block: Sequence[Row]) -> int:
        """Ask about rows until one matches, learn it, and give how many rows are dealt with."""
        session = self.session
        self._blocks += 1
        requests = [
            {
                "campaign_id": session.campaign_id,
                "decision_id": f"{session.run_id}.{self._blocks}.{row.line}",
                **select_part(row),
            }
            for row in block
        ]
        for number, (row, reply) in enumerate(zip(block, session.client.select_parsed(requests), strict=True)):
            _check_reply(reply)
            if reply.arm_id == row.arm:
                session.client.reward(reply.decision_id, row.reward)
                self._learn(row)
                return number + 1
        return len(block)


def _check_reply(reply: Decision) -> None:
    if reply.reason == "warmup":
        raise RunError("the service is still in its warm-up, which the replay has finished: is someone else using it?")


def _value(session: Session, rows: Sequence[Row]) -> Value:
    """Give the value of rows that count the same, with the intervals that suit their number."""
    sampled = Resampled(session, rewards_of(rows), [shares])
    return sampled.bounded(sampled.value_of_few(0)) if len(rows) < FEW_ROWS else sampled.value(0)


def replay_uniform(session: Session, arms: Sequence[str], warmup: int) -> UniformReplay:
    """Replay the log through the campaign. arms: registered; warmup: plays of each before the index decides.

    Raises LogError where no row matches.
    """
    replay = _Replay(session, arms, warmup)
    replay.run()
    if not replay.matched:
        raise LogError(f"{session.log.path}: the policy never chose what the log chose, so there is nothing to judge")
    policy, log = (_value(session, rows) for rows in (replay.matched, session.log.rows))
    chosen = [row.arm for row in replay.matched]
    plays = {arm: chosen.count(arm) for arm in session.log.arms}
    propensity, features = session.log.rows[0].propensity or 1.0, session.log.rows[0].features
    absent = 0 if features is not None else max(0, round(1.0 / propensity) - len(arms))
    return UniformReplay(len(session.log.rows), absent, len(chosen), replay.warmup_matched, plays, policy, log)
