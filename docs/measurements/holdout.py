"""How often the interval of a holdout's lift covers the true lift: `python -m docs.measurements.holdout [CAMPAIGNS]`.

Each campaign has three arms with normal rewards, a batch of which arrives after every 10 decisions, and holds out 5% of
its decisions for the first arm. The true lift is that of the laws of what was played: the risk of the mixture of the
arms in the shares in which the policy has decided for them, minus that of the first arm.
"""

import sys

import numpy as np
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.core.measures import Measure
from prudent.ledger.commands import Select
from prudent.ledger.selection import select
from prudent.ledger.state import CampaignState, Writes
from prudent.reporting.holdout import report_holdout
from prudent.store.campaigns import CampaignRow
from prudent.store.tables import OBSERVATION, ArmRow, LogRow

ARMS = {"control": (1.0, 1.0), "better": (1.4, 1.0), "wilder": (1.6, 2.0)}
"""Mean and deviation."""
RISKS = {
    "mean": {"measure": "mean"},
    "expectile 0.2": {"measure": "expectile", "level": 0.2},
    "cvar 0.2": {"measure": "cvar", "level": 0.2},
}
ROUNDS, BATCH, SHARE = 2_000, 10, 0.05
GRID = ndtri((np.arange(4_000) + 0.5) / 4_000)
"""Equally likely standard normal values, in place of the law."""


def true_lift(measure: Measure, decided: dict[str, int]) -> float:
    """The lift by the arms' laws. decided: how often the policy has decided for each arm."""
    laws = {name: mean + deviation * GRID for name, (mean, deviation) in ARMS.items()}
    weights = np.repeat([float(decided[name]) for name in ARMS], len(GRID))
    return measure.risk(np.concatenate([laws[name] for name in ARMS]), weights) - measure.risk(laws["control"])


def covers(risk: dict[str, object], seed: int) -> bool:
    """Whether the interval of one campaign's report covers its true lift."""
    body = {
        "campaign_id": "c",
        "risk": risk,
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": name} for name in ARMS],
        "holdout": {"share": SHARE, "arm_id": "control"},
        "seed": seed,
    }
    configuration = resolve(CampaignConfiguration.model_validate(body))
    text = configuration.model_dump_json()
    arms = [ArmRow(1, place, name, "active", None, 0) for place, name in enumerate(ARMS)]
    state = CampaignState(CampaignRow(1, "c", text, text, "active", 1, None, 0, None, 0), arms)
    generator, writes = np.random.default_rng((seed, 20)), Writes()
    groups: tuple[list[float], list[float]] = [], []
    decided, due = dict.fromkeys(ARMS, 0), []
    for number in range(ROUNDS):
        row = select(state, Select("c"), f"{seed}.{number}", None, number, writes).row
        reward = float(generator.normal(*ARMS[row.arm_id]))
        groups[0 if row.held_out else 1].append(reward)
        decided[row.arm_id] += not row.held_out
        due.append(LogRow(1, 0, OBSERVATION, "", None, row.arm_id, b"", reward, "reward", row.propensity, number))
        if len(due) == BATCH:
            for learned in due:
                writes.append(state, learned)
            due.clear()
    found = report_holdout(configuration, np.array(groups[0]), np.array(groups[1]))
    if found is None or found.interval is None:
        return False
    return found.interval[0] <= true_lift(configuration.measure(), decided) <= found.interval[1]


def main() -> None:
    """Measure and print."""
    sys.stdout.write("| risk | covered |\n|---|---|\n")
    campaigns = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with threadpool_limits(1):
        for name, risk in RISKS.items():
            share = np.mean([covers(risk, seed) for seed in range(campaigns)])
            sys.stdout.write(f"| {name} | {share:.1%} of {campaigns} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
