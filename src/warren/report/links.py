"""``links.parquet``: which bytes passed which link when, by job and class, and reading it back.

Its rows are those of ``warren.model.link_use.LinkUse``; times are as in ``timeline.parquet``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.model.errors import Problem, SpecError
from warren.model.units import NS_PER_S
from warren.report.parquet import column_problems, names_of, read_table, to_ns
from warren.report.record import Record

LINKS: Final = "links.parquet"
DIRECTIONS: Final = ("up", "down")
"""Of each host, in the order of its links: sent bytes, received bytes."""
_COUNTS: Final = ("class", "bytes")
_FLOATS: Final = ("start_s", "end_s", "rate_bytes_per_s")
LINK_COLUMNS: Final = (
    "link",
    "direction",
    "job",
    "class",
    "start_s",
    "end_s",
    "bytes",
    "rate_bytes_per_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksFile:
    """Bytes on links, read back; axis R: rows in file order.

    ``host_R`` and ``job_R`` point into ``hosts`` and ``jobs``; ``down_R``: whether it is the host's
    downlink. ``rate_R`` is the rate of the link in bytes a second.
    """

    hosts: tuple[str, ...]
    jobs: tuple[str, ...]
    host_R: IntArray
    down_R: BoolArray
    job_R: IntArray
    class_R: IntArray
    start_ns_R: IntArray
    end_ns_R: IntArray
    bytes_R: IntArray
    rate_R: FloatArray


def links_parquet(record: Record) -> bytes:
    """Return ``links.parquet`` as bytes; the same record gives the same bytes.

    Raises ValueError if the record holds no links.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    use, cluster = record.history.link_use, record.run.cluster
    if use is None:
        raise ValueError("the bytes on the links of this run were not counted")
    host_R = use.link_R // 2
    rate_H = np.array(cluster.link_bytes_per_s)

    def named(place_R: IntArray, names: list[str]) -> Any:
        places = place_R.astype(np.int32)
        return pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string()))

    columns = (
        named(host_R, [host.name for host in cluster.hosts]),
        named(use.link_R % 2, list(DIRECTIONS)),
        named(use.job_R, [job.name for job in record.run.workload.jobs]),
        use.class_R,
        use.bin_R * use.bin_ns / NS_PER_S,
        (use.bin_R + 1) * use.bin_ns / NS_PER_S,
        use.bytes_R,
        rate_H[host_R],
    )
    arrays = [pa.array(one) if isinstance(one, np.ndarray) else one for one in columns]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=list(LINK_COLUMNS)), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def read_links_parquet(data: bytes, file: str = LINKS) -> LinksFile:
    """Read the bytes on links from ``links.parquet``; problems name it ``file``.

    Raises SpecError if it is not Parquet, or a column is missing, out of place, of another kind, or
    has gaps, or a link is neither up nor down.
    """
    table = read_table(data, file)
    problems = column_problems(table, file, LINK_COLUMNS, counts=_COUNTS, times=_FLOATS)
    if problems:
        raise SpecError(problems)
    host_R, hosts = names_of(table.column("link"))
    job_R, jobs = names_of(table.column("job"))
    place_R, directions = names_of(table.column("direction"))
    used = {directions[place] for place in np.unique(place_R).tolist()}
    if not used <= set(DIRECTIONS):
        wrong = sorted(used - set(DIRECTIONS))[0]
        raise SpecError(
            Problem(file=file, field="direction", message=f"{wrong!r} is not up or down")
        )
    is_down = np.array([name == DIRECTIONS[1] for name in directions], dtype=np.bool_)
    return LinksFile(
        hosts=hosts,
        jobs=jobs,
        host_R=host_R,
        down_R=is_down[place_R],
        job_R=job_R,
        class_R=table.column("class").to_numpy().astype(np.int64),
        start_ns_R=to_ns(table.column("start_s").to_numpy()),
        end_ns_R=to_ns(table.column("end_s").to_numpy()),
        bytes_R=table.column("bytes").to_numpy().astype(np.int64),
        rate_R=table.column("rate_bytes_per_s").to_numpy().astype(np.float64),
    )
