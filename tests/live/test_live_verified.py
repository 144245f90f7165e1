"""Some tasks are computed again in another process: an app that gives other bits there fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from device_world import stage
from live_worlds import drive, ended, job, of, shuffled, treat_devices_as_gpus, world

from warren.live.control.local_engine import LivePort
from warren.live.device.lanes import LaneTask
from warren.live.device.verification import Verifier
from warren.live.transport.message import SharedSlot
from warren.live.transport.messages import RunTask, TaskComputed, Verified
from warren.live.transport.server_messages import Push, Pushed
from warren.model.decision import Assignment
from warren.model.draws import FIRST, is_drawn
from warren.model.events import JobFailed

SPOT = SharedSlot("", 0, 8, 4, 0)


class Hub:
    """Takes messages; nobody is behind it."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, peer: bytes, message: object, *buffers: memoryview) -> bool:
        self.sent.append(message)
        return True


def verifier(share: float = 0.0) -> tuple[Verifier, Hub]:
    hub = Hub()
    one = Verifier(hub, share, lambda _: True)  # type: ignore[arg-type]
    one.expect(0)
    return one, hub


def work(round_no: int, **fields: int) -> LaneTask:
    what = {"seq": 1, "job": 0, "shard": 0, "comp_pad_ns": 0, "sync_pad_ns": 0, **fields}
    return LaneTask(round=round_no, state=SPOT, **what)  # type: ignore[arg-type]


def here(one: Verifier) -> None:
    one.sat_down(b"p", 0, 9)
    one.prepared(0)


def test_the_first_tasks_that_can_tell_are_computed_again_then_a_share() -> None:
    one, hub = verifier()
    here(one)
    taken = []
    for round_no in range(9):
        one.offer(work(round_no), round_no, b"marks")
        if one.busy:
            taken.append(round_no)
            assert hub.sent[-1] == RunTask(0, round_no, 0, SPOT, None, None, b"marks")
            assert one.key == (0, round_no)
            assert one.answered(b"p", 0, round_no, 0) is not None
    assert taken == [1, 2]  # of the first, neither process has computed another before
    assert len(taken) == FIRST


def test_a_share_of_the_tasks_is_drawn_the_same_in_every_run() -> None:
    taken = [round_no for round_no in range(20_000) if is_drawn(0, round_no, 0, 0.01)]
    assert 150 < len(taken) < 250
    assert not any(is_drawn(0, round_no, 0, 0.0) for round_no in range(100))
    assert all(is_drawn(0, round_no, 0, 1.0) for round_no in range(100))


def test_a_task_waits_for_its_verifier_unless_its_time_is_fixed() -> None:
    one, hub = verifier()
    one.offer(work(1, comp_pad_ns=5), 1, b"marks")
    assert not one.busy
    one.offer(work(1), 1, b"marks")
    assert (one.busy, hub.sent) == (True, [])
    here(one)
    assert len(hub.sent) == 1


@pytest.mark.parametrize("what", ["gone", "dropped", "rolled back"])
def test_nobody_waits_for_an_answer_that_does_not_come(what: str) -> None:
    one, _ = verifier()
    here(one)
    one.offer(work(1), 1, b"marks")
    assert one.busy
    match what:
        case "gone":
            one.gone(0, 9)
        case "dropped":
            one.drop(0)
        case "rolled back":
            one.forget(0)
    assert (one.busy, one.key) == (False, None)
    assert one.answered(b"p", 0, 1, 0) is None
    assert one.raised(0) is False


def test_a_device_begins_nothing_else_while_it_computes_a_task_again() -> None:
    with stage(job(0, rounds=9, scale=1), verify=1.0) as device:
        trainer, second = device.trainer(10), device.trainer(11, verifies=True)
        for round_no in (0, 1):
            device.assign(1 + round_no, 0, round_no, (0,))
            device.state(round_no)
            assert trainer.hear(RunTask).round == round_no
            trainer.say(TaskComputed(0, round_no, 0, 0.0, b"", b"m"))
            device.servers[0].hear(Push)  # no barrier waits
            device.servers[0].say(Pushed(round_no, 0))
        again = second.hear(RunTask)
        assert (again.round, again.expected, again.update) == (1, b"m", None)
        device.assign(3, 0, 2, (0,))
        device.state(2)
        assert trainer.hears_none(RunTask)
        second.say(TaskComputed(0, 1, 0, 0.0, b"", b"m"))
        assert trainer.hear(RunTask).round == 2
        assert device.controller.hear(Verified).took_ns > 0


APPS = ("Tiny", "Counts", "Clock", "Random", "ReadsEmpty")
ENDED = {0: "finished"} | dict.fromkeys(range(1, len(APPS)), "failed")


@pytest.mark.live
@pytest.mark.parametrize("devices", [1, 2])
def test_an_app_that_keeps_something_or_looks_at_the_clock_fails_with_a_tensor_s_name(
    tmp_path: Path, devices: int
) -> None:
    jobs = [job(index, app, rounds=12) for index, app in enumerate(APPS)]
    run, costs = world(tmp_path, jobs, devices)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
        verified = len(port.verified_ns)
    assert ended(events) == ENDED
    assert verified >= FIRST
    for failed in of(events, JobFailed):
        assert "app is not deterministic: task" in failed.reason
        assert "ran twice, tensor '" in failed.reason
        assert "computed again" in failed.reason
        assert "`warren check` tells whether it reads uninitialized memory" in failed.reason


@pytest.mark.live
def test_so_does_one_in_the_process_of_a_gpu_which_computes_tasks_twice_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    treat_devices_as_gpus(monkeypatch)
    jobs = [job(index, app, rounds=12) for index, app in enumerate(APPS)]
    run, costs = world(tmp_path, jobs, 1)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert ended(events) == ENDED
    for failed in of(events, JobFailed):
        assert "app is not deterministic: task" in failed.reason
        assert "ran twice, tensor '" in failed.reason


@pytest.mark.live
def test_a_ring_s_tasks_are_computed_again_by_the_next_rank(tmp_path: Path) -> None:
    jobs = [job(index, app, rounds=12, sync="ring") for index, app in enumerate(APPS)]
    run, costs = world(tmp_path, jobs, 2)
    whole = [Assignment(rank, one.index, 0, 12, (rank,)) for one in jobs for rank in (0, 1)]
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, whole)
    assert ended(events) == ENDED
    for failed in of(events, JobFailed):
        assert "app is not deterministic: task" in failed.reason
        assert "ran twice, tensor '" in failed.reason


@pytest.mark.live
def test_nothing_is_computed_again_where_that_is_not_wanted(tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0, "Counts", rounds=12)], 1)
    with LivePort(replace(run, verify=0.0), costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
        assert port.verified_ns == []
    assert ended(events) == {0: "finished"}
