"""Queues that are drawn, for tests of forecasts: hosts, users, limits, and jobs of all kinds."""

from __future__ import annotations

from random import Random
from typing import Any

from queue_tools import ROOT, add, apply, end, machine, service, start

from warren.serve.hosts.port import AgentLost, DevicesSeen
from warren.serve.queue import requests
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import Dependency, JobState, ServiceJob
from warren.serve.records.machines import DeviceUse
from warren.serve.records.users import Caller, Quota, User
from warren.serve.schedule.decide import Order

USERS = ("ana", "ben", "eve")


def drawn_queue(seed: int, order: Order = "strict") -> Queue:
    """A queue in which jobs wait for all kinds of reasons; the present is the second 100."""
    draw = Random(seed)
    queue = service(
        machine("h1", *["H100"] * 4),
        machine("h2", *["A100"] * 4),
        machine("h3", *["A100"] * 2, *["T4"] * 2),
        machine("h4", *["A100"] * 4),
    )
    for name in USERS:
        groups = ("lab",) if draw.random() < 0.5 else ()
        apply(queue, requests.set_user(queue, User(name, groups=groups), ROOT, 0))
    for subject in ("user:ana", "each", "group:lab"):
        if draw.random() < 0.4:
            quota = Quota(subject, draw.choice(["gpu", "any", "A100"]), draw.randint(1, 4))
            apply(queue, requests.set_quota(queue, quota, ROOT, 0))
    for _ in range(draw.randint(4, 10)):
        drawn_job(queue, draw, plain=True)
    started = list(start(queue, 10, order))
    disturb(queue, draw)
    for _ in range(draw.randint(5, 9)):
        drawn_job(queue, draw)
    for job in draw.sample(started, min(2, len(started))):
        end(queue, job, 50)
    start(queue, 100, order)
    return queue


def drawn_job(queue: Queue, draw: Random, *, plain: bool = False) -> str:
    more: dict[str, Any] = {}
    if not plain and draw.random() < 0.2:
        more["held"] = True
    live = [job.id for job in queue.jobs.values() if not job.state.ended]
    if not plain and live and draw.random() < 0.2:
        more["after"] = (Dependency(draw.choice(live), draw.choice(["ok", "any"])),)
    devices = draw.choice([1, 1, 1, 2, 2, 4])
    kinds = [None, "gpu", "A100", *(["H100"] if draw.random() < 0.7 else [])]
    kinds += ["T4"] if devices <= 2 else []
    host = draw.choice([None, None, None, None, "h2"])
    kind = draw.choice(kinds)
    return add(
        queue,
        Caller(draw.choice(USERS)),
        draw.randint(0, 9),
        devices=devices,
        device_type=kind,
        share=draw.random() < 0.2,
        host=host if kind in (None, "gpu", "A100") else None,
        time_limit_s=draw.choice([None, 60.0, 600.0, 3600.0]),
        priority=draw.choice([0, 0, 0, 1]),
        retries=draw.randint(0, 1),
        **more,
    )


def disturb(queue: Queue, draw: Random) -> None:
    """Drain, lose and use some of the hosts."""
    for name in ("h1", "h2", "h4"):
        if draw.random() < 0.25:
            device = draw.choice([None, f"{name}/0"])
            apply(queue, requests.drain(queue, name, device, "fan", ROOT, 20))
        elif draw.random() < 0.25:
            apply(queue, events_of(queue, AgentLost(name, "away"), 0))
        elif draw.random() < 0.5:
            used = (DeviceUse(f"{name}/1", 9, ("python (7)",)),)
            apply(queue, events_of(queue, DevicesSeen(name, used), 0))


def waiting(queue: Queue) -> list[ServiceJob]:
    return [job for job in queue.jobs.values() if job.state in (JobState.QUEUED, JobState.HELD)]
