"""A queue with hosts, for tests that need no daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from warren.serve.hosts.port import AgentJoined, CommandEnded, CommandStarted
from warren.serve.queue.refusals import Refusal
from warren.serve.queue.reports import events_of
from warren.serve.queue.requests import submit
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import CommandSpec, ServiceJob, Submission, attempt_id
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.records.users import Caller
from warren.serve.schedule.decide import Order, decide
from warren.serve.schedule.reasons import WaitReason, why

ANA, BEN, ROOT = Caller("ana"), Caller("ben"), Caller("root", "admin")
NS = 10**9


def apply(queue: Queue, events: Sequence[AnyEvent]) -> None:
    for event in events:
        queue.apply(event)


def machine(name: str, *types: str, boot: str = "b", memory: int = 64) -> Machine:
    """A host with a device of each of these types, named ``h1/0`` and so on."""
    devices = tuple(
        HostDevice(f"{name}/{k}", "cpu" if kind == "CPU" else "gpu", kind, BYTES.get(kind, 0))
        for k, kind in enumerate(types)
    )
    return Machine(name, devices, boot, 8, memory, "cgroup", "1")


BYTES = {"H100": 80, "A100": 40, "T4": 16}


def service(*machines: Machine) -> Queue:
    queue = Queue()
    for one in machines:
        apply(queue, events_of(queue, AgentJoined(one, ()), 0))
    return queue


def made(**spec: Any) -> CommandSpec:
    return CommandSpec(**{"command": ("true",), "folder": "/", **spec})


def add(queue: Queue, caller: Caller = ANA, at_s: float = 0, **spec: Any) -> str:
    """Submit a job, and return its id."""
    submitted = submit(queue, [Submission(made(**spec))], caller, int(at_s * NS))
    apply(queue, submitted.events)
    return submitted.answers[0].id


def add_array(queue: Queue, first: int, last: int, **spec: Any) -> tuple[str, ...]:
    submitted = submit(queue, [Submission(made(**spec), array=(first, last))], ANA, 0)
    apply(queue, submitted.events)
    return submitted.answers[0].ids


def start(queue: Queue, at_s: float = 0, order: Order = "strict") -> dict[str, tuple[str, ...]]:
    """Start what starts now; return the devices of each job. Commands run at once."""
    begun = decide(queue, int(at_s * NS), order)
    apply(queue, begun)
    for one in begun:
        report = CommandStarted(one.host, attempt_id(one.job, one.attempt), int(at_s * NS))
        apply(queue, events_of(queue, report, int(at_s * NS)))
    return {one.job: one.devices for one in begun}


def end(queue: Queue, job: str, at_s: float = 0, **how: Any) -> list[AnyEvent]:
    """End the attempt of a job, by default with exit code 0."""
    attempt = queue.jobs[job].attempts[-1]
    name = attempt_id(job, attempt.number)
    how = {"cause": "exit", **how}
    if how["cause"] == "exit":
        how.setdefault("exit_code", 0)
    events = events_of(queue, CommandEnded(attempt.host, name, int(at_s * NS), **how), 0)
    apply(queue, events)
    return events


def state(queue: Queue, job: str) -> str:
    return str(queue.jobs[job].state)


def reason(queue: Queue, job: str | ServiceJob, order: Order = "strict") -> WaitReason:
    return why(queue, queue.jobs[job] if isinstance(job, str) else job, 0, order)


def refused(kind: str, call: Callable[[], object]) -> str:
    """The text of the refusal of a call."""
    with pytest.raises(Refusal) as caught:
        call()
    assert caught.value.kind == kind
    text = str(caught.value)
    assert "\n" not in text
    return text
