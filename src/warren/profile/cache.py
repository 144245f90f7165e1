"""Measured costs, kept between runs: keys, rows, and the text of the cache file.

What was measured holds as long as the app's source, its parameters, the batch, the numerics
class and the device type are the same; the key is a hash of exactly these. Whoever measures
reads and writes the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.profile.costs import measured_key

_FORMAT: Final = 1
_ALLOWED: Final = "delete the file to measure again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One app on one device type: a task at the job's batch. ``sync_s`` None: not measured."""

    comp_s: float
    model_bytes: int
    memory_bytes: int = 0
    sync_s: float | None = None


def cache_key(source: bytes, job: Job, device_type: str, numerics: str = "") -> str:
    """Key of a measurement: SHA-256 of all that it depends on.

    Parameters
    ----------
    source
        Bytes of the app's source file.
    job
        Its app (the class within the file), parameters and batch count.
    device_type, numerics
        Where it was measured, and in which numerics class.
    """
    what = {
        "class": (job.app or "").rpartition(":")[2],
        "params": job.params,
        "batch": job.batch,
        "device_type": device_type,
        "numerics": numerics,
    }
    text = json.dumps(what, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(hashlib.sha256(source).digest() + text.encode()).hexdigest()


def measured_row(job: Job, by_type: Mapping[str, Measured]) -> ProfileRow:
    """The profile row of a job that was measured on these device types (at least one).

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


def encode_cache(entries: Mapping[str, Measured]) -> str:
    """The cache as JSON text, sorted by key, one entry a line."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(asdict(entries[key]), allow_nan=False)}"
        for key in sorted(entries)
    ]
    return f'{{"format": {_FORMAT}, "measured": {{\n' + ",\n".join(lines) + "\n}}\n"


def decode_cache(content: bytes, file: str) -> dict[str, Measured]:
    """The cache that ``encode_cache`` wrote.

    Raises
    ------
    SpecError
        If the content is anything else.
    """
    try:
        data = json.loads(content)
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']!r}; allowed: {_FORMAT}")
        return {key: _measured(entry) for key, entry in data["measured"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"is not a cache of measurements ({error}); {_ALLOWED}"
        raise SpecError(Problem(file=file, message=message)) from None


def _measured(entry: Mapping[str, Any]) -> Measured:
    names = {field.name for field in fields(Measured)}
    if set(entry) != names:
        raise ValueError(f"an entry needs {', '.join(sorted(names))}")
    comp_s, sync_s = entry["comp_s"], entry["sync_s"]
    sizes = entry["model_bytes"], entry["memory_bytes"]
    if not _is_time(comp_s) or comp_s == 0 or not (sync_s is None or _is_time(sync_s)):
        raise ValueError("a time is not a number of seconds")
    if not all(type(size) is int and 0 <= size < 2**63 for size in sizes):
        raise ValueError("a size is not a number of bytes")
    return Measured(comp_s=comp_s, sync_s=sync_s, model_bytes=sizes[0], memory_bytes=sizes[1])


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1e9 and math.isfinite(value)  # type: ignore[operator,arg-type]
