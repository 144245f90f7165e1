"""From profile rows to the cost matrices of a run.

Which row a job uses: its own (``cost``, a trace priced by its reader), else the row of its
``model`` (the run file's before the shipped one), else its measured row: a row of the run file's
profiles, named after the job or after its kind of tasks, or one measured for this run.

*Assumed.* T^c grows in proportion to the batch: T^c = row's T^c * job's batch / row's batch; a row
with batch 0 and a row of ``cost`` are taken unchanged. If a row does not state T^s, it is 2 * 8 *
model_bytes / nic: push and pull once, the sum at the server for free. The NIC is the slowest among
the hosts that hold the type; a host that states none counts as 25 Gbit/s. The memory of a row is
taken unchanged, whatever the batch.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import numpy as np

from warren.model.cluster import REFERENCE_NIC_BPS, Cluster
from warren.model.costs import CostTable, ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.past import NO_PAST, Past
from warren.model.run import Run
from warren.model.units import NEVER_NS, seconds_to_ns
from warren.profile.published import TABLE

_NONE: Final[Mapping[str, ProfileRow]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    """One device type as costs see it."""

    name: str
    memory_bytes: int | None
    nic_bps: float


def measured_key(job: Job) -> str:
    """Return the name under which ``cost_table`` looks for a job's measured row first."""
    return f"measured:{job.name}"


def kind_key(app: str, batch: int, sync: str, params: str) -> str:
    """Return the name under which ``cost_table`` looks next: that of all jobs with alike tasks.

    ``app`` is ``FILE:Class``, without its folders; ``params`` as ``params_text`` writes them. No
    job is named so, since names of jobs hold no colon.
    """
    file, _, name = app.rpartition(":")
    said = f"measured:{posixpath.basename(file)}:{name}, batch {batch}, {sync}"
    # Params may be long; eight digits of a hash keep the names apart.
    if params == "{}":
        return said
    return f"{said}, params {hashlib.sha256(params.encode()).hexdigest()[:8]}"


def params_text(job: Job) -> str:
    """Write a job's params as canonical JSON."""
    return json.dumps(job.params, sort_keys=True, separators=(",", ":"))


def missing(run: Run) -> tuple[int, ...]:
    """List the jobs that must be measured: they have an app, but neither a model nor a row."""
    own = {row.model: row for row in run.profiles}
    return tuple(
        job.index for job in run.workload.jobs if unpriced(job) and _stated(job, own) is None
    )


def unpriced(job: Job) -> bool:
    """Tell whether a job's costs are those of its app, found out by measuring."""
    return job.app is not None and job.model is None and job.cost is None


def cost_table(run: Run, measured: Mapping[str, ProfileRow] = _NONE) -> CostTable:
    """Return T^c and T^s of every job on every device type of the cluster, in nanoseconds.

    ``measured`` holds a row for each job of ``missing(run)`` under ``measured_key(job)``: times of
    one task at the job's own batch. Raises SpecError if a job has no row, fits no device type, or
    would take longer than time can count.
    """
    return _table(run, run.workload.jobs, measured, "job")


def past_of(run: Run) -> Past:
    """Return the jobs of the run's history, priced as its own jobs are.

    Measured rows are those of the run's profiles. Raises SpecError as ``cost_table`` does.
    """
    if run.history is None:
        return NO_PAST
    jobs = run.history.jobs
    return Past(jobs=jobs, costs=_table(run, jobs, _NONE, "job of the history"))


