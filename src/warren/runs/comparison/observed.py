"""A run that was not led by the loop: its journal and its record, by its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil
from types import MappingProxyType
from typing import Final

from warren.core.journal import MAGIC, Step, encode, opening
from warren.core.journal_reader import read_history
from warren.model.events import AnyEvent
from warren.model.run import Grain, Run
from warren.model.units import NS_PER_S
from warren.policy.protocol import is_blind
from warren.report.record import Record
from warren.runs.bound_of_run import lower_bound
from warren.runs.choose_policy import choose
from warren.runs.compose import PreparedRun
from warren.runs.inputs import varied
from warren.runs.results import result_files
from warren.store.run_folder import RunFolder

WHOLE: Final = Grain(text="3650 d", rounds=None, time_ns=3650 * 86_400 * NS_PER_S)
"""A grain that is longer than any observed job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """What was observed: a record as of any other run, and the journal that it was read from."""

    record: Record
    journal: bytes

    def keep(self, out: str) -> None:
        """Write a new folder of the run, as a simulation writes its own.

        Raises SpecError if it cannot be written, or is there already.
        """
        # Durable: the journal is not kept back to be written with more of it.
        with RunFolder(out, durable=True) as folder:
            folder.journal(self.journal)
            folder.write(result_files(self.record))
            folder.whole = True
            folder.keep()


def replayed(
    run: Run,
    place: str | None,
    overrides: Sequence[str],
    others: Mapping[str, str | None] = MappingProxyType({}),
) -> Run:
    """Return an observed run under other policies, as ``varied`` does.

    Gangs of what was observed had devices of one host each, so a policy with the option
    ``one_host`` has it set, unless it is given. A policy that is to know nothing of the future gets
    rounds of about a second: it learns how long a job runs when the job ends, as the service does.

    Raises
    ------
    SpecError
        All that is wrong with the options or the policies.
    """
    found = varied(run, place, overrides, others)
    scheduler, policy = found.scheduler, choose(found)
    if len(run.cluster.hosts) > 1 and hasattr(policy, "one_host"):
        options = {"one_host": True, **scheduler.options}
        found = replace(found, scheduler=replace(scheduler, options=options))
    return in_seconds(found) if is_blind(policy) else found


def in_seconds(run: Run) -> Run:
    """Return a run of jobs of one round each with rounds of about a second in their place.

    All rounds of a job are one stretch, so it still keeps its devices to its end. Grains that were
    given, and jobs of several rounds, stay as they are.
    """
    if run.grain != Grain() or any(job.rounds != 1 for job in run.workload.jobs):
        return run
    rows = {row.model: row for row in run.profiles}
    jobs, profiles = [], []
    for job in run.workload.jobs:
        row = rows[job.cost or job.name]
        rounds = max(1, ceil(max(row.comp_s.values())))
        jobs.append(replace(job, rounds=rounds))
        comp_s = {kind: time_s / rounds for kind, time_s in row.comp_s.items()}
        profiles.append(replace(row, comp_s=comp_s))
    workload = replace(run.workload, jobs=tuple(jobs))
    return replace(run, workload=workload, profiles=tuple(profiles), grain=WHOLE)


def knows_lengths(run: Run) -> bool:
    """Tell whether the place policy of a run may know how long jobs will run."""
    return not is_blind(choose(run))


def observed(run: Run, events: Iterable[AnyEvent], world: str) -> ObservedRun:
    """Make the record of a run from its events, in order of time.

    Parameters
    ----------
    run
        The run, whose costs are those that its jobs had. Its place policy names who decided.
    events
        Arrivals, tasks that were done, and ends of jobs.
    world
        Where it happened; the header of its journal says so.

    Raises
    ------
    SpecError
        If a job fits no device.
    """
    journal = bytearray(MAGIC + encode(opening(run, world, run.scheduler.place)))
    for _, found in groupby(events, key=lambda event: event.time_ns):
        journal += encode(Step(tuple(found)))
    costs, history = PreparedRun(run=run).costs, read_history(bytes(journal))
    bound = lower_bound(run, costs, history)
    record = Record(run=run, history=history, costs=costs, bound=bound)
    return ObservedRun(record=record, journal=bytes(journal))
