"""Jobs that hold devices and do nothing: found by share of looks, warned, extended, ended."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_world import HOST
from agent_world import world as agent_world
from api_world import submitted, world
from fake_service import TestJournal, daemon_of, fake_hosts, now_ns, play, submit_one, until
from queue_tools import ANA, BEN, NS, add, apply, end, machine, reason, refused, service, start

from warren.cli.service.lookup import declared
from warren.serve.agent.care.activity import (
    BUSY_PROCESSORS,
    LOOK_S,
    Activity,
    IdleWatch,
    RunningAttempt,
    processor_time_s,
)
from warren.serve.agent.loop import Timer
from warren.serve.hosts.fake import Played
from warren.serve.hosts.messages import Welcome
from warren.serve.hosts.port import AttemptIdle, CommandEnded
from warren.serve.queue.idleness import EXTEND_S, GRACE_S, extend, idle_ends
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.records.events import JobIdle
from warren.serve.records.jobs import JobState

HOUR_S = 3600.0
WINDOW_S = 2 * HOUR_S


def idle_after(
    works: Callable[[float], bool], until_s: float, step_s: float = LOOK_S
) -> list[float]:
    """When an attempt that works at these times begins to be idle, in seconds."""
    activity, found, before = Activity(WINDOW_S, step_s, 0.0), [], False
    at_s = 0.0
    while at_s <= until_s:
        activity.look(works(at_s), at_s)
        if activity.since_s is not None and not before:
            found.append(at_s)
        before = activity.since_s is not None
        at_s += step_s
    return found


@pytest.mark.parametrize(
    ("works", "when_s"),
    [
        (lambda at_s: False, WINDOW_S),  # it never did anything
        (lambda at_s: at_s < HOUR_S, WINDOW_S + HOUR_S),  # it worked once, and then no more
        (lambda at_s: at_s % 600 < LOOK_S, WINDOW_S),  # it keeps its GPU awake
    ],
)
def test_a_job_is_idle_after_a_window_of_next_to_no_work_whatever_it_did_before(
    works: Callable[[float], bool], when_s: float
) -> None:
    (found,) = idle_after(works, 6 * HOUR_S)
    # Work of the past is forgotten by hundredths of a window, until 2 % of it are left.
    assert when_s - 0.03 * WINDOW_S <= found <= when_s + 0.02 * WINDOW_S


@pytest.mark.parametrize(
    "works",
    [
        lambda at_s: at_s % 60 < LOOK_S,  # a step a minute
        lambda at_s: at_s % HOUR_S < 0.1 * HOUR_S,  # long phases of data between short ones
        lambda at_s: True,
    ],
)
def test_a_job_that_works_now_and_then_is_not_idle(works: Callable[[float], bool]) -> None:
    assert not idle_after(works, 6 * HOUR_S)


def test_a_machine_that_was_asleep_has_not_looked_and_says_nothing() -> None:
    activity = Activity(WINDOW_S, LOOK_S, 0.0)
    for at_s in (0.0, 5.0, WINDOW_S + 1, WINDOW_S + 6):
        activity.look(False, at_s)
        assert activity.since_s is None


class Machine:
    """A clock, GPUs, and attempts, all of which the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.share: float | None = 0.0
        self.used_s: float | None = 0.0
        self.attempts = [RunningAttempt("1.1", ("GPU-a",), 0, "")]
        self.said: list[tuple[float, str, bool, bool]] = []
        self._next: Timer | None = None
        self.watch = IdleWatch(
            self, self, lambda: self.attempts, self._say, lambda: self.now_s, lambda _: self.used_s
        )

    def utilization(self, device: str) -> float | None:
        return self.share

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        self._next, self._due_s = Timer(call), self.now_s + delay_s
        return self._next

    def pass_s(self, time_s: float, processors: float = 0.0) -> None:
        """Let time pass in which the job uses so many processors."""
        until_s = self.now_s + time_s
        while self._next is not None and self._next.call is not None and self._due_s <= until_s:
            if self.used_s is not None:
                self.used_s += processors * (self._due_s - self.now_s)
            self.now_s = self._due_s
            self._next.call()
        self.now_s = until_s

    def _say(self, attempt: str, since_s: float | None, stirs: bool) -> None:
        self.said.append((self.now_s, attempt, since_s is not None, stirs))


