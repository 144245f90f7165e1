"""GPUs that the service takes out itself, tests, and brings back."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_nvml
import msgspec
import pytest
from agent_world import HOST
from agent_world import world as agent_world
from fake_service import (
    TestJournal,
    all_ended,
    daemon_of,
    now_ns,
    play,
    submit_one,
    until,
)
from queue_tools import NS, ROOT, add, apply, machine, reason, service, start

from warren.cli.service.lookup import declared
from warren.cli.service.machines import top_lines
from warren.serve.agent.care import gpu_program, self_test
from warren.serve.agent.care.self_test import UNTESTED, SelfTests, command_of
from warren.serve.agent.loop import Timer
from warren.serve.api.routes.hosts import host_row
from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played, fake_machine
from warren.serve.hosts.port import AgentJoined, AgentLost, DeviceTested, XidSeen
from warren.serve.queue import requests
from warren.serve.queue.machines import BEFORE_USE
from warren.serve.queue.quarantine import BACKOFF_S, due_tests
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import JobState

GPUS = ("GPU-h0-0", "GPU-h0-1")
XID = "Xid 79: the GPU has fallen off the bus"


def gpu_host(name: str = "h1", boot: str = "b") -> Any:
    return msgspec.structs.replace(machine(name, "H100", "H100", boot=boot), tests=True)


def hear(queue: Queue, report: Any, at_s: float = 0) -> list[Any]:
    events = events_of(queue, report, int(at_s * NS))
    apply(queue, events)
    return events


def answered(queue: Queue, passed: bool | None, at_s: float = 0, text: str = "why") -> list[Any]:
    return hear(queue, DeviceTested("h1", "h1/0", passed, text), at_s)


def due(queue: Queue, at_s: float) -> bool:
    return ("h1", "h1/0") in due_tests(queue, int(at_s * NS))


# Before use.


def test_gpus_of_a_machine_that_came_or_started_again_are_tested_before_their_first_job() -> None:
    queue = service(gpu_host())
    job = add(queue)
    assert not start(queue)
    assert reason(queue, job).code == "drained"
    assert BEFORE_USE in reason(queue, job).text
    assert due_tests(queue, 0) == [("h1", "h1/0"), ("h1", "h1/1")]
    answered(queue, True)
    assert start(queue) == {job: ("h1/0",)}
    assert not hear(queue, AgentJoined(gpu_host(), (f"{job}.1",)))[1:]  # the agent alone
    again = hear(queue, AgentJoined(gpu_host(boot="c"), ()))
    assert [type(one).__name__ for one in again[:3]] == ["MachineJoined", "Drained", "Drained"]


def test_processors_and_machines_that_cannot_test_are_used_at_once() -> None:
    queue = service(
        machine("h1", "H100"), msgspec.structs.replace(machine("h2", "CPU"), tests=True)
    )
    assert not queue.machines["h1"].drained
    assert not queue.machines["h2"].drained


def test_a_gpu_that_cannot_be_tested_is_used_but_one_that_fails_is_not() -> None:
    queue = service(gpu_host())
    answered(queue, None)
    assert "h1/0" not in queue.machines["h1"].drained
    queue = service(gpu_host())
    answered(queue, False, text="1 of 8 values is wrong")
    reason_of = queue.machines["h1"].drained["h1/0"]
    assert reason_of == "quarantined: its self-test failed: 1 of 8 values is wrong"


def test_an_admins_drain_is_neither_tested_nor_lifted() -> None:
    queue = service(gpu_host())
    answered(queue, True)
    apply(queue, requests.drain(queue, "h1", "h1/0", "new fan", ROOT, 0))
    hear(queue, XidSeen("h1", "h1/0", 79))
    hear(queue, AgentJoined(gpu_host(boot="c"), ()))
    assert queue.machines["h1"].drained["h1/0"] == "new fan"
    assert not due(queue, 1e9)
    assert not answered(queue, True)


# After a fault.


def faulty() -> Queue:
    queue = service(gpu_host())
    for device in ("h1/0", "h1/1"):
        hear(queue, DeviceTested("h1", device, True))
    hear(queue, XidSeen("h1", "h1/0", 79))
    return queue


def test_a_faulty_gpu_is_tested_later_and_later_until_it_passes() -> None:
    queue, at_s = faulty(), 0.0
    assert queue.machines["h1"].drained == {"h1/0": f"quarantined: {XID}"}
    for wait_s in (*BACKOFF_S, BACKOFF_S[-1]):
        assert not due(queue, at_s + wait_s - 1)
        at_s += wait_s
        assert due(queue, at_s)
        assert len(answered(queue, False, at_s)) == 1
    assert len(answered(queue, True, at_s)) == 1
    assert not queue.machines["h1"].drained
    hear(queue, XidSeen("h1", "h1/0", 79), at_s)
    assert due(queue, at_s + BACKOFF_S[0])  # a new fault begins from the beginning


def test_after_a_fault_a_gpu_that_cannot_be_tested_stays_out() -> None:
    queue = faulty()
    answered(queue, None, text="PyTorch finds no GPU")
    drained = queue.machines["h1"].drained["h1/0"]
    assert drained == "quarantined: it could not be tested: PyTorch finds no GPU"


@pytest.mark.parametrize("device", ["h1/0", None])
def test_undrain_brings_a_gpu_back_at_once_and_late_answers_change_nothing(
    device: str | None,
) -> None:
    queue = faulty()
    apply(queue, requests.undrain(queue, "h1", device, ROOT, 0))
    assert not queue.machines["h1"].drained
    assert not due(queue, 1e9)
    assert not answered(queue, False)


def test_a_gpu_that_a_job_holds_and_one_of_a_lost_host_are_not_tested() -> None:
    queue = service(gpu_host())
    for device in ("h1/0", "h1/1"):
        hear(queue, DeviceTested("h1", device, True))
    job = add(queue)
    assert start(queue) == {job: ("h1/0",)}
    hear(queue, XidSeen("h1", "h1/0", 79))
    assert not due(queue, 1e9)
    queue = faulty()
    hear(queue, AgentLost("h1", "no answer"))
    assert not due(queue, 1e9)


def test_the_reason_of_a_quarantine_is_shown_where_machines_are() -> None:
    queue = faulty()
    hear(queue, XidSeen("h1", "h1/1", 999))
    hosts = msgspec.to_builtins([host_row(queue, "h1")])
    first, second = top_lines(hosts, None)[1:]
    assert f"quarantined: {XID}" in first
    assert "Xid 999" in second


# The daemon.


@pytest.fixture
def journal(tmp_path: Path) -> TestJournal:
    return TestJournal(tmp_path / "queue.db")


def hosts_of(**more: Any) -> FakeHosts:
    one = msgspec.structs.replace(fake_machine("h0", 2), tests=True)
    return FakeHosts([one], lambda _: Played(1.0), now_ns=now_ns, **more)


def drained(daemon: Daemon) -> dict[Any, str]:
    return daemon.queue.machines["h0"].drained if daemon.queue.machines else {}


def test_jobs_wait_for_the_test_and_a_gpu_that_fails_it_is_used_once_it_passes(
    journal: TestJournal,
) -> None:
    async def main() -> None:
        hosts = hosts_of()
        hosts.faulty[GPUS[0]] = "2 values are wrong"
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        begun_ns = now_ns()
        for _ in range(4):
            submit_one(daemon)
        jobs = await all_ended(daemon)
        assert {job.attempts[-1].devices for job in jobs} == {GPUS[1:]}
        assert jobs[0].attempts[0].begun_ns - begun_ns >= 5 * NS
        assert list(drained(daemon)) == [GPUS[0]]
        assert sorted(hosts.tested) == list(GPUS)
        del hosts.faulty[GPUS[0]]
        await until(daemon, lambda: not drained(daemon))
        assert now_ns() - begun_ns >= BACKOFF_S[0] * NS
        assert hosts.tested.count(GPUS[0]) == 2
        await daemon.stop()

    play(main())


def test_a_test_that_no_answer_came_to_is_ordered_again(journal: TestJournal) -> None:
    async def main() -> None:
        hosts = hosts_of()
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        await until(daemon, lambda: bool(hosts.tested))
        hosts.lose("h0")  # the answers never come
        await asyncio.sleep(60)
        hosts.bring_back("h0")
        await until(daemon, lambda: not drained(daemon))
        assert hosts.tested.count(GPUS[0]) == 2
        await daemon.stop()

    play(main())


def test_a_service_that_starts_again_knows_what_is_quarantined(journal: TestJournal) -> None:
    async def main() -> None:
        hosts = hosts_of()
        daemon = daemon_of(journal, hosts)
        await daemon.start()
        await until(daemon, lambda: len(hosts.tested) == 2 and not drained(daemon))
        daemon.report(XidSeen("h0", GPUS[0], 79))
        await until(daemon, lambda: bool(drained(daemon)))
        await daemon.stop()
        again = daemon_of(journal, hosts)
        await again.start()
        assert drained(again) == {GPUS[0]: f"quarantined: {XID}"}
        job = submit_one(again, devices=2)
        await until(again, lambda: again.queue.jobs[job].state is JobState.FINISHED)
        assert not drained(again)
        await again.stop()

    play(main())


# The agent.


class Later:
    """A loop whose time never comes."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        return Timer(call)


