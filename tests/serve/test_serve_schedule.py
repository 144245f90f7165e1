"""Which job starts next, on which devices, and why the others wait."""

from __future__ import annotations

import pytest
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
    reason,
    service,
    start,
    state,
)

from warren.serve.hosts.port import AgentLost, DevicesSeen
from warren.serve.queue import requests
from warren.serve.queue.machines import SHARERS_MOST
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.queue.usage import DeviceUsage
from warren.serve.queue.views import row
from warren.serve.records.machines import DeviceUse
from warren.serve.records.users import Caller, Quota, User
from warren.serve.schedule.decide import Order, decide

ORDERS: list[Order] = ["strict", "backfill"]


def quota(queue: Queue, subject: str, kind: str, devices: int) -> None:
    apply(queue, requests.set_quota(queue, Quota(subject, kind, devices), ROOT, 0))


# Order


@pytest.mark.parametrize("order", ORDERS)
def test_higher_priority_goes_first_then_who_has_used_less_then_who_came_first(
    order: Order,
) -> None:
    queue = service(machine("h1", "H100"))
    used = add(queue)
    start(queue, 0, order)
    end(queue, used, 1000)
    ana_first, ana_next = add(queue), add(queue)
    ben, urgent = add(queue, BEN), add(queue, priority=1)
    began = []
    for at in range(1000, 1004):
        began += start(queue, at, order)
        end(queue, began[-1], at)
    assert began == [urgent, ben, ana_first, ana_next]


@pytest.mark.parametrize("order", ORDERS)
def test_users_of_equal_use_take_turns_within_one_decision(order: Order) -> None:
    queue = service(machine("h1", *["H100"] * 4))
    ana = [add(queue) for _ in range(4)]
    ben = [add(queue, BEN) for _ in range(4)]
    assert list(start(queue, 0, order)) == [ana[0], ben[0], ana[1], ben[1]]


def test_a_user_of_twice_the_weight_gets_twice_the_devices() -> None:
    queue = service(machine("h1", *["H100"] * 6))
    apply(queue, requests.set_user(queue, User("ana", weight=2.0), ROOT, 0))
    add_array(queue, 0, 9)
    for _ in range(9):
        add(queue, BEN)
    assert [queue.jobs[one].user for one in start(queue)].count("ana") == 4


def test_a_second_of_a_scarce_type_counts_more() -> None:
    queue = service(machine("h1", "H100"), machine("h2", *["A100"] * 4))
    ana, ben = add(queue, device_type="H100"), add(queue, BEN, device_type="A100")
    start(queue)
    end(queue, ana, 100)
    end(queue, ben, 100)
    add(queue, device_type="H100")
    second = add(queue, BEN, device_type="H100")
    assert list(start(queue, 100)) == [second]


def test_use_counts_half_after_a_half_life_also_of_what_runs() -> None:
    usage = DeviceUsage(half_life_s=100.0)
    usage.change("ana", "H100", 2, 0)
    usage.change("ana", "H100", -2, NS)
    one_s = usage.of("ana", NS)["H100"]
    assert one_s == pytest.approx(2, rel=0.01)
    assert usage.of("ana", 101 * NS)["H100"] == pytest.approx(one_s / 2)
    usage.change("ben", "H100", 1, 0)
    # A device for ever comes to the half-life divided by ln 2.
    assert usage.of("ben", 10**5 * NS)["H100"] == pytest.approx(100 / 0.6931471805599453)


@pytest.mark.parametrize("order", ORDERS)
def test_a_released_or_retried_job_has_its_old_place(order: Order) -> None:
    queue = service(machine("h1", "H100"))
    first, second = add(queue, held=True), add(queue, retries=1)
    start(queue, 0, order)
    third = add(queue)
    apply(queue, requests.release(queue, [first], ANA, 0))
    end(queue, second, 0, exit_code=1)
    began = []
    for _ in range(3):
        began += start(queue, 0, order)
        end(queue, began[-1], 0)
    assert began == [first, second, third]


# Devices


def test_all_devices_of_a_job_are_of_one_host_and_one_type() -> None:
    queue = service(machine("h1", "H100", "A100"), machine("h2", "A100", "A100"))
    assert start(queue) == {}
    job = add(queue, devices=2)
    assert start(queue) == {job: ("h2/0", "h2/1")}