def test_an_attempt_that_does_nothing_is_said_again_and_again_and_that_it_works_once() -> None:
    here = Machine()
    here.watch.watch(WINDOW_S)
    here.pass_s(WINDOW_S - 10)
    assert not here.said
    here.pass_s(600)
    assert len(here.said) >= 9
    assert {one[1:] for one in here.said} == {("1.1", True, False)}
    here.said.clear()
    here.share = 0.9
    here.pass_s(10)
    assert here.said[0][1:] == ("1.1", True, True)  # it stirs: it must not be ended now
    here.pass_s(0.03 * WINDOW_S)
    assert here.said[-1][1:] == ("1.1", False, False)


@pytest.mark.parametrize(
    ("share", "processors", "is_idle"),
    [
        (0.0, 0.5 * BUSY_PROCESSORS, True),
        (0.0, 2 * BUSY_PROCESSORS, False),  # it reads data, or evaluates on processors
        (0.01, 0.0, False),
        (None, 0.0, False),  # the driver does not know
    ],
)
def test_busy_processors_and_what_is_not_known_count_as_work(
    share: float | None, processors: float, is_idle: bool
) -> None:
    here = Machine()
    here.share = share
    here.watch.watch(WINDOW_S)
    here.pass_s(2 * WINDOW_S, processors)
    assert bool(here.said) == is_idle


def test_processor_time_that_cannot_be_read_counts_as_work_and_no_window_means_no_look() -> None:
    here = Machine()
    here.used_s = None
    here.watch.watch(WINDOW_S)
    here.pass_s(2 * WINDOW_S)
    assert not here.said
    quiet = Machine()
    quiet.watch.watch(None)
    assert quiet._next is None


def test_processors_as_devices_are_not_asked_for_as_gpus() -> None:
    here = Machine()
    here.share = None
    here.attempts = [RunningAttempt("1.1", ("cpu:0",), 0, "")]
    here.watch.watch(WINDOW_S)
    here.pass_s(WINDOW_S + 60)
    assert here.said


def test_the_processor_time_of_an_attempt_is_that_of_its_group_or_of_its_processes(
    tmp_path: Path,
) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert processor_time_s(RunningAttempt("1.1", (), 0, str(tmp_path))) == 2.5
    own = RunningAttempt("1.1", (), os.getpid(), str(tmp_path / "gone"))
    before_s = processor_time_s(own)
    begun_s = time.process_time()
    while time.process_time() - begun_s < 0.05:
        pass
    after_s = processor_time_s(own)
    assert before_s is not None
    assert after_s is not None
    assert after_s - before_s >= 0.03  # the kernel counts in ticks
    assert processor_time_s(RunningAttempt("1.1", (), 0, "")) is None


# The queue.


def running(**spec: Any) -> tuple[Queue, str]:
    queue = service(machine("h1", "H100", "H100"))
    job = add(queue, **spec)
    start(queue)
    return queue, job


def hear(queue: Queue, job: str, at_s: float, since_s: float | None) -> list[Any]:
    since_ns = None if since_s is None else int(since_s * NS)
    report = AttemptIdle("h1", f"{job}.1", since_ns)
    events = events_of(queue, report, int(at_s * NS))
    apply(queue, events)
    return events


def due(queue: Queue, at_s: float, idles: bool = True) -> list[Any]:
    events = idle_ends(queue, lambda _: idles, int(at_s * NS))
    apply(queue, events)
    return events


def test_an_idle_job_is_warned_once_and_ends_an_hour_later_without_a_retry() -> None:
    queue, job = running(devices=2, retries=3)
    assert len(hear(queue, job, WINDOW_S, 0.0)) == 1
    assert not hear(queue, job, WINDOW_S + 60, 0.0)
    text = str(reason_at(queue, job, WINDOW_S + 60))
    assert text == (
        "idle: it has done nothing for 2 h 1 min; it is ended in 59 min unless it works again, or "
        f"'warren extend {job}'"
    )
    assert not due(queue, WINDOW_S + GRACE_S - 1)
    assert not due(queue, WINDOW_S + GRACE_S, idles=False)
    assert len(due(queue, WINDOW_S + GRACE_S)) == 1
    assert not due(queue, WINDOW_S + GRACE_S + 1)
    assert str(reason(queue, job)).startswith("idle: its GPUs did nothing for 3 h; ")
    end(queue, job, cause="cancel", exit_code=0)
    found = queue.jobs[job]
    assert (found.state, found.reason) == (JobState.FAILED, "idle: its GPUs did nothing for 3 h")
    assert found.attempts[-1].cause == "idle"


