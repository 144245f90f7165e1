"""Ended jobs as the past of a run: jobs with known rounds, rows that price them, and a hash.

A name stands for the same kind of work each time it recurs, so the jobs of a snapshot keep theirs;
a jobs file needs names that differ (``with_own_names``).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, Literal, cast

from warren.model.cluster import PROCESSOR
from warren.model.costs import ProfileRow
from warren.model.history_rows import EndedJob, Profile
from warren.model.job import Job
from warren.model.units import seconds_to_ns
from warren.profile.cost_table import kind_key

FINISHED: Final = "finished"
_NAME_CHARS: Final = 80
"""The longest name of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Jobs that have ended, in order of their end, as they enter a run.

    ``jobs``: ``rounds`` as many as ran, ``cost`` a name of ``rows``, ``arrival_ns`` since
    the earliest run of them began. ``digest``: SHA-256 of all that was read.
    """

    jobs: tuple[Job, ...]
    rows: tuple[ProfileRow, ...]
    digest: str


def snapshot(ended: Iterable[EndedJob]) -> Snapshot:
    """Return the finished ones of these jobs; how long others would have been is not known.

    Jobs without a timed task are left out.

    Times between runs are real ones, those within a run its cluster seconds. Raises ValueError if
    the costs of a job break the form of ``EndedJob``.
    """
    done = (one for one in ended if one.status == FINISHED and one.rounds > 0)
    past = [one for one in done if _costs(one)]
    # The order of ends, with ties broken by run and position: the digest depends on the order.
    past.sort(key=lambda one: (one.ended_at, one.run, one.position))
    first_s = min((one.began_at for one in past), default=0.0)
    rows: dict[tuple[Any, ...], ProfileRow] = {}
    jobs = []
    for index, one in enumerate(past):
        # Jobs with the same costs share a row; its name is that of the first of them.
        costs = _costs(one)
        same = (one.costs, one.model_bytes)
        if same not in rows:
            rows[same] = _row(one, costs, f"history:{len(rows) + 1}:{one.name}")
        jobs.append(_job(one, index, rows[same].model, one.began_at - first_s))
    # Every field counts, in order, so that the same jobs have the same digest anywhere.
    text = json.dumps([astuple(one) for one in past], separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Snapshot(jobs=tuple(jobs), rows=tuple(rows.values()), digest=digest)


def with_own_names(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the jobs with names that differ: the second of a name is ``NAME-2``, and so on.

    Names have at most 80 characters. The jobs are without their apps, which lie where the run was;
    without them they can be simulated.
    """
    taken = {job.name for job in jobs}
    seen: dict[str, int] = {}
    named = []
    for job in jobs:
        count = seen.get(job.name, 0) + 1
        name = job.name if count == 1 else _numbered(job.name, count)
        # Another job may bear that very name from the start.
        while count > 1 and name in taken:
            count += 1
            name = _numbered(job.name, count)
        seen[job.name] = count
        taken.add(name)
        named.append(replace(job, name=name, app=None))
    return tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRows:
    """Profile rows in order of name; ``spare``: names of rows that price no job of a run."""

    rows: tuple[ProfileRow, ...]
    spare: tuple[str, ...]


def exported(profiles: Iterable[Profile], *, averages: bool = False) -> ExportedRows:
    """Return rows for ``profiles`` of a run, in real seconds by device type.

    A row is named after its kind of tasks (``warren.profile.cost_table.kind_key``), whatever jobs
    it was measured for, so that all jobs of the kind are priced by it. A name does not include how
    an app's file read, nor the machine and numerics class. Of kinds that differ in these alone the
    most recently updated one has the name, and earlier ones, which are spare, have the beginning of
    their key after it. ``averages``: the moving averages, where there are any, in place of times
    alone.
    """
    by_key: dict[str, list[Profile]] = {}
    for one in profiles:
        by_key.setdefault(one.key, []).append(one)
    # The latest updated first, so that it is the one which gets the name.
    groups = sorted(by_key.values(), key=lambda group: (-_updated(group), group[0].key))
    rows: dict[str, ProfileRow] = {}
    spare = []
    for group in groups:
        one = group[0]
        name = kind_key(one.app, one.batch, one.sync, one.params)
        row = _exported(group, name, averages=averages)
        if row is None:
            continue
        # Groups come latest update first, so the row that has the name already is the newer.
        if name in rows:
            name = f"{name}, {one.key[:12]}"
            spare.append(name)
        rows[name] = replace(row, model=name)
    return ExportedRows(rows=tuple(rows[name] for name in sorted(rows)), spare=tuple(sorted(spare)))


