"""Rings drawn for tests, as ``warren.solve`` takes them, and their dispatch once more in Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from warren.solve.rings.device_choice import DispatchOptions
from warren.solve.rings.timing import RingGangs, RingLinks, links, ring_times


@dataclass
class Case:
    gangs: RingGangs
    links: RingLinks
    fits_JT: Any
    weight_J: Any

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in np.diff(self.gangs.first_J)]


def drawn(draw: random.Random, jobs: int = 8, devices: int = 9, times: int = 40) -> Case:
    """Up to so many rings and devices of up to three types on up to four hosts."""
    count, hosts, types = draw.randint(1, devices), draw.randint(1, 4), draw.randint(1, 3)
    host_D = sorted(draw.randrange(hosts) for _ in range(count))
    type_D = [draw.randrange(types) for _ in range(count)]
    size, fits = [], []
    for _ in range(draw.randint(1, jobs)):
        fits.append([draw.random() < 0.8 or kind == type_D[0] for kind in range(types)])
        size.append(draw.randint(1, sum(fits[-1][kind] for kind in type_D)))
    number = len(size)
    rate = draw.choice([2e9, 3e8])
    slower = draw.choice([0.1, 0.6])
    gangs = RingGangs(
        first_J=np.append(0, np.cumsum(size)).astype(np.int64),
        ready_ns_J=np.array([draw.choice([0, 0, draw.randrange(600)]) for _ in size]),
        rounds_J=np.array([draw.randint(1, 9) for _ in size]),
        comp_ns_JT=np.array([[draw.randint(1, times) for _ in range(types)] for _ in size]),
        sync_ns_JT=np.array([[draw.randint(0, times) for _ in range(types)] for _ in size]),
        shared_J=np.array([draw.random() < 0.8] * number),
        sent_bytes_J=np.array([draw.choice([0.0, draw.random() * 30]) for _ in size]),
    )
    rates = [4e9] + [rate / (1 + slower * other) for other in range(count)]
    shape = links(type_D, host_D, hosts, rates, draw.choice([0.0, 2e-9]))
    weight_J = np.array([draw.choice([1.0, 1.0, 3.0]) for _ in size])
    return Case(gangs, shape, np.array(fits), weight_J)


def best_plan_ns(case: Case) -> int:
    """The least makespan of all orders and all devices."""
    kinds = case.links.type_D
    fitting = [
        [device for device, kind in enumerate(kinds) if case.fits_JT[job, kind]]
        for job in range(len(case.sizes))
    ]
    each = [list(combinations(fitting[job], size)) for job, size in enumerate(case.sizes)]
    return min(
        int(ring_times(case.gangs, case.links, np.array(order), np.concatenate(chosen)).max())
        for chosen in product(*each)
        for order in permutations(range(len(each)))
    )


@dataclass
class Running:
    devices: list[int]
    hosts: list[int]
    begin: int
    left: int
    comp: int
    span: int
    exchange: int = -1
    round: int = 0

    @property
    def end(self) -> int:
        return self.begin + (self.left * self.round if self.round else self.span)


@dataclass
class Dispatched:
    """What ``ring_dispatch`` says it does, in sets and sorted lists."""

    case: Case
    ways: DispatchOptions
    line: list[int]
    reserve: bool
    running: dict[int, Running] = field(default_factory=dict)
    begun: list[tuple[int, list[int]]] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ready = [int(time) for time in self.case.gangs.ready_ns_J]
        waiting, times = list(self.line), sorted(ready)
        while waiting or self.running:
            now = min([one.end for one in self.running.values()] + times)
            times = [time for time in times if time > now]
            for job in [job for job, one in self.running.items() if one.end == now]:
                self.ends[job] = now
                del self.running[job]
            waiting = self.look(now, waiting, ready)
            self.price(now, self.running)

    def look(self, now: int, waiting: list[int], ready: list[int]) -> list[int]:
        stay, kept, until = list[int](), list[int](), None
        for job in waiting:
            devices = None
            if ready[job] <= now and len(self.free()) > 0:
                late = until is not None and now + int(self.ways.span_ns_J[job]) > until
                devices = self.devices(job, set(kept), leave=late)
                if devices is not None:
                    self.start(job, devices, now)
                    kept = [device for device in kept if device not in devices]
                    continue
                if self.reserve and until is None:
                    kept, until = self.keep(job, now)
            stay.append(job)
        return stay

    def free(self) -> list[int]:
        taken = {device for one in self.running.values() for device in one.devices}
        return [device for device in range(len(self.case.links.host_D)) if device not in taken]

    def pace(self, job: int, device: int) -> int:
        return int(self.ways.pace_ns_JT[job, self.case.links.type_D[device]])

    def devices(self, job: int, kept: set[int], *, leave: bool) -> list[int] | None:
        size, host_D = self.case.sizes[job], self.case.links.host_D
        for level in sorted({self.pace(job, d) for d in range(len(host_D))} - {-1}):
            fit = [
                device for device in self.free()
                if 0 <= self.pace(job, device) <= level and not (leave and device in kept)
            ]  # fmt: skip
            by_host: dict[int, list[int]] = {}
            for device in sorted(fit, key=lambda device: (device in kept, device)):
                by_host.setdefault(int(host_D[device]), []).append(device)
            if len(fit) >= size:
                hosts = self.hosts(job, {host: len(held) for host, held in by_host.items()}, level)
                if hosts is None:
                    return None
                return [device for host in hosts for device in by_host[host]][:size]
        return None

    def hosts(self, job: int, room: dict[int, int], level: int) -> list[int] | None:
        size = self.case.sizes[job]
        whole = [(held, host) for host, held in room.items() if held >= size]
        if whole:
            return [min(whole)[1]]
        few, quiet = self.spread(size, room, quiet=False), self.spread(size, room, quiet=True)
        if not self.case.gangs.shared_J[job]:
            return few
        best = quiet if self.loss(job, quiet) < self.loss(job, few) else few
        slow = level + self.exchange(job, best) * 1e9 > self.ways.hop[0] * self.ways.least_ns_J[job]
        return None if slow and self.running else best

    def spread(self, size: int, room: dict[int, int], *, quiet: bool) -> list[int]:
        left, taken = size, list[int]()
        while left > 0:

            def key(host: int, left: int = left) -> tuple[int, ...]:
                held, crossed = room[host], self.crossed(host)
                enough = held >= left
                fit = (not enough, held if enough else -held)
                return (crossed, *fit, host) if quiet else (*fit, crossed, host)

            taken.append(min((host for host in room if host not in taken), key=key))
            left -= room[taken[-1]]
        return taken

    def crossed(self, host: int) -> int:
        shared = self.case.gangs.shared_J
        return sum(
            bool(shared[job]) and len(one.hosts) > 1 and host in one.hosts
            for job, one in self.running.items()
        )

    def exchange(self, job: int, hosts: list[int]) -> float:
        shape = self.case.links
        most = max(self.crossed(host) for host in hosts) + 1
        return float(
            self.case.gangs.sent_bytes_J[job] / shape.rate_P[most] + shape.host_s[0] * len(hosts)
        )

    def loss(self, job: int, hosts: list[int]) -> float:
        gangs, rate = self.case.gangs, self.case.links.rate_P
        total = self.exchange(job, hosts) * gangs.rounds_J[job] * self.case.sizes[job]
        for host in hosts:
            for other in self.on(host):
                one = self.running[other]
                if next(each for each in one.hosts if each in hosts) != host:
                    continue
                before = max(self.crossed(each) for each in one.hosts)
                after = max(self.crossed(each) + (each in hosts) for each in one.hosts)
                if after > before:
                    sent = gangs.sent_bytes_J[other]
                    added = sent / rate[after] - sent / rate[before]
                    total += added * one.left * self.case.sizes[other]
        return float(total)

    def on(self, host: int) -> list[int]:
        """Rings that cross a host, in the order of their first devices there."""
        first = {
            other: min(d for d in one.devices if self.case.links.host_D[d] == host)
            for other, one in self.running.items()
            if host in one.hosts and len(one.hosts) > 1 and self.case.gangs.shared_J[other]
        }
        return sorted(first, key=lambda other: first[other])

    def keep(self, job: int, now: int) -> tuple[list[int], int]:
        need, until = self.case.sizes[job], now
        free = [device for device in self.free() if self.pace(job, device) >= 0]
        for one in sorted(self.running.values(), key=lambda one: one.end):
            if need > len(free) or one.end == until:
                until = one.end
                need -= sum(self.pace(job, device) >= 0 for device in one.devices)
        return free[: max(0, need)], until

    def start(self, job: int, devices: list[int], now: int) -> None:
        shape, gangs = self.case.links, self.case.gangs
        comp = max(int(gangs.comp_ns_JT[job, shape.type_D[device]]) for device in devices)
        hosts = list(dict.fromkeys(int(shape.host_D[device]) for device in devices))
        rounds, span = int(gangs.rounds_J[job]), int(self.ways.span_ns_J[job])
        self.running[job] = Running(devices, hosts, now, rounds, comp, span)
        if len(hosts) == 1 or not gangs.shared_J[job]:
            self.price(now, {job: self.running[job]})
        self.begun.append((job, devices))

    def price(self, now: int, running: dict[int, Running]) -> None:
        shape, gangs = self.case.links, self.case.gangs
        for job, one in running.items():
            if gangs.shared_J[job]:
                most = max(self.crossed(host) for host in one.hosts) if len(one.hosts) > 1 else 0
                exchange_s = gangs.sent_bytes_J[job] / shape.rate_P[most]
                exchange = int(np.rint((exchange_s + shape.host_s[0] * len(one.hosts)) * 1e9))
            else:
                exchange = max(int(gangs.sync_ns_JT[job, shape.type_D[d]]) for d in one.devices)
            if exchange != one.exchange:
                if one.round:
                    begun = min(one.left, -((one.begin - now) // one.round))
                    one.begin, one.left = one.begin + begun * one.round, one.left - begun
                one.exchange, one.round = exchange, max(1, one.comp + exchange)