def reason_at(queue: Queue, job: str, at_s: float) -> Any:
    from warren.serve.schedule.reasons import why

    return why(queue, queue.jobs[job], int(at_s * NS))


def test_a_job_that_works_again_is_no_longer_warned() -> None:
    queue, job = running()
    hear(queue, job, WINDOW_S, 0.0)
    assert len(hear(queue, job, WINDOW_S + 60, None)) == 1
    assert str(reason(queue, job)) == ""
    assert not due(queue, WINDOW_S + GRACE_S)


def test_a_job_that_ends_by_itself_has_its_own_end_and_a_cancel_stays_one() -> None:
    queue, job = running()
    hear(queue, job, WINDOW_S, 0.0)
    due(queue, WINDOW_S + GRACE_S)
    end(queue, job, exit_code=0)
    assert queue.jobs[job].state is JobState.FINISHED
    queue, job = running()
    end(queue, job, cause="cancel")
    assert queue.jobs[job].state is JobState.CANCELLED


def test_an_extended_job_is_left_alone_until_then_and_warned_again_after_it() -> None:
    queue, job = running()
    hear(queue, job, WINDOW_S, 0.0)
    now_s = WINDOW_S + 60
    apply(queue, extend(queue, [job], None, ANA, int(now_s * NS)))
    assert str(reason(queue, job)) == ""
    assert not hear(queue, job, now_s + EXTEND_S - 1, 0.0)
    assert not due(queue, now_s + EXTEND_S - 1)
    (warned,) = hear(queue, job, now_s + EXTEND_S, 0.0)
    assert isinstance(warned, JobIdle)
    assert warned.ends_ns == int((now_s + EXTEND_S + GRACE_S) * NS)


def test_only_running_jobs_of_ones_own_are_extended_and_by_a_week_at_most() -> None:
    queue, job = running()
    waiting = add(queue, devices=2)
    assert "queued" in refused("conflict", lambda: extend(queue, [waiting], None, ANA, 0))
    refused("forbidden", lambda: extend(queue, [job], None, BEN, 0))
    refused("unknown", lambda: extend(queue, ["99"], None, ANA, 0))
    for time_s in (0.0, -1.0, 8 * 86_400.0, float("nan")):
        refused("wrong", lambda time_s=time_s: extend(queue, [job], time_s, ANA, 0))
    hear(queue, job, WINDOW_S, 0.0)
    due(queue, WINDOW_S + GRACE_S)
    assert "being ended" in refused("conflict", lambda: extend(queue, [job], None, ANA, 0))


def test_a_report_of_an_attempt_that_is_over_means_nothing() -> None:
    queue, job = running()
    end(queue, job)
    assert not hear(queue, job, WINDOW_S, 0.0)
    assert not events_of(queue, AttemptIdle("h1", "7.1", 0), 0)


# The daemon.


@pytest.fixture
def journal(tmp_path: Path) -> TestJournal:
    return TestJournal(tmp_path / "queue.db")


def test_a_job_ends_only_on_fresh_word_of_its_host_that_it_does_nothing(
    journal: TestJournal,
) -> None:
    async def main() -> None:
        hosts = fake_hosts(plays=lambda _: Played(1e6))
        daemon = daemon_of(journal, hosts, ends_idle=True)
        await daemon.start()
        job = submit_one(daemon)
        await until(daemon, lambda: daemon.queue.jobs[job].state is JobState.RUNNING)

        async def say(minutes: int, stirs: bool) -> None:
            for _ in range(minutes):
                daemon.report(AttemptIdle("h0", f"{job}.1", now_ns(), stirs))
                await asyncio.sleep(60)

        await say(1, False)
        assert daemon.queue.jobs[job].idle.since_ns is not None
        await asyncio.sleep(2 * GRACE_S)  # its host says nothing, as after a restart
        assert daemon.queue.jobs[job].state is JobState.RUNNING
        await say(10, True)
        assert daemon.queue.jobs[job].state is JobState.RUNNING
        await say(1, False)
        found = daemon.queue.jobs[job]
        assert (found.state, found.attempts[-1].cause) == (JobState.FAILED, "idle")
        await daemon.stop()

    play(main())