def answer(*command: str, late: bool = False) -> tuple[str, bool | None, str]:
    """What a test by this command reports."""
    said: list[tuple[str, bool | None, str]] = []
    tests = SelfTests(Later(), command, lambda *one: said.append(one))
    tests.begin("GPU-a")
    if tests.pids:
        tests.begin("GPU-a")  # it runs already
        (pid,) = tests.pids
        if late:
            tests._too_long(pid)
        tests.ended({pid: os.waitpid(pid, 0)[1], 1: 0})
    assert not tests.pids
    (one,) = said
    return one


@pytest.mark.parametrize(
    ("script", "passed", "text"),
    [
        ("exit 0", True, ""),
        ("echo first; echo; echo 'a  value is wrong'; echo; exit 1", False, "a value is wrong"),
        ("exit 3", False, "exit code 3"),
        ("kill -9 $$", False, "signal 9"),
        (f"echo no torch >&2; exit {UNTESTED}", None, "no torch"),
        ('test "$WARREN_DEVICE,$CUDA_VISIBLE_DEVICES" = GPU-a,GPU-a', True, ""),
        ('test -z "$PYTHONPATH$WARREN_AGENT_TOKEN"', True, ""),
    ],
)
def test_a_gpu_passes_if_the_command_exits_with_0(
    monkeypatch: pytest.MonkeyPatch, script: str, passed: bool | None, text: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", "of the agent")
    monkeypatch.setenv("WARREN_AGENT_TOKEN", "secret")
    assert answer("sh", "-c", script) == ("GPU-a", passed, text)


def test_a_test_that_hangs_is_ended_and_failed_and_one_that_does_not_start_says_nothing() -> None:
    device, passed, text = answer("sh", "-c", "sleep 1000; exit 0", late=True)
    assert (device, passed) == ("GPU-a", False)
    assert text == "it did not end within 120 s"
    _, passed, text = answer("no-such-program-anywhere")
    assert passed is None
    assert "does not start" in text


def test_the_command_is_a_line_or_off_or_the_program_that_warren_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command_of("off") == ()
    assert command_of("dcgmi diag -r '1 2'") == ("dcgmi", "diag", "-r", "1 2")
    monkeypatch.setattr(self_test, "find_spec", lambda _: None)
    assert command_of(None) == ()
    monkeypatch.setattr(self_test, "find_spec", lambda _: "there")
    assert command_of(None)[-1].endswith("gpu_program.py")
    for name in ("serve", "agent"):
        assert declared(name).read(["--self-test", "off"])["self_test"] == "off"
        assert declared(name).read(["--self-test", "'"]) is None


def test_the_program_compares_memory_and_products_by_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    words = 1 << 10
    monkeypatch.setattr(gpu_program, "_SIZE", 64)
    assert gpu_program.fault_of(torch, "cpu", words) == ""

    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        def full(self, *args: Any, **more: Any) -> Any:
            block = torch.full(*args, **more)
            block[5] ^= 4
            return block

    fault = gpu_program.fault_of(Forgetful(), "cpu", words)
    assert fault == f"1 of {words} words of memory do not keep their value"
    right = gpu_program._matrix
    # Values whose sums float16 cannot hold: as a device that rounds where it must not.
    monkeypatch.setattr(gpu_program, "_matrix", lambda torch, step: right(torch, step) * 63)
    assert "of a product in torch.float16 are wrong" in gpu_program.fault_of(torch, "cpu", words)


def test_the_program_says_that_a_gpu_could_not_be_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> Any:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(gpu_program, "importlib", SimpleNamespace(import_module=missing))
    assert gpu_program.main() == UNTESTED
    assert "No module named 'torch'" in capsys.readouterr().out


@pytest.mark.live
def test_an_agent_tests_a_gpu_beside_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"uuid": "GPU-a", "name": "NVIDIA H100", "total": 80 << 30, "used": 0, "pids": ()}
    gpus = tmp_path / "gpus.json"
    gpus.write_text(json.dumps([one]))
    monkeypatch.setenv("FAKE_NVML", str(gpus))
    monkeypatch.setenv("WARREN_NVML", fake_nvml.__name__)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    async def test() -> None:
        script = "sh -c 'echo of $WARREN_DEVICE; exit 1'"
        async with agent_world(tmp_path, self_test=script) as here:
            assert (await here.joined(1)).machine.tests
            here.start("1.1", "sleep", "1000")
            await here.started("1.1")
            here.hosts.test(HOST, "GPU-a")
            await here.until(lambda: any(isinstance(one, DeviceTested) for one in here.reports))
            (found,) = [one for one in here.reports if isinstance(one, DeviceTested)]
            assert found == DeviceTested(HOST, "GPU-a", False, "of GPU-a")
            assert not here.ends("1.1")
            here.hosts.stop(HOST, "1.1", 0.0)
            await here.ended("1.1")

    asyncio.run(test())
