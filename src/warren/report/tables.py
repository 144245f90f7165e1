"""The exported tables: ``jobs.csv``, ``devices.csv``, ``profile.csv``, ``servers.csv``, and back.

``users.csv`` is only written.

``timeline.parquet`` is written and read in ``parquet`` and named here beside the others.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, NotRequired, TypedDict, cast

import numpy as np

from warren.model.cluster import static_server_hosts
from warren.model.costs import CostTable, IntArray
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S, seconds_to_ns
from warren.report.fairness.users import UserShare, user_shares
from warren.report.metrics import JobRow, job_rows
from warren.report.parquet import read_timeline_parquet, timeline_parquet
from warren.report.record import Record

__all__ = [
    "devices_csv",
    "jobs_csv",
    "model_bytes",
    "profile_csv",
    "read_devices_csv",
    "read_jobs_csv",
    "read_profile_csv",
    "read_profile_rows",
    "read_servers_csv",
    "read_timeline_parquet",
    "servers_csv",
    "timeline_parquet",
    "users_csv",
]

JOBS: Final = "jobs.csv"
DEVICES: Final = "devices.csv"
PROFILE: Final = "profile.csv"
SERVERS: Final = "servers.csv"
USERS: Final = "users.csv"

JOB_COLUMNS: Final = (
    "job",
    "arrival_s",
    "start_s",
    "finish_s",
    "jct_s",
    "weight",
    "rounds",
    "scale",
    "status",
    "model",
    "batch",
    "sync",
    "user",
    "group",
    "seed",
)
LIVE_COLUMNS: Final = ("params_sha256", "final_loss", "numerics", "app_sha256")
DEVICE_COLUMNS: Final = ("device", "type", "host")
PROFILE_COLUMNS: Final = ("job", "type", "comp_s", "sync_s")
SERVER_COLUMNS: Final = ("job", "host", "bytes")
GATHERED_COLUMN: Final = "gathered"
BEGIN_COLUMN: Final = "begin"
"""The last column of ``servers.csv``; folders of earlier versions are without it."""
SWITCH_COLUMN: Final = "switch_s"
"""A column of ``profile.csv`` where switching between jobs is charged."""
STEP_COLUMN: Final = "step_s"
"""A column of ``profile.csv`` where a step of servers takes time."""

_FLOATS: Final = frozenset(
    {
        "arrival_s",
        "start_s",
        "finish_s",
        "jct_s",
        "weight",
        "final_loss",
        "comp_s",
        "sync_s",
        "bytes",
        SWITCH_COLUMN,
        STEP_COLUMN,
    }
)
_INTS: Final = frozenset({"rounds", "scale", "batch", "seed", GATHERED_COLUMN, BEGIN_COLUMN})
_MAY_BE_EMPTY: Final = frozenset(
    {"start_s", "finish_s", "jct_s", "rounds", "model", "user", "group", *LIVE_COLUMNS}
)

_MAY_DIVERGE: Final = frozenset({"final_loss"})
"""The columns that are infinite, or no number, where a job's training diverged."""


class DeviceRow(TypedDict):
    """A row of ``devices.csv``."""

    device: str
    type: str
    host: str


class CostRow(TypedDict):
    """A row of ``profile.csv``, in seconds: T^c, T^s and, where charged, a switch and a step."""

    job: str
    type: str
    comp_s: float
    sync_s: float
    switch_s: NotRequired[float]
    step_s: NotRequired[float]


class ServerRow(TypedDict):
    """A row of ``servers.csv``: bytes of a job's model on a host; of a ring the host is empty.

    ``gathered``: how often the job's first server was sent these bytes. ``begin``: the round from
    which on the server was there, until the next ``begin`` of the job.
    """

    job: str
    host: str
    bytes: float
    gathered: NotRequired[int]
    begin: NotRequired[int]


def jobs_csv(record: Record) -> str:
    """Return ``jobs.csv``: one line a job; an unknown value is an empty field.

    Seconds are ns / 1e9.
    """
    columns = JOB_COLUMNS + LIVE_COLUMNS if record.live else JOB_COLUMNS
    rows: Sequence[Mapping[str, object]] = job_rows(record)
    return _text(columns, ([row[name] for name in columns] for row in rows))


def users_csv(record: Record) -> str:
    """Return ``users.csv``: one line a user, by name; an unknown value is an empty field."""
    rows = [asdict(one) for one in user_shares(record)]
    return _text([one.name for one in fields(UserShare)], (row.values() for row in rows))


def devices_csv(record: Record) -> str:
    """Return ``devices.csv``: one line a device, in cluster order."""
    return _text(DEVICE_COLUMNS, ([d.name, d.type, d.host] for d in record.run.cluster.devices))