def test_an_order_to_end_that_a_lost_host_missed_is_given_again(journal: TestJournal) -> None:
    async def main() -> None:
        hosts = fake_hosts(plays=lambda _: Played(1e6))
        daemon = daemon_of(journal, hosts, ends_idle=True)
        await daemon.start()
        job = submit_one(daemon)
        await until(daemon, lambda: daemon.queue.jobs[job].attempts != [])
        await asyncio.sleep(1)
        daemon.report(AttemptIdle("h0", f"{job}.1", now_ns()))
        await asyncio.sleep(GRACE_S - 60)
        daemon.report(AttemptIdle("h0", f"{job}.1", now_ns()))
        await asyncio.sleep(1)
        hosts.lose("h0")
        await asyncio.sleep(120)
        assert daemon.queue.jobs[job].idle.end_reason
        assert daemon.queue.jobs[job].state is JobState.RUNNING
        hosts.bring_back("h0")
        await until(daemon, lambda: daemon.queue.jobs[job].state is JobState.FAILED)
        await daemon.stop()

    play(main())


def test_a_service_that_ends_no_idle_jobs_takes_earlier_warnings_back(
    journal: TestJournal,
) -> None:
    async def main() -> None:
        daemon = daemon_of(journal, fake_hosts(plays=lambda _: Played(1e6)))
        await daemon.start()
        job = submit_one(daemon)
        await until(daemon, lambda: daemon.queue.jobs[job].state is JobState.RUNNING)
        daemon.report(AttemptIdle("h0", f"{job}.1", now_ns()))
        await asyncio.sleep(1)
        assert daemon.queue.jobs[job].idle.since_ns is not None
        await asyncio.sleep(60)
        assert daemon.queue.jobs[job].idle.since_ns is None
        assert daemon.queue.jobs[job].state is JobState.RUNNING
        await daemon.stop()

    play(main())


# What users see and type.


def test_the_api_and_the_page_extend_a_job_for_its_user_alone() -> None:
    async def main() -> None:
        async with world(lambda _: Played(1e6)) as w:
            ana, ben = w.local("ana"), w.local("ben")
            job = await submitted(ana)
            await asyncio.sleep(1)
            assert "/extend" not in (await ana.get(f"/jobs/{job}")).text
            idle = JobIdle(time_ns=now_ns(), job=job, attempt=1, since_ns=0, ends_ns=now_ns() * 2)
            w.daemon.record([idle])
            assert f"/page/jobs/{job}/extend" in (await ana.get(f"/jobs/{job}")).text
            row = (await ana.get("/v1/jobs")).json()[0]
            assert row["reason"].startswith("idle: it has done nothing for")
            answer = await ben.post(f"/v1/jobs/{job}/extend", json={})
            assert answer.status_code == 403
            answer = await ana.post(f"/v1/jobs/{job}/extend", json={"time_s": 60})
            assert answer.json() == {"ids": [job]}
            assert w.daemon.queue.jobs[job].idle.extended_ns == now_ns() + 60 * NS
            form = await ana.post(f"/page/jobs/{job}/extend", headers={"hx-request": "true"})
            assert "next two hours" in form.text

    play(main())


def test_extend_takes_a_job_and_a_time() -> None:
    command = declared("extend")
    assert command.read(["12"]) == {"job": "12", "time": None, "server": None, "json_": False}
    assert command.read(["12", "8h"])["time"] == 8 * HOUR_S
    assert command.read(["12", "8"]) is None  # a time has a unit
    assert declared("serve").read(["--idle", "2h"])["idle_s"] == WINDOW_S


@pytest.mark.live
def test_an_agent_reports_a_command_that_sleeps_and_not_one_that_computes(tmp_path: Path) -> None:
    async def test() -> None:
        async with agent_world(tmp_path, welcome=Welcome(idle_s=1.0)) as here:
            here.start("1.1", "sleep", "1000")
            here.start("2.1", "sh", "-c", "while :; do :; done")

            def idles() -> set[str]:
                found = [one for one in here.reports if isinstance(one, AttemptIdle)]
                return {one.attempt for one in found if one.since_ns is not None}

            await here.until(lambda: idles() == {"1.1"})
            for attempt in ("1.1", "2.1"):
                here.hosts.stop(HOST, attempt, 0.0)
                assert isinstance(await here.ended(attempt), CommandEnded)

    asyncio.run(test())
