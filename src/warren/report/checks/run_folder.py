"""A run folder as arrays, read from its exported files alone (never from the journal)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.errors import SpecError
from warren.model.timeline import Timeline
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.report.checks.fault import SHOWN, Fault
from warren.report.checks.link_rows import FolderLinks, link_rows
from warren.report.links import LINKS, read_links_parquet
from warren.report.metrics import JobRow, Summary
from warren.report.parquet import TIMELINE, TimelineFile, read_timeline_parquet
from warren.report.record import LIVE
from warren.report.tables import (
    DEVICES,
    JOBS,
    PROFILE,
    SERVERS,
    CostRow,
    DeviceRow,
    costs_of,
    read_devices_csv,
    read_jobs_csv,
    read_profile_rows,
    read_servers_csv,
)

SUMMARY: Final = "summary.json"
NO_TIME: Final = -1
"""Stands for an empty time field."""
_KEYS: Final = ("world", "network", "time_scale", "noise")
"""The keys of ``summary.json`` without which it is not known which rules hold."""
STAMP_S: Final = 1e-6
"""Real time, in seconds, that two live stamps may differ by: rounding to and from cluster time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRules:
    """The rules for a run, and their tolerance.

    ``slack_ns`` is the largest difference allowed between two times. In simulation it is 2 ns and
    the rounding of a double; live it is ``STAMP_S`` of real time, in cluster time (all stamps of a
    run are readings of one host's clock).
    """

    live: bool
    exact: bool
    """A simulation without hidden noise: tasks take their profile times."""
    padded: bool
    """No task is shorter than its profile times (with measured jitter some are)."""
    network: str
    slack_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTables:
    """The tables of a run folder as arrays.

    Axes: J rows of jobs.csv, D rows of devices.csv, T device types, R timeline rows. Times are
    nanoseconds, ``NO_TIME`` where the field is empty; costs are ``NEVER_NS`` where ``profile.csv``
    has no row. Timeline indices point into jobs.csv and devices.csv.
    """

    summary: Summary
    rules: FolderRules
    jobs: Sequence[JobRow]
    devices: Sequence[DeviceRow]
    types: tuple[str, ...]
    type_D: IntArray
    arrival_ns_J: IntArray
    start_ns_J: IntArray
    finish_ns_J: IntArray
    jct_ns_J: IntArray
    rounds_J: IntArray
    scale_J: IntArray
    finished_J: BoolArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    switch_ns_JT: IntArray | None
    """None: switching is not charged."""
    timeline: Timeline
    links: FolderLinks | None = None
    """None: the bytes on links were not counted."""

    def row(self, index: int) -> str:
        """Return the place of a timeline row, for people."""
        line = self.timeline
        return (
            f"{TIMELINE} row {index} (job {self.jobs[line.job_R[index]]['job']}, "
            f"round {line.round_R[index]}, shard {line.shard_R[index]}, "
            f"device {self.devices[line.device_R[index]]['device']})"
        )

    def job(self, index: int) -> str:
        """Return the place of a job, for people."""
        return f"{JOBS} job {self.jobs[index]['job']}"


def load(files: Mapping[str, bytes]) -> tuple[FolderTables | None, list[Fault]]:
    """Return the folder as arrays, or None and the reasons why it cannot be read."""
    if "journal" in files and not {JOBS, TIMELINE, SUMMARY} & files.keys():
        what = "are not there: the run was killed, or goes on"
        return None, [Fault(place="tables", what=what, expected="those `warren report` writes")]
    # Each file is read whatever is wrong with the others, so that a user learns all at once.
    faults: list[Fault] = []
    jobs = _read(files, JOBS, read_jobs_csv, faults)
    devices = _read(files, DEVICES, read_devices_csv, faults)
    profile = _read(files, PROFILE, read_profile_rows, faults)
    table = _read(files, TIMELINE, read_timeline_parquet, faults)
    summary = _read(files, SUMMARY, _read_summary, faults)
    if jobs is None or devices is None or profile is None or table is None or summary is None:
        return None, faults
    faults += _repeated(JOBS, "job", jobs) + _repeated(DEVICES, "device", devices)
    faults += _names(jobs, devices, profile, table)
    links, of_links = _links(files, jobs, devices)
    faults += of_links
    if faults:
        return None, faults
    try:
        exported = _exported(jobs, devices, profile, table, summary)
    except ValueError as error:
        return None, [Fault(place="a time field", what=str(error), expected="seconds")]
    return replace(exported, links=links), []


