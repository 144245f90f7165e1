"""The daemon over fake hosts: orders follow the disk, and nothing waits for a tick."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fake_service import (
    ADMIN,
    ANA,
    TestJournal,
    all_ended,
    cancel_one,
    daemon_of,
    fake_hosts,
    now_ns,
    play,
    submit_one,
    until,
)

from warren.serve.daemon.changes import PAUSE_S
from warren.serve.daemon.daemon import TICK_S
from warren.serve.hosts.fake import Played, fake_machine
from warren.serve.hosts.port import AgentJoined, AgentLost, CommandStarted, StartOrder
from warren.serve.journal.journal import JournalWriteError
from warren.serve.queue.requests import remove_machine, submit
from warren.serve.records.events import AttemptBegun, AttemptEnded, JobHeld, JobSubmitted
from warren.serve.records.jobs import CommandSpec, JobState, Submission


@pytest.fixture
def journal(tmp_path: Path) -> TestJournal:
    return TestJournal(tmp_path / "queue.db")


def loop_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_job_starts_as_soon_as_it_may_and_not_at_a_tick(journal: TestJournal) -> None:
    async def main() -> list[float]:
        daemon = daemon_of(journal, fake_hosts(devices=1, plays=lambda _: Played(0.25)))
        await daemon.start()
        began = now_ns()
        for _ in range(4):
            submit_one(daemon)
        jobs = await all_ended(daemon)
        await daemon.stop()
        return [(job.attempts[0].begun_ns - began) / 1e9 for job in jobs]

    starts = play(main())
    assert starts == pytest.approx([0, 0.25, 0.5, 0.75])
    assert max(starts) < TICK_S


def test_a_command_gets_its_submission_its_names_and_its_account(journal: TestJournal) -> None:
    orders: list[StartOrder] = []

    def plays(order: StartOrder) -> Played:
        orders.append(order)
        return Played(0.0)

    async def main() -> None:
        daemon = daemon_of(journal, fake_hosts(plays=plays), account_of=lambda user: f"as-{user}")
        await daemon.start()
        submit_one(
            daemon,
            command=("python", "x.py"),
            folder="/data",
            environment={"A": "b", "WARREN_JOB_ID": "of the shell it was submitted from"},
            time_limit_s=9.0,
            memory_bytes=5,
            grace_s=3.0,
        )
        await all_ended(daemon)
        await daemon.stop()

    play(main())
    (order,) = orders
    job = order.environment["WARREN_JOB_ID"]
    assert order == StartOrder(
        attempt=f"{job}.1",
        command=("python", "x.py"),
        folder="/data",
        environment={
            "A": "b",
            "WARREN_JOB_ID": job,
            "WARREN_ATTEMPT": "1",
            "WARREN_ATTEMPT_ID": f"{job}.1",
        },
        devices=order.devices,
        account="as-ana",
        time_limit_s=9.0,
        memory_bytes=5,
        grace_s=3.0,
    )
    assert len(order.devices) == 1


def test_a_full_disk_refuses_requests_and_starts_nothing_until_there_is_room(
    journal: TestJournal,
) -> None:
    said: list[str] = []

    async def main() -> None:
        hosts = fake_hosts(devices=1, plays=lambda _: Played(1.0))
        daemon = daemon_of(journal, hosts, say=said.append)
        await daemon.start()
        first = submit_one(daemon)
        second = submit_one(daemon)
        await until(daemon, lambda: daemon.queue.jobs[first].state is JobState.RUNNING)
        journal.full = True
        for _ in range(2):
            with pytest.raises(JournalWriteError):
                submit_one(daemon)
            with pytest.raises(JournalWriteError):
                cancel_one(daemon, second)
        await asyncio.sleep(3 * TICK_S)
        assert daemon.disk_error
        assert daemon.queue.jobs[first].state is JobState.RUNNING  # its end waits at its host
        assert list(daemon.queue.jobs) == [first, second]
        assert len(hosts.starts) == 1
        journal.full = False
        jobs = await all_ended(daemon)
        assert [job.state for job in jobs] == [JobState.FINISHED] * 2
        assert daemon.disk_error is None
        await daemon.stop()

    play(main())
    assert len([line for line in said if line == "the disk is full"]) == 1
    assert len([line for line in said if line.endswith("can be written again")]) == 1
    kinds = [type(event) for event in journal.events()]
    assert kinds.count(JobSubmitted) == kinds.count(AttemptEnded) == kinds.count(AttemptBegun) == 2


def test_reports_of_one_turn_share_a_sync_and_wait_whole_if_it_fails(
    journal: TestJournal,
) -> None:
    async def main() -> None:
        hosts = fake_hosts(devices=50, plays=lambda _: Played(1.0))
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        wanted = [Submission(CommandSpec(command=("true",), folder="/"))] * 50
        daemon.ask(lambda queue, now: submit(queue, wanted, ANA, now))
        await until(
            daemon, lambda: all(job.state is JobState.RUNNING for job in daemon.queue.jobs.values())
        )
        await asyncio.sleep(0.5)
        before = journal.asked
        journal.full = True
        await asyncio.sleep(1)  # all end at once
        queue = daemon.queue
        assert {job.state for job in queue.jobs.values()} == {JobState.RUNNING}
        assert not any(job.attempts[-1].ended_ns for job in queue.jobs.values())
        journal.full = False
        await all_ended(daemon)
        assert journal.asked - before < 12
        assert len(set(hosts.starts)) == len(hosts.starts) == 50
        await daemon.stop()

    play(main())


def test_a_daemon_that_comes_back_finds_running_jobs_and_ends_that_it_missed(
    journal: TestJournal,
) -> None:
    async def main() -> None:
        hosts = fake_hosts(
            devices=2, plays=lambda order: Played(float(order.environment["S"]), exit_code=3)
        )
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        short, long = (submit_one(daemon, environment={"S": s}) for s in ("5", "60"))
        waiting = submit_one(daemon, environment={"S": "1"})
        await asyncio.sleep(1)
        await daemon.stop()
        await asyncio.sleep(20)
        assert hosts.running == [f"{long}.1"]

        daemon = daemon_of(journal, hosts)
        await daemon.start()
        jobs = {job.id: job for job in await all_ended(daemon)}
        await daemon.stop()
        assert hosts.starts == [f"{short}.1", f"{long}.1", f"{waiting}.1"]
        assert {job.attempts[0].exit_code for job in jobs.values()} == {3}
        ended = [jobs[name].attempts[0].ended_ns for name in (short, waiting, long)]
        assert ended == sorted(ended)  # type: ignore[type-var]
        assert jobs[short].attempts[0].ended_ns < now_ns() - 40e9  # type: ignore[operator]

    play(main())


def test_a_host_that_was_away_gets_the_orders_it_missed(journal: TestJournal) -> None:
    async def main() -> None:
        hosts = fake_hosts(devices=2, plays=lambda _: Played(100.0))
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        missed = submit_one(daemon)
        hosts.cut()  # the order is on its way
        await daemon.hosts.open(daemon.report)
        await until(daemon, lambda: hosts.running == [f"{missed}.1"])

        hosts.lose("h0")
        await asyncio.sleep(1)
        cancel_one(daemon, missed)
        await asyncio.sleep(30)
        assert hosts.running == [f"{missed}.1"]
        assert daemon.queue.jobs[missed].state is JobState.RUNNING  # its devices are not free
        hosts.bring_back("h0")
        (job,) = await all_ended(daemon)
        assert job.state is JobState.CANCELLED
        assert hosts.starts == [f"{missed}.1"]
        assert loop_s() < 40  # it was stopped, not waited for
        await daemon.stop()

    play(main())


@pytest.mark.parametrize("stop_jobs", [False, True])
def test_a_service_that_stops_leaves_its_jobs_or_ends_them(
    journal: TestJournal, stop_jobs: bool
) -> None:
    async def main() -> None:
        hosts = fake_hosts(devices=1, plays=lambda _: Played(100.0, stop_s=2.0))
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        running = submit_one(daemon)
        waiting = submit_one(daemon)
        await asyncio.sleep(1)
        if stop_jobs:
            await daemon.end_jobs()
        await daemon.stop()
        await asyncio.sleep(1)
        assert hosts.running == ([] if stop_jobs else [f"{running}.1"])
        assert hosts.starts == [f"{running}.1"]
        states = {name: job.state for name, job in daemon.queue.jobs.items()}
        left = JobState.CANCELLED if stop_jobs else JobState.RUNNING
        assert states == {running: left, waiting: JobState.QUEUED}

    play(main())


def test_a_report_that_makes_no_sense_stops_no_other(
    journal: TestJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from warren.serve.daemon import daemon as module

    said: list[str] = []
    real = module.events_of

    def events_of(queue: object, report: object, now: int) -> object:
        if "nonsense" in str(report):
            raise KeyError("x")
        return real(queue, report, now)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "events_of", events_of)

    async def main() -> None:
        daemon = daemon_of(journal, fake_hosts(), say=said.append)
        await daemon.start()
        submit_one(daemon)
        daemon.report(AgentLost(host="h0", reason="nonsense"))
        daemon.report(CommandStarted(host="h0", attempt="1.1", time_ns=1 << 70))
        await all_ended(daemon)
        await daemon.stop()

    play(main())
    left_out = [line for line in said if "left out" in line]
    assert "nonsense" in left_out[0]
    assert "its clock is wrong" in left_out[1]
    assert len(left_out) == 2


def test_changes_wake_what_waits_at_once_and_then_now_and_then(journal: TestJournal) -> None:
    async def main() -> None:
        daemon = daemon_of(journal, fake_hosts())
        woken: list[tuple[float, int]] = []
        began = loop_s()

        async def follow() -> None:
            seen = daemon.changed.count
            while True:
                seen = await daemon.changed.wait(seen)
                woken.append((round(loop_s() - began, 3), seen))

        task = asyncio.create_task(follow())
        await asyncio.sleep(0)
        for _ in range(5):
            submit_one(daemon)
        for _ in range(30):
            await asyncio.sleep(0.001)
            submit_one(daemon)
        await asyncio.sleep(1)
        assert woken[0] == (0, 5)
        assert woken[-1][1] == daemon.changed.count == 35
        assert [at for at, _ in woken] == pytest.approx([0, PAUSE_S, 2 * PAUSE_S])
        task.cancel()

    play(main())


def test_a_host_without_a_record_of_a_started_attempt_does_not_start_it_once_more(
    journal: TestJournal,
) -> None:
    async def main() -> None:
        hosts = fake_hosts(devices=1, plays=lambda _: Played(100.0))
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        job = submit_one(daemon)
        await asyncio.sleep(1)
        assert daemon.queue.jobs[job].attempts[0].started_ns is not None
        daemon.report(AgentLost(host="h0", reason="its disk was replaced"))
        daemon.report(AgentJoined(fake_machine("h0", 1), ()))
        await until(daemon, lambda: daemon.queue.jobs[job].attempts[0].ended_ns is not None)
        await asyncio.sleep(1)
        assert hosts.starts.count(f"{job}.1") == 1
        await daemon.stop()

    play(main())


def test_a_host_with_attempts_of_another_queue_is_used_when_they_have_ended(
    journal: TestJournal, tmp_path: Path
) -> None:
    said: list[str] = []

    async def main() -> None:
        hosts = fake_hosts(devices=2, plays=lambda order: Played(float(order.environment["S"])))
        other = daemon_of(TestJournal(tmp_path / "other.db"), hosts)
        await other.start()
        for seconds in ("20", "50"):
            submit_one(other, environment={"S": seconds})
        await asyncio.sleep(1)
        await other.stop()

        daemon = daemon_of(journal, hosts, say=said.append)
        await daemon.start()
        job = submit_one(daemon, environment={"S": "0"})
        await asyncio.sleep(40)
        assert daemon.queue.jobs[job].state is JobState.QUEUED
        await all_ended(daemon)
        assert 50 <= loop_s() < 52
        assert not hosts.clashes
        await daemon.stop()

    play(main())
    assert "machine h0 is not used" in said[0]
    assert "(1.1, 2.1)" in said[0]


def test_a_removed_host_that_comes_back_is_used_when_what_it_ran_is_gone(
    journal: TestJournal,
) -> None:
    said: list[str] = []

    async def main() -> None:
        hosts = fake_hosts(devices=2, plays=lambda _: Played(100.0, stop_s=60.0))
        graces: list[float] = []
        stop = hosts.stop

        def slow_stop(host: str, attempt: str, grace_s: float, **more: bool) -> None:
            graces.append(grace_s)
            stop(host, attempt, grace_s + 3.0, **more)  # a process that is slow to die

        hosts.stop = slow_stop  # type: ignore[method-assign]
        daemon = daemon_of(journal, hosts, say=said.append)
        await daemon.start()
        jobs = [submit_one(daemon, retries=1) for _ in range(2)]
        await asyncio.sleep(1)
        hosts.lose("h0")
        await asyncio.sleep(1)
        daemon.ask(lambda queue, now: remove_machine(queue, "h0", ADMIN, now))
        states = daemon.queue.jobs.values()
        assert {one.state for one in states} == {JobState.QUEUED}
        hosts.bring_back("h0")
        await asyncio.sleep(2)
        assert sorted(hosts.running) == [f"{job}.1" for job in jobs]
        assert graces == [0.0, 0.0]
        await until(daemon, lambda: {one.state for one in states} == {JobState.RUNNING})
        assert 5 <= loop_s() < 8
        await asyncio.sleep(1)
        assert sorted(hosts.running) == [f"{job}.2" for job in jobs]
        assert not hosts.clashes
        await daemon.stop()

    play(main())
    assert any(
        "is used once attempts that ended without it are gone (1.1, 2.1)" in one for one in said
    )


def test_an_event_that_cannot_happen_is_left_out_and_keeps_no_daemon_from_starting(
    journal: TestJournal,
) -> None:
    said: list[str] = []

    async def main() -> None:
        daemon = daemon_of(journal, fake_hosts(), say=said.append)
        daemon.record([JobHeld(time_ns=1, job="77")])
        job = submit_one(daemon)
        again = daemon_of(journal, fake_hosts(), say=said.append)
        assert list(again.queue.jobs) == [job]

    play(main())
    assert len(said) == 2
    assert all("left out" in line and "77" in line for line in said)
