"""Bytes that passed the links of a run folder, and the servers of its jobs, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.report.checks.fault import SHOWN, Fault
from warren.report.links import DIRECTIONS, LINKS, LinksFile
from warren.report.tables import JOBS, SERVERS, DeviceRow, ServerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLinks:
    """Bytes on links (axis R: rows), over hosts H; host h has uplink 2 h and downlink 2 h + 1.

    ``servers_J`` holds, by row of jobs.csv and the round from which on they were there, the host
    and the bytes of each server, and how often the first one was sent them; host -1: it is a ring,
    and the bytes are those of its model. ``host_D``: the host of each device.
    """

    hosts: tuple[str, ...]
    host_D: IntArray
    servers_J: Sequence[Mapping[int, Sequence[tuple[int, float, int]]]]
    link_R: IntArray
    job_R: IntArray
    start_ns_R: IntArray
    end_ns_R: IntArray
    bytes_R: IntArray
    rate_R: FloatArray

    def link(self, link: int) -> str:
        """Return the place of a link, for people."""
        return f"{LINKS} {self.hosts[link // 2]} {DIRECTIONS[link % 2]}"


def link_rows(
    table: LinksFile,
    servers: Sequence[ServerRow],
    devices: Sequence[DeviceRow],
    job_index: dict[str, int],
) -> tuple[FolderLinks | None, list[Fault]]:
    """Return the content of both files, or None and their jobs that are not in jobs.csv."""
    used = {table.jobs[place] for place in np.unique(table.job_R).tolist()}
    unknown = [(LINKS, name) for name in sorted(used - set(job_index))[:SHOWN]]
    listed = {row["job"] for row in servers}
    unknown += [(SERVERS, name) for name in sorted(listed - set(job_index))[:SHOWN]]
    if unknown:
        return None, [
            Fault(place=file, what=f"unknown job {name}", expected=f"a job of {JOBS}")
            for file, name in unknown
        ]
    # A host may have servers and no device, or neither.
    named = [*(row["host"] for row in devices), *(row["host"] for row in servers), *table.hosts]
    hosts = tuple(dict.fromkeys(filter(None, named)))
    place_H = {name: place for place, name in enumerate(hosts)} | {"": -1}
    servers_J: list[dict[int, list[tuple[int, float, int]]]] = [{} for _ in job_index]
    for row in servers:
        held = place_H[row["host"]], row["bytes"], row.get("gathered", 0)
        servers_J[job_index[row["job"]]].setdefault(row.get("begin", 0), []).append(held)
    host_of_table = np.array([place_H[name] for name in table.hosts], dtype=np.int64)
    job_of_table = np.array([job_index.get(name, -1) for name in table.jobs], dtype=np.int64)
    return FolderLinks(
        hosts=hosts,
        host_D=np.array([place_H[row["host"]] for row in devices], dtype=np.int64),
        servers_J=servers_J,
        link_R=2 * host_of_table[table.host_R] + table.down_R,
        job_R=job_of_table[table.job_R],
        start_ns_R=table.start_ns_R,
        end_ns_R=table.end_ns_R,
        bytes_R=table.bytes_R,
        rate_R=table.rate_R,
    ), []
