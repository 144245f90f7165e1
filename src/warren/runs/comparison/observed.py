"""A run that was not led by the loop: its journal and its record, by its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

from warren.core.journal import MAGIC, Step, encode, opening
from warren.core.journal_reader import read_history
from warren.model.events import AnyEvent
from warren.model.run import Run
from warren.report.record import Record
from warren.runs.bound_of_run import lower_bound
from warren.runs.choose_policy import choose
from warren.runs.compose import PreparedRun
from warren.runs.inputs import varied
from warren.runs.results import result_files
from warren.store.run_folder import RunFolder


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
    ``one_host`` has it set, unless it is given.

    Raises
    ------
    SpecError
        All that is wrong with the options or the policies.
    """
    found = varied(run, place, overrides, others)
    scheduler = found.scheduler
    if len(run.cluster.hosts) > 1 and hasattr(choose(found), "one_host"):
        options = {"one_host": True, **scheduler.options}
        found = replace(found, scheduler=replace(scheduler, options=options))
    return found


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