def test_the_least_valuable_type_is_taken_unless_one_is_named() -> None:
    queue = service(machine("h1", "H100", "A100", "T4"), machine("h2", "CPU"))
    kinds = (None, "gpu", "gpu", "H100")
    jobs = [add(queue, device_type=kind) for kind in kinds]
    devices = start(queue)
    assert [devices[one] for one in jobs] == [("h2/0",), ("h1/2",), ("h1/1",), ("h1/0",)]


def test_small_jobs_fill_the_fullest_host_so_that_large_ones_find_room() -> None:
    queue = service(machine("h1", *["H100"] * 4), machine("h2", *["H100"] * 2))
    jobs = [add(queue) for _ in range(2)]
    large = add(queue, devices=4)
    assert start(queue) == {
        jobs[0]: ("h2/0",),
        jobs[1]: ("h2/1",),
        large: ("h1/0", "h1/1", "h1/2", "h1/3"),
    }


@pytest.mark.parametrize("order", ORDERS)
def test_jobs_that_share_have_a_device_together_and_others_have_theirs_alone(order: Order) -> None:
    queue = service(machine("h1", "H100", "H100"))
    sharing = [add(queue, share=True) for _ in range(SHARERS_MOST + 1)]
    alone = add(queue)
    devices = start(queue, 0, order)
    assert [devices[one] for one in sharing] == [("h1/0",)] * SHARERS_MOST + [("h1/1",)]
    assert alone not in devices
    end(queue, sharing[-1])
    assert start(queue, 0, order) == {alone: ("h1/1",)}
    end(queue, sharing[0])
    assert start(queue, 0, order) == {}
    late = add(queue, share=True)
    assert start(queue, 0, order) == {late: ("h1/0",)}


@pytest.mark.parametrize("order", ORDERS)
def test_a_device_that_is_full_of_jobs_that_share_takes_no_more_later(order: Order) -> None:
    queue = service(machine("h1", "H100"))
    for _ in range(SHARERS_MOST):
        add(queue, share=True)
        assert len(start(queue, 0, order)) == 1
    add(queue, share=True)
    assert start(queue, 0, order) == {}


@pytest.mark.parametrize("order", ORDERS)
def test_no_job_starts_on_drained_or_foreign_devices_or_a_lost_host(order: Order) -> None:
    queue = service(machine("h1", "H100"), machine("h2", "H100", "H100"), machine("h3", "H100"))
    apply(queue, requests.drain(queue, "h1", None, "fan", ROOT, 0))
    apply(queue, requests.drain(queue, "h2", "h2/0", "ecc", ROOT, 0))
    apply(queue, events_of(queue, DevicesSeen("h2", (DeviceUse("h2/1", 1, ("x",)),)), 0))
    apply(queue, events_of(queue, AgentLost("h3", "away"), 0))
    job = add(queue)
    assert start(queue, 0, order) == {}
    apply(queue, requests.undrain(queue, "h2", None, ROOT, 0))
    assert start(queue, 0, order) == {job: ("h2/0",)}
    other = add(queue)
    apply(queue, events_of(queue, DevicesSeen("h2", (DeviceUse("h2/1"),)), 0))
    assert start(queue, 0, order) == {other: ("h2/1",)}


# Quotas


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("subject", "kind"),
    [("user:ana", "H100"), ("each", "gpu"), ("group:lab", "any")],
)
def test_a_quota_limits_devices_at_once_by_type(order: Order, subject: str, kind: str) -> None:
    queue = service(machine("h1", *["H100"] * 4), machine("h2", "A100"))
    for name in ("ana", "eve"):
        apply(queue, requests.set_user(queue, User(name, groups=("lab",)), ROOT, 0))
    quota(queue, subject, kind, 2)
    mine = [add(queue, device_type="H100") for _ in range(3)]
    ben = add(queue, BEN, device_type="H100")
    assert sorted(start(queue, 0, order)) == sorted([mine[0], mine[1], ben])
    held = {"user:ana": "user:ana", "each": "user:ana", "group:lab": "group:lab"}[subject]
    assert reason(queue, mine[2], order) == (
        "quota",
        f"needs 1; {held} has 2 of 2 devices ({kind})",
    )
    eve = add(queue, Caller("eve"), device_type="H100")
    assert (eve in start(queue, 0, order)) == (subject != "group:lab")
    end(queue, mine[0])
    assert (mine[2] if subject != "group:lab" else eve) in start(queue, 0, order)


