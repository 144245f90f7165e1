"""Jobs that stop and come back: who may ask, what counts, where they go on; without processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_service import TestJournal, all_ended, daemon_of, fake_hosts, play, submit_one, until
from queue_tools import (
    ANA,
    BEN,
    NS,
    ROOT,
    add,
    add_array,
    apply,
    end,
    machine,
    made,
    reason,
    refused,
    service,
    start,
    state,
)
from test_serve_disturbed import KilledDaemon, Story, check

from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import Played
from warren.serve.hosts.port import AgentLost, StartOrder
from warren.serve.queue import requests
from warren.serve.queue.ends import REQUEUE_TRIES
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.queue.views import shown
from warren.serve.records.events import PreemptAsked
from warren.serve.records.jobs import CommandSpec, Resume, Submission
from warren.serve.records.users import Caller
from warren.serve.schedule.decide import decide

APPS = ("python", "-P", "-m", "warren.serve.app_run", "/run.yaml")


def preempt(queue: Queue, *jobs: str, caller: Caller = ANA) -> list[str]:
    """Preempt jobs, and return those that were asked."""
    events = requests.preempt(queue, jobs, caller, 0)
    apply(queue, events)
    return [event.job for event in events if isinstance(event, PreemptAsked)]


def one_gpu() -> Queue:
    return service(machine("h1", "H100"))


@pytest.mark.parametrize(
    "how",
    [
        {"signal": 15},
        {"signal": 9},
        {"exit_code": 143},
        {"exit_code": 85},
        {"exit_code": 1},
        {"exit_code": 0},
    ],
)
def test_however_a_preempted_command_ends_its_job_waits_in_its_old_place(
    how: dict[str, Any],
) -> None:
    """Trainers leave with 0 although they have not finished, torchrun with 1."""
    queue = one_gpu()
    job, other = add(queue, resume=Resume()), add(queue)
    for number in (1, 2, 3):
        assert list(start(queue)) == [job]
        assert preempt(queue, job) == [job]
        end(queue, job, cause="preempt", **how)
        assert state(queue, job) == "queued"
        assert queue.jobs[job].attempts[-1].number == number
    assert state(queue, other) == "queued"
    start(queue)
    end(queue, job)
    assert state(queue, job) == "finished"


@pytest.mark.parametrize("code", [75, 85, 99])
def test_a_command_that_leaves_with_a_code_of_a_saved_job_is_started_again(code: int) -> None:
    queue = one_gpu()
    job = add(queue)
    start(queue)
    end(queue, job, 60, exit_code=code)
    assert (state(queue, job), queue.jobs[job].attempts[0].cause) == ("queued", "requeue")
    start(queue)
    end(queue, job, 120)
    assert state(queue, job) == "finished"


def test_preemptions_and_requeues_count_as_no_failure() -> None:
    queue = one_gpu()
    job = add(queue, resume=Resume(), retries=1)
    for how in (
        {"cause": "preempt"},
        {"exit_code": 1},
        {"exit_code": 99},
        {"cause": "preempt"},
    ):
        start(queue)
        end(queue, job, 60, **how)
        assert state(queue, job) == "queued"
    start(queue)
    end(queue, job, exit_code=1)
    assert state(queue, job) == "failed"


def test_a_job_that_asks_again_at_once_each_time_fails_in_the_end() -> None:
    queue = one_gpu()
    job = add(queue)
    now = 0
    for run_s in [1] * (REQUEUE_TRIES - 1) + [60] + [1] * REQUEUE_TRIES:
        assert state(queue, job) == "queued"
        start(queue, now)
        now += run_s
        end(queue, job, now, exit_code=85)
    assert state(queue, job) == "failed"
    assert queue.jobs[job].reason == "asked to be started again 10 times, each within 10 s"


def test_a_preemption_that_an_older_agent_takes_for_a_cancel_is_one() -> None:
    queue = one_gpu()
    job = add(queue, resume=Resume())
    start(queue)
    preempt(queue, job)
    end(queue, job, cause="cancel", signal=15)
    assert (state(queue, job), queue.jobs[job].attempts[0].cause) == ("queued", "preempt")


def test_a_job_that_is_cancelled_after_it_was_preempted_does_not_come_back() -> None:
    queue = one_gpu()
    job = add(queue, resume=Resume())
    start(queue)
    preempt(queue, job)
    apply(queue, requests.cancel(queue, [job], ANA, 0))
    end(queue, job, cause="preempt", signal=15)
    assert state(queue, job) == "cancelled"


def test_who_may_preempt_what_is_refused_with_the_reason() -> None:
    queue = service(machine("h1", *["H100"] * 4))
    stays = add(queue)
    job = add(queue, resume=Resume())
    assert "is queued; only a running job" in refused("conflict", lambda: preempt(queue, job))
    start(queue)
    text = refused("conflict", lambda: preempt(queue, stays))
    assert text == f"job {stays} does not say that it can come back; submit it with --resume"
    refused("forbidden", lambda: preempt(queue, job, caller=BEN))
    refused("unknown", lambda: preempt(queue, "99"))
    assert preempt(queue, job, caller=ROOT) == [job]
    assert preempt(queue, job) == []  # it was asked before
    other = add(queue, resume=Resume())
    start(queue)
    apply(queue, requests.cancel(queue, [other], ANA, 0))
    assert "is being cancelled" in refused("conflict", lambda: preempt(queue, other))


def test_a_job_that_has_not_started_yet_is_not_preempted() -> None:
    queue = one_gpu()
    job = add(queue, resume=Resume())
    apply(queue, decide(queue, 0, "strict"))  # its host has not said that it runs
    assert "is being started" in refused("conflict", lambda: preempt(queue, job))


def test_of_an_array_those_jobs_are_preempted_that_can_be() -> None:
    queue = service(machine("h1", "H100", "H100"))
    jobs = add_array(queue, 1, 3, resume=Resume())
    start(queue)
    assert preempt(queue, jobs[0].partition("_")[0]) == list(jobs[:2])


def test_a_run_of_apps_can_be_preempted_without_a_word() -> None:
    queue = one_gpu()
    job = add(queue, command=APPS)
    start(queue)
    assert preempt(queue, job) == [job]


def other_host(queue: Queue, job: str) -> str:
    used = queue.jobs[job].attempts[-1].host
    return next(name for name in queue.machines if name != used)


def preempted_on_a_drained_host(**spec: Any) -> tuple[Queue, str]:
    """A job that was preempted on a host on which no job may start now; another host is free."""
    queue = service(machine("h1", "H100"), machine("h2", "H100"))
    job = add(queue, **spec)
    start(queue)
    preempt(queue, job)
    end(queue, job, cause="preempt", signal=15)
    host = queue.jobs[job].attempts[-1].host
    apply(queue, requests.drain(queue, host, None, "", ROOT, 0))
    return queue, job


def test_a_job_goes_on_where_its_checkpoints_are() -> None:
    queue, job = preempted_on_a_drained_host(resume=Resume())
    host = queue.jobs[job].attempts[-1].host
    assert start(queue) == {}
    why = reason(queue, job)
    assert why.code == "drained"
    assert why.text.endswith(f"; its checkpoints are on {host}")
    apply(queue, requests.undrain(queue, host, None, ROOT, 0))
    assert list(start(queue)) == [job]
    assert queue.jobs[job].attempts[-1].host == host


@pytest.mark.parametrize(
    "spec",
    [
        {"resume": Resume(checkpoints="/shared")},
        {"resume": Resume(), "environment": {"WARREN_CHECKPOINT_DIR": "/shared/mine"}},
    ],
)
def test_a_job_whose_checkpoints_all_hosts_see_goes_on_anywhere(spec: dict[str, Any]) -> None:
    queue, job = preempted_on_a_drained_host(**spec)
    elsewhere = other_host(queue, job)
    assert list(start(queue)) == [job]
    assert queue.jobs[job].attempts[-1].host == elsewhere


def test_a_job_begins_elsewhere_once_the_host_of_its_checkpoints_is_removed() -> None:
    queue, job = preempted_on_a_drained_host(resume=Resume())
    host = queue.jobs[job].attempts[-1].host
    apply(queue, events_of(queue, AgentLost(host, "gone"), 0))
    assert start(queue) == {}
    apply(queue, requests.remove_machine(queue, host, ROOT, 0))
    assert list(start(queue)) == [job]


def test_a_job_that_is_to_leave_says_for_whom_and_how_long_it_has() -> None:
    queue = one_gpu()
    job = add(queue, resume=Resume(grace_s=90.0))
    start(queue)
    asked = PreemptAsked(time_ns=7 * NS, job=job, attempt=1, reason="short job", for_job="9")
    apply(queue, [asked])
    text = reason(queue, job).text
    assert text == "preempted for job 9 (short job); it has 90 s to save on h1"
    end(queue, job, cause="preempt", exit_code=143, saved=False, lost_s=840.0)
    (attempt,) = shown(queue, queue.jobs[job], ANA, 0).attempts
    assert (attempt.saved, attempt.lost_s, attempt.preempted_s) == (False, 840.0, 7.0)
    assert (attempt.preempted_for, attempt.reason) == ("9", "preempted for job 9")


@pytest.mark.parametrize(
    ("resume", "text"),
    [
        (Resume(grace_s=-1.0), "save time: -1 s is not between"),
        (Resume(checkpoints="here"), "checkpoints: 'here' is not an absolute path"),
        (Resume(template="--from 'x"), 'resume: "--from \'x" is not a list of words'),
        (Resume(template="a\0"), "resume: holds a zero byte"),
    ],
)
def test_a_resume_that_makes_no_sense_is_refused(resume: Resume, text: str) -> None:
    queue = one_gpu()
    wanted = Submission(made(resume=resume))
    assert text in refused("wrong", lambda: requests.submit(queue, [wanted], ANA, 0))


def test_words_of_a_resume_have_the_values_of_a_sweep() -> None:
    queue = one_gpu()
    jobs = add_array(
        queue, 4, 4, command=("run", "{index}"), resume=Resume(template="--from {index}/{latest}")
    )
    resume = queue.jobs[jobs[0]].spec.resume
    assert resume is not None
    assert resume.template == "--from 4/{latest}"


def test_old_journals_and_agents_know_nothing_of_it_and_are_understood() -> None:
    spec = msgspec.json.encode(CommandSpec(("true",), "/"))
    assert b"resume" not in spec
    assert msgspec.json.decode(spec, type=CommandSpec).resume is None


# With a daemon.


def test_a_preempted_command_has_its_grace_and_comes_back_knowing_it(tmp_path: Path) -> None:
    orders: list[StartOrder] = []

    def plays(order: StartOrder) -> Played:
        orders.append(order)
        return Played(100.0, stop_s=40.0, stop_code=0)

    async def main() -> Daemon:
        daemon = daemon_of(TestJournal(tmp_path / "queue.db"), fake_hosts(plays=plays))
        await daemon.start()
        job = submit_one(daemon, resume=Resume(grace_s=50.0), grace_s=1.0)
        await until(daemon, lambda: bool(orders) and started(daemon, job))
        await asyncio.sleep(10)
        preempt_one(daemon, job)
        await all_ended(daemon)
        await daemon.stop()
        return daemon

    daemon = play(main())
    (job,) = daemon.queue.jobs.values()
    first, second = job.attempts
    assert (first.cause, first.saved, first.save_s) == ("preempt", True, 40.0)
    assert first.preempt_ns is not None
    assert abs((first.ended_ns or 0) - first.preempt_ns - 40 * NS) < 1000
    assert (second.cause, str(job.state)) == ("exit", "finished")
    assert [one.environment.get("WARREN_RESUME") for one in orders] == [None, "1"]
    assert [one.environment["WARREN_GRACE_S"] for one in orders] == ["50", "50"]
    runs = {one.environment["WANDB_RUN_ID"] for one in orders}
    assert len(runs) == 1


def preempt_one(daemon: Daemon, job: str) -> None:
    daemon.ask(lambda queue, now: requests.preempt(queue, [job], ANA, now))


def started(daemon: Daemon, job: str) -> bool:
    attempt = daemon.queue.jobs[job].attempt
    return attempt is not None and attempt.started_ns is not None


def test_a_host_that_missed_a_preemption_hears_of_it_when_it_is_back(tmp_path: Path) -> None:
    async def main() -> Daemon:
        hosts = fake_hosts(plays=lambda _: Played(1000.0))
        daemon = daemon_of(TestJournal(tmp_path / "queue.db"), hosts)
        await daemon.start()
        job = submit_one(daemon, resume=Resume())
        await until(daemon, lambda: started(daemon, job))
        hosts.lose("h0")
        preempt_one(daemon, job)
        await asyncio.sleep(5)
        hosts.bring_back("h0")
        await until(daemon, lambda: len(daemon.queue.jobs[job].attempts) == 2)
        await daemon.stop()
        return daemon

    (job,) = play(main()).queue.jobs.values()
    assert [one.cause for one in job.attempts] == ["preempt", ""]


class PreemptStory(Story):
    """A drawn story in which jobs come back; they are preempted where others are cancelled."""

    def submit(self, daemon: Daemon) -> None:
        code, devices = self.random.choice([0, 0, 7]), self.random.choice([1, 1, 2, 4])
        shared = self.random.choice(["", "/shared"])
        job = submit_one(
            daemon,
            devices=devices,
            environment={"CODE": str(code)},
            resume=Resume(grace_s=0.5, checkpoints=shared),
        )
        self.answered[job] = code

    def cancel(self, daemon: Daemon) -> None:
        for name in self.answered:
            job = daemon.queue.jobs[name]
            if requests.why_not_preempted(job) is None and self.random.random() < 0.3:
                preempt_one(daemon, name)


@pytest.mark.parametrize("seed", range(4))
def test_no_preempted_job_is_lost_or_runs_twice_whatever_happens(seed: int, tmp_path: Path) -> None:
    story = PreemptStory(seed, tmp_path)

    async def main() -> Daemon:
        daemon = await story.tell(steps=120)
        async with asyncio.timeout(1000):
            while not all(job.state.ended for job in daemon.queue.jobs.values()):
                await daemon.changed.wait(daemon.changed.count)
        await asyncio.sleep(60)
        await daemon.stop()
        return daemon

    daemon = play(main(), ignore=KilledDaemon)
    check(story, daemon, story.hosts)
    causes = [one.cause for job in daemon.queue.jobs.values() for one in job.attempts]
    assert "preempt" in causes
