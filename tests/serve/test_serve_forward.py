"""A queue played forward against a daemon over fake hosts in played time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from fake_service import TestJournal, all_ended, daemon_of, fake_hosts, play, submit_one
from forecast_tools import drawn_queue
from queue_tools import BEN, NS, ROOT, add, add_array, apply, machine, service, start
from test_serve_queue_model import picture

from warren.model.units import NS_PER_S
from warren.serve.forecast.copies import copied
from warren.serve.forecast.device_times import QuotaTimes, _Steps
from warren.serve.forecast.forward import JobForecast, play_forward
from warren.serve.forecast.remaining import by_limits
from warren.serve.hosts.fake import Played
from warren.serve.hosts.port import StartOrder
from warren.serve.queue import requests
from warren.serve.queue.requests import set_quota
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import JobGroup
from warren.serve.records.events import Drained, PreemptAsked
from warren.serve.records.jobs import Dependency, JobState, Resume, ServiceJob
from warren.serve.records.users import Caller, Quota
from warren.serve.schedule.decide import Order, decide

ORDERS: list[Order] = ["strict", "backfill"]
USERS = [Caller("ana"), Caller("ben"), Caller("eve")]


def starts(queue: Queue, order: Order, at_s: float = 0, **more: Any) -> dict[str, float | None]:
    """Expected starts in seconds."""
    found = play_forward(queue, int(at_s * NS), order, **more)
    return {
        job: None if one.begin_ns is None else one.begin_ns / NS
        for job, one in found.items()
        if queue.jobs[job].state is not JobState.RUNNING
    }


# Copies


def test_a_copy_has_the_same_state_and_what_happens_to_it_leaves_the_original_alone() -> None:
    for seed in range(8):
        queue = drawn_queue(seed)
        before = repr(picture(queue))
        copy = copied(queue)
        live = {job.id: job for job in queue.jobs.values() if job.ended_ns is None}
        assert {one: copy.jobs[one] for one in live} == live
        assert all(job.ended_ns is None for job in copy.jobs.values())
        for order in ORDERS:
            assert decide(copy, 200 * NS, order) == decide(queue, 200 * NS, order)
        for name in copy.machines:
            apply(copy, requests.undrain(copy, name, None, ROOT, 0))
        apply(copy, requests.cancel(copy, list(live), ROOT, 100 * NS))
        start(copy, 200)
        apply(copy, set_quota(copy, Quota("each", "any", 1), ROOT, 0))
        assert repr(picture(queue)) == before


def test_the_first_jobs_of_groups_are_known_by_priority_and_user() -> None:
    draw = Random(3)
    queue = service(machine("h1", "H100"))
    for _ in range(200):
        waits = [job for job in queue.jobs.values() if not job.state.ended]
        if draw.random() < 0.5 or not waits:
            add(queue, draw.choice(USERS), devices=1, priority=draw.randint(0, 1),
                time_limit_s=draw.choice([1.0, 2.0]), held=draw.random() < 0.5)  # fmt: skip
        else:
            job = draw.choice(waits)
            change = draw.choice([requests.cancel, requests.hold, requests.release])
            apply(queue, change(queue, [job.id], ROOT, 0))
        found: dict[int, dict[str, list[tuple[int, JobGroup]]]] = {}
        for group, orders in queue.waiting.groups.items():
            users = found.setdefault(group.priority, {})
            users.setdefault(group.user, []).append((orders[0], group))
        for users in found.values():
            for heads in users.values():
                heads.sort()
        assert queue.waiting.heads == found


# Against the daemon


def drawn_jobs(draw: Random, users: list[Caller], count: int) -> list[dict[str, Any]]:
    """Jobs with the time that they take, which no two share, in ``folder``."""
    jobs = []
    for index in range(count):
        length = draw.randint(5, 400) + index / 128
        jobs.append(
            {
                "caller": draw.choice(users),
                "devices": draw.choice([1, 1, 1, 2, 3, 4]),
                "folder": f"/{length}",
                "time_limit_s": length * draw.choice([1, 1, 2, 8]),
                "priority": draw.choice([0, 0, 0, 1]),
                "share": draw.random() < 0.15,
                "after": (Dependency(str(draw.randint(1, index)), "any"),)
                if index and draw.random() < 0.15
                else (),
            }
        )
    return jobs


def length_s(job: ServiceJob, ran_s: float) -> float:
    return max(0.0, float(job.spec.folder[1:]) - ran_s)


def came_true(
    folder: Path, order: Order, jobs: list[dict[str, Any]], at_s: float = 30.0
) -> list[tuple[JobForecast, ServiceJob]]:
    """Submit jobs to a daemon, forecast at a time, and return each forecast with what came."""

    async def main() -> list[tuple[JobForecast, ServiceJob]]:
        def plays(start: StartOrder) -> Played:
            return Played(float(start.folder[1:]))

        hosts = fake_hosts(count=3, devices=4, plays=plays)
        with TestJournal(folder / "queue.db") as journal:
            # Without looks between ends, at which the order of users may have changed.
            daemon = daemon_of(journal, hosts, order=order, tick_s=1e9)
            await daemon.start()
            await asyncio.sleep(0.25)
            for job in jobs:
                submit_one(daemon, **job)
            await asyncio.sleep(at_s)
            queue = daemon.queue
            now_ns = daemon.now_ns()
            found = play_forward(queue, now_ns, order, length_s)
            live = [one for one in queue.jobs if queue.jobs[one].state is JobState.QUEUED]
            await all_ended(daemon)
            await daemon.stop()
            return [(found[one], queue.jobs[one]) for one in live]

    return play(main())


def test_under_strict_each_start_and_end_comes_as_it_was_played(tmp_path: Path) -> None:
    count = 0
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for forecast, job in came_true(folder, "strict", drawn_jobs(Random(seed), USERS, 40)):
            assert forecast.begin_ns is not None
            assert abs(forecast.begin_ns - job.attempts[-1].begun_ns) < NS_PER_S // 1000
            assert abs((forecast.end_ns or 0) - (job.ended_ns or 0)) < NS_PER_S // 1000
            count += 1
    assert count > 100


def test_under_backfill_a_few_jobs_of_one_user_that_take_their_limits_start_as_planned(
    tmp_path: Path,
) -> None:
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        jobs = drawn_jobs(Random(seed), USERS[:1], 25)
        for job in jobs:
            job["time_limit_s"] = float(job["folder"][1:]) + 1e-4
            job["after"] = ()
        for forecast, job in came_true(folder, "backfill", jobs):
            assert forecast.begin_ns is not None
            assert abs(forecast.begin_ns - job.attempts[-1].begun_ns) < NS_PER_S // 10


BACKFILL_ERROR = 0.1
"""Largest median error of a planned start that is allowed, as a share of the longest wait."""


def test_under_backfill_the_plan_is_near_what_comes_also_for_other_lengths_and_users(
    tmp_path: Path,
) -> None:
    errors = []
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found = came_true(folder, "backfill", drawn_jobs(Random(seed), USERS, 80))
        begun = [job.attempts[-1].begun_ns for _, job in found]
        longest_ns = max(begun) - min(begun)
        for forecast, job in found:
            assert forecast.begin_ns is not None
            errors.append(abs(forecast.begin_ns - job.attempts[-1].begun_ns) / longest_ns)
    assert len(errors) > 150
    assert median(errors) < BACKFILL_ERROR


# What is honored


@pytest.mark.parametrize("order", ORDERS)
def test_jobs_start_when_those_before_them_end(order: Order) -> None:
    queue = service(machine("h1", "H100", "H100"))
    add(queue, time_limit_s=100.0)
    start(queue, 0, order)
    two = add(queue, devices=2, time_limit_s=50.0)
    one, last = add(queue, time_limit_s=500.0), add(queue, time_limit_s=10.0)
    # A short job overtakes under backfill.
    want = {two: 100.0, one: 150.0, last: 150.0 if order == "strict" else 20.0}
    assert starts(queue, order, 20) == want


@pytest.mark.parametrize("order", ORDERS)
def test_held_jobs_and_those_behind_jobs_that_never_end_have_no_forecast(order: Order) -> None:
    queue = service(machine("h1", "H100"), machine("h2", "A100"))
    endless = add(queue, device_type="H100")
    start(queue, 0, order)
    behind, held = add(queue, device_type="H100", time_limit_s=5.0), add(queue, held=True)
    after_held, after = add(queue, after=(Dependency(held),)), add(queue, after=(Dependency("1"),))
    free = add(queue, device_type="A100", time_limit_s=5.0)
    found = play_forward(queue, 10 * NS, order)
    assert found[endless] == (0, None)
    assert [found[one] for one in (behind, held, after_held, after)] == [(None, None)] * 4
    assert found[free] == (10 * NS, 15 * NS)


@pytest.mark.parametrize("order", ORDERS)
def test_dependencies_on_jobs_and_arrays_quotas_and_cancels_are_kept_to(order: Order) -> None:
    queue = service(machine("h1", *["H100"] * 4))
    apply(queue, set_quota(queue, Quota("user:ana", "gpu", 2), ROOT, 0))
    array = add_array(queue, 0, 2, time_limit_s=100.0)
    unit = array[0].partition("_")[0]
    cancelled = add(queue, BEN, grace_s=7.0)
    start(queue, 0, order)
    apply(queue, requests.cancel(queue, [cancelled], BEN, 0))
    third = array[2]
    behind = add(queue, time_limit_s=10.0, after=(Dependency(unit),))
    failed = add(queue, BEN, after=(Dependency(cancelled),))
    large = add(queue, BEN, devices=2, time_limit_s=5.0)
    found = starts(queue, order)
    assert found == {third: 100.0, behind: 200.0, failed: None, large: 7.0}


@pytest.mark.parametrize("order", ORDERS)
def test_no_job_starts_on_a_host_that_is_drained_later(order: Order) -> None:
    queue = service(machine("h1", "H100"), machine("h2", "A100"))
    add(queue, device_type="H100", time_limit_s=100.0)
    add(queue, device_type="A100", time_limit_s=300.0)
    start(queue, 0, order)
    before, other = add(queue, time_limit_s=100.0), add(queue, time_limit_s=100.0)
    drain = Drained(time_ns=150 * NS, host="h1")
    assert starts(queue, order) == {before: 100.0, other: 200.0}
    assert starts(queue, order, later=[drain]) == {before: 100.0, other: 300.0}


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_job_has_run_counts_and_an_overdue_one_ends_soon(order: Order) -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, time_limit_s=100.0)
    start(queue, 0, order)
    waits = add(queue, time_limit_s=10.0)
    assert starts(queue, order, 60) == {waits: 100.0}
    assert starts(queue, order, 170) == {waits: 171.0}
    found = play_forward(queue, 60 * NS, order, lambda one, ran_s: 5 * ran_s)
    assert found[job] == (0, 360 * NS)
    assert by_limits(queue.jobs[job], 30.0) == 70.0


def test_only_so_many_starts_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("play", "plan"):
        monkeypatch.setattr(f"warren.serve.forecast.{file}.STARTS_MOST", 5)
    queue = service(machine("h1", "H100"))
    add_array(queue, 0, 19, time_limit_s=10.0)
    for order in ORDERS:
        found = list(starts(queue, order).values())
        assert len(found) == 20
        assert found[:5] == [0.0, 10.0, 20.0, 30.0, 40.0]
        assert found[6:] == [None] * 14


def test_the_room_under_a_quota_is_that_of_each_second() -> None:
    draw = Random(7)
    for _ in range(50):
        steps, used = _Steps(), [0] * 60
        for _ in range(draw.randint(0, 6)):
            begin = draw.randint(0, 40)
            end, count = begin + draw.randint(1, 15), draw.randint(1, 3)
            steps.add(begin, end, count)
            for second in range(begin, end):
                used[second] += count
        after, length, most = draw.randint(0, 30), draw.randint(1, 10), draw.randint(0, 4)
        brute = next(
            at for at in range(after, 60) if max(used[at : at + length], default=0) <= most
        )
        assert steps.first(after, length, most) == brute
    assert QuotaTimes(service(machine("h1", "H100"))).room_from("ana", "H100", 1, 5, 3) == 3


@pytest.mark.parametrize("order", ORDERS)
def test_a_job_that_is_asked_to_leave_gives_its_devices_back_and_waits_again(order: Order) -> None:
    queue = service(machine("h1", "H100"))
    victim = add(queue, time_limit_s=100.0, resume=Resume(grace_s=20.0, checkpoints="/c"))
    start(queue, 0, order)
    urgent = add(queue, BEN, priority=1, time_limit_s=50.0)
    asked = PreemptAsked(time_ns=10 * NS, job=victim, attempt=1, for_job=urgent)
    apply(queue, [asked])
    found = play_forward(queue, 15 * NS, order)
    assert found[urgent] == (30 * NS, 80 * NS)
    assert found[victim] == (80 * NS, 180 * NS)
