"""What would change the starts of waiting jobs; the service itself stays as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from api_world import submitted, world
from fake_service import play
from forecast_tools import drawn_queue, waiting
from queue_tools import ANA, BEN, ROOT, add, add_array, apply, machine, refused, service, start
from test_serve_queue_model import picture

from warren.model.errors import SpecError
from warren.serve.forecast.what_if import StartChange, TriedChanges, WhatIf
from warren.serve.queue import requests
from warren.serve.queue.requests import set_quota
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, MachineJoined
from warren.serve.records.users import Caller, Quota
from warren.serve.schedule.decide import Order
from warren.serve.schedule.policy_order import PlacePolicy

ORDERS: list[Order] = ["strict", "backfill"]


def tried(
    queue: Queue, order: Order = "strict", caller: Caller = ANA, **changes: Any
) -> dict[str, tuple[float | None, float | None]]:
    """Starts before and after changes, by job."""
    made = msgspec.convert(changes, TriedChanges)
    found = WhatIf(queue, made, caller, 0, order).answer()
    return {one.id: (one.start_before_s, one.start_after_s) for one in found}


def busy(order: Order) -> Queue:
    """A queue whose two GPUs are held for 100 s, by job 1."""
    queue = service(machine("h1", "H100", "H100"))
    add(queue, devices=2, time_limit_s=100.0)
    start(queue, 0, order)
    return queue


@pytest.mark.parametrize("order", ORDERS)
def test_each_change_moves_the_starts_that_it_should(order: Order) -> None:
    queue = busy(order)
    first = add(queue, devices=2, time_limit_s=50.0, name="first")
    second = add(queue, devices=2, time_limit_s=10.0)
    held = add(queue, held=True)
    before = (100.0, 150.0)
    assert tried(queue, order) == {first: (100, 100), second: (150, 150), held: (None, None)}
    for changes, after in (
        ({"cancel": ["1"]}, (10.0, 60.0)),
        ({"cancel": ["first"]}, (None, 100.0)),
        ({"priority": [{"job": second, "priority": 1}]}, (110.0, 100.0)),
        ({"devices": [{"job": first, "devices": 1}]}, (100.0, 150.0)),
        ({"add": [{"devices": 2, "type": "H100"}]}, (0.0, 50.0)),
        ({"add": [{"devices": 2, "type": "h100"}, {"devices": 2, "type": "T4"}]}, (0.0, 0.0)),
        ({"drain": [{"host": "h1"}]}, (None, None)),
        ({"drain": [{"host": "h1", "from_s": 120}]}, (100.0, None)),
        ({"quota": [{"subject": "user:ana", "type": "any", "devices": 1}]}, (None, None)),
    ):
        found = tried(queue, order, **changes)
        assert (found[first][0], found[second][0]) == before
        assert (found[first][1], found[second][1]) == after, changes


def test_the_order_an_undrain_and_several_changes_together_can_be_tried() -> None:
    queue = service(machine("h1", "H100", "H100"), machine("h2", "A100", "A100"))
    apply(queue, requests.drain(queue, "h2", None, "fan", ROOT, 0))
    add(queue, time_limit_s=100.0)
    start(queue)
    two, one = add(queue, devices=2, time_limit_s=9.0), add(queue, time_limit_s=50.0)
    assert tried(queue, order="strict") == {two: (100, 100), one: (109, 109)}
    assert msgspec.convert({"order": "backfill"}, TriedChanges).order == "backfill"
    found = WhatIf(queue, TriedChanges(order="backfill"), ANA, 0, "strict").answer()
    assert found == [StartChange(two, 100.0, 100.0), StartChange(one, 109.0, 0.0)]
    assert tried(queue, undrain=["h2"]) == {two: (100, 0), one: (109, 0)}
    both = tried(queue, undrain=["h2"], cancel=[two])
    assert both == {two: (100, None), one: (109, 0)}


@pytest.mark.parametrize("order", ORDERS)
def test_a_change_that_is_tried_does_what_the_same_change_does(order: Order) -> None:
    """The answer of a change is the forecast of a queue in which it was made."""
    for seed in range(8):
        queue = drawn_queue(seed, order)
        jobs = waiting(queue)
        job = jobs[seed % len(jobs)]
        changes: list[tuple[dict[str, Any], list[AnyEvent]]] = [
            ({"cancel": [job.id]}, requests.cancel(queue, [job.id], ROOT, 0)),
            (
                {"priority": [{"job": job.id, "priority": 5}]},
                requests.set_priority(queue, [job.id], 5, ROOT, 0),
            ),
            (
                {"quota": [{"subject": "each", "type": "gpu", "devices": 2}]},
                set_quota(queue, Quota("each", "gpu", 2), ROOT, 0),
            ),
            ({"undrain": ["h1"]}, requests.undrain(queue, "h1", None, ROOT, 0)),
            (
                {"add": [{"devices": 3, "type": "A100"}]},
                [MachineJoined(time_ns=0, machine=machine("added 1", *["A100"] * 3))],
            ),
        ]
        for asked, events in changes:
            made = drawn_queue(seed, order)
            apply(made, events)
            after = tried(made, order)
            for one, (_, start_s) in tried(queue, order, **asked).items():
                assert start_s == after.get(one, (None, None))[1], (seed, asked, one)


def test_of_an_array_the_jobs_that_wait_are_changed() -> None:
    queue = service(machine("h1", "H100", "H100"))
    jobs = add_array(queue, 0, 2, time_limit_s=100.0, devices=2)
    unit = jobs[0].partition("_")[0]
    start(queue)
    assert tried(queue, devices=[{"job": unit, "devices": 1}]) == {
        jobs[1]: (100, 100),
        jobs[2]: (200, 100),
    }
    assert tried(queue, cancel=[unit]) == {jobs[1]: (100, None), jobs[2]: (200, None)}


def test_nothing_is_changed_and_names_are_those_of_the_caller() -> None:
    queue = busy("strict")
    mine, other = add(queue, BEN, name="x"), add(queue, ANA, name="x")
    before = repr(picture(queue))
    found = tried(queue, caller=BEN, cancel=["x"])
    assert found[mine][1] is None
    assert found[other] == (100.0, 100.0)
    assert repr(picture(queue)) == before


def test_a_change_that_cannot_be_made_is_refused_in_one_line() -> None:
    queue = busy("strict")
    waits = add(queue)
    for kind, changes in (
        ("unknown", {"cancel": ["99"]}),
        ("unknown", {"drain": [{"host": "h9"}]}),
        ("unknown", {"undrain": ["h9"]}),
        ("conflict", {"devices": [{"job": "1", "devices": 1}]}),
        ("conflict", {"priority": [{"job": "1", "priority": 1}]}),
        ("wrong", {"priority": [{"job": waits, "priority": 10**6}]}),
        ("wrong", {"quota": [{"subject": "all", "type": "gpu", "devices": 1}]}),
        ("never", {"devices": [{"job": waits, "devices": 3}]}),
    ):
        refused(kind, lambda changes=changes: tried(queue, **changes))  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"add": [{"devices": 0, "type": "H100"}]}, TriedChanges)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"stop": 1}, TriedChanges)


def test_the_api_tries_changes_for_every_known_caller_and_shows_ids_and_times_alone() -> None:
    async def main() -> None:
        async with world() as w:
            ana, ben = w.local("ana"), w.local("ben")
            await submitted(ana, devices=2, time_limit_s=600.0)
            await submitted(ana, devices=2, time_limit_s=300.0)
            third = await submitted(ben, time_limit_s=60.0)
            await asyncio.sleep(5)
            last = w.daemon.journal.last
            answer = await ben.post("/v1/what-if", json={"cancel": ["2"]})
            assert answer.status_code == 200
            # Without ended jobs about half of what is left of a limit is expected.
            half_s = 0.525 * 595
            before_s = pytest.approx(half_s + 0.525 * 60)
            assert answer.json() == [
                {"id": "2", "start_before_s": before_s, "start_after_s": None},
                {
                    "id": third,
                    "start_before_s": pytest.approx(half_s),
                    "start_after_s": pytest.approx(half_s),
                },
            ]
            assert (await ben.post("/v1/what-if", json={"cancel": ["77"]})).status_code == 404
            assert (await ben.post("/v1/what-if", json={"stop": 1})).status_code == 400
            policy = await ben.post("/v1/what-if", json={"place": "gitins"})
            assert policy.status_code == 400
            assert "did you mean gittins" in policy.json()["error"]
            assert w.daemon.journal.last == last

    play(main())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("asked", [0, 50])  # in one plan, or played end by end
def test_a_place_policy_and_fair_shares_can_be_tried(
    order: Order, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.serve.forecast.forward.ASKED_MOST", asked)
    queue = busy(order)
    long = add(queue, devices=2, time_limit_s=900.0)
    short = add(queue, devices=2, time_limit_s=60.0)
    assert tried(queue, order, place="srtf") == {long: (100, 160), short: (1000, 100)}
    assert tried(queue, order, place="fair") == {long: (100, 100), short: (1000, 1000)}
    assert queue.policy is None
    by_policy = busy(order)
    by_policy.policy = PlacePolicy("srtf")
    add(by_policy, devices=2, time_limit_s=900.0)
    add(by_policy, devices=2, time_limit_s=60.0)
    assert tried(by_policy, order, place="fair") == {long: (160, 100), short: (100, 1000)}
    with pytest.raises(SpecError, match="gittins"):
        tried(queue, order, place="gitins")
