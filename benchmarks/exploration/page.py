"""The tables and pictures of docs/exploration-benchmark.md, below its mark."""

from collections.abc import Mapping, Sequence

from benchmarks.coverage_tables import table
from benchmarks.exploration.learners import ALL as LEARNERS
from benchmarks.exploration.problems import Problem
from benchmarks.exploration.results import Summary, geometric_means

MARK = "<!-- Written by `make exploration` from here on. -->"
REFERENCE = "optimistic"
PICTURES = "pictures/exploration"
APART = "jackpot"
"""Named apart in the means: its ratio is so small that it would carry them."""

Summaries = Mapping[str, Mapping[str, Summary]]
"""By problem and learner."""


def cell(one: Summary | None) -> str:
    """Median [95%] and the lock-in where there is any."""
    if one is None:
        return ""
    locked = f", {one.locked:.3f}" if one.locked else ""
    return f"{one.median:.3f} [{one.high:.2f}]{locked}"


def main_table(summaries: Summaries) -> str:
    """Problems by learners."""
    names = [one.name for one in LEARNERS if any(one.name in found for found in summaries.values())]
    rows = [[problem, *(cell(found.get(name)) for name in names)] for problem, found in summaries.items()]
    return table(["problem", *(f"`{name}`" for name in names)], rows)


def means_table(summaries: Summaries) -> str:
    """Geometric means relative to the optimism of version 0.1, and the worst lock-in."""
    rows: list[list[object]] = []
    for learner in LEARNERS:
        of = {problem: found[learner.name] for problem, found in summaries.items() if learner.name in found}
        if learner.paper_only or not of or any(REFERENCE not in summaries[problem] for problem in of):
            continue
        reference = {problem: summaries[problem][REFERENCE] for problem in of}
        without = {problem: one for problem, one in of.items() if problem != APART}
        numbers = geometric_means(of, reference) + (geometric_means(without, reference) if without else ())
        worst = max(of, key=lambda problem: of[problem].locked)
        locked = f"{of[worst].locked:.3f} ({worst})" if of[worst].locked else "0"
        rows.append([f"`{learner.name}`", *(f"{number:.2f}" for number in numbers), locked])
    heads = [f"{name}{where}" for where in ("", f", without {APART}") for name in ("median", "95%", "mean")]
    return table(["learner", *heads, "lock-in, worst"], rows)


def regret_table(summaries: Summaries) -> str:
    """The paper's experiments in the paper's unit."""
    rows = [
        [problem, f"`{name}`", f"{one.regret:.1f}", f"{one.mean:.3f}"]
        for problem, found in summaries.items()
        if problem.startswith("experiment")
        for name, one in found.items()
    ]
    return table(["problem", "learner", "mean regret", "of a uniform draw's"], rows)


def problem_part(problem: Problem, rounds: int) -> str:
    """A problem's heading, words and picture."""
    measure = "mean" if problem.level is None else f"expectile of level {problem.level:g}"
    facts = f"{rounds:,} rounds, {problem.arms} arms, `{problem.model}`, {measure}."
    picture = f"![Regret over time in the problem {problem.name}]({PICTURES}/{problem.name}.svg)"
    return f"### {problem.name}\n\n{problem.text} {facts}\n\n{picture}\n"


def page(summaries: Summaries, problems: Sequence[tuple[Problem, int]], played: str) -> str:
    """Everything below the mark. problems: those with results, and how many rounds of each."""
    parts = [
        played + "\n",
        "## All problems\n",
        "Regret over that of a uniform draw: median [95%], and the share of runs that locked in where any did.\n",
        main_table(summaries),
        f"Geometric means over the problems, relative to `{REFERENCE}`.\n",
        means_table(summaries),
    ]
    if any(problem.experiment is not None for problem, _ in problems):
        parts += ["The paper's experiments, in units of the reward.\n", regret_table(summaries)]
    parts.append("## Problem by problem\n")
    parts += [problem_part(problem, rounds) for problem, rounds in problems]
    return "\n".join(parts)
