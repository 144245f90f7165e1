"""Backfill: no expected start of a job moves later because another overtakes it."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytest
from backfill_model import FAR, Busy, Wanted, busy, expected, first_start
from hypothesis import given
from hypothesis import strategies as st

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import AgentJoined, CommandEnded, CommandStarted
from warren.serve.queue.reports import events_of
from warren.serve.queue.requests import set_quota, submit
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import CommandSpec, JobState, ServiceJob, Submission, attempt_id
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.records.users import Caller, Quota
from warren.serve.schedule.decide import RESERVED_MOST, SchedulePass, decide
from warren.serve.schedule.timetable import UNKNOWN_NS

ANA, ROOT = Caller("ana"), Caller("root", "admin")


def apply(queue: Queue, events: Sequence[AnyEvent]) -> None:
    for event in events:
        queue.apply(event)


def service(*sizes: int) -> Queue:
    """A queue with hosts of so many GPUs."""
    queue = Queue()
    for place, size in enumerate(sizes):
        devices = tuple(HostDevice(f"h{place}g{k}", "gpu", "H100") for k in range(size))
        machine = Machine(f"h{place}", devices, "b", 8, 1, "cgroup", "1")
        apply(queue, events_of(queue, AgentJoined(machine, ()), 0))
    return queue


def add(queue: Queue, now_s: int = 0, user: str = "ana", **spec: object) -> str:
    wanted = {"command": ("true",), "folder": "/", **spec}
    made = Submission(CommandSpec(**wanted))  # type: ignore[arg-type]
    submitted = submit(queue, [made], Caller(user), now_s * NS_PER_S)
    apply(queue, submitted.events)
    return submitted.answers[0].id


def start(queue: Queue, now_s: int, order: str = "backfill") -> list[str]:
    """Start what starts now; its commands run at once."""
    begun = decide(queue, now_s * NS_PER_S, order)  # type: ignore[arg-type]
    apply(queue, begun)
    for one in begun:
        name = attempt_id(one.job, one.attempt)
        report = CommandStarted(one.host, name, now_s * NS_PER_S)
        apply(queue, events_of(queue, report, now_s * NS_PER_S))
    return [one.job for one in begun]


def end(queue: Queue, job: str, now_s: int) -> None:
    attempt = queue.jobs[job].attempts[-1]
    name = attempt_id(job, attempt.number)
    report = CommandEnded(attempt.host, name, now_s * NS_PER_S, "exit", 0)
    apply(queue, events_of(queue, report, now_s * NS_PER_S))


def expected_s(queue: Queue, now_s: int) -> dict[str, int]:
    """Expected starts of the jobs that cannot start now, as the service finds them."""
    one_pass = SchedulePass(queue, now_s * NS_PER_S, "backfill")
    one_pass.run(to_the_end=True)
    return {job: seconds(start.begin_ns) for job, start in one_pass.expected.items()}


def seconds(time_ns: int) -> int:
    return FAR if time_ns == UNKNOWN_NS else time_ns // NS_PER_S


def hosts_of(queue: Queue) -> dict[str, list[str]]:
    return {name: list(state.devices) for name, state in queue.machines.items()}


def spans(queue: Queue, now_s: int, but: AbstractSet[str] = frozenset()) -> dict[str, list[Busy]]:
    """Devices of running jobs but some, each with when it is expected to be free."""
    found: dict[str, list[Busy]] = {}
    for name in queue.running:
        job = queue.jobs[name]
        attempt = job.attempts[-1]
        assert attempt.started_ns is not None
        until = FAR
        if job.spec.time_limit_s is not None:
            until = attempt.started_ns // NS_PER_S + int(job.spec.time_limit_s)
        for device in attempt.devices if name not in but else ():
            span = Busy(now_s, max(until, now_s + 1), job.spec.share)
            found.setdefault(device, []).append(span)
    return found


def wanted(job: ServiceJob) -> Wanted:
    limit = job.spec.time_limit_s
    return Wanted(job.id, job.spec.devices, None if limit is None else int(limit), job.spec.share)


drawn_jobs = st.lists(
    st.fixed_dictionaries(
        {
            "devices": st.integers(1, 3),
            "time_limit_s": st.sampled_from([None, 1.0, 2.0, 3.0, 5.0]),
            "share": st.sampled_from([False, False, True]),
        }
    ),
    max_size=7,
)
drawn_hosts = st.sampled_from([(2,), (3,), (2, 1), (2, 3), (2, 2)])


@given(sizes=drawn_hosts, first=drawn_jobs, second=drawn_jobs)
def test_no_job_before_it_is_expected_later_for_a_job_that_overtakes(
    sizes: tuple[int, ...], first: list[dict[str, object]], second: list[dict[str, object]]
) -> None:
    queue = service(*sizes)
    size = max(sizes)
    for spec in first:
        add(queue, **{**spec, "devices": min(size, int(str(spec["devices"])))})
    start(queue, 0)
    for spec in second:
        add(queue, 1, **{**spec, "devices": min(size, int(str(spec["devices"])))})
    waiting = [job for job in queue.jobs.values() if job.state is JobState.QUEUED]
    began = start(queue, 1)
    after = spans(queue, 1)
    for place, job in enumerate(waiting):
        # What is expected of the jobs up to this one if no job behind it starts now.
        if job.id in began:
            continue
        ahead = [one for one in waiting[:place] if one.id not in began]
        overtaken = {one.id for one in waiting[place + 1 :]} & set(began)
        before = spans(queue, 1, overtaken)
        still = [wanted(one) for one in (*ahead, job)]
        found = expected(hosts_of(queue), before, still, 1).get(job.id, FAR)
        assert expected(hosts_of(queue), after, still, 1).get(job.id, FAR) <= found


@given(sizes=drawn_hosts, jobs=drawn_jobs, more=drawn_jobs)
def test_expected_starts_are_those_that_brute_force_finds(
    sizes: tuple[int, ...], jobs: list[dict[str, object]], more: list[dict[str, object]]
) -> None:
    queue = service(*sizes)
    for spec in jobs:
        add(queue, **{**spec, "devices": 1, "share": False})
    start(queue, 0)
    for spec in more:
        add(queue, **{**spec, "devices": min(max(sizes), int(str(spec["devices"])))})
    found = {
        device: spans(queue, 0).get(device, [])
        for one in hosts_of(queue).values()
        for device in one
    }
    one_pass = SchedulePass(queue, 0, "backfill")
    one_pass.run(to_the_end=True)
    begun = {one.job: one.devices for one in one_pass.begun}
    for job in queue.jobs.values():
        if job.state is not JobState.QUEUED:
            continue
        begin, devices = 0, begun.get(job.id, ())
        if job.id not in begun:
            brute = first_start(hosts_of(queue), found, wanted(job), 0)
            mine = one_pass.expected.get(job.id)
            assert (brute is None) == (mine is None)
            if brute is None or mine is None:
                continue
            begin, devices = brute
            assert begin == seconds(mine.begin_ns)
        for one in devices:
            found[one].append(busy(wanted(job), begin))


@given(sizes=drawn_hosts, jobs=drawn_jobs, more=drawn_jobs)
def test_a_job_starts_no_later_than_ever_expected_when_jobs_end_at_their_limits(
    sizes: tuple[int, ...], jobs: list[dict[str, object]], more: list[dict[str, object]]
) -> None:
    """Whatever comes after it, and overtakes it: one user, equal priorities."""
    queue = service(*sizes)
    late = list(more)
    for spec in jobs:
        add_limited(queue, 0, spec, max(sizes))
    expected_first: dict[str, int] = {}
    for now_s in range(100):
        for name in list(queue.running):
            job = queue.jobs[name]
            began = job.attempts[-1].started_ns
            assert began is not None
            if began // NS_PER_S + (job.spec.time_limit_s or 0) <= now_s:
                end(queue, name, now_s)
        if late:
            add_limited(queue, now_s, late.pop(), max(sizes))
        for name in start(queue, now_s):
            assert now_s <= expected_first.get(name, FAR)
        for name, at in expected_s(queue, now_s).items():
            expected_first[name] = min(at, expected_first.get(name, FAR))
    assert all(job.state is JobState.FINISHED for job in queue.jobs.values())


def add_limited(queue: Queue, now_s: int, spec: dict[str, object], most: int) -> None:
    """Submit a drawn job that fits, with a time limit."""
    devices = min(most, int(str(spec["devices"])))
    add(queue, now_s, **{**spec, "devices": devices, "time_limit_s": spec["time_limit_s"] or 4.0})


def test_a_short_job_overtakes_and_a_long_one_does_not() -> None:
    queue = service(2)
    add(queue, time_limit_s=10.0)
    assert start(queue, 0) == ["1"]
    add(queue, devices=2, time_limit_s=10.0)
    long, short = add(queue, time_limit_s=11.0), add(queue, time_limit_s=10.0)
    unlimited = add(queue)
    assert start(queue, 0) == [short]
    assert expected_s(queue, 0) == {"2": 10, long: 20, unlimited: 20}


def test_under_strict_no_job_overtakes_for_the_devices_that_another_waits_for() -> None:
    queue = service(2)
    add(queue, time_limit_s=10.0)
    start(queue, 0, "strict")
    add(queue, devices=2, time_limit_s=10.0)
    add(queue, time_limit_s=1.0)
    assert start(queue, 0, "strict") == []


def test_a_job_without_a_limit_holds_back_others_without_one_and_no_short_job() -> None:
    queue = service(2)
    add(queue)
    start(queue, 0)
    add(queue, devices=2)
    unlimited, short = add(queue), add(queue, time_limit_s=5.0)
    assert start(queue, 0) == [short]
    assert expected_s(queue, 0)["2"] == FAR
    end(queue, short, 1)
    assert start(queue, 1) == []
    end(queue, "1", 2)
    assert start(queue, 2) == ["2"]
    assert queue.jobs[unlimited].state is JobState.QUEUED


def test_the_room_of_a_quota_is_kept_as_devices_are() -> None:
    queue = service(4, 4)
    apply(queue, set_quota(queue, Quota("user:ana", "gpu", 2), ROOT, 0))
    first = add(queue, time_limit_s=10.0)
    assert start(queue, 0) == [first]
    both = add(queue, devices=2, time_limit_s=10.0)
    long, short = add(queue, time_limit_s=11.0), add(queue, time_limit_s=9.0)
    other = add(queue, user="ben")
    assert sorted(start(queue, 0)) == sorted([short, other])
    found = expected_s(queue, 0)
    assert found[both] == 10
    assert found[long] == 20


def test_only_so_many_jobs_have_an_expected_start() -> None:
    queue = service(1)
    add(queue, time_limit_s=10.0)
    start(queue, 0)
    for _ in range(RESERVED_MOST + 5):
        add(queue, time_limit_s=1.0)
    found = expected_s(queue, 0)
    assert list(found.values()) == pytest.approx(range(10, 10 + RESERVED_MOST))
