"""What it costs to share links anew when one flow of 10,000 on 1,000 hosts begins or ends.

Jobs are rings over 2 to 8 hosts (one flow over the uplinks and downlinks of all), and parameter
servers: 2 to 16 workers and 1 to 4 servers, a pull or a push between each two. *racks*: a job is
within 25 hosts, so that a change reaches a rack at most. *near*: as racks, but one host of a ring
or of its servers may be anywhere, one time in twenty, which ties most flows to each other, but
loosely. *scattered*: all of a job is anywhere, so that all flows are tied, which is the worst case.
In one class, or in three with strict priority, drawn by job.

A change is one flow that ends, or one of a fresh job that begins; beside it, all flows of a job
that begin or end at one instant. What limits it: the call itself, which is that of a flow over no
link, and the rates that do change. Each link of theirs is looked at about once, so that a change
that reaches all flows takes about as long as all rates from scratch. Times are of the processor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from _ranges import median_s, report

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.flows.classes import FlowClasses, strict_classes
from warren.solve.flows.link_sharing import LinkSharing, NewFlow
from warren.solve.flows.max_min import max_min

HOSTS: Final = 1_000
FLOWS: Final = 10_000
RACK: Final = 25
STEPS: Final = 2_000
Changes: TypeAlias = tuple[list[int], IntArray]
NICS_BYTES_PER_S: Final = (1.25e9, 3.125e9, 1.25e10)


class Place(NamedTuple):
    """Jobs are on hosts of one group of this size; ``away``: how often one host is any other."""

    hosts: int
    away: float = 0.0


PLACES: Final = {
    "racks": Place(RACK),
    "near": Place(RACK, away=0.05),
    "scattered": Place(HOSTS),
}


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures = {"flow_call_ms": call_ms()}
    for name, place in PLACES.items():
        for classes in (1, 3):
            title = f"{name}_{classes}_class" + ("es" if classes > 1 else "")
            figures.update(measured(title, place, classes))
    report(figures)


def measured(title: str, place: Place, classes: int) -> dict[str, float]:
    """Print what changes cost; return the median and the 95th percentile of those of one flow."""
    draw = random.Random(1)
    jobs = [drawn_job(draw, place, classes)]
    while sum(map(len, jobs)) < FLOWS:
        jobs.append(drawn_job(draw, place, classes))
    nic = [draw.choice(NICS_BYTES_PER_S) for _ in range(HOSTS)]
    capacity_L = np.array(nic * 2)
    all_classes = strict_classes(classes + 1)
    sharing = LinkSharing(capacity_L, all_classes)
    numbers, _ = sharing.change(new=[flow for job in jobs for flow in job])
    scratch_ms = from_scratch_ms(capacity_L, [flow for job in jobs for flow in job], all_classes)
    live = list(numbers)
    one_ms: list[float] = []
    rates = []
    for _ in range(STEPS // 2):
        end = live.pop(draw.randrange(len(live)))
        _, changed = timed_ms(one_ms, lambda end=end: sharing.change(gone=[end]))
        rates.append(len(changed))
        begin = draw.choice(drawn_job(draw, place, classes))
        (added,), changed = timed_ms(one_ms, lambda begin=begin: sharing.change(new=[begin]))
        live.append(added)
        rates.append(len(changed))
    job_ms: list[float] = []
    for _ in range(STEPS // 20):
        job = drawn_job(draw, place, classes)
        added, _ = timed_ms(job_ms, lambda job=job: sharing.change(new=job))
        timed_ms(job_ms, lambda added=added: sharing.change(gone=added))
    p95_ms = float(np.percentile(one_ms, 95))
    print(
        f"{title}: one flow median {median(one_ms):.3f}, p95 {p95_ms:.3f}, worst {max(one_ms):.3f}"
        f" ms; rates that change: median {median(rates):.0f}, p95 {np.percentile(rates, 95):.0f},"
        f" most {max(rates)}; one job median {median(job_ms):.3f}, worst {max(job_ms):.3f} ms;"
        f" from scratch {scratch_ms:.2f} ms"
    )
    return {
        f"flow_change_ms_{title}": median(one_ms),
        f"flow_change_p95_ms_{title}": p95_ms,
    }


def drawn_job(draw: random.Random, place: Place, classes: int) -> list[NewFlow]:
    """The flows of one job: at least one."""
    first = draw.randrange(HOSTS // place.hosts) * place.hosts
    group = range(first, first + place.hosts)
    flow_class = draw.randint(1, classes)

    def hosts(count: int) -> list[int]:
        found = draw.sample(group, count)
        if draw.random() < place.away:
            found[-1] = draw.randrange(HOSTS)
        return sorted(set(found))

    if draw.random() < 0.4:
        ring = hosts(draw.randint(2, 8))
        return [NewFlow([*ring, *(HOSTS + host for host in ring)], flow_class)]
    workers = draw.choices(group, k=draw.randint(2, 16))
    servers = hosts(draw.randint(1, 4))
    pairs = [(a, b) for a in workers for b in servers if a != b]
    flows = []
    for worker, server in pairs or [(first, (first + 1) % HOSTS)]:
        sender, receiver = (server, worker) if draw.random() < 0.5 else (worker, server)
        flows.append(NewFlow([sender, HOSTS + receiver], flow_class))
    return flows


def timed_ms(times_ms: list[float], call: Callable[[], Changes]) -> Changes:
    """Make a call, and note its milliseconds."""
    begin = process_time()
    answer = call()
    times_ms.append(1000 * (process_time() - begin))
    return answer


def from_scratch_ms(
    capacity_L: FloatArray, flows: Sequence[NewFlow], classes: FlowClasses
) -> float:
    """Milliseconds of all rates from scratch."""
    first_F = np.cumsum([0, *(len(flow.links) for flow in flows)])
    link_C = np.array([link for flow in flows for link in flow.links])
    class_F = np.array([flow.flow_class for flow in flows])
    return 1000 * median_s(
        lambda: max_min(capacity_L, first_F, link_C, class_F, classes), process_time
    )


def call_ms() -> float:
    """Milliseconds of a change that shares nothing."""
    sharing = LinkSharing([1.0], strict_classes(2))
    flow, _ = sharing.add([], 1)
    times_ms: list[float] = []
    for _ in range(STEPS):
        timed_ms(times_ms, lambda: sharing.change(moved=[(flow, 1)]))
    return median(times_ms)


if __name__ == "__main__":
    main()
