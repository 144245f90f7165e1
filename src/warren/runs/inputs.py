"""Files become runs and jobs: with overrides, under a policy, with errors that name the file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.runs.history_source import recorded, recorded_elsewhere
from warren.runs.machine import hosts_here
from warren.store.files import read


def run_of(
    path: str,
    place: str | None,
    overrides: Sequence[str],
    *,
    history: bool = True,
    others: Mapping[str, str | None] = MappingProxyType({}),
) -> Run:
    """Load the run of a file, with ``--place`` and ``--set key=value`` applied.

    ``history`` False: the user's own database is not read. ``others``: policies in place of the
    file's, by what they are named for (``flow``, ``group``, ``shape``, ``joint``); None: the
    file's.

    Raises
    ------
    SpecError
        All that is wrong with the file or the options.
    """
    from warren.profile.published import TABLE
    from warren.workload.run_file import load_run

    values = _values(overrides)
    named = os.path.abspath(path)
    past = recorded if history else recorded_elsewhere
    loaded = load_run(path, read, values, named=named, rows=TABLE, recorded=past, here=hosts_here)
    run = with_absolute_base(loaded)
    names = {"place": place, **others}
    return renamed(run, {one: name for one, name in names.items() if name is not None}, values)


def varied(
    run: Run,
    place: str | None,
    overrides: Sequence[str],
    others: Mapping[str, str | None] = MappingProxyType({}),
) -> Run:
    """Return a run that was in no file, as ``run_of`` does one of a file.

    Raises
    ------
    SpecError
        All that is wrong with the options.
    """
    from warren.workload.run_file import load_run
    from warren.workload.specs.write import dump_run

    values = _values(overrides)
    if values:
        text, base = dump_run(run).encode(), run.base
        run = replace(load_run(run.name, lambda _: text, values), base=base)
    names = {"place": place, **others}
    return renamed(run, {one: name for one, name in names.items() if name is not None}, values)


def _values(overrides: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--set`` by their keys; of two for one key the later one counts."""
    values: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            message = f"{override!r} is not KEY=VALUE, for example grain='60 s'"
            raise SpecError(Problem(file="--set", message=message))
        values[key.strip()] = value
    return values


def jobs_of(path: str, names: Sequence[str]) -> list[Job]:
    """Load the jobs of a jobs file; with names, only those.

    Raises
    ------
    SpecError
        All faults of the file, or that a named job is missing.
    """
    from warren.profile.published import BATCHES
    from warren.workload.run_file import load_jobs

    return chosen(load_jobs(path, read, batches=BATCHES).jobs, names, path)


def chosen(every: Sequence[Job], names: Sequence[str], path: str) -> list[Job]:
    """Return the jobs of a file; with names, only those.

    Raises
    ------
    SpecError
        If a named job is missing, or there are no jobs at all.
    """
    there = [job.name for job in every]
    # A name given twice is complained of once.
    absent = [name for name in dict.fromkeys(names) if name not in there]
    if absent or not every:
        which = ", ".join(map(repr, absent))
        message = (
            f"no job {which} here; allowed: {some_of(there)}" if every else "there are no jobs"
        )
        raise SpecError(Problem(file=path, field="--job", message=message))
    return [job for job in every if not names or job.name in names]


def some_of(names: Sequence[str], most: int = 20) -> str:
    """Tell the first of these names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


_NESTED: Final = ("flow", "group", "shape", "joint")
"""Questions whose options are only under a key of ``policy``."""


def renamed(
    run: Run, names: Mapping[str, str], values: Mapping[str, str] = MappingProxyType({})
) -> Run:
    """Return the run under other policies, by the questions that they are named for.

    A joint policy places tasks, too, unless another one is named for place; a policy that is named
    for place replaces a joint one. Options of a replaced policy are left out.
    """
    scheduler = run.scheduler
    given: dict[str, Any] = {**names}
    if "joint" in names:
        given.setdefault("place", names["joint"])
    elif "place" in names and scheduler.joint == scheduler.place:
        given["joint"] = None
    stay = {one for one, name in given.items() if name == getattr(scheduler, one)}
    # Options given with ``--set policy...`` are meant for the policies that are named.
    stay |= {one for key in values if key.split(".")[0] == "policy" for one in _meant_for(key)}
    options = scheduler.options if "place" not in given or "place" in stay else {}
    others = {
        one: own for one, own in scheduler.other_options.items() if one not in given or one in stay
    }
    return replace(
        run, scheduler=replace(scheduler, **given, options=options, other_options=others)
    )


def _meant_for(key: str) -> Collection[str]:
    """Return the names of the policies to which ``--set policy...`` gives options."""
    _, _, inner = key.partition(".")
    # The whole mapping: its entries for other policies must not be dropped.
    if not inner:
        return ("place", *_NESTED)
    # Four keys of nested options; an option of the place policy may also stand without its name.
    section = inner.partition(".")[0]
    return (section,) if section in _NESTED else ("place",)


def with_absolute_base(run: Run) -> Run:
    """Return the run with apps that are found from any working folder."""
    return replace(run, base=os.path.abspath(run.base))


@contextlib.contextmanager
def named_after(path: str | None, run: Run) -> Iterator[None]:
    """Report problems of a resolved run under the file it came from; None: under the run."""
    try:
        yield
    except SpecError as error:
        if path is None:
            raise
        # Problems of other files, such as a jobs file, keep the name of theirs.
        own = (run.name, *_PARTS)
        raise SpecError(
            replace(one, file=path, field=_full(one)) if one.file in own else one
            for one in error.problems
        ) from error.__cause__


_PARTS: Final = ("scheduler", "policy")
"""Sections of a run file that a problem may name in place of the file."""


def _full(problem: Problem) -> str:
    """Return a problem's field with the section of the run file that it is in."""
    return f"{problem.file}.{problem.field}" if problem.file in _PARTS else problem.field
