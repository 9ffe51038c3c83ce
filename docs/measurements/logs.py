"""The logs that docs/logged-data.md judges: `python -m docs.measurements.logs FOLDER`.

Writes the same three files every time, of 3,000 seasons of the shipped environment crop-advice, each chosen by
another incumbent, with the context as columns:

uniform.csv     every crop with the same probability, which is recorded
mostly.csv      hybrid maize in 70 of 100 seasons, the others in 15 each, which is recorded
incumbent.csv   hybrid maize if rain above the average is forecast, sorghum else, and now and then something else; no
                probabilities
"""

import csv
import sys
from pathlib import Path

import numpy as np

from prudent_simulator.custom_environments.environment import OwnSampler
from prudent_simulator.custom_environments.loading import load_environment

ROWS = 3_000
SEED = 7


def probabilities(name: str, rain: np.ndarray, arms: int) -> np.ndarray:
    """With which probability each incumbent chooses each crop, (n, K)."""
    if name == "uniform":
        return np.full((rain.size, arms), 1.0 / arms)
    if name == "mostly":
        return np.tile([0.7, 0.15, 0.15], (rain.size, 1))
    maize, sorghum = np.array([0.94, 0.04, 0.02]), np.array([0.01, 0.97, 0.02])
    return np.where((rain > 0.0)[:, None], maize, sorghum)


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1])
    environment = load_environment("crop-advice")
    arms = [arm.arm_id for arm in environment.file.arms]
    for number, name in enumerate(("uniform", "mostly", "incumbent")):
        rounds = OwnSampler(environment, SEED, [number]).draw(ROWS)
        context, rewards = rounds.features[0, :, 0, 1:], rounds.rewards[0]
        chances = probabilities(name, context[:, 0], len(arms))
        drawn = np.random.default_rng((SEED, number)).random(ROWS)
        chosen = (drawn[:, None] > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        known = name != "incumbent"
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["arm", "reward", *(["propensity"] if known else []), "context.rain", "context.soil"])
            for row in range(ROWS):
                arm = int(chosen[row])
                given = [repr(float(chances[row, arm]))] if known else []
                numbers = [f"{value:.4f}" for value in context[row]]
                writer.writerow([arms[arm], f"{rewards[row, arm]:.4f}", *given, *numbers])


if __name__ == "__main__":
    main()
