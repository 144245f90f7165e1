"""The expected ends of the jobs of a live run, by a simulation of it beforehand."""

from __future__ import annotations

from typing import Final

from warren.model.errors import WarrenError
from warren.model.run import Run
from warren.runs.compose import simulate

MOST_TASKS: Final = 20_000
"""Most tasks of a live run that is simulated first to predict the ends of its jobs."""


def predicted_ends(run: Run) -> dict[int, int]:
    """Return by job index when it will end, in ns, where a simulation takes about a second.

    Empty for a run of too many tasks, or of unknown costs or rounds, and for one by the plain
    engine, which no policy schedules. Jobs that the simulation does not finish are left out.
    """
    # Imported here: views of simulations load this file too, and predict nothing.
    from warren.profile.cost_table import missing

    jobs = run.workload.jobs
    # A job of unknown rounds counts as too many: its end is unknown.
    tasks = sum((job.rounds or MOST_TASKS) * job.scale for job in jobs)
    if tasks >= MOST_TASKS or missing(run) or not run.cluster.is_scheduled:
        return {}
    try:
        end_ns_J = simulate(run).history.finish_ns_J
    except WarrenError:
        return {}  # a run that cannot be simulated can still be trained
    return {job: int(end_ns) for job, end_ns in enumerate(end_ns_J) if end_ns >= 0}
