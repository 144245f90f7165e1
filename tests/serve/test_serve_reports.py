"""Reports of hosts: ends and retries, hosts that come back, reports that come again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from queue_tools import ANA, ROOT, add, apply, end, machine, reason, refused, service, start, state

from warren.model.errors import InvalidTransition
from warren.serve.hosts.port import (
    AgentJoined,
    AgentLost,
    CommandEnded,
    CommandStarted,
    DevicesSeen,
)
from warren.serve.queue import requests
from warren.serve.queue.ends import START_TRIES
from warren.serve.queue.reports import events_of, forgettable
from warren.serve.queue.state import Queue
from warren.serve.records.events import AttemptBegun, DevicesUsed, JobHeld
from warren.serve.records.machines import DeviceUse
from warren.serve.schedule.decide import decide


def begin(queue: Queue) -> list[str]:
    """Begin what begins now; no host has reported a start."""
    begun = decide(queue, 0, "strict")
    apply(queue, begun)
    return [one.job for one in begun]


def join(queue: Queue, *attempts: str, boot: str = "b") -> None:
    report = AgentJoined(machine("h1", "H100", boot=boot), attempts)
    apply(queue, events_of(queue, report, 0))


@pytest.mark.parametrize(
    ("how", "ends_as", "text"),
    [
        ({"exit_code": 0}, "finished", ""),
        ({"exit_code": 3}, "failed", "exit code 3"),
        ({"exit_code": None, "signal": 9}, "failed", "signal 9"),
        ({"cause": "time"}, "failed", "time limit of 60 s"),
        ({"cause": "memory"}, "failed", "memory limit of 16 bytes"),
        ({"cause": "cancel"}, "cancelled", "cancelled"),
        ({"cause": "host", "reason": "its host was lost"}, "failed", "its host was lost"),
    ],
)
def test_the_end_of_an_attempt_is_the_end_of_its_job(
    how: dict[str, Any], ends_as: str, text: str
) -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, time_limit_s=60.0, memory_bytes=16)
    start(queue)
    end(queue, job, **how)
    assert (state(queue, job), queue.jobs[job].reason) == (ends_as, text)
    assert not queue.machines["h1"].holders


@pytest.mark.parametrize("how", [{"exit_code": 1}, {"cause": "memory"}, {"cause": "host"}])
def test_a_failed_job_is_tried_again_as_often_as_it_says(how: dict[str, Any]) -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, retries=2)
    for _ in range(2):
        start(queue)
        end(queue, job, **how)
        assert state(queue, job) == "queued"
    start(queue)
    end(queue, job, **how)
    assert state(queue, job) == "failed"
    assert [one.number for one in queue.jobs[job].attempts] == [1, 2, 3]


def test_a_job_at_its_time_limit_or_cancelled_is_not_tried_again() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, retries=2, time_limit_s=5.0)
    start(queue)
    end(queue, job, cause="time")
    assert state(queue, job) == "failed"


def test_an_attempt_that_never_ran_counts_for_nothing_but_not_for_ever() -> None:
    queue = service(machine("h1", "H100"), machine("h2", "H100"))
    job = add(queue)
    hosts = []
    for _ in range(START_TRIES):
        assert state(queue, job) == "queued"
        start(queue)
        hosts.append(queue.jobs[job].attempts[-1].host)
        end(queue, job, cause="start", ran=False, reason="no folder /x")
    assert state(queue, job) == "failed"
    assert queue.jobs[job].reason == "could not be started: no folder /x"
    assert hosts[:2] == ["h1", "h2"]  # another host is tried where there is one


def test_a_report_that_comes_again_means_nothing_and_may_be_forgotten() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, retries=1)
    start(queue)
    ended = CommandEnded("h1", f"{job}.1", 5, "exit", 1)
    assert not forgettable(queue, ended.attempt)
    assert len(events_of(queue, ended, 9)) == 1
    apply(queue, events_of(queue, ended, 9))
    assert queue.jobs[job].attempts[0].ended_ns == 5
    start(queue)
    for late in (
        ended,
        CommandStarted("h1", f"{job}.1", 1),
        CommandEnded("h2", "1.2", 5, "exit", 0),
    ):
        assert events_of(queue, late, 9) == []
    assert forgettable(queue, ended.attempt)
    for stranger in ("7.1", "1.9", "1.0", "1.x", "1", ""):
        assert events_of(queue, CommandEnded("h1", stranger, 5, "exit", 0), 9) == []
        assert not forgettable(queue, stranger)


def test_an_order_that_never_reached_its_host_stays_to_be_sent_again() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue)
    begin(queue)
    apply(queue, events_of(queue, AgentLost("h1", "no answer"), 0))
    join(queue)
    assert reason(queue, job) == ("starting", "host h1 is starting it")
    assert list(queue.machines["h1"].attempts) == [job]
    assert queue.jobs[job].attempts[-1].started_ns is None


def test_a_cancelled_job_whose_order_never_reached_its_host_ends_when_that_joins() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue)
    begin(queue)
    apply(queue, requests.cancel(queue, [job], ANA, 0))
    join(queue)
    assert state(queue, job) == "cancelled"
    assert not queue.jobs[job].attempts[0].ran


def test_a_host_that_comes_back_with_its_records_goes_on_with_its_jobs() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue)
    start(queue)
    apply(queue, events_of(queue, AgentLost("h1", "no answer"), 0))
    assert state(queue, job) == "running"
    for boot in ("b", "c"):  # its home may outlive a start of the machine, with the ends in it
        join(queue, f"{job}.1", boot=boot)
        assert state(queue, job) == "running"


@pytest.mark.parametrize(("boot", "text"), [("c", "started again"), ("b", "has no record of it")])
def test_a_job_that_its_host_has_lost_is_tried_again_by_its_rule(boot: str, text: str) -> None:
    queue = service(machine("h1", "H100"))
    once, never = add(queue, retries=1), add(queue)
    start(queue)
    join(queue, boot=boot)
    assert state(queue, once) == "queued"
    assert text in queue.jobs[once].attempts[0].reason
    start(queue)
    end(queue, once)
    start(queue)
    join(queue, boot=boot + "2")
    assert state(queue, never) == "failed"
    assert queue.jobs[never].reason == "host h1 started again"


def test_a_lost_host_takes_no_job_and_is_removed_with_those_it_has() -> None:
    queue = service(machine("h1", "H100"), machine("h2", "H100"))
    job = add(queue, host="h1", retries=1)
    start(queue)
    text = refused("conflict", lambda: requests.remove_machine(queue, "h1", ROOT, 0))
    assert text == "host h1 is connected; stop its agent first"
    apply(queue, events_of(queue, AgentLost("h1", "no answer"), 0))
    assert events_of(queue, AgentLost("h1", "no answer"), 0) == []
    waiting = add(queue, host="h1")
    assert reason(queue, waiting) == (
        "host",
        "needs 1 device on h1; host h1 does not answer: no answer",
    )
    apply(queue, requests.remove_machine(queue, "h1", ROOT, 0))
    assert state(queue, job) == "queued"
    assert reason(queue, job) == ("never", "host 'h1' is unknown; known: h2")
    assert queue.holds["ana"]["any"] == 0


def test_only_a_change_of_foreign_processes_is_an_event() -> None:
    queue = service(machine("h1", "H100"))
    used = DevicesSeen("h1", (DeviceUse("h1/0", 5, ("python (12)",)),))
    assert [type(one) for one in events_of(queue, used, 0)] == [DevicesUsed]
    apply(queue, events_of(queue, used, 0))
    more = DevicesSeen("h1", (DeviceUse("h1/0", 6, ("python (12)",)),))
    assert events_of(queue, more, 0) == []
    assert len(events_of(queue, DevicesSeen("h1", (DeviceUse("h1/0"),)), 0)) == 1
    assert events_of(queue, DevicesSeen("h9", ()), 0) == []


def test_a_device_that_a_host_has_no_more_is_counted_until_its_job_ends() -> None:
    queue = service(machine("h1", "H100", "H100"))
    job = add(queue, devices=2)
    start(queue)
    join(queue, f"{job}.1")
    assert queue.holds["ana"]["H100"] == 2
    end(queue, job)
    assert queue.holds["ana"]["H100"] == 0
    assert queue.machines["h1"].open == {"h1/0": None}


def test_an_event_that_cannot_happen_is_refused_by_name() -> None:
    queue = service(machine("h1", "H100"))
    with pytest.raises(InvalidTransition, match="'9'"):
        queue.apply(JobHeld(time_ns=0, job="9"))
    job = add(queue)
    begun = AttemptBegun(time_ns=0, job=job, attempt=1, host="h1", devices=("h1/0",))
    queue.apply(begun)
    before = msgspec.json.encode(queue.jobs[job])
    with pytest.raises(InvalidTransition, match="job 1 is running, not queued"):
        queue.apply(begun)
    assert msgspec.json.encode(queue.jobs[job]) == before
