"""Why a job waits: the cause by brute force, the evidence, and what can be done."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest
from api_world import submitted, world
from fake_service import play
from forecast_tools import drawn_queue, waiting
from queue_tools import BEN, NS, ROOT, add, add_array, apply, end, machine, service, start
from test_serve_queue_model import picture
from why_model import CAUSES, model_of, starts_backfill, starts_strict

from warren.serve.forecast.counterfactual import Counterfactual
from warren.serve.forecast.why import Why, explained
from warren.serve.hosts.port import AgentJoined, AgentLost, DevicesSeen
from warren.serve.queue import requests
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import Dependency
from warren.serve.records.machines import DeviceUse
from warren.serve.records.users import Quota
from warren.serve.schedule.decide import Order
from warren.serve.schedule.reasons import why

SEEDS = range(20)


def explain(queue: Queue, job: str, at_s: float = 0, order: Order = "strict") -> Why:
    return explained(queue, queue.jobs[job], int(at_s * NS), order)


def check(found: Why, starts: Any) -> None:
    """Compare an answer with brute force: ``starts`` without these causes, tried in the model."""
    if found.cause in ("starting", ""):
        assert starts(())
        return
    assert not starts(())
    alone = [cause for cause in CAUSES if starts((cause,))]
    if found.cause == "never":
        assert found.confirmed
        assert not starts(CAUSES)
        return
    assert found.confirmed == bool(alone)
    if alone:
        assert found.cause in alone
        assert found.also == ()
        return
    causes = (found.cause, *found.also)
    if not found.also:
        assert not starts(CAUSES)
        return
    assert starts(causes)
    for left_out in causes:
        assert not starts(tuple(one for one in causes if one != left_out))


def test_the_cause_named_is_right_by_brute_force_in_drawn_queues() -> None:
    seen: set[tuple[str, bool]] = set()
    count = 0
    for seed in SEEDS:
        queue = drawn_queue(seed)
        model = model_of(queue)
        for job in waiting(queue):
            found = explained(queue, job, 100 * NS, "strict")
            check(found, partial(starts_strict, model, job.id, now_ns=100 * NS))
            assert found.evidence
            assert found.next or found.cause == "starting"
            seen.add((found.cause, found.confirmed))
            count += 1
    assert count >= 80
    assert {cause for cause, confirmed in seen if confirmed} >= set(CAUSES)
    assert any(not confirmed for _, confirmed in seen)


def test_the_cause_under_backfill_is_right_by_brute_force() -> None:
    draw = Random(5)
    count = 0
    for _ in range(12):
        queue = service(machine("h1", *["H100"] * 3), machine("h2", *["H100"] * 2))
        for _ in range(draw.randint(3, 5)):
            add(queue, devices=draw.randint(1, 2), time_limit_s=draw.choice([None, 5.0, 9.0]))
        start(queue, 0, "backfill")
        if draw.random() < 0.4:
            apply(queue, requests.drain(queue, "h2", None, "fan", ROOT, 0))
        for _ in range(draw.randint(3, 6)):
            add(
                queue,
                devices=draw.randint(1, 3),
                time_limit_s=draw.choice([None, 1.0, 4.0, 20.0]),
                held=draw.random() < 0.15,
                after=(Dependency("1", "any"),) if draw.random() < 0.15 else (),
            )
        start(queue, 1, "backfill")
        model = model_of(queue)
        for job in waiting(queue):
            found = explained(queue, job, NS, "backfill")
            check(found, partial(starts_backfill, model, job.id, now_s=1))
            count += 1
    assert count >= 40


@pytest.mark.parametrize("order", ["strict", "backfill"])
def test_the_list_names_the_cause_that_why_names_unless_another_alone_would_do(
    order: Order,
) -> None:
    differ, count = 0, 0
    for seed in SEEDS:
        queue = drawn_queue(seed, order)
        for job in waiting(queue):
            count += 1
            found, listed = explained(queue, job, 100 * NS, order), why(queue, job, 100 * NS, order)
            if found.cause != listed.code:
                differ += 1
                assert listed.code
                assert not Counterfactual(queue, job, 100 * NS, order).starts_without([listed.code])
    assert differ < 0.05 * count


def test_nothing_is_changed_by_asking() -> None:
    queue = drawn_queue(1)
    before = repr(picture(queue))
    for job in waiting(queue):
        explained(queue, job, 100 * NS, "strict")
    assert repr(picture(queue)) == before


def test_what_can_be_done_about_devices_names_the_host_the_time_and_the_job() -> None:
    queue = service(machine("h1", *["A100"] * 4), machine("h2", *["A100"] * 4))
    add(queue, devices=2, host="h1", time_limit_s=7800.0, name="llama")
    add(queue, devices=3, host="h2", time_limit_s=9000.0)
    start(queue)
    big = add(queue, BEN, devices=4, device_type="A100")
    found = explain(queue, big)
    assert (found.cause, found.also, found.confirmed) == ("devices", (), True)
    assert found.evidence == (
        "needs 4 A100 on one host; 2 are free on h1; 3 are free on 2 hosts in all"
    )
    assert found.next == (
        "h1 has 4 in about 2 h 10 min, when job 1 (llama) of ana ends; "
        "or ask for 2, and it starts now"
    )


def test_a_job_deep_in_the_queue_waits_for_devices_and_for_those_before_it() -> None:
    queue = service(machine("h1", "H100"))
    add(queue)
    start(queue)
    jobs = add_array(queue, 0, 8)
    found = explain(queue, jobs[-1])
    assert (found.cause, found.also, found.confirmed) == ("devices", ("order",), False)
    assert found.evidence == "needs 1 device; none is free; 8 jobs come first"
    assert found.next.endswith("; then it waits for: order")


def test_a_shorter_limit_is_proposed_where_the_job_would_start_with_it() -> None:
    queue = service(machine("h1", "H100", "H100"))
    add(queue, time_limit_s=7200.0)
    start(queue, 0, "backfill")
    add(queue, devices=2, time_limit_s=60.0)
    long = add(queue, time_limit_s=86400.0)
    assert start(queue, 0, "backfill") == {}
    found = explain(queue, long, 0, "backfill")
    assert (found.cause, found.confirmed) == ("order", True)
    assert "state a time limit of at most 2 h, and it starts now" in found.next
    assert f"warren priority {long} 1" in found.next


def test_each_cause_names_what_can_be_done() -> None:
    queue = service(machine("h1", "H100", "H100"), machine("h2", "A100"), machine("h3", "T4"))
    apply(queue, requests.set_quota(queue, Quota("each", "H100", 1), ROOT, 0))
    first = add(queue, device_type="H100", time_limit_s=3600.0)
    start(queue)
    second = add(queue, device_type="H100")
    assert explain(queue, second).next == (
        f"there is room in about 1 h, when job {first} of ana ends; "
        "or ask an admin for more: warren quota set ana H100 2"
    )
    two = add(queue, device_type="H100", devices=2)
    assert "submit it with --devices 1" in explain(queue, two).next
    held = add(queue, BEN, held=True, device_type="A100")
    assert explain(queue, held).next == f"let it start: warren release {held}"
    waits = add(queue, BEN, after=(Dependency(first),), device_type="A100")
    found = explain(queue, waits)
    assert (found.cause, found.confirmed) == ("dependency", True)
    assert found.next == f"job {first} of ana runs, and ends in about 1 h"
    behind = add(queue, BEN, after=(Dependency(held),), device_type="A100")
    assert explain(queue, behind).next == f"see why job {held} waits: warren why {held}"
    apply(queue, requests.drain(queue, "h2", None, "fan", ROOT, 0))
    late = add(queue, BEN, device_type="A100")
    found = explain(queue, late)
    assert (found.cause, found.confirmed) == ("drained", True)
    assert found.next == "an admin lets jobs start there again: warren undrain h2"
    apply(queue, requests.undrain(queue, "h2", None, ROOT, 0))
    apply(queue, events_of(queue, DevicesSeen("h2", (DeviceUse("h2/0", 9, ("x (1)",)),)), 0))
    found = explain(queue, late)
    assert (found.cause, found.confirmed) == ("foreign", True)
    assert "x (1) uses h2/0 of h2" in found.evidence
    apply(queue, events_of(queue, AgentLost("h3", "away"), 0))
    lost = add(queue, BEN, device_type="T4")
    found = explain(queue, lost)
    assert (found.cause, found.confirmed) == ("host", True)
    assert found.next.startswith("start the agent of h3 again; or ")


def test_of_a_job_that_does_not_wait_its_state_is_said() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue)
    assert explain(queue, job).cause == "starting"
    start(queue)
    assert explain(queue, job) == Why(cause="", evidence="it runs on h1", next="", confirmed=True)
    end(queue, job, exit_code=3)
    assert explain(queue, job).evidence == "it is failed: exit code 3"


def test_a_job_that_no_machine_could_run_is_named_so_and_confirmed() -> None:
    queue = Queue()
    job = add(queue, devices=9)
    found = explain(queue, job)
    assert (found.cause, found.evidence, found.confirmed) == (
        "host",
        "no host has joined yet",
        True,
    )
    queue = service(machine("h1", "H100", "H100"))
    two = add(queue, devices=2)
    smaller = AgentJoined(machine("h1", "H100"), ())
    apply(queue, [*events_of(queue, AgentLost("h1", "away"), 0), *events_of(queue, smaller, 0)])
    found = explain(queue, two)
    assert (found.cause, found.confirmed) == ("never", True)


def test_the_api_and_the_page_say_why_to_every_known_caller() -> None:
    async def main() -> None:
        async with world(devices=1) as w:
            ana, ben = w.local("ana"), w.local("ben")
            await submitted(ana, time_limit_s=600.0)
            second = await submitted(ana)
            await asyncio.sleep(1)
            answer = await ben.get(f"/v1/jobs/{second}/why")
            assert answer.status_code == 200
            found = answer.json()
            assert (found["cause"], found["confirmed"], found["also"]) == ("devices", True, [])
            assert "secret" not in answer.text
            page = (await ben.get(f"/jobs/{second}")).text
            assert f"devices: {found['evidence']}" in page
            assert "What comes next" in page
            await w.local("root").post("/v1/hosts/h0/drain", json={})
            assert "devices: " in (await ben.get(f"/jobs/{second}")).text  # drawn often, so kept
            assert (await ben.get(f"/v1/jobs/{second}/why")).json()["cause"] == "drained"
            await asyncio.sleep(30)
            assert "drained: " in (await ben.get(f"/jobs/{second}")).text
            assert (await ben.get("/v1/jobs/99/why")).status_code == 404

    play(main())
