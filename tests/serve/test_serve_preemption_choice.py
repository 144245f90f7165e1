"""Which running jobs are asked to leave: only those that can come back, and no more than needed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fake_service import TestJournal, all_ended, daemon_of, fake_hosts, play, submit_one
from hypothesis import given
from hypothesis import strategies as st
from queue_tools import ANA, BEN, NS, ROOT, add, apply, end, machine, service, start

from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import Played
from warren.serve.hosts.port import StartOrder
from warren.serve.queue import requests
from warren.serve.queue.state import Queue
from warren.serve.records.events import PreemptAsked
from warren.serve.records.jobs import Resume, ServiceJob
from warren.serve.records.users import Caller, Quota
from warren.serve.schedule.known_lengths import progress_s
from warren.serve.schedule.policy_order import PlacePolicy
from warren.serve.schedule.preemption import RULES, PreemptionRules, candidates, preemptions

EXACT = Resume(certificate="exact")
HOUR = 3600


def asked(queue: Queue, at_s: float, rules: PreemptionRules = RULES) -> dict[str, str | None]:
    """Ask jobs to leave; each with the job that it is for."""
    found = preemptions(queue, round(at_s * NS), rules)
    apply(queue, found)
    return {one.job: one.for_job for one in found}


def leave(queue: Queue, job: str, at_s: float, **how: Any) -> None:
    end(queue, job, at_s, cause="preempt", saved=True, save_s=5.0, **how)


def running(queue: Queue, at_s: float = 0, **spec: Any) -> str:
    job = add(queue, at_s=at_s, **{"resume": EXACT, **spec})
    assert job in start(queue, at_s)
    return job


def test_a_job_of_higher_priority_takes_devices_from_one_that_can_come_back() -> None:
    queue = service(machine("h1", "H100"))
    low = running(queue)
    equal = add(queue)
    assert asked(queue, HOUR) == {}
    high = add(queue, BEN, priority=1)
    (event,) = preemptions(queue, HOUR * NS)
    assert event == PreemptAsked(
        time_ns=HOUR * NS,
        job=low,
        attempt=1,
        reason=f"job {high} of ben has a higher priority",
        for_job=high,
    )
    assert asked(queue, HOUR) == {low: high}
    assert asked(queue, HOUR + 1) == {}
    assert start(queue, HOUR + 1) == {}
    leave(queue, low, HOUR + 5)
    assert start(queue, HOUR + 5) == {high: ("h1/0",)}
    assert asked(queue, HOUR + 6) == {}
    end(queue, high, 2 * HOUR)
    assert queue.jobs[equal].state == "queued"


@pytest.mark.parametrize(
    "spec",
    [
        {"resume": None},
        {"resume": Resume(certificate="loses")},
        {"priority": 1},
        {"priority": 2},
        {"share": True},
    ],
)
def test_no_job_leaves_that_cannot_come_back_or_is_as_urgent(spec: dict[str, Any]) -> None:
    queue = service(machine("h1", "H100"))
    running(queue, **spec)
    add(queue, BEN, priority=1)
    assert asked(queue, HOUR) == {}


def test_no_job_leaves_before_the_minimum_run_or_more_often_than_the_limit_of_a_day() -> None:
    queue = service(machine("h1", "H100"))
    low = running(queue)
    add(queue, BEN, priority=1)
    assert asked(queue, 599) == {}
    at, times = 600.0, 0
    while times <= RULES.daily and (found := asked(queue, at)) != {}:
        assert list(found) == [low]
        times += 1
        leave(queue, low, at + 1)
        high = next(iter(start(queue, at + 1)))
        end(queue, high, at + 2)
        assert low in start(queue, at + 2)
        add(queue, BEN, priority=1)
        assert asked(queue, at + 3) == {}
        at += 1000
    assert times == RULES.daily
    assert asked(queue, at + 43_200) == {}
    assert list(asked(queue, 600 + 86_400)) == [low]
    assert candidates(queue, round((at + 90_000) * NS)) == []


def test_the_victims_cost_least_and_none_of_them_is_needless() -> None:
    queue = service(machine("h1", *["H100"] * 4), machine("h2", *["H100"] * 4))
    whole = running(queue, devices=4, resume=Resume(certificate="restarts"))
    parts = [
        running(queue, devices=count, resume=Resume(certificate=level))
        for count, level in ((1, "exact"), (1, None), (2, "equal order"))
    ]
    high = add(queue, BEN, priority=1, devices=3)
    assert asked(queue, HOUR) == {parts[0]: high, parts[2]: high}
    next_one = add(queue, BEN, priority=1, devices=2)
    # One device of the host that is left would come from a job without a certificate.
    assert asked(queue, HOUR) == {whole: next_one}


def test_of_equal_certificates_those_go_that_lose_least() -> None:
    queue = service(machine("h1", "H100", "H100"))
    older = running(queue, resume=Resume())
    newer = running(queue, 1000, resume=Resume())
    high = add(queue, BEN, priority=1)
    assert asked(queue, 3000) == {newer: high}
    end(queue, newer, 3001, cause="preempt", saved=False, lost_s=900.0)
    assert list(start(queue, 3001)) == [high]
    end(queue, high, 3002)
    assert list(start(queue, 3002)) == [newer]
    second = add(queue, BEN, priority=1)
    # It would lose 900 s again, as was measured, and the older job all of its time.
    assert asked(queue, 5000) == {newer: second}
    leave(queue, newer, 5001)
    start(queue, 5001)
    apply(queue, requests.cancel(queue, [second], ROOT, 0))
    end(queue, second, 5002, cause="cancel")
    start(queue, 5002)
    assert queue.jobs[older].state == "running"


def test_no_job_leaves_whose_devices_would_not_let_another_start() -> None:
    queue = service(machine("h1", "H100", "H100"), machine("h2", "H100"))
    fixed = running(queue, resume=None)
    host = queue.jobs[fixed].attempts[0].host
    assert host == "h2"
    stuck = running(queue, resume=None)
    low = running(queue)
    add(queue, BEN, priority=1, devices=2)
    assert asked(queue, HOUR) == {}
    end(queue, stuck, HOUR)
    assert start(queue, HOUR) == {}
    apply(queue, requests.drain(queue, "h1", "h1/0", "fan", ROOT, 0))
    assert asked(queue, HOUR) == {}
    apply(queue, requests.undrain(queue, "h1", "h1/0", ROOT, 0))
    assert list(asked(queue, HOUR)) == [low]


def test_devices_that_come_free_anyway_are_waited_for() -> None:
    queue = service(machine("h1", "H100", "H100"))
    first, second = running(queue), running(queue)
    apply(queue, requests.cancel(queue, [first], ROOT, HOUR * NS))
    one, two = add(queue, BEN, priority=1), add(queue, BEN, priority=1)
    assert asked(queue, HOUR) == {second: two}
    assert queue.jobs[one].state == "queued"


def test_a_full_quota_asks_jobs_to_leave_that_count_for_it() -> None:
    queue = service(machine("h1", "H100", "H100"))
    apply(queue, requests.set_quota(queue, Quota("user:ben", "gpu", 1), ROOT, 0))
    running(queue)
    own = add(queue, BEN, resume=EXACT)
    assert own in start(queue)
    high = add(queue, BEN, priority=1)
    assert asked(queue, HOUR) == {own: high}
    leave(queue, own, HOUR + 1)
    assert list(start(queue, HOUR + 1)) == [high]
    # No job of others leaves for a job that its quota keeps.
    add(queue, BEN, priority=2)
    assert asked(queue, HOUR + 2) == {}


def test_a_host_that_an_earlier_job_waits_for_is_kept_for_it() -> None:
    queue = service(machine("h1", *["H100"] * 2))
    running(queue, resume=None)
    low = running(queue)
    large = add(queue, BEN, priority=2, devices=2)
    small = add(queue, BEN, priority=1)
    assert asked(queue, HOUR) == {}
    apply(queue, requests.cancel(queue, [large], ROOT, 0))
    assert asked(queue, HOUR) == {low: small}


def preferring(policy: str, *types: str) -> Queue:
    queue = service(machine("h1", *types or ("H100",)))
    queue.policy = PlacePolicy(policy)
    return queue


@pytest.mark.parametrize("policy", ["gittins", "srtf", "hlas", "las-2d"])
def test_a_policy_takes_devices_back_for_a_job_that_it_prefers(policy: str) -> None:
    queue = preferring(policy)
    long = running(queue, time_limit_s=50_000.0, command=("long",))
    short = add(queue, time_limit_s=300.0, command=("short",))
    assert asked(queue, 590) == {}
    found = asked(queue, 10_000)
    assert found == {long: short}
    assert (
        queue.jobs[long].attempts[0].preempt_reason == f"job {short} of ana goes first by {policy}"
    )
    leave(queue, long, 10_001)
    assert list(start(queue, 10_001)) == [short]
    # It does not take them back within the minimum run of the job that it left them for.
    assert asked(queue, 10_500) == {}


@pytest.mark.parametrize("policy", ["fifo", "gavel-fifo", "sched-homo", "braid-online"])
def test_a_policy_whose_jobs_keep_their_devices_takes_none_back(policy: str) -> None:
    queue = preferring(policy)
    long = running(queue, time_limit_s=50_000.0)
    add(queue, time_limit_s=300.0)
    assert asked(queue, HOUR) == {}
    urgent = add(queue, BEN, priority=1, time_limit_s=300.0)
    assert asked(queue, HOUR) == {long: urgent}


def test_a_policy_leaves_a_job_alone_that_would_lose_too_much_and_a_priority_does_not() -> None:
    queue = preferring("srtf")
    long = running(queue, time_limit_s=50_000.0, command=("long",), resume=Resume())
    add(queue, time_limit_s=300.0, command=("short",))
    assert asked(queue, 1900) == {}
    assert list(asked(queue, 1900, RULES._replace(loss_s=2000.0))) == [long]
    queue = preferring("srtf")
    long = running(queue, time_limit_s=50_000.0, command=("long",), resume=Resume())
    high = add(queue, time_limit_s=300.0, command=("short",), priority=1)
    assert asked(queue, 1900) == {long: high}


def test_a_policy_takes_no_devices_from_a_job_that_it_would_run_beside_the_other() -> None:
    queue = preferring("srtf", "H100", "H100")
    middle = running(queue, time_limit_s=9_000.0, command=("middle",))
    long = running(queue, time_limit_s=50_000.0, command=("long",), resume=Resume(certificate=None))
    short = add(queue, time_limit_s=300.0, command=("short",))
    assert asked(queue, 1000) == {long: short}
    assert queue.jobs[middle].attempts[0].preempt_ns is None


# Drawn queues

LEVELS = st.sampled_from(["exact", "equal order", "restarts", "loses", None])
RUNNING = st.tuples(st.integers(1, 3), st.integers(0, 1), st.booleans(), LEVELS, st.integers(0, 5))
WAITING = st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from([ANA, BEN]))


@given(
    st.lists(RUNNING, max_size=7),
    st.lists(WAITING, min_size=1, max_size=3),
    st.sampled_from([None, "gittins", "srtf"]),
    st.sampled_from([None, 2, 4]),
)
def test_victims_of_drawn_queues_can_come_back_and_let_a_job_start(
    ran: list[tuple[int, int, bool, Any, int]],
    waits: list[tuple[int, int, Caller]],
    policy: str | None,
    quota: int | None,
) -> None:
    queue = service(machine("h1", *["H100"] * 4), machine("h2", *["A100"] * 3))
    queue.policy = None if policy is None else PlacePolicy(policy)
    if quota is not None:
        apply(queue, requests.set_quota(queue, Quota("each", "gpu", quota), ROOT, 0))
    for devices, priority, comes_back, level, at in ran:
        resume = Resume(certificate=level) if comes_back else None
        add(queue, at_s=at * 200, devices=devices, priority=priority, resume=resume)
        start(queue, at * 200)
    now_s = 1200.0
    for devices, priority, caller in waits:
        add(queue, caller, now_s, devices=devices, priority=priority)
    start(queue, now_s)
    found = preemptions(queue, round(now_s * NS))
    for one in found:
        job = queue.jobs[one.job]
        resume, attempt = job.spec.resume, job.attempts[-1]
        assert resume is not None
        assert resume.certificate != "loses"
        assert attempt.started_ns is not None
        assert now_s * NS - attempt.started_ns >= RULES.minimum_s * NS
        assert one.for_job is not None
        target = queue.jobs[one.for_job]
        assert job.priority < target.priority or (policy and job.priority == target.priority)
    targets = list(dict.fromkeys(one.for_job for one in found))
    if not targets:
        return
    apply(queue, found)
    assert preemptions(queue, round(now_s * NS)) == []
    first = [one.job for one in found if one.for_job == targets[0]]
    for job in first[1:]:
        leave(queue, job, now_s + 1)
    # Without any one of its victims the job does not start.
    assert targets[0] not in start(queue, now_s + 1)
    for job in [first[0], *(one.job for one in found if one.job not in first)]:
        leave(queue, job, now_s + 2)
    assert targets[0] in start(queue, now_s + 2)


# In the daemon

TOTAL_S = {"long": 9000.0, "middle": 2000.0, "short": 120.0}


def left_of(daemon: list[Daemon], order: StartOrder) -> Played:
    """What an attempt has left to run: its job goes on from where it was saved."""
    job: ServiceJob = daemon[0].queue.jobs[order.environment["WARREN_JOB_ID"]]
    return Played(max(1.0, TOTAL_S[order.command[0]] - progress_s(job, 0)), stop_s=4.0)


@pytest.mark.parametrize("policy", [None, "gittins", "srtf"])
def test_preempted_jobs_of_a_service_all_end_within_the_limits(
    policy: str | None, tmp_path: Path
) -> None:
    daemons: list[Daemon] = []

    async def main() -> list[ServiceJob]:
        hosts = fake_hosts(devices=2, plays=lambda order: left_of(daemons, order))
        daemon = daemon_of(
            TestJournal(tmp_path / "queue.db"),
            hosts,
            policy=None if policy is None else PlacePolicy(policy),
            preempts=RULES,
            tick_s=150.0,
        )
        daemons.append(daemon)
        await daemon.start()
        for at, (kind, count, priority) in enumerate(
            [("long", 1, 0), ("long", 2, 0), ("middle", 1, 0), ("short", 1, 1), ("short", 1, 0),
             ("middle", 2, 1), ("short", 1, 0), ("short", 2, 2)]
        ):  # fmt: skip
            submit_one(daemon, command=(kind,), devices=count, priority=priority, resume=EXACT,
                       time_limit_s=TOTAL_S[kind] + 100)  # fmt: skip
            await asyncio.sleep(100.0 * at)
        jobs = await all_ended(daemon)
        await daemon.stop()
        assert hosts.clashes == []
        return jobs

    jobs = play(main())
    assert [job.state for job in jobs] == ["finished"] * len(jobs)
    left = [attempt for job in jobs for attempt in job.attempts if attempt.cause == "preempt"]
    assert left
    for attempt in left:
        assert attempt.preempt_ns is not None
        assert attempt.started_ns is not None
        assert attempt.preempt_ns - attempt.started_ns >= RULES.minimum_s * NS
    for job in jobs:
        assert sum(one.cause == "preempt" for one in job.attempts) <= RULES.daily
        assert progress_s(job, 0) == pytest.approx(TOTAL_S[job.spec.command[0]], abs=1.5)


def test_no_job_is_preempted_unless_the_service_is_to(tmp_path: Path) -> None:
    daemons: list[Daemon] = []

    async def main() -> list[ServiceJob]:
        hosts = fake_hosts(devices=1, plays=lambda order: left_of(daemons, order))
        daemon = daemon_of(TestJournal(tmp_path / "queue.db"), hosts)
        daemons.append(daemon)
        await daemon.start()
        submit_one(daemon, command=("long",), resume=EXACT)
        await asyncio.sleep(1000)
        submit_one(daemon, command=("short",), priority=5)
        jobs = await all_ended(daemon)
        await daemon.stop()
        return jobs

    assert [len(job.attempts) for job in play(main())] == [1, 1]