def _updated(group: Sequence[Profile]) -> float:
    """Return when the latest profile of a group was updated, in Unix time."""
    return max(one.updated_at for one in group)


def _exported(group: Sequence[Profile], name: str, *, averages: bool) -> ProfileRow | None:
    """Make one row of the profiles of a kind, one a device type; None if none has a time."""
    comp_s = {}
    sync_s = {}
    source = {"job": group[0].job}
    for one in sorted(group, key=lambda one: one.device_type):
        # Times alone, unless averages are asked for or there is nothing else.
        mean = one.comp_avg_s is not None and (averages or one.comp_s is None)
        comp, sync = (one.comp_avg_s, one.sync_avg_s) if mean else (one.comp_s, one.sync_s)
        if comp is None:
            continue
        comp_s[one.device_type] = comp
        if sync is not None:
            sync_s[one.device_type] = sync
        how = f"moving average, {one.avg_tasks} tasks" if mean else f"alone, {one.samples} tasks"
        source[f"comp.{one.device_type}"] = f"{how}; {one.machine}"
    if not comp_s:
        return None
    return ProfileRow(
        model=name,
        batch=group[0].batch,
        model_bytes=max(one.model_bytes for one in group),
        memory_bytes=max(one.memory_bytes for one in group),
        comp_s=comp_s,
        sync_s=sync_s,
        source=source,
    )


def on_types(row: ProfileRow, types: Sequence[str], time_scale: float) -> ProfileRow:
    """Return an exported row for a cluster whose devices are emulated by this machine's processor.

    Each type has the processor's times, in cluster seconds: real ones over ``time_scale``.
    """
    comp_s, sync_s = row.comp_s.get(PROCESSOR), row.sync_s.get(PROCESSOR)
    source = dict(row.source)
    how = source.pop(f"comp.{PROCESSOR}", "")
    return replace(
        row,
        source={**source, **{f"comp.{kind}": how for kind in types}},
        comp_s={} if comp_s is None else dict.fromkeys(types, comp_s / time_scale),
        sync_s={} if sync_s is None else dict.fromkeys(types, sync_s / time_scale),
    )


def _costs(one: EndedJob) -> Mapping[str, Mapping[str, Any]]:
    """Read a job's costs by device type.

    Raises ValueError if they break the form of ``EndedJob``.
    """
    try:
        costs = json.loads(one.costs)
        good = all(
            0 < cost["comp_s"] < math.inf and 0 <= cost["sync_s"] < math.inf
            for cost in costs.values()
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        good = False
    if not good:
        raise ValueError(f"table jobs: job {one.name} of run {one.run_name}: costs are damaged")
    return cast("Mapping[str, Mapping[str, Any]]", costs)


def _row(one: EndedJob, costs: Mapping[str, Mapping[str, Any]], name: str) -> ProfileRow:
    """Make the profile row that prices an ended job, with where its times come from."""
    source = {}
    for kind, cost in sorted(costs.items()):
        timed = cost.get("tasks", 0)
        how = f"mean of {timed} tasks of" if timed else "as scheduled in"
        source[f"comp.{kind}"] = f"{how} run {one.run_name}"
    # Batch 0: the times are taken as they are, whatever the batch of a job.
    return ProfileRow(
        model=name,
        batch=0,
        model_bytes=one.model_bytes,
        memory_bytes=0,
        comp_s={kind: cost["comp_s"] for kind, cost in sorted(costs.items())},
        sync_s={kind: cost["sync_s"] for kind, cost in sorted(costs.items())},
        source=source,
    )


def _job(one: EndedJob, index: int, cost: str, offset_s: float) -> Job:
    """Make a job of the past, which arrives ``offset_s`` later than it did in its own run."""
    return Job(
        index=index,
        name=one.name,
        scale=one.scale,
        rounds=one.rounds,
        batch=one.batch,
        app=one.app,
        model=one.model,
        sync=cast("Literal['ps', 'ring']", one.sync),
        weight=one.weight,
        arrival_ns=seconds_to_ns(offset_s + one.arrival_s),
        user=one.user,
        group=one.group,
        cost=cost,
    )


def _numbered(name: str, count: int) -> str:
    """Append a number to a name, cut so that both have room."""
    mark = f"-{count}"
    return name[: _NAME_CHARS - len(mark)] + mark