def _table(
    run: Run, jobs: Sequence[Job], measured: Mapping[str, ProfileRow], what: str
) -> CostTable:
    """Make the cost table of these jobs, one a row; ``what`` is their name in messages.

    Raises SpecError as ``cost_table`` does.
    """
    types = tuple(_types(run.cluster))
    # The run file's own rows go before the shipped ones; a ``cost`` names own rows alone.
    rows = {**TABLE, **{row.model: row for row in run.profiles}}
    own = {row.model: row for row in run.profiles}
    shape = (len(jobs), len(types))
    comp_ns_JT = np.full(shape, NEVER_NS, dtype=np.int64)
    sync_ns_JT = np.full(shape, NEVER_NS, dtype=np.int64)
    model_bytes_J = np.zeros(shape[0], dtype=np.int64)
    # All jobs are looked at before any is refused; those with the same reason share a line.
    refused: dict[str, list[Job]] = {}
    overhead_ns_JT = np.full(shape, -1, dtype=np.int64)
    turn_ns_JT = np.zeros(shape, dtype=np.int64)
    build_ns_JT = turn_ns_JT.copy()
    step_ns_J = np.zeros_like(model_bytes_J)
    seen: dict[tuple[object, ...], tuple[ProfileRow, list[tuple[int, int, int]]]] = {}
    for job in jobs:
        # Jobs with the same row and batch have the same costs, which are found once; a job that is
        # priced by its app has a key of its own.
        priced = (job.cost, job.model, job.batch, job.types)
        key = priced if job.cost or job.model else (job.index,)
        try:
            if key not in seen:
                row = _row(job, rows, own, measured)
                seen[key] = row, list(_prices(job, row, types))
            row, prices = seen[key]
            _check_length(job, prices)
        except ValueError as error:
            refused.setdefault(str(error), []).append(job)
            continue
        model_bytes_J[job.index] = min(row.model_bytes, NEVER_NS)
        step_ns_J[job.index] = seconds_to_ns(row.step_s)
        for column, comp_ns, sync_ns in prices:
            comp_ns_JT[job.index, column] = comp_ns
            sync_ns_JT[job.index, column] = sync_ns
            # -1 stays where a row does not state an overhead, which is not the same as 0.
            overhead_s = row.overhead_s.get(types[column].name)
            if overhead_s is not None:
                overhead_ns_JT[job.index, column] = seconds_to_ns(overhead_s)
            turn_ns_JT[job.index, column] = seconds_to_ns(row.switch_s.get(types[column].name, 0.0))
            build_ns_JT[job.index, column] = seconds_to_ns(row.build_s.get(types[column].name, 0.0))
    if refused:
        raise SpecError(_told(refused, run.name, what))
    return CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=comp_ns_JT != NEVER_NS,
        model_bytes_J=model_bytes_J,
        overhead_ns_JT=overhead_ns_JT,
        turn_ns_JT=turn_ns_JT,
        build_ns_JT=build_ns_JT,
        step_ns_J=step_ns_J if step_ns_J.any() else None,
    )


def model_costs(cluster: Cluster, rows: Sequence[ProfileRow]) -> CostTable:
    """Return T^c and T^s of one task of each row at its own batch; a row may fit no type."""
    types = tuple(_types(cluster))
    comp_ns_JT = np.full((len(rows), len(types)), NEVER_NS, dtype=np.int64)
    sync_ns_JT = comp_ns_JT.copy()
    for place, row in enumerate(rows):
        for column, kind in enumerate(types):
            if _misfit(row, kind) is None:
                comp_ns_JT[place, column] = max(1, seconds_to_ns(row.comp_s[kind.name]))
                sync_ns_JT[place, column] = _sync_ns(row, kind)
    return CostTable(comp_ns_JT=comp_ns_JT, sync_ns_JT=sync_ns_JT, fits_JT=comp_ns_JT != NEVER_NS)


def _told(refused: Mapping[str, Sequence[Job]], name: str, what: str) -> Iterator[Problem]:
    """Yield one problem for each reason, at the first job that it concerns."""
    for reason, jobs in refused.items():
        others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        field = f"{what} {jobs[0].name}{others}"
        yield Problem(file=jobs[0].source or name, field=field, message=reason)


def _types(cluster: Cluster) -> Iterator[_Type]:
    """Yield the device types of a cluster, each with the slowest NIC of the hosts that hold it."""
    holders: dict[str, list[str]] = {}
    for device in cluster.devices:
        holders.setdefault(device.type, []).append(device.host)
    nic_bps = {
        host.name: REFERENCE_NIC_BPS if host.nic_bps is None else host.nic_bps
        for host in cluster.hosts
    }
    for kind in cluster.types:
        slowest = min((nic_bps[host] for host in holders.get(kind.name, ())), default=None)
        yield _Type(
            name=kind.name,
            memory_bytes=kind.memory_bytes,
            nic_bps=REFERENCE_NIC_BPS if slowest is None else slowest,
        )


