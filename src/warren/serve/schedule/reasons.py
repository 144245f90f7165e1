"""Why a job waits: one code of a fixed list, and a text that names the evidence."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from warren.serve.queue.state import Queue
from warren.serve.records.jobs import JobState, ServiceJob

WaitCode = Literal[
    "held",
    "dependency",
    "quota",
    "devices",
    "drained",
    "foreign",
    "order",
    "host",
    "starting",
    "never",
]
"""Codes of all reasons for which a job waits."""


class WaitReason(NamedTuple):
    """Why a job waits; ``text`` names the evidence. ``code`` is empty if it does not wait."""

    code: WaitCode | Literal[""]
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.code else self.text


NO_WAIT: Final = WaitReason("", "")
"""The reason of a job that does not wait."""


def why(
    queue: Queue,
    job: ServiceJob,
    now_ns: int,
    order: Literal["strict", "backfill"] = "strict",
) -> WaitReason:
    """Return why a job waits."""
    if job.state is JobState.HELD:
        return WaitReason("held", "held until it is released")
    if job.state is JobState.RUNNING and job.attempts[-1].started_ns is None:
        return WaitReason("starting", f"host {job.attempts[-1].host} starts it")
    if job.state is not JobState.QUEUED:
        return NO_WAIT
    if job.id in queue.dependencies.unmet:
        waits = ", ".join(queue.dependencies.unmet[job.id])
        return WaitReason("dependency", f"waits for job {waits}")
    return WaitReason("devices", f"needs {job.spec.devices} devices on one host")
