"""What users got of several runs of the same jobs, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from warren.model.units import NS_PER_S
from warren.report.metrics import arrival_ns, first_start_ns
from warren.report.number_text import aligned, in_unit, time_unit
from warren.report.record import Record


def user_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return a row a user and run: all jobs first, as user ``""``, then each user by name.

    ``wait_s`` and ``jct_s`` are means over the jobs that finished, None where none did; the wait is
    from arrival to the first start. ``device_s``: time of devices, in seconds.
    """
    names = sorted({job.user for record in records for job in record.run.workload.jobs} - {""})
    return [_row(user, record) for user in ["", *names] for record in records]


def _row(user: str, record: Record) -> dict[str, Any]:
    jobs, line = record.run.workload.jobs, record.history.timeline
    own_J = np.array([not user or job.user == user for job in jobs], dtype=np.bool_)
    done_J = own_J & (record.history.finish_ns_J >= 0)
    wait_ns_J = np.maximum(0, first_start_ns(record) - arrival_ns(record))[done_J]
    jct_ns_J = (record.history.finish_ns_J - arrival_ns(record))[done_J]
    some = bool(done_J.any())
    return {
        "user": user,
        "place": record.place,
        "jobs": int(own_J.sum()),
        "finished": int(done_J.sum()),
        "wait_s": float(wait_ns_J.mean()) / NS_PER_S if some else None,
        "jct_s": float(jct_ns_J.mean()) / NS_PER_S if some else None,
        "device_s": int(line.busy_ns_R[own_J[line.job_R]].sum()) / NS_PER_S,
    }


def user_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return these rows as aligned lines, times in units that suit the largest."""
    return aligned([list(cells) for cells in _cells(rows)])


def hosts_crossed(record: Record) -> int:
    """Count the jobs whose tasks ran on devices of several hosts at once."""
    host_D = [device.host for device in record.run.cluster.devices]
    line, hosts = record.history.timeline, dict[tuple[int, int], set[str]]()
    for job, start_ns, device in zip(
        line.job_R.tolist(), line.start_ns_R.tolist(), line.device_R.tolist(), strict=True
    ):
        hosts.setdefault((job, start_ns), set()).add(host_D[device])
    return len({job for (job, _), found in hosts.items() if len(found) > 1})


def _cells(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    spans = [row[key] or 0.0 for row in rows for key in ("wait_s", "jct_s")]
    unit, used = time_unit(max(spans, default=0.0)), time_unit(max(row["device_s"] for row in rows))
    yield "user", "place", "jobs", "mean wait", "mean JCT", "device time"
    for row in rows:
        yield (
            row["user"] or "all",
            row["place"],
            f"{row['jobs']:,}",
            in_unit(row["wait_s"], unit),
            in_unit(row["jct_s"], unit),
            in_unit(row["device_s"], used),
        )