def _links(
    files: Mapping[str, bytes], jobs: Sequence[JobRow], devices: Sequence[DeviceRow]
) -> tuple[FolderLinks | None, list[Fault]]:
    """Return the use of links, None if the folder does not hold it, and why it cannot be read."""
    if LINKS not in files:
        return None, []
    faults: list[Fault] = []
    table = _read(files, LINKS, read_links_parquet, faults)
    servers = _read(files, SERVERS, read_servers_csv, faults)
    if table is None or servers is None:
        return None, faults
    return link_rows(table, servers, devices, {row["job"]: k for k, row in enumerate(jobs)})


def _read(
    files: Mapping[str, bytes], name: str, reader: Callable[[bytes], T], faults: list[Fault]
) -> T | None:
    """Read one file; None where it is missing or wrong, which is added to ``faults``."""
    if name not in files:
        faults.append(Fault(place=name, what="is missing", expected="the file a run writes"))
        return None
    try:
        return reader(files[name])
    except SpecError as error:
        for problem in error.problems:
            faults.append(Fault(place=name, what=str(problem), expected="a table as documented"))
    except ValueError as error:
        faults.append(Fault(place=name, what=str(error), expected="a summary as documented"))
    return None


def _read_summary(data: bytes) -> Summary:
    """Read ``summary.json``; ValueError if a value that rules compute with is of a wrong kind."""
    try:
        summary = json.loads(data)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(summary, dict):
        raise ValueError("is not a JSON object")
    missing = [key for key in _KEYS if key not in summary]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}")
    for key in ("noise", "lower_bound", "gap"):
        # Bounds and gaps may be null: there is none. Without noise the mapping is empty.
        values = summary.get(key, {})
        if values is None and key != "noise":
            continue
        if not isinstance(values, dict) or not all(map(_is_number, values.values())):
            raise ValueError(f"{key} is not a mapping of names to numbers")
    for key in ("time_scale", "weighted_jct_s", "makespan_s"):
        if not _is_number(summary.get(key)):
            raise ValueError(f"{key} is not a number")
    if summary["time_scale"] is not None and summary["time_scale"] <= 0:
        raise ValueError("time_scale is not above 0")
    for key in ("world", "network"):
        if not isinstance(summary[key], str):
            raise ValueError(f"{key} is not a text")
    if not _are_rollbacks(summary.get("rolled_back", [])):
        raise ValueError("rolled_back is not a list of jobs and rounds")
    return summary


def _are_rollbacks(value: object) -> bool:
    """Tell whether a value is a list of roll-backs, with what ``check_summary`` reads of them."""
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and "job" in one
        and all(isinstance(one.get(key), int) for key in ("passed", "round"))
        and isinstance(one.get("checkpoint", ""), int | None)
        for one in value
    )


