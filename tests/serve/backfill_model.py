"""Backfill's promise by brute force: expected starts with and without the jobs that overtake.

Time goes in whole seconds and all of it is tried: for each job in the order, each second from now
on, each set of devices of one host, until one is free for as long as the job may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

FAR = 10**6
"""No job that has a limit runs as long, in seconds."""


class Wanted(NamedTuple):
    job: str
    devices: int
    limit: int | None
    share: bool


class Busy(NamedTuple):
    """A job has a device from one second on to another, which is not included."""

    begin: int
    end: int
    share: bool


Spans = dict[str, list[Busy]]


def free(spans: Iterable[Busy], begin: int, end: int, share: bool) -> bool:
    """Tell whether a device can take a job for a time."""
    there = [one for one in spans if one.begin < end and begin < one.end]
    if any(not (share and one.share) for one in there):
        return False
    return len(there) < 4


def busy(job: Wanted, begin: int) -> Busy:
    """Return the time for which a job has its devices; one without a limit ends far off."""
    end = FAR + 1 if begin == FAR else FAR if job.limit is None else begin + job.limit
    return Busy(begin, end, job.share)


def expected(
    hosts: Mapping[str, list[str]],
    running: Mapping[str, list[Busy]],
    jobs: Iterable[Wanted],
    now: int,
) -> dict[str, int]:
    """Return the start of each job, each at its earliest after those before it; FAR: unknown."""
    spans: Spans = {
        device: list(running.get(device, ())) for all_ in hosts.values() for device in all_
    }
    found = {}
    for job in jobs:
        start = first_start(hosts, spans, job, now)
        if start is not None:
            begin, devices = start
            for one in devices:
                spans[one].append(busy(job, begin))
            found[job.job] = begin
    return found


def first_start(
    hosts: Mapping[str, list[str]], spans: Spans, job: Wanted, now: int
) -> tuple[int, tuple[str, ...]] | None:
    last = max((one.end for some in spans.values() for one in some if one.end < FAR), default=0)
    for begin in (*range(now, max(now, last) + 1), FAR):
        end = FAR + 1 if job.limit is None or begin == FAR else begin + job.limit
        for devices in hosts.values():
            for chosen in combinations(devices, job.devices):
                if all(free(spans[one], begin, end, job.share) for one in chosen):
                    return begin, chosen
    return None
