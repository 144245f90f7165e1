"""What must hold of bytes on links, whatever the times are: conserved, bounded, strict, fair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from fluid_model import Assigned, Interval, Model

CLOSE = 1e-9


def broken_rates(model: Model, interval: Interval) -> Iterator[str]:
    """What is wrong with the rates of an interval.

    A rate is right if and only if its flow takes all it can, or one of its links is full of flows
    that are not of later ranks, of which none of its own rank has a higher level (Bertsekas and
    Gallager, Data Networks, 6.5.2).
    """
    load: dict[int, float] = defaultdict(float)
    ranked: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    rows = []
    for links, kind, most, rate, job in interval.flows:
        rank = kind if model.weights is None else min(kind, 1)
        weight = 1.0 if model.weights is None or not kind else model.weights[kind - 1]
        rows.append((links, rank, most, rate, rate / weight, job))
        for link in links:
            load[link] += rate
            ranked[link, rank].append((rate, rate / weight))
    for link, rate in load.items():
        if rate > model.up[link // 2] * (1 + CLOSE):
            yield f"link {link} carries {rate} of {model.up[link // 2]}"
    for links, rank, most, rate, level, job in rows:
        if rate >= most * (1 - CLOSE):
            continue
        limits = [
            link
            for link in links
            if sum(one for k in range(rank + 1) for one, _ in ranked.get((link, k), ()))
            >= model.up[link // 2] * (1 - CLOSE)
            and level >= max(one for _, one in ranked[link, rank]) * (1 - CLOSE)
        ]
        if not limits:
            yield f"a flow of job {job} could have more than {rate}"


def passed_bytes(intervals: Iterable[Interval]) -> dict[tuple[int, int], float]:
    """Bytes by (link, job)."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for interval in intervals:
        for links, _, _, rate, job in interval.flows:
            for link in links:
                found[link, job] += rate * (interval.end_ns - interval.begin_ns)
    return found


def placed_bytes(model: Model, assigned: Sequence[Assigned]) -> dict[tuple[int, int], float]:
    """Bytes by (link, job) as placement alone says: rounds times the bytes of a round.

    Each device gets the state of a round once, each task is pushed, the first server gets what the
    others have where a round is evaluated and behind the last one, and a ring on several hosts goes
    once over the links of each.
    """
    found: dict[tuple[int, int], float] = defaultdict(float)
    gangs: dict[tuple[int, int], set[int]] = defaultdict(set)
    pulled = set[tuple[int, int, int]]()
    for one in assigned:
        job, here = model.jobs[one.job], model.host_D[one.device]
        for round_ in range(one.round, min(job.rounds, one.round + one.rounds)):
            gangs[one.job, round_].add(here)
            pulls = (one.device, one.job, round_) not in pulled
            pulled.add((one.device, one.job, round_))
            for server, size in zip(job.server_hosts, job.server_bytes, strict=True):
                if server != here:
                    found[2 * server, one.job] += size * pulls
                    found[2 * here + 1, one.job] += size * pulls
                    found[2 * here, one.job] += size * len(one.shards)
                    found[2 * server + 1, one.job] += size * len(one.shards)
    for (job_index, round_), hosts in gangs.items():
        job = model.jobs[job_index]
        gathered = zip(job.server_hosts, job.server_bytes, strict=True)
        for server, size in gathered if job.is_gathered(round_ + 1) else ():
            if server != job.server_hosts[0]:
                found[2 * server, job_index] += size
                found[2 * job.server_hosts[0] + 1, job_index] += size
        sent = job.ring_bytes
        if sent and len(hosts) > 1:
            for host in hosts:
                found[2 * host, job_index] += sent
                found[2 * host + 1, job_index] += sent
    return found


def unlike(
    one: dict[tuple[int, int], float],
    other: dict[tuple[int, int], float],
    close: float,
    bytes_: float = 1e-3,
) -> Iterator[str]:
    """Where two counts of bytes differ by more than ``close``, a part of each, and ``bytes_``."""
    for key in sorted({*one, *other}):
        here, there = one.get(key, 0.0), other.get(key, 0.0)
        if abs(here - there) > close * max(here, there) + bytes_:
            yield f"link {key[0]}, job {key[1]}: {here} and {there} bytes"
