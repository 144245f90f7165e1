"""``timeline.parquet``: one row a stretch and shard, and reading it back.

Seconds are doubles ns / 1e9, so a time up to 104 days comes back to the very nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from warren.model.costs import FloatArray, IntArray
from warren.model.errors import Problem, SpecError
from warren.model.timeline import Timeline
from warren.model.units import NEVER_NS, NS_PER_S
from warren.report.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

TIMELINE: Final = "timeline.parquet"
ROW_GROUP: Final = 1 << 17
"""Rows written at a time, so that a large timeline is never copied whole."""

_MAX_S: Final = NEVER_NS / NS_PER_S
"""Seconds that a column may have at most, so that nanoseconds fit an int64."""

_COUNTS: Final = ("round", "rounds", "shard", "tasks")
_TIMES: Final = {
    "start_s": "start_ns_R",
    "comp_end_s": "comp_end_ns_R",
    "end_s": "end_ns_R",
    "busy_s": "busy_ns_R",
}
"""A column of seconds and the field of ``Timeline`` that has its nanoseconds."""
TIMELINE_COLUMNS: Final = ("job", *_COUNTS, "device", *_TIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFile:
    """A timeline read back, rows in file order; its indices point into ``jobs``/``devices``."""

    jobs: tuple[str, ...]
    devices: tuple[str, ...]
    timeline: Timeline


def timeline_parquet(record: Record) -> bytes:
    """Return ``timeline.parquet`` as bytes; the same record gives the same bytes."""
    # Imported here and below: a run that writes or reads no timeline does not load Arrow.
    import pyarrow as pa
    import pyarrow.parquet as pq

    timeline = record.history.timeline
    jobs = pa.array([job.name for job in record.run.workload.jobs], pa.string())
    devices = pa.array([device.name for device in record.run.cluster.devices], pa.string())
    schema = _schema(pa)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        # At least once: a timeline of no rows is still a file that has the columns.
        for first in range(0, max(1, len(timeline)), ROW_GROUP):
            rows = slice(first, first + ROW_GROUP)
            arrays = [
                pa.DictionaryArray.from_arrays(_indices(timeline.job_R[rows]), jobs),
                *(getattr(timeline, f"{name}_R")[rows] for name in _COUNTS),
                pa.DictionaryArray.from_arrays(_indices(timeline.device_R[rows]), devices),
                *(getattr(timeline, name)[rows] / NS_PER_S for name in _TIMES.values()),
            ]
            writer.write_table(pa.Table.from_arrays([_array(pa, a) for a in arrays], schema=schema))
    return bytes(sink.getvalue().to_pybytes())


def _schema(pa: ModuleType) -> Any:
    """Return the file's columns: names as dictionaries, counts as int64, times as doubles."""
    name = pa.dictionary(pa.int32(), pa.string())
    kinds = {"job": name, "device": name} | dict.fromkeys(_COUNTS, pa.int64())
    return pa.schema([(column, kinds.get(column, pa.float64())) for column in TIMELINE_COLUMNS])


def _array(pa: ModuleType, values: object) -> Any:
    """Return a column as an Arrow array; names are one already."""
    return pa.array(values) if isinstance(values, np.ndarray) else values


def _indices(column: IntArray) -> npt.NDArray[np.int32]:
    """Return positions in the width that Arrow's dictionaries have in ``_schema``."""
    return column.astype(np.int32)


def read_timeline_parquet(data: bytes, file: str = TIMELINE) -> TimelineFile:
    """Read the timeline of ``timeline.parquet``; problems name it ``file``.

    Raises SpecError if it is not Parquet, or a column is missing, out of place, of another kind, or
    has gaps.
    """
    table = read_table(data, file)
    problems = column_problems(table, file, TIMELINE_COLUMNS, counts=_COUNTS, times=tuple(_TIMES))
    if problems:
        raise SpecError(problems)
    job_R, jobs = names_of(table.column("job"))
    device_R, devices = names_of(table.column("device"))
    counts = {f"{name}_R": table.column(name).to_numpy().astype(np.int64) for name in _COUNTS}
    times = {column: to_ns(table.column(name).to_numpy()) for name, column in _TIMES.items()}
    return TimelineFile(
        jobs=jobs,
        devices=devices,
        timeline=Timeline(job_R=job_R, device_R=device_R, **counts, **times),
    )


def read_table(data: bytes, file: str) -> pa.Table:
    """Read a Parquet file into memory; raises SpecError with the name ``file`` if it is not one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not pq.read_table, which starts threads: where a process ends meanwhile, Arrow aborts it.
        return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise SpecError(Problem(file=file, message=f"not a Parquet file: {error}")) from error


def column_problems(
    table: pa.Table,
    file: str,
    columns: Sequence[str],
    *,
    counts: Sequence[str],
    times: Sequence[str],
) -> list[Problem]:
    """Return the faults of the first columns of a table, and of their values.

    ``counts`` are whole numbers, ``times`` seconds, all others names; any width of number will do,
    and a plain or an encoded string.
    """
    import pyarrow as pa

    found = tuple(table.column_names)
    # Further columns may follow: only those of ours are read.
    if found[: len(columns)] != tuple(columns):
        message = f"the columns must be {','.join(columns)}; found {','.join(found)}"
        return [Problem(file=file, message=message)]
    problems = []
    for name in columns:
        column = table.column(name)
        kind: Any = column.type
        if name in counts:
            fits = pa.types.is_integer(kind)
        elif name in times:
            fits = pa.types.is_floating(kind)
        else:
            fits = pa.types.is_string(kind.value_type if pa.types.is_dictionary(kind) else kind)
        if not fits:
            problems.append(Problem(file=file, field=name, message=f"is of kind {kind}"))
        elif column.null_count:
            problems.append(Problem(file=file, field=name, message="has empty values"))
        elif name in times and not (np.abs(column.to_numpy()) < _MAX_S).all():
            problems.append(Problem(file=file, field=name, message="has values that are no time"))
    return problems


def names_of(column: Any) -> tuple[IntArray, tuple[str, ...]]:
    """Return a column of names as positions and the names that they point to."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    # Each row group was written with a dictionary of its own; positions mean the same only once
    # these are one. Arrow may leave chunks as they are, none or one of them.
    joined = column.unify_dictionaries().combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0) if joined.num_chunks else pa.array([], column.type)
    index = joined.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return index, tuple(joined.dictionary.to_pylist())


def to_ns(seconds: FloatArray) -> IntArray:
    """Return the nanoseconds nearest to times in seconds."""
    return np.rint(seconds.astype(np.float64) * NS_PER_S).astype(np.int64)
