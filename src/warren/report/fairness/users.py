"""What each user got of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warren.model.units import NS_PER_S
from warren.report.fairness.slowdown import finished_jobs
from warren.report.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class UserShare:
    """A user's jobs, and what they got; None: no job of the user finished, or not known.

    ``device_s`` is the COMP time of all tasks that count, in seconds; ``device_share`` its part of
    that of all users. ``mean_jct_s``, ``mean_slowdown`` and ``max_finish_time_fairness`` are over
    the user's jobs that finished, see ``warren.report.fairness.slowdown``.
    """

    user: str
    jobs: int
    finished: int
    device_s: float
    device_share: float
    mean_jct_s: float | None
    mean_slowdown: float | None
    max_finish_time_fairness: float | None


def user_shares(record: Record) -> list[UserShare]:
    """Return one row a user, by name, those without a user as ``""``; empty if no job has one."""
    names = [job.user for job in record.run.workload.jobs]
    if not any(names):
        return []
    users = sorted({*names})
    user_J = np.array([users.index(name) for name in names], dtype=np.int64)
    line = record.history.timeline
    busy_ns_U = np.zeros(len(users), dtype=np.int64)
    np.add.at(busy_ns_U, user_J[line.job_R], line.busy_ns_R)
    finished = finished_jobs(record)
    jct_s = (finished.finish_ns_J - finished.arrival_ns_J) / NS_PER_S
    slowdown, fairness = finished.slowdown_J, finished.finish_time_fairness_J
    user_of_finished = user_J[record.history.finish_ns_J >= 0]
    rows = []
    for at, user in enumerate(users):
        own = user_of_finished == at
        known = bool(own.any()) and not np.isnan(slowdown[own]).any()
        rows.append(
            UserShare(
                user=user,
                jobs=names.count(user),
                finished=int(own.sum()),
                device_s=int(busy_ns_U[at]) / NS_PER_S,
                device_share=int(busy_ns_U[at]) / max(1, int(busy_ns_U.sum())),
                mean_jct_s=float(jct_s[own].mean()) if own.any() else None,
                mean_slowdown=float(slowdown[own].mean()) if known else None,
                max_finish_time_fairness=float(fairness[own].max()) if known else None,
            )
        )
    return rows
