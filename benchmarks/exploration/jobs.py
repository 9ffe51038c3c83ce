"""A piece of the work, as a process of the pool does it."""

from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from benchmarks.exploration.learners import ALL as LEARNERS
from benchmarks.exploration.learners import Player
from benchmarks.exploration.play import Run, judged, play
from benchmarks.exploration.problems import ALL as PROBLEMS


@dataclass(frozen=True)
class Job:
    """One world and those who are still to play it; names, because a problem holds functions."""

    problem: str
    seed: int
    rounds: int
    learners: tuple[str, ...]


def run(job: Job) -> tuple[Job, dict[str, Run]]:
    """Play a world, on one thread."""
    (problem,) = (one for one in PROBLEMS if one.name == job.problem)
    world = problem.world(job.seed, job.rounds)
    found = {}
    with threadpool_limits(1):
        for learner in LEARNERS:
            if learner.name in job.learners:
                chosen = play(world, Player(problem, learner, job.seed), f"{problem.name}-{job.seed}")
                found[learner.name] = judged(problem, world, chosen)
    return job, found
