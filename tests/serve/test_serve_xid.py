"""Errors of GPUs by NVIDIA's numbers: of the device, of the program, or a note."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_nvml
import pytest
from agent_world import world
from queue_tools import add, apply, end, machine, service, start

from warren.serve.agent.care.xids import AGAIN_S, XidEvents, XidWatch
from warren.serve.agent.devices import Devices
from warren.serve.agent.loop import Timer
from warren.serve.api.routes.hosts import host_row
from warren.serve.hosts.messages import Welcome
from warren.serve.hosts.port import CommandEnded, XidSeen
from warren.serve.queue.ends import FAULT_TRIES
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import JobState
from warren.serve.records.xid import XIDS, worst, xid

GIB = 1 << 30
PROGRAM = (8, 13, 31, 32, 43, 45, 68, 69)
DEVICE = (46, 48, 62, 64, 74, 79, 95, 109, 119, 120, 136, 140, 143)
NOTES = (63, 92, 154)


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        (PROGRAM, "program"),
        (DEVICE, "device"),
        (NOTES, "note"),
        ((94,), "job"),
        ((999,), "unknown"),
    ],
)
def test_a_number_means_what_nvidias_catalog_says(numbers: tuple[int, ...], kind: str) -> None:
    for number in numbers:
        assert xid(number).kind == kind
        assert xid(number).ends_device == (kind == "device")
        assert str(xid(number)).startswith(f"Xid {number}: ")


def test_the_error_that_explains_an_end_is_the_worst_one() -> None:
    assert worst((None, 63, 45, 999)) is None
    assert worst((45, 31, 43)) == 31
    assert worst((31, 94)) == 94
    assert worst((94, 79, 31)) == 79
    assert all(number == one.number for number, one in XIDS.items())


def hear(queue: Queue, number: int, device: str = "h1/0") -> None:
    apply(queue, events_of(queue, XidSeen("h1", device, number), 0))


def running(**spec: Any) -> tuple[Queue, str]:
    queue = service(machine("h1", *["H100"] * 8))
    job = add(queue, **spec)
    start(queue)
    return queue, job


@pytest.mark.parametrize("number", DEVICE)
def test_a_faulty_device_is_taken_out_and_ends_no_other_device(number: int) -> None:
    queue, _ = running()
    hear(queue, number)
    state = queue.machines["h1"]
    assert state.drained == {"h1/0": f"quarantined: {xid(number)}"}
    assert list(state.quarantined) == ["h1/0"]


@pytest.mark.parametrize("number", [*PROGRAM, *NOTES, 94, 999])
def test_no_other_error_takes_a_device_out_however_often_it_comes(number: int) -> None:
    queue, _ = running()
    for _ in range(50):
        hear(queue, number)
    assert not queue.machines["h1"].drained


@pytest.mark.parametrize("number", [79, 94])
def test_faults_of_hardware_are_no_failures_of_a_job_with_retries(number: int) -> None:
    queue, job = running(retries=1)
    for at in range(FAULT_TRIES):
        device = queue.jobs[job].attempts[-1].devices[0]
        hear(queue, number, device)
        end(queue, job, exit_code=1)
        attempt = queue.jobs[job].attempts[-1]
        assert (attempt.cause, attempt.reason) == ("host", str(xid(number)))
        assert queue.jobs[job].state is JobState.QUEUED, at
        start(queue)
    end(queue, job, exit_code=1)  # a failure of its own: the one that it may have
    assert queue.jobs[job].state is JobState.QUEUED
    start(queue)
    end(queue, job, exit_code=1)
    assert queue.jobs[job].state is JobState.FAILED


def test_a_job_that_is_ended_by_fault_after_fault_fails_at_last() -> None:
    queue, job = running(retries=1)
    for _ in range(FAULT_TRIES + 2):
        hear(queue, 79, queue.jobs[job].attempts[-1].devices[0])
        end(queue, job, exit_code=1)
        start(queue)
    assert queue.jobs[job].state is JobState.FAILED


def test_a_job_without_retries_is_not_started_twice_and_names_the_fault() -> None:
    queue, job = running()
    hear(queue, 79)
    end(queue, job, exit_code=1)
    found = queue.jobs[job]
    assert (found.state, found.reason) == (JobState.FAILED, str(xid(79)))


def test_an_error_of_the_program_stands_in_the_reason_and_counts_as_its_failure() -> None:
    queue, job = running()
    hear(queue, 45)
    hear(queue, 31)
    hear(queue, 45)
    end(queue, job, exit_code=1)
    found = queue.jobs[job]
    assert found.reason == "Xid 31: illegal memory access by the program; exit code 1"
    assert (found.state, found.attempts[-1].cause) == (JobState.FAILED, "exit")


@pytest.mark.parametrize("number", [31, 79])
def test_a_job_that_finishes_all_the_same_has_finished(number: int) -> None:
    queue, job = running()
    hear(queue, number)
    end(queue, job, exit_code=0)
    assert (queue.jobs[job].state, queue.jobs[job].reason) == (JobState.FINISHED, "")


def test_clean_up_after_an_end_explains_nothing_and_other_devices_say_nothing_of_a_job() -> None:
    queue, job = running()
    hear(queue, 45)
    hear(queue, 31, "h1/5")
    end(queue, job, exit_code=1)
    assert queue.jobs[job].reason == "exit code 1"


def test_notes_and_unknown_numbers_are_shown_and_errors_of_programs_are_not() -> None:
    queue, _ = running()
    for number, device in ((999, "h1/0"), (63, "h1/1"), (31, "h1/2")):
        hear(queue, number, device)
    faults = [device.fault for device in host_row(queue, "h1").devices]
    assert faults[:3] == [str(xid(999)), str(xid(63)), ""]
    assert not events_of(queue, XidSeen("h1", "no such device", 79), 0)
    assert not events_of(queue, XidSeen("h9", "h1/0", 79), 0)


# The agent.


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A GPU in a file, which may be changed; there are no errors yet."""
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps([gpu()]))
    monkeypatch.setenv("FAKE_NVML", str(path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fake_nvml.taken.clear()
    yield path
    fake_nvml.taken.clear()


def gpu(**more: Any) -> dict[str, Any]:
    one = {"uuid": "GPU-a", "name": "NVIDIA H100 80GB HBM3", "total": 80 * GIB, "used": 0}
    return {**one, "pids": (), "xids": [], **more}


def test_errors_come_once_each_by_device_and_those_of_a_divided_gpu_for_all_parts(
    gpus: Path,
) -> None:
    events = Devices(fake_nvml).xid_events()
    assert events.work
    assert not events.come()
    gpus.write_text(json.dumps([gpu(xids=[31, 79])]))
    assert events.come() == [("GPU-a", 31), ("GPU-a", 79)]
    assert not events.come()
    fake_nvml.taken.clear()
    part = {"name": "NVIDIA A100 MIG 1g.5gb", "total": GIB, "used": 0, "pids": ()}
    parts = [{**part, "uuid": "MIG-1"}, {**part, "uuid": "MIG-2"}]
    gpus.write_text(json.dumps([gpu(xids=[95], parts=parts)]))
    assert Devices(fake_nvml).xid_events().come() == [("MIG-1", 95), ("MIG-2", 95)]


def test_gpus_or_drivers_without_events_and_machines_without_gpus_have_no_errors(
    gpus: Path,
) -> None:
    gpus.write_text(json.dumps([gpu(xids=None)]))
    assert not Devices(fake_nvml).xid_events().work
    old = SimpleNamespace(NVMLError=fake_nvml.NVMLError)
    assert not XidEvents(old, {"GPU-a": 0}, {"GPU-a": ["GPU-a"]}).work
    events = Devices(None).xid_events()
    assert not events.work
    assert not events.come()


def test_a_gpu_that_the_driver_has_lost_is_known_by_its_handle(
    gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Devices(fake_nvml).xid_events()
    gpus.write_text(json.dumps([gpu(xids=[79])]))

    def lost(_: object) -> str:
        raise fake_nvml.NVMLError("the GPU is lost")

    monkeypatch.setattr(fake_nvml, "nvmlDeviceGetUUID", lost)
    assert events.come() == [("GPU-a", 79)]


class Watched:
    """A watch over errors, attempts and a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.came: list[tuple[str, int]] = []
        self.attempts: tuple[str, ...] = ("1.1",)
        self.connected = True
        self.said: list[tuple[str, int]] = []
        self.work = True
        self.watch = XidWatch(
            self,
            self,
            lambda _: self.attempts,
            self._report,
            lambda: self.now_s,  # type: ignore[arg-type]
        )

    def come(self) -> list[tuple[str, int]]:
        found, self.came = self.came, []
        return found

    def call_later(self, delay_s: float, call: Any) -> Timer:
        return Timer(call)

    def _report(self, device: str, number: int) -> bool:
        if self.connected:
            self.said.append((device, number))
        return self.connected


def test_a_storm_of_one_error_is_one_report_for_each_job_that_it_meets() -> None:
    here = Watched()
    here.watch.watch(True)
    for _ in range(10):
        here.came = [("GPU-a", 45)] * 1000
        here.watch.look()
    assert here.said == [("GPU-a", 45)]
    here.attempts = ("2.1",)
    here.came = [("GPU-a", 45)]
    here.watch.look()
    assert len(here.said) == 2
    here.now_s = AGAIN_S
    here.came = [("GPU-a", 45)]
    here.watch.look()
    assert len(here.said) == 3


def test_errors_that_came_while_the_daemon_was_away_are_reported_when_it_is_back() -> None:
    here = Watched()
    here.watch.watch(True)
    here.connected = False
    here.came = [("GPU-a", 79)]
    here.watch.look()
    assert not here.said
    here.connected = True
    here.watch.watch(True)
    assert here.said == [("GPU-a", 79)]


def test_an_older_daemon_that_does_not_ask_hears_nothing() -> None:
    here = Watched()
    here.watch.watch(False)
    here.came = [("GPU-a", 79)]
    here.watch.look()
    assert not here.said


@pytest.mark.live
def test_an_error_is_reported_before_the_end_of_the_command_that_it_ended(
    gpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_NVML", "fake_nvml")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    after = tmp_path / "after.json"
    after.write_text(json.dumps([gpu(xids=[31])]))

    async def test() -> None:
        async with world(tmp_path, welcome=Welcome(xids=True), self_test="off") as here:
            assert not (await here.joined(1)).machine.tests
            here.start("1.1", "sh", "-c", f"mv {after} {gpus}; exit 1", devices=("GPU-a",))
            await here.ended("1.1")
            kinds = [type(one) for one in here.reports if isinstance(one, XidSeen | CommandEnded)]
            assert kinds[0] is XidSeen

    asyncio.run(test())