def _is_number(value: object) -> bool:
    """Tell whether a value is a number or null."""
    # In Python a truth value is an int; in JSON it is no number.
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _repeated(file: str, key: str, rows: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """Return the fault of a table in which names stand twice; it states the first of them."""
    names = [row[key] for row in rows]
    if len(set(names)) == len(names):
        return []
    twice = sorted({name for name in names if names.count(name) > 1})
    return [Fault(place=file, what=f"{key} {twice[0]} is listed twice", expected="one row each")]


def _names(
    jobs: Sequence[JobRow],
    devices: Sequence[DeviceRow],
    profile: Sequence[CostRow],
    table: TimelineFile,
) -> list[Fault]:
    """Return the names of jobs and devices that are used but not listed."""
    # By ``unique``: a file's dictionary of names may hold some that no row uses.
    known_jobs = {row["job"] for row in jobs}
    known_devices = {row["device"] for row in devices}
    used_jobs = {table.jobs[i] for i in np.unique(table.timeline.job_R)}
    used_devices = {table.devices[i] for i in np.unique(table.timeline.device_R)}
    return [
        *_unknown(TIMELINE, "job", used_jobs - known_jobs, JOBS),
        *_unknown(TIMELINE, "device", used_devices - known_devices, DEVICES),
        *_unknown(PROFILE, "job", {row["job"] for row in profile} - known_jobs, JOBS),
    ]


def _unknown(file: str, key: str, names: set[str], where: str) -> list[Fault]:
    """Return a fault for each of the first names that a file uses and ``where`` does not list."""
    return [
        Fault(place=file, what=f"unknown {key} {name}", expected=f"a {key} of {where}")
        for name in sorted(names)[:SHOWN]
    ]


def _exported(
    jobs: Sequence[JobRow],
    devices: Sequence[DeviceRow],
    profile: Sequence[CostRow],
    table: TimelineFile,
    summary: Summary,
) -> FolderTables:
    """Make arrays of tables whose names are known."""
    types = tuple(dict.fromkeys(row["type"] for row in devices))
    # The profile may have rows of types that the cluster has no device of.
    costs = costs_of(profile, [row["job"] for row in jobs], types)
    job_index = {row["job"]: index for index, row in enumerate(jobs)}
    device_index = {row["device"]: index for index, row in enumerate(devices)}
    # The timeline numbers jobs and devices by its own dictionaries: number them by row of jobs.csv
    # and of devices.csv instead.
    timeline = replace(
        table.timeline,
        job_R=_renamed(table.jobs, job_index)[table.timeline.job_R],
        device_R=_renamed(table.devices, device_index)[table.timeline.device_R],
    )
    return FolderTables(
        summary=summary,
        rules=_rules(summary, timeline),
        jobs=jobs,
        devices=devices,
        types=types,
        type_D=np.array([types.index(row["type"]) for row in devices], dtype=np.int64),
        arrival_ns_J=_times(jobs, "arrival_s"),
        start_ns_J=_times(jobs, "start_s"),
        finish_ns_J=_times(jobs, "finish_s"),
        jct_ns_J=_times(jobs, "jct_s"),
        rounds_J=np.array([row["rounds"] or -1 for row in jobs], dtype=np.int64),
        scale_J=np.array([row["scale"] for row in jobs], dtype=np.int64),
        finished_J=np.array([row["status"] == "finished" for row in jobs], dtype=bool),
        comp_ns_JT=costs.comp_ns_JT,
        sync_ns_JT=costs.sync_ns_JT,
        switch_ns_JT=costs.switch_ns_JT,
        timeline=timeline,
    )


def _rules(summary: Summary, timeline: Timeline) -> FolderRules:
    """Return the rules that a run's world, noise and network ask for, and their slack."""
    live, scale = summary["world"] == LIVE, summary["time_scale"]
    # Files have seconds as doubles. 1 ns for each of two times compared, and the error of doubles
    # as large as the last end: beyond some 104 days that is more than half a nanosecond.
    last_ns = float(np.abs(timeline.end_ns_R).max(initial=0))
    rounding_ns = 2 + math.ceil(4 * np.finfo(float).eps * last_ns)
    # ``time_scale`` is real seconds a cluster second; null where nothing is emulated, as 1.
    stamp_ns = math.ceil(STAMP_S * NS_PER_S / (scale or 1.0))
    return FolderRules(
        live=live,
        exact=not live and not any(summary["noise"].values()),
        padded=live and scale is not None and not summary["noise"].get("jitter"),
        network=summary["network"],
        slack_ns=rounding_ns + (stamp_ns if live else 0),
    )


def _renamed(names: Sequence[str], index: Mapping[str, int]) -> IntArray:
    """Return for each name its index; -1 for a name that no row uses."""
    return np.array([index.get(name, -1) for name in names], dtype=np.int64)


def _times(rows: Sequence[Mapping[str, Any]], column: str) -> IntArray:
    """Return a column of seconds as nanoseconds, ``NO_TIME`` where a field is empty."""
    values = [row[column] for row in rows]
    times = [NO_TIME if value is None else seconds_to_ns(value) for value in values]
    return np.array(times, dtype=np.int64)