def profile_csv(record: Record) -> str:
    """Return ``profile.csv``: T^c and T^s in seconds of each job on each type it fits, as used.

    If switching between jobs is charged, ``switch_s`` is the time of a switch to the job; if
    servers take time for a step, ``step_s`` is that time.
    """
    columns = list(PROFILE_COLUMNS)
    if record.costs.switch_ns_JT is not None:
        columns.append(SWITCH_COLUMN)
    if record.costs.step_ns_J is not None:
        columns.append(STEP_COLUMN)
    return _text(columns, _profile_rows(record))


def _profile_rows(record: Record) -> Iterable[list[str | float]]:
    """Yield the fields of each pair of a job and a device type that it fits."""
    costs = record.costs
    for job in record.run.workload.jobs:
        for column, type_name in enumerate(record.run.cluster.type_names):
            if costs.fits_JT[job.index, column]:
                comp_ns = int(costs.comp_ns_JT[job.index, column])
                sync_ns = int(costs.sync_ns_JT[job.index, column])
                row: list[str | float] = [job.name, type_name]
                row += [comp_ns / NS_PER_S, sync_ns / NS_PER_S]
                if costs.switch_ns_JT is not None:
                    row.append(int(costs.switch_ns_JT[job.index, column]) / NS_PER_S)
                if costs.step_ns_J is not None:
                    row.append(int(costs.step_ns_J[job.index]) / NS_PER_S)
                yield row


def servers_csv(record: Record) -> str:
    """Return ``servers.csv``: the bytes of its model that each server of a job holds, and its host.

    It also holds how often they were sent to the job's first server, which evaluates. A ring has
    one row without a host: each of its members has the whole model. A job whose model is of unknown
    size has no row, and its bytes are on no link.
    """
    return _text((*SERVER_COLUMNS, GATHERED_COLUMN, BEGIN_COLUMN), _server_rows(record))


def _server_rows(record: Record) -> Iterable[list[str | float]]:
    """Yield the fields of each server of the jobs whose models are of known size."""
    run, sizes, ran_J = record.run, record.costs.model_bytes_J, record.history.rounds_run()
    for job in run.workload.jobs if sizes is not None else ():
        model = 0 if sizes is None else int(sizes[job.index])
        if model <= 0:
            continue
        if job.sync == "ring":
            yield [job.name, "", float(model), 0, 0]
            continue
        ended = record.history.status(job.index) == "finished"
        placings = record.history.servers_of(job.index)
        begins = [begin for begin, _, _ in placings]
        ends = [*begins[1:], int(ran_J[job.index])]
        for (begin, hosts, held), end in zip(placings, ends, strict=True):
            servers = hosts or static_server_hosts(
                run.cluster.hosts, job.index, run.scheduler.servers
            )
            last = ended and end == ran_J[job.index]
            times = _times_gathered(job, end, ended=last) - _times_gathered(job, begin, ended=False)
            for place, host in enumerate(servers):
                part = float(held[place]) if held else model / len(servers)
                name = run.cluster.hosts[host].name
                yield [job.name, name, part, times if place else 0, begin]


def _times_gathered(job: Job, rounds: int, *, ended: bool) -> int:
    """Return how many of ``rounds`` rounds were evaluated; a job that ended has its last one."""
    every = job.evaluates_every or rounds + 1
    return rounds // every + (ended and rounds % every > 0)


def _text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as text, the same on every system: each line ends in a line feed alone."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def read_jobs_csv(data: bytes, file: str = JOBS) -> list[JobRow]:
    """Return the rows of ``jobs.csv`` with typed values; an empty field is None.

    Raises SpecError if a column is missing or a value is not of its kind; all problems at once.
    """
    # ``_read`` has checked the columns and the kind of each value, by name.
    return cast("list[JobRow]", _read(data, JOB_COLUMNS, file))


def read_devices_csv(data: bytes, file: str = DEVICES) -> list[DeviceRow]:
    """Return the rows of ``devices.csv``; raises SpecError as ``read_jobs_csv`` does."""
    return cast("list[DeviceRow]", _read(data, DEVICE_COLUMNS, file))


def read_profile_rows(data: bytes, file: str = PROFILE) -> list[CostRow]:
    """Return the rows of ``profile.csv``; raises SpecError as ``read_jobs_csv`` does."""
    return cast("list[CostRow]", _read(data, PROFILE_COLUMNS, file))


