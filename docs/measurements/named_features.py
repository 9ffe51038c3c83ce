"""What categories and scales that are learned cost in regret: `python -m docs.measurements.named_features`.

A disjoint model of six arms and 5,000 rounds with a reward each; the default algorithm of a campaign. A case has
categories of 6, 12 and 24 values, some of them rare, an age and an income. The reward of an arm is a number for each
category, drawn anew for each seed, plus a linear function of the standardised numbers, plus noise. The same cases in
three forms:

- arrays: encoded by hand, a column for each category, and numbers with their true centers and scales;
- described: the same by name, with all categories, centers and scales in the configuration;
- learned: by name, with capacities only, so that categories, centers and scales come from the requests.
"""

import argparse
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from prudent.campaigns import CampaignConfiguration, RowReader, build_policy, exploration_rule, resolve
from prudent.campaigns.rows import Given
from prudent.campaigns.vocabulary import Draft
from prudent.core.exploration import Standing, choose

ARMS, ROUNDS, NOISE = 6, 5000, 0.5
SIZES = {"country": 6, "plan": 12, "device": 24}
LOW, HIGH = np.array([18.0, 20_000.0]), np.array([80.0, 100_000.0])
CENTER, SCALE = (LOW + HIGH) / 2, (HIGH - LOW) / np.sqrt(12.0)
NUMBERS = ("age", "income")
TEXTS = {name: [f"{name} {place}" for place in range(size)] for name, size in SIZES.items()}
MODELS: dict[str, dict[str, Any]] = {
    "arrays": {"dimension": sum(SIZES.values()) + len(NUMBERS)},
    "described": {
        "features": [
            *({"name": name, "kind": "category", "categories": texts} for name, texts in TEXTS.items()),
            *(
                {"name": name, "center": float(center), "scale": float(scale)}
                for name, center, scale in zip(NUMBERS, CENTER, SCALE, strict=True)
            ),
        ]
    },
    "learned": {
        "features": [
            *({"name": name, "kind": "category", "capacity": size} for name, size in SIZES.items()),
            *({"name": name} for name in NUMBERS),
        ]
    },
}


def by_hand(drawn: list[int], numbers: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The columns of a case as a user would encode it."""
    columns = [np.eye(size)[place] for size, place in zip(SIZES.values(), drawn, strict=True)]
    return np.concatenate([*columns, (numbers - CENTER) / SCALE])


def regret(form: str, seed: int) -> float:
    """The regret of one run."""
    request = {
        "campaign_id": "named",
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint"} | MODELS[form],
        "arms": [{"arm_id": str(arm)} for arm in range(ARMS)],
    }
    configuration = resolve(CampaignConfiguration.model_validate(request))
    policy, rule = build_policy(configuration, configuration, arms=ARMS), exploration_rule(configuration)
    reader = RowReader(configuration.model)
    vocabulary = reader.vocabulary()
    random = np.random.default_rng(seed)
    weights = random.standard_normal((ARMS, sum(SIZES.values()) + len(NUMBERS)))
    chances = {name: np.arange(1, size + 1)[::-1] / np.arange(1, size + 1).sum() for name, size in SIZES.items()}
    plays, lost = [0] * ARMS, 0.0
    for number in range(ROUNDS):
        drawn = [int(random.choice(size, p=chances[name])) for name, size in SIZES.items()]
        numbers = random.uniform(LOW, HIGH)
        columns = by_hand(drawn, numbers)
        values = weights @ columns
        texts = {name: TEXTS[name][place] for name, place in zip(SIZES, drawn, strict=True)}
        sent: Given = columns if form == "arrays" else texts | dict(zip(NUMBERS, numbers.tolist(), strict=True))
        draft = Draft(vocabulary)
        row = reader.read(sent, "context", draft)
        vocabulary.extend(draft.added)
        standing = Standing(number, plays, list(policy.floor_counts.weighed))
        scores = policy.score(row, np.arange(ARMS))
        arm = choose(scores, rule, standing, explore=True, seed=(seed, str(number))).position
        policy.observe(arm, row, float(values[arm] + NOISE * random.standard_normal()), arm)
        plays[arm] += 1
        lost += float(values.max() - values[arm])
    return lost


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    found: dict[str, list[float]] = {form: [] for form in MODELS}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=len(MODELS) * len(seeds))
        for seed in seeds:
            for form, regrets in found.items():
                regrets.append(regret(form, seed))
                progress.advance(task)
    arrays = np.array(found["arrays"])
    for form, regrets in found.items():
        low, median, high = np.percentile(regrets, (5, 50, 95))
        ratio = float(np.median(np.array(regrets) / arrays))
        sys.stdout.write(
            f"{form:<10}regret {median:7.1f} [{low:.1f}, {high:.1f}]   relative to arrays "
            f"{median / np.median(arrays):.3f} (median of ratios {ratio:.3f})\n"
        )


if __name__ == "__main__":
    main()
