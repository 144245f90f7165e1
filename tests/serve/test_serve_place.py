"""Place policies of the registry as the order of the queue."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from fake_service import TestJournal, all_ended, daemon_of, fake_hosts, play, submit_one
from queue_tools import BEN, NS, ROOT, add, apply, end, machine, reason, service, start

from warren.model.errors import InfeasibleDecision, SpecError
from warren.policy.place.gittins.policy import Gittins
from warren.policy.protocol import takes_new_jobs
from warren.policy.registry import POLICIES, place_policy
from warren.runs.commands.policy_order import (
    UNSUITED,
    CommandDevices,
    EndedCommand,
    KnownCommand,
    command_policies,
    command_policy,
    policy_turns,
)
from warren.runs.comparison.observed import replayed
from warren.runs.compose import simulate
from warren.serve.forecast.forward import play_forward
from warren.serve.forecast.next_steps import jobs_before
from warren.serve.hosts.fake import Played
from warren.serve.hosts.port import StartOrder
from warren.serve.queue import requests
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import ServiceJob
from warren.serve.records.users import Quota
from warren.serve.replay.read_service import load_service
from warren.serve.schedule.decide import Order
from warren.serve.schedule.known_lengths import KnownLengths, command_kind, progress_s
from warren.serve.schedule.policy_order import ASKED_MOST, PlacePolicy

ALLOWED = command_policies()
POOL = [CommandDevices("h1", {"A": 3}), CommandDevices("h2", {"A": 1, "B": 2})]


def command(kind: str = "a", came_s: float = 0, **known: Any) -> KnownCommand:
    values = {"user": "ana", "devices": 1, "types": ("A", "B"), **known}
    return KnownCommand(kind=kind, came_ns=round(came_s * NS), **values)


def in_turn(
    name: str, commands: list[KnownCommand], past: tuple[EndedCommand, ...] = (), now_s: float = 100
) -> list[int]:
    turns = policy_turns(command_policy(name), POOL, commands, past, round(now_s * NS))
    return [index for turn in turns for index in turn]


def test_every_place_policy_orders_commands_or_is_refused_with_the_reason() -> None:
    assert set(UNSUITED) < set(POLICIES)
    for name in POLICIES:
        suited = takes_new_jobs(place_policy(name)) and name not in UNSUITED
        assert suited == (name in ALLOWED)
        if suited:
            assert command_policy(name).name == name
            continue
        with pytest.raises(SpecError) as refused:
            command_policy(name)
        text = str(refused.value)
        assert f"--place: {name} cannot order commands: it " in text
        assert text.endswith(f"allowed: {', '.join(ALLOWED)}")
        assert "\n" not in text
    assert len(ALLOWED) >= 12
    with pytest.raises(SpecError, match="unknown policy 'gitins'; did you mean gittins"):
        command_policy("gitins")


@pytest.mark.parametrize("name", ALLOWED)
def test_each_command_has_one_turn_under_each_policy(name: str) -> None:
    for seed in range(6):
        draw = random.Random(seed)
        commands = [
            command(
                draw.choice("abc"),
                draw.randrange(90),
                user=draw.choice(("ana", "ben")),
                devices=draw.randint(1, 3),
                types=draw.choice((("A",), ("A", "B"))),
                ran_s=draw.choice((0.0, 7.5)),
                length_s=draw.choice((1.0, 60.0, 3600.5)),
                weight=draw.choice((1.0, 2.0)),
            )
            for _ in range(draw.randrange(12))
        ]
        past = tuple(
            EndedCommand(draw.choice("abc"), "ana", 1, draw.uniform(1, 500)) for _ in range(9)
        )
        found = in_turn(name, commands, past)
        assert sorted(found) == list(range(len(commands)))
        assert in_turn(name, commands, past) == found


def test_without_devices_commands_go_as_they_came() -> None:
    turns = policy_turns(command_policy("gittins"), [], [command(), command()], (), 0)
    assert list(turns) == [[0, 1]]


def test_a_policy_orders_commands_by_what_it_goes_by() -> None:
    past = tuple(EndedCommand(kind, "ana", 1, ran) for kind, ran in (("l", 900), ("s", 60)) * 5)
    assert in_turn("gittins", [command("l"), command("s"), command("l")], past) == [1, 0, 2]
    # A command of a kind of 60 s that has run for longer is like none before it.
    ran = [command("s", ran_s=400), command("l", ran_s=600)]
    assert in_turn("gittins", ran, past) == [1, 0]
    lengths = [command(length_s=one) for one in (300, 20, 1000)]
    assert in_turn("srtf", lengths) == [1, 0, 2]
    assert in_turn("srtf", [command(length_s=300, ran_s=290), *lengths]) == [0, 2, 1, 3]
    assert in_turn("fifo", lengths) == [0, 1, 2]
    sizes = [command(length_s=100, devices=3), command(length_s=200)]
    assert in_turn("sched-homo", sizes) == [1, 0]
    assert in_turn("sched-homo", [*sizes, command(length_s=800, weight=8.0)]) == [2, 1, 0]
    for name in ("las-2d", "hlas"):
        had = [command(ran_s=50_000), command(ran_s=0), command(ran_s=90_000)]
        assert in_turn(name, had)[0] == 1


def under(policy: str, *types: str) -> Queue:
    """A queue in the order of a policy, with one host."""
    queue = service(machine("h1", *types or ("H100",)))
    queue.policy = PlacePolicy(policy)
    return queue


def ended(queue: Queue, seconds: float, at_s: float = 0, **spec: Any) -> str:
    job = add(queue, at_s=at_s, **spec)
    assert job in start(queue, at_s)
    end(queue, job, at_s + seconds)
    return job


def test_the_queue_learns_from_finished_jobs_which_are_short() -> None:
    queue = under("gittins")
    for at in (0, 2000):
        ended(queue, 1000, at, command=("python", "long.py"))
        ended(queue, 10, at + 1500, command=("python", "short.py", "--seed", "1"))
    first = add(queue, command=("python", "long.py", "--lr", "3"))
    second = add(queue, command=("python", "short.py", "--seed", "7"))
    assert list(start(queue, 5000)) == [second]
    assert reason(queue, first).code == "devices"
    queue.policy = None
    end(queue, second, 5000)
    again = add(queue, command=("python", "short.py"))
    assert first in start(queue, 5000)
    assert queue.jobs[again].state == "queued"


def test_priority_goes_before_the_policy_and_the_policy_before_the_fair_share() -> None:
    queue = under("srtf")
    ended(queue, 10_000, time_limit_s=10_000.0, command=("a",))
    short = add(queue, time_limit_s=10.0, command=("b",))
    long = add(queue, BEN, time_limit_s=50.0, command=("c",))
    urgent = add(queue, time_limit_s=900.0, priority=1, command=("d",))
    began = []
    for at in (20_000, 20_001, 20_002):
        began += start(queue, at)
        end(queue, began[-1], at)
    assert began == [urgent, short, long]


@pytest.mark.parametrize("policy", ALLOWED)
def test_quotas_holds_drains_and_strict_hold_under_every_policy(policy: str) -> None:
    queue = under(policy, *["H100"] * 4)
    apply(queue, requests.set_quota(queue, Quota("user:ana", "gpu", 1), ROOT, 0))
    apply(queue, requests.drain(queue, "h1", "h1/3", "ecc", ROOT, 0))
    mine = [add(queue, time_limit_s=60.0) for _ in range(2)]
    held = add(queue, BEN, held=True)
    add(queue, BEN, devices=3, time_limit_s=60.0)
    add(queue, BEN, time_limit_s=60.0)
    began = start(queue)
    assert held not in began
    assert sum(one in began for one in mine) <= 1
    assert all("h1/3" not in devices for devices in began.values())
    assert sum(map(len, began.values())) <= 3


def test_jobs_beyond_those_that_a_policy_is_asked_about_come_after_them() -> None:
    queue = under("srtf", *["H100"] * 4)
    limits = [100.0 + number for number in range(ASKED_MOST)] + [1.0]
    jobs = [add(queue, time_limit_s=limit) for limit in limits]
    first = queue.policy.turns(queue, [queue.jobs[jobs[-1]]], 0)
    assert [[job.id for job in turn] for turn in first] == [[jobs[-1]]]
    assert jobs[-1] not in start(queue)


def test_a_fault_of_a_policy_is_said_and_jobs_go_as_they_came(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    queue, policy = under("gittins"), PlacePolicy("gittins")
    asked = command_policy("gittins")
    monkeypatch.setattr(Gittins, "decide", broken)
    jobs = [add(queue) for _ in range(3)]
    assert list(start(queue)) == jobs[:1]
    assert "policy gittins: broken raised ZeroDivisionError: oops" in queue.policy.fault
    said: list[str] = []

    async def main() -> None:
        daemon = daemon_of(
            TestJournal(tmp_path / "queue.db"),
            fake_hosts(devices=1),
            policy=policy,
            say=said.append,
        )
        await daemon.start()
        for _ in range(3):
            submit_one(daemon)
        await all_ended(daemon)
        await daemon.stop()

    play(main())
    assert len([line for line in said if "oops" in line]) == 1
    with pytest.raises(InfeasibleDecision):
        list(policy_turns(asked, POOL, [command()], (), 0))


def test_lengths_are_expected_by_kind_then_limit_then_all() -> None:
    queue = service(machine("h1", "H100"))
    unknown = add(queue, command=("x",))
    assert KnownLengths(queue).expected_s(queue.jobs[unknown]) == 3600
    apply(queue, requests.cancel(queue, [unknown], ROOT, 0))
    for seconds in (10, 30, 500):
        ended(queue, seconds, command=("python", "a.py", "--n", str(seconds)))
    expected = {
        add(queue, command=("python", "a.py")): 30,
        add(queue, command=("python", "a.py"), time_limit_s=20.0): 20,
        add(queue, command=("python", "b.py"), time_limit_s=70.0): 70,
        add(queue, command=("python", "b.py")): 30,
    }
    known = KnownLengths(queue)
    assert {job: known.expected_s(queue.jobs[job]) for job in expected} == expected
    assert command_kind(queue.jobs[next(iter(expected))].spec) == "python a.py"


def test_progress_is_what_the_next_attempt_goes_on_from() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, retries=3)
    start(queue, 0)
    end(queue, job, 100, exit_code=1)
    assert progress_s(queue.jobs[job], 0) == 0
    start(queue, 200)
    assert progress_s(queue.jobs[job], 230 * NS) == 30
    end(queue, job, 260, cause="preempt", lost_s=20.0)
    assert progress_s(queue.jobs[job], 0) == 40
    start(queue, 300)
    end(queue, job, 310)
    assert progress_s(queue.jobs[job], 0) == 50


# The simulator beside the service

LENGTHS_S = {"short": 61, "middle": 307, "long": 911}


def played(
    policy: str, folder: Path, jobs: list[tuple[int, str, int]], devices: int
) -> list[ServiceJob]:
    """Run jobs, each with when it comes, its kind and its devices, under a policy."""

    def plays(order: StartOrder) -> Played:
        return Played(float(LENGTHS_S[order.command[0]]))

    async def main() -> list[ServiceJob]:
        journal = TestJournal(folder / "queue.db")
        hosts = fake_hosts(devices=devices, plays=plays)
        daemon = daemon_of(journal, hosts, policy=PlacePolicy(policy))
        await daemon.start()
        begun_s = asyncio.get_running_loop().time()
        for at_s, kind, count in jobs:
            await asyncio.sleep(begun_s + at_s - asyncio.get_running_loop().time())
            submit_one(daemon, command=(kind,), devices=count, time_limit_s=float(LENGTHS_S[kind]))
        found = await all_ended(daemon)
        await daemon.stop()
        return found

    return play(main())


def drawn(seed: int, most: int) -> list[tuple[int, str, int]]:
    """One job of each kind alone, then many at once."""
    draw = random.Random(seed)
    alone = [(at, kind, 1) for at, kind in ((0, "short"), (1000, "middle"), (2000, "long"))]
    many = [
        (4000 + at, draw.choice(list(LENGTHS_S)), draw.randint(1, most))
        for at in sorted(draw.sample(range(600), 24))
    ]
    return [*alone, *many]


# Decision 0049 says why these two differ.
ALIKE = [name for name in ALLOWED if name not in ("hlas-p", "sched-allox")]


@pytest.mark.parametrize(
    ("policy", "most"), [*((name, 1) for name in ALIKE), ("fifo", 3), ("gavel-fifo", 3)]
)
def test_the_simulator_starts_the_jobs_of_a_service_as_the_service_did(
    policy: str, most: int, tmp_path: Path
) -> None:
    devices = 3
    found = played(policy, tmp_path, drawn(5, most), devices)
    run = replayed(load_service(str(tmp_path)).record.run, policy, ())
    line = simulate(run).history.timeline
    begin_ns = found[0].submitted_ns
    service_s = {job.id: (job.attempts[0].begun_ns - begin_ns) / NS for job in found}
    names = [job.name for job in run.workload.jobs]
    simulated_s = {
        names[job]: start_ns / NS
        for job, start_ns in zip(line.job_R.tolist(), line.start_ns_R.tolist(), strict=True)
    }
    assert simulated_s == service_s
    begun_s = list(service_s.values())
    by_length = policy in ("gittins", "srtf", "sched-homo", "braid-online")
    assert (begun_s != sorted(begun_s)) == by_length
    assert len({round(one) for one in service_s.values()}) > 10
    if policy in ("gavel-fifo", "gittins", "srtf"):
        places: dict[str, set[str]] = {}
        for job, device in zip(line.job_R.tolist(), line.device_R.tolist(), strict=True):
            places.setdefault(names[job], set()).add(run.cluster.devices[device].name[-1])
        assert places == {job.id: {one[-1] for one in job.attempts[0].devices} for job in found}


@pytest.mark.parametrize("order", ["strict", "backfill"])
def test_a_policy_orders_what_is_foreseen_too(order: Order) -> None:
    queue = under("srtf")
    running = add(queue, time_limit_s=10.0)
    start(queue)
    commands = {300.0: ("long",), 20.0: ("short",), 100.0: ("middle",)}
    jobs = {limit: add(queue, time_limit_s=limit, command=one) for limit, one in commands.items()}
    found = play_forward(queue, 0, order)
    starts_s = [(found[jobs[limit]].begin_ns or 0) / NS for limit in (20.0, 100.0, 300.0)]
    assert starts_s == [10, 30, 130]
    assert found[running].begin_ns == 0
    assert [jobs_before(queue, queue.jobs[jobs[limit]], 0) for limit in jobs] == [2, 0, 1]