def read_profile_csv(data: bytes, run: Run, file: str = PROFILE) -> CostTable:
    """Return the cost table that ``profile.csv`` was written from; a pair without a row has no fit.

    Raises SpecError if it is malformed or names a job or a device type that ``run`` does not have.
    """
    jobs = {job.name: job.index for job in run.workload.jobs}
    types = run.cluster.type_names
    rows = read_profile_rows(data, file)
    # Line 1 of the file is the header.
    problems = [
        Problem(
            file=file,
            line=line,
            message=f"no job {row['job']} or no device type {row['type']} in this run",
        )
        for line, row in enumerate(rows, start=2)
        if row["job"] not in jobs or row["type"] not in types
    ]
    if problems:
        raise SpecError(problems)
    return costs_of(rows, list(jobs), types)


def costs_of(rows: Sequence[CostRow], jobs: Sequence[str], types: Sequence[str]) -> CostTable:
    """Return the costs of these jobs on these types; rows of other types are passed over.

    Switching and steps are None where no row tells them: they are not charged.
    """
    place_J = {name: index for index, name in enumerate(jobs)}
    place_T = {name: index for index, name in enumerate(types)}
    comp_ns_JT = np.full((len(place_J), len(place_T)), NEVER_NS, dtype=np.int64)
    sync_ns_JT, switch_ns_JT = comp_ns_JT.copy(), np.zeros_like(comp_ns_JT)
    step_ns_J = np.zeros(len(place_J), dtype=np.int64)
    for row in rows:
        if row["type"] in place_T:
            place = place_J[row["job"]], place_T[row["type"]]
            comp_ns_JT[place] = seconds_to_ns(row["comp_s"])
            sync_ns_JT[place] = seconds_to_ns(row["sync_s"])
            switch_ns_JT[place] = seconds_to_ns(row.get(SWITCH_COLUMN, 0.0))
            step_ns_J[place[0]] = seconds_to_ns(row.get(STEP_COLUMN, 0.0))
    return CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=comp_ns_JT < NEVER_NS,
        switch_ns_JT=switch_ns_JT if any(SWITCH_COLUMN in row for row in rows) else None,
        step_ns_J=step_ns_J if any(STEP_COLUMN in row for row in rows) else None,
    )


def read_servers_csv(data: bytes, file: str = SERVERS) -> list[ServerRow]:
    """Return the rows of ``servers.csv``; raises SpecError as ``read_jobs_csv`` does."""
    return cast("list[ServerRow]", _read(data, SERVER_COLUMNS, file))


def model_bytes(rows: Iterable[ServerRow], run: Run) -> IntArray:
    """Return the bytes of each job's model, axis J, that its servers hold; 0 where it has no row.

    Rows of other jobs than those of the run are passed over.
    """
    place_J = {job.name: job.index for job in run.workload.jobs}
    bytes_J = np.zeros(len(place_J))
    for row in rows:
        # If servers of a job have moved, the rows of its first servers count.
        if row["job"] in place_J and not row.get("begin", 0):
            bytes_J[place_J[row["job"]]] += row["bytes"]
    return np.rint(bytes_J).astype(np.int64)


def _read(data: bytes, columns: Sequence[str], file: str) -> list[dict[str, Any]]:
    """Return the rows of a table with typed values, or raise all its problems at once."""
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError(Problem(file=file, message=f"not a CSV file: {error}")) from error
    header = lines[0] if lines else []
    # Further columns may follow ours: a live run's, a switch's, or those of a later version.
    if tuple(header[: len(columns)]) != tuple(columns):
        message = f"the columns must be {','.join(columns)}; found {','.join(header)}"
        raise SpecError(Problem(file=file, line=1, message=message))
    # A wrong value stands in its row as ``_Wrong`` until the whole file is read: one error has all.
    problems: list[Problem] = []
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            message = f"{len(line)} fields where the header has {len(header)}"
            problems.append(Problem(file=file, line=number, message=message))
            continue
        row = {name: _value(name, text) for name, text in zip(header, line, strict=True)}
        problems += [
            Problem(file=file, line=number, field=name, message=value.message)
            for name, value in row.items()
            if isinstance(value, _Wrong)
        ]
        rows.append(row)
    if problems:
        raise SpecError(problems)
    return rows


class _Wrong:
    """What stands for a field that is not of its column's kind; tells why."""

    def __init__(self, message: str) -> None:
        self.message = message


def _value(name: str, text: str) -> Any:
    """Return a field as a value of its column's kind; None for an empty one, where it may be."""
    number = name in _FLOATS or name in _INTS
    # A job without a user or group has an empty name; any other empty field is unknown.
    if text == "" and name in _MAY_BE_EMPTY:
        return "" if name in ("user", "group") else None
    if not number:
        return text
    try:
        value = int(text) if name in _INTS else float(text)
    except ValueError:
        return _Wrong(f"{text!r} is not {'a whole' if name in _INTS else 'a'} number")
    # ``float`` also reads inf and nan, which no time and no weight may be.
    if math.isfinite(value) or name in _MAY_DIVERGE:
        return value
    return _Wrong(f"{text!r} is not finite")
