"""Choose and learn with the libraries a user would otherwise pick: `python benchmarks/rivals.py mabwiser 2000`.

Runs in an environment of its own (benchmarks/rivals.txt) and so imports nothing of this project but numpy. Prints
one line of JSON: microseconds of processor time a round. vowpalwabbit takes text: making it, and its own parsing of
it, are counted apart.

Every library sees the same contexts, K arms and d features, one round after the other, and learns each reward before
the next choice. mabwiser and river know the disjoint model only: one context for all arms, one ridge regression an
arm. vowpalwabbit has features per arm (`--cb_explore_adf`), one stochastic gradient step a round.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ARMS, DIMENSION = 10, 20
SKIPPED = 100
"""First rounds, which are not timed: imports, caches, compilations."""

Rounds = tuple[Any, Any]
Result = dict[str, float]


def draw(rounds: int) -> Rounds:
    """Unit features (n, K, d), and rewards (n, K) that depend on them."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(rounds, ARMS, DIMENSION))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    truth = rng.normal(size=DIMENSION)
    return features, features @ truth + 0.5 * rng.normal(size=(rounds, ARMS))


def timed(rounds: int, step: Callable[[int], None]) -> float:
    """Microseconds of processor time a round."""
    for number in range(SKIPPED):
        step(number)
    began = time.process_time()
    for number in range(SKIPPED, rounds):
        step(number)
    return (time.process_time() - began) / (rounds - SKIPPED) * 1e6


def mabwiser(rounds: int) -> Result:
    from mabwiser.mab import MAB, LearningPolicy

    features, rewards = draw(rounds)
    contexts = features[:, :1]  # (n, 1, d)
    model = MAB(list(range(ARMS)), LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0), seed=1)
    model.fit(np.arange(ARMS), rewards[0], features[0])

    def step(number: int) -> None:
        arm = model.predict(contexts[number])
        model.partial_fit([arm], [rewards[number, arm]], contexts[number])

    return {"microseconds": timed(rounds, step)}


def river(rounds: int) -> Result:
    from river import bandit

    features, rewards = draw(rounds)
    contexts = [dict(enumerate(context)) for context in features[:, 0].tolist()]
    payoffs, arms = rewards.tolist(), list(range(ARMS))
    model = bandit.LinUCBDisjoint(alpha=1.0, seed=1)

    def step(number: int) -> None:
        arm = model.pull(arms, context=contexts[number])
        model.update(arm, contexts[number], payoffs[number][arm])

    return {"microseconds": timed(rounds, step)}


def vowpalwabbit(rounds: int) -> Result:
    from vowpalwabbit import Workspace

    features, rewards = draw(rounds)
    listed, payoffs = features.tolist(), rewards.tolist()
    model = Workspace("--cb_explore_adf --epsilon 0.05 --quiet")
    draws = np.random.default_rng(1).random(rounds).tolist()
    formatting = parsing = 0.0

    def step(number: int) -> None:
        nonlocal formatting, parsing
        began = time.process_time()
        lines = ["|f " + " ".join(f"{i}:{x}" for i, x in enumerate(arm)) for arm in listed[number]]
        formatted = time.process_time()
        examples = model.parse(lines)
        parsed = time.process_time()
        formatting += formatted - began
        parsing += parsed - formatted
        probabilities = model.predict(examples)
        arm, left = 0, draws[number] - probabilities[0]
        while left > 0 and arm + 1 < ARMS:
            arm += 1
            left -= probabilities[arm]
        # It minimises costs.
        examples[arm].set_label_string(f"0:{-payoffs[number][arm]}:{probabilities[arm]}")
        model.learn(examples)
        model.finish_example(examples)

    total = timed(rounds, step)
    formatting, parsing = formatting / rounds * 1e6, parsing / rounds * 1e6
    return {"microseconds": total - formatting - parsing, "parsing": parsing, "formatting": formatting}


RIVALS = {"mabwiser": mabwiser, "river": river, "vowpalwabbit": vowpalwabbit}

if __name__ == "__main__":
    print(json.dumps(RIVALS[sys.argv[1]](int(sys.argv[2]))))
