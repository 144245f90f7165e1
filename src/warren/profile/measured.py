"""Measured costs: the inputs they depend on, and their profile row.

A measurement holds as long as the app's source, its parameters, the batch, how it is synchronized,
the numerics class and the machine are the same; the key is a hash of exactly these.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from warren.model.costs import ProfileRow
from warren.model.job import Job
from warren.profile.cost_table import measured_key, params_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCost:
    """The measured cost of one task of an app on one device type, at the job's batch.

    In seconds and bytes; ``sync_s`` None: not measured. ``load``: the machine's load average
    before the measurement, in processes; None: not known.
    """

    comp_s: float
    model_bytes: int
    memory_bytes: int = 0
    sync_s: float | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """A kind of tasks: all that the cost of a task depends on, the device type apart.

    ``app`` is ``FILE:Class`` without folders, for people; only the class and the hash of the file
    count. ``params`` is canonical JSON. ``machine`` names the processor.
    """

    app: str
    source_sha256: str
    params: str
    batch: int
    sync: str
    numerics: str
    machine: str

    @property
    def key(self) -> str:
        """Return the SHA-256 of all that counts, in hexadecimal."""
        # Only the class of the app: a file that was renamed is the same by its hash.
        what = {**asdict(self), "app": self.app.rpartition(":")[2]}
        text = json.dumps(what, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def task_kind(job: Job, source_sha256: str, numerics: str, machine: str) -> TaskKind:
    """Return the kind of a job's tasks; ``source_sha256`` is that of its app's file."""
    # Without folders: the same file elsewhere is the same app, as its hash shows.
    file, _, name = (job.app or "").rpartition(":")
    return TaskKind(
        app=f"{posixpath.basename(file)}:{name}",
        source_sha256=source_sha256,
        params=params_text(job),
        batch=job.batch,
        sync=job.sync,
        numerics=numerics,
        machine=machine,
    )


def measured_row(job: Job, by_type: Mapping[str, MeasuredCost]) -> ProfileRow:
    """Make the profile row of a job that was measured on these device types (at least one).

    Sizes are the largest seen. Hand rows to ``cost_table`` under ``measured_key(job)``.
    """
    return ProfileRow(
        model=measured_key(job),
        batch=job.batch,
        model_bytes=max(one.model_bytes for one in by_type.values()),
        memory_bytes=max(one.memory_bytes for one in by_type.values()),
        comp_s={kind: one.comp_s for kind, one in by_type.items()},
        sync_s={kind: one.sync_s for kind, one in by_type.items() if one.sync_s is not None},
        source={f"comp.{kind}": "measured" for kind in by_type},
    )