def test_a_quota_of_a_user_takes_the_place_of_that_for_each() -> None:
    queue = service(machine("h1", *["H100"] * 4))
    quota(queue, "each", "gpu", 1)
    quota(queue, "user:ana", "gpu", 3)
    add_array(queue, 0, 3)
    assert len(start(queue)) == 3
    quota(queue, "user:ana", "gpu", -1)
    assert queue.quotas.keys() == {("each", "gpu")}


def test_under_strict_a_later_job_does_not_take_the_room_that_an_earlier_one_waits_for() -> None:
    queue = service(machine("h1", *["H100"] * 8))
    quota(queue, "user:ana", "gpu", 2)
    add(queue)
    start(queue)
    two, one = add(queue, devices=2), add(queue)
    other = add(queue, BEN)
    assert list(start(queue)) == [other]
    assert reason(queue, one) == (
        "order",
        f"needs 1 device; h1 has them, kept for job {two} of ana",
    )


@pytest.mark.parametrize("order", ORDERS)
def test_a_job_that_no_quota_will_ever_allow_holds_nothing_back(order: Order) -> None:
    queue = service(machine("h1", *["H100"] * 4))
    quota(queue, "user:ana", "gpu", 2)
    never, small = add(queue, devices=3), add(queue)
    assert list(start(queue, 0, order)) == [small]
    assert reason(queue, never, order).code == "quota"


# Reasons


def test_each_reason_names_its_evidence() -> None:
    queue = service(machine("h1", "H100", "H100"), machine("h2", "A100"))
    first = add(queue, device_type="H100")
    start(queue)
    two = add(queue, device_type="H100", devices=2)
    one = add(queue, device_type="H100")
    full = add(queue, BEN, device_type="A100", devices=1, priority=1)
    start(queue)
    late = add(queue, device_type="A100")
    assert reason(queue, two) == ("devices", "needs 2 H100 on one host; 1 is free on h1")
    assert reason(queue, one) == ("order", f"needs 1 H100; h1 has them, kept for job {two} of ana")
    assert reason(queue, late) == ("devices", "needs 1 A100; none is free")
    assert reason(queue, full) == ("", "")
    assert row(queue, queue.jobs[late], 0).reason == "devices: needs 1 A100; none is free"
    apply(queue, requests.drain(queue, "h2", None, "new fan", ROOT, 0))
    assert reason(queue, late) == ("drained", "needs 1 A100; host h2 is drained: new fan")
    apply(queue, requests.undrain(queue, "h2", None, ROOT, 0))
    used = DevicesSeen("h1", (DeviceUse("h1/1", 9, ("python (77)",)),))
    apply(queue, events_of(queue, used, 0))
    assert reason(queue, two) == (
        "foreign",
        "needs 2 H100 on one host; python (77) uses h1/1 of h1",
    )
    apply(queue, events_of(queue, AgentLost("h1", "no answer for 30 s"), 0))
    assert reason(queue, two) == (
        "host",
        "needs 2 H100 on one host; host h1 does not answer: no answer for 30 s",
    )
    assert state(queue, first) == "running"


def test_under_backfill_a_job_that_would_be_in_the_way_is_kept_by_order_and_sees_its_start() -> (
    None
):
    queue = service(machine("h1", "H100", "H100"))
    add(queue, time_limit_s=10.0)
    start(queue, 0, "backfill")
    two = add(queue, devices=2, time_limit_s=5.0)
    long = add(queue, time_limit_s=20.0)
    assert start(queue, 0, "backfill") == {}
    assert reason(queue, long, "backfill").code == "order"
    assert f"kept for job {two} of ana" in reason(queue, long, "backfill").text
    expected = [row(queue, queue.jobs[one], 0, "backfill").expected_s for one in (two, long)]
    assert expected == [10.0, 15.0]
    assert row(queue, queue.jobs[two], 0).expected_s is None


# Speed, by what is looked at and not by time


@pytest.mark.parametrize("order", ORDERS)
def test_a_decision_looks_at_no_job_where_no_device_is_free(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = service(machine("h1", "H100"))
    add_array(queue, 0, 999)
    start(queue, 0, order)
    monkeypatch.setattr("warren.serve.schedule.decide.SchedulePass", None)
    assert decide(queue, 0, order) == []


def test_a_decision_looks_at_one_job_of_many_equal_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = service(machine("h1", "H100", "H100"))
    add(queue)
    start(queue)
    add_array(queue, 0, 999, devices=2)
    looked = []
    whole = Queue.user
    monkeypatch.setattr(Queue, "user", lambda *args: looked.append(1) or whole(*args))
    assert decide(queue, 0, "strict") == []
    assert len(looked) < 10
