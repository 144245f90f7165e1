"""Whether a live run made the decisions that a simulation makes, task by task."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from warren.core.journal_reader import read_history

Task: TypeAlias = tuple[int, int, int]
"""Job, round, shard."""


def differing(live: Path, simulated: Path) -> dict[str, Any]:
    """How many tasks have another row in the timeline: another device, or other tasks before.

    A padded task lasts what its pad says, as a simulated one does. So times are equal wherever
    decisions are and nothing overran, and what a comparison can show is decisions.
    """
    first, second = (_places(one) for one in (live, simulated))
    tasks = first.keys() | second.keys()
    other = sum(first.get(task) != second.get(task) for task in tasks)
    return {"decided": len(tasks), "rows_differ": other, "decisions_equal": not other}


def _places(out: Path) -> dict[Task, tuple[int, Task | None]]:
    """Of each task its device, and the task that this device had before."""
    line = read_history((out / "journal").read_bytes()).timeline
    columns = line.start_ns_R, line.job_R, line.round_R, line.shard_R, line.device_R
    rows = sorted(zip(*(one.tolist() for one in columns), strict=True))
    last: dict[int, Task] = {}
    found: dict[Task, tuple[int, Task | None]] = {}
    for _, job, round_, shard, device in rows:
        task = job, round_, shard
        found[task] = device, last.get(device)
        last[device] = task
    return found
