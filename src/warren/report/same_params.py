"""Whether live runs of the same jobs ended with the same parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from warren.report.record import Record

_NAMES: Final = 5
"""A line names at most this many jobs."""


class Agreement(TypedDict):
    """How the parameters of two live runs of the same jobs agree.

    ``jobs`` finished in both runs, ``same`` of them with the same hash. ``differ`` names the
    others, ``other_apps`` those of them whose apps had another text, and ``left_out`` counts jobs
    that did not finish in both.
    """

    live: str
    other: str
    jobs: int
    same: int
    differ: list[str]
    other_apps: list[str]
    left_out: int


def same_params(records: Sequence[Record]) -> list[Agreement]:
    """Compare each live run with the first live one of the same jobs, which has no entry itself.

    Jobs are the same by name.
    """
    firsts: dict[frozenset[str], Record] = {}
    found = []
    for record in records:
        # A simulation trains nothing, so it has no parameters.
        if not record.live:
            continue
        first = firsts.setdefault(frozenset(_hashes(record)), record)
        if first is not record:
            found.append(_agreement(first, record))
    return found


def _hashes(record: Record) -> dict[str, str]:
    """Return the hash of each job's parameters by its name; empty if there is none."""
    saved = record.history.saved
    jobs = record.run.workload.jobs
    return {job.name: saved[job.index].sha256 if job.index in saved else "" for job in jobs}


def _apps(record: Record) -> dict[str, tuple[str, ...]]:
    """Return for each job's name the hashes of the texts of its app."""
    return {job.name: record.history.apps_of(job.index) for job in record.run.workload.jobs}


def _agreement(first: Record, other: Record) -> Agreement:
    """Set the parameters of two runs side by side."""
    # Only parameters of jobs that have ended can be compared: earlier ones change with each round.
    one, two = _hashes(first), _hashes(other)
    both = [name for name in one if one[name] and two[name]]
    differ = [name for name in both if one[name] != two[name]]
    apps, others = _apps(first), _apps(other)
    return {
        "live": first.run.name,
        "other": other.run.name,
        "jobs": len(both),
        "same": len(both) - len(differ),
        "differ": differ,
        "other_apps": [name for name in differ if apps[name] != others[name]],
        "left_out": len(one) - len(both),
    }


def agreement_line(found: Agreement) -> str:
    """Tell one entry of ``same_params`` in a sentence."""
    ends = f"in {found['live']} and {found['other']}"
    if not found["jobs"]:
        return f"parameters: no job finished {ends}"
    line = f"parameters: {found['same']:,} of {found['jobs']:,} jobs have the same bits {ends}"
    differ = found["differ"]
    if differ:
        line += f"; other bits: {_some(differ)}"
    if found["other_apps"]:
        line += f"; their apps had another text: {_some(found['other_apps'])}"
    if found["left_out"]:
        line += f"; not finished in both: {found['left_out']:,}"
    return line


def _some(names: Sequence[str]) -> str:
    """List the first names, with dots if there are more."""
    return ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