def _row(
    job: Job,
    rows: Mapping[str, ProfileRow],
    own: Mapping[str, ProfileRow],
    measured: Mapping[str, ProfileRow],
) -> ProfileRow:
    """Find the row that prices a job, in the order that the head of this file states.

    Raises ValueError if it has none, or a measured one of another batch.
    """
    if job.cost is not None:
        return _named("cost", job.cost, own)
    if job.model is not None:
        return _named("model", job.model, rows)
    row = _stated(job, own) or measured.get(measured_key(job))
    if row is not None and row.batch not in (0, job.batch):
        raise ValueError(
            f"profile {row.model} was measured with batch {row.batch}, the job has {job.batch}; "
            "measure it again"
        )
    if row is None:
        raise ValueError("has no model and was not measured; name a model or measure its app")
    return row


def _stated(job: Job, own: Mapping[str, ProfileRow]) -> ProfileRow | None:
    """Return the measured row of the run file: that of the job's name, else that of its kind."""
    # A row of the job's name but of another batch is the last resort: it gives the better error.
    named = own.get(measured_key(job))
    if job.app is None or (named is not None and named.batch in (0, job.batch)):
        return named
    return own.get(kind_key(job.app, job.batch, job.sync, params_text(job)), named)


def _named(what: str, name: str, rows: Mapping[str, ProfileRow]) -> ProfileRow:
    """Return the row of a name, or refuse a name that has none."""
    if name not in rows:
        allowed = ", ".join(rows) or "none"
        near = get_close_matches(name[:100], list(rows), n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"{what} {name!r} has no profile row; {meant}allowed: {allowed}; `profiles:` adds rows"
        )
    return rows[name]


_WAY: Final = (
    "the shipped table knows GPUs of 2014 to 2018; measure an app with warren profile, or add a "
    "row with your own time under `profiles:`"
)
"""What to do where the shipped table has no time on a device type."""


def _prices(job: Job, row: ProfileRow, types: Sequence[_Type]) -> Iterator[tuple[int, int, int]]:
    """Yield (position of the type, T^c, T^s) for each type that the job fits, times in ns.

    Raises ValueError if it fits none.
    """
    # The reasons are reported only if no type is left: a job may fit some types and not others.
    any_fits, reasons = False, []
    for column, kind in enumerate(types):
        reason = _misfit(row, kind)
        if not job.may_use(kind.name):
            reasons.append(f"{kind.name} is not of its types ({', '.join(job.types)})")
        elif reason is not None:
            reasons.append(reason)
        else:
            any_fits = True
            yield column, _comp_ns(job, row, kind), _sync_ns(row, kind)
    if not any_fits:
        # A time that is missing is the user's to give; other reasons are the cluster's.
        gaps = [kind.name for kind in types if kind.name not in row.comp_s]
        way = f"; {_WAY}" if gaps and TABLE.get(row.model) is row else ""
        raise ValueError(f"fits no device: profile {row.model}: {'; '.join(reasons)}{way}")


def _misfit(row: ProfileRow, kind: _Type) -> str | None:
    """Say why no task of this row may run on the type; None: it may."""
    if kind.name not in row.comp_s:
        return f"no time on {kind.name} (it has {', '.join(row.comp_s) or 'none'})"
    if kind.memory_bytes is not None and row.memory_bytes > kind.memory_bytes:
        needs, has = row.memory_bytes / 1e9, kind.memory_bytes / 1e9
        return f"needs {needs:g} GB, {kind.name} has {has:g} GB"
    return None


def _comp_ns(job: Job, row: ProfileRow, kind: _Type) -> int:
    """Return T^c of a job's task: the row's, in proportion to the batch for rows of models."""
    # A measured row, or one of ``cost``, holds for the job's own batch already.
    scaled = job.cost is None and job.model is not None and row.batch > 0
    factor = job.batch / row.batch if scaled else 1.0
    # A task takes at least 1 ns.
    return max(1, seconds_to_ns(row.comp_s[kind.name] * factor))


def _sync_ns(row: ProfileRow, kind: _Type) -> int:
    """Return T^s: the row's own, else push and pull of the model, 8 bits a byte, over the NIC."""
    stated = row.sync_s.get(kind.name)
    return seconds_to_ns(2 * 8 * row.model_bytes / kind.nic_bps if stated is None else stated)


def _check_length(job: Job, prices: Iterable[tuple[int, int, int]]) -> None:
    """Refuse a job whose tasks one after another, on its slowest type, overflow the clock."""
    task_ns = max(comp_ns + sync_ns for _, comp_ns, sync_ns in prices)
    if (job.rounds or 1) * job.scale * task_ns + job.arrival_ns >= NEVER_NS:
        raise ValueError("its tasks one after another would take more than 146 years")
