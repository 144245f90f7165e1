"""Jobs that may come: those of the last week, from any point of the week on."""

from __future__ import annotations

import pytest
from queue_tools import BEN, NS, add, machine, service, start

from warren.serve.forecast import arrivals as arrivals_module
from warren.serve.forecast.arrivals import SPAN_S, Arrivals
from warren.serve.forecast.forward import play_forward
from warren.serve.records.jobs import Dependency, ServiceJob


def test_the_jobs_of_a_week_come_again_in_their_order_from_any_point() -> None:
    queue = service(machine("h", "A100"))
    for at_s in (0, 10, 40):
        add(queue, at_s=at_s, name=f"at-{at_s}")
    arrivals = Arrivals(queue, 100 * NS)

    def again(share: float) -> dict[str, float]:
        return {one.spec.name: one.time_ns / NS - 100 for one in arrivals.again(share)}

    assert again(0) == {"at-0": 0, "at-10": 10, "at-40": 40}
    assert again(0.3) == {"at-40": 10, "at-0": 70, "at-10": 80}
    late = Arrivals(queue, int((SPAN_S + 5) * NS))
    assert [one.spec.name for one in late.again(0)] == ["at-10", "at-40"]


def test_jobs_that_come_again_wait_for_nothing_and_have_new_ids() -> None:
    queue = service(machine("h", "A100"))
    first = add(queue)
    add(queue, held=True, key="k", after=(Dependency(first),))
    found = Arrivals(queue, NS).again(0.5)
    assert len({*queue.jobs, *(one.job for one in found)}) == 4
    for one in found:
        assert not one.spec.held
        assert not one.spec.after
        assert one.spec.key is None


def test_of_very_many_jobs_the_last_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "JOBS_MOST", 3)
    queue = service(machine("h", "A100"))
    for at_s in range(10):
        add(queue, at_s=at_s)
    found = Arrivals(queue, 10 * NS)
    assert len(found) == 3
    assert [one.time_ns / NS for one in found.again(0)] == [10, 11, 12]
    assert Arrivals(service(machine("h", "A100")), NS).again(0.5) == []


def test_a_job_of_higher_priority_that_comes_delays_one_that_waits() -> None:
    queue = service(machine("h", "A100"))
    add(queue, BEN, priority=5)
    start(queue)
    waits = add(queue, at_s=0)

    def length_s(job: ServiceJob, ran_s: float) -> float:
        return 100.0

    alone = play_forward(queue, 50 * NS, "strict", length_s)[waits]
    later = Arrivals(queue, 50 * NS).again(0)
    with_more = play_forward(queue, 50 * NS, "strict", length_s, later=later, until=waits)[waits]
    assert alone.begin_ns is not None
    assert with_more.begin_ns == alone.begin_ns + 100 * NS
