"""What ran and did not count: for ``summary.json``, and in one sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warren.model.units import ns_to_seconds
from warren.report.number_text import count
from warren.report.record import Record


def loss_values(record: Record) -> dict[str, Any]:
    """The keys of ``summary.json`` about losses; none for a simulation.

    ``redone_tasks`` counts tasks that ran and did not count, since they went down with a process or
    a checkpoint was older; ``rollbacks`` returns of jobs to a checkpoint, each told in
    ``rolled_back``; ``resumed`` how often the run went on after it was cut off.
    """
    if not record.live:
        return {}
    jobs, history = record.run.workload.jobs, record.history
    redone = sum(one.redone_tasks(jobs[one.event.job].scale) for one in history.rollbacks)
    return {
        "redone_tasks": redone + sum(len(one.shards) for one in history.lost),
        "rollbacks": len(history.rollbacks),
        "resumed": history.resumed,
        "rolled_back": [
            {
                "job": jobs[one.event.job].name,
                "time_s": ns_to_seconds(one.event.time_ns),
                "passed": one.passed,
                "round": one.event.round,
                "checkpoint": _every(record, one.event.job),
                "reason": one.event.reason,
            }
            for one in history.rollbacks
        ],
    }


def copy_values(record: Record) -> dict[str, Any]:
    """The keys of ``summary.json`` about copies of late tasks; none where the run makes none.

    ``copies_won`` of ``copies`` were done before the run they were made of; ``copies_wasted_s`` is
    the COMP time, in cluster seconds, of the runs that were not first, as far as they have ended.
    """
    history = record.history
    if record.run.scheduler.copies_after is None and not history.copies:
        return {}
    return {
        "copies": history.copies,
        "copies_won": history.copies_won,
        "copies_wasted_s": ns_to_seconds(sum(one.busy_ns for one in history.dropped)),
    }


def _every(record: Record, job: int) -> int | None:
    checkpoint = record.run.workload.jobs[job].checkpoint
    return None if checkpoint is None else checkpoint.every


def loss_sentence(found: Mapping[str, Any]) -> str:
    """What a summary tells of losses and copies; empty if there were none."""
    redone, rollbacks = int(found.get("redone_tasks") or 0), int(found.get("rollbacks") or 0)
    resumed, copies = int(found.get("resumed") or 0), int(found.get("copies") or 0)
    parts = []
    if rollbacks:
        parts.append(f"jobs went back to a checkpoint {count(rollbacks, 'time')}")
    if redone:
        parts.append(f"{count(redone, 'task')} ran again after a loss")
    if resumed:
        parts.append(f"the run was cut off and went on {count(resumed, 'time')}")
    if copies:
        won = int(found.get("copies_won") or 0)
        parts.append(f"{count(copies, 'late task')} also started elsewhere, {won} done first there")
    return ", ".join(parts)
