"""``warren flow coordinator`` and ``agent``, as processes on loopback and in hosts of a testbed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli_runs import Warren
from processes import PATIENCE_S

from warren.live.enforcement.coordination.messages import MOST_BYTES
from warren.live.enforcement.coordination.token_file import read_secret
from warren.live.testbed.lifecycle import make, remove
from warren.live.transport.frames import Stream, bodies
from warren.live.transport.tls import TlsSocket
from warren.model.testbed import Bed, BedHost

JOBS = {"late": 29500, "early": 29600}
AGENT = "agent --token-file t --log a.log --port 1"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("coordinator", "flow coordinator: --token-file is missing"),
        ("agent --log a.log --port 1", "flow agent: --token-file is missing"),
        ("agent --token-file t --port 1", "flow agent: --log is missing"),
        (AGENT, "flow: --token-file: t: No such file or directory"),
        (f"{AGENT} --name A", "flow: --name: 'A' is not a name"),
        (f"{AGENT} --coordinator here", "flow: --coordinator: 'here' is no address; allowed: like"),
        (f"{AGENT} --periods 0", "flow: --periods: 0; allowed: 1 and more"),
        (f"{AGENT} --cuts 1,nan", "flow: --cuts: '1,nan' is neither steps"),
        (f"{AGENT} --rate 1Gbit", "flow: --rate: is that of a --device, which is missing"),
        ("coordinator --token-file t --listen 1", "flow: --listen: '1' is no address"),
        ("coordinator --token-file t --period 0", "flow: --period: 0; allowed: 0.1 to 86400"),
        ("coordinator --token-file t --wait 0", "flow: --wait: 0; allowed: 0.01 to 1"),
        ("coordinator --token-file t --wait nan", "flow: --wait: nan; allowed: 0.01 to 1"),
        ("coordinator --token-file t --keep 0", "flow: --keep: 0; allowed: 1 to 10000"),
        ("coordinator --token-file t --seed -1", "flow: --seed: -1; allowed: 0 to "),
        ("coordinator --token-file no/t", "flow: --token-file: no/t: No such file or directory"),
        ("coordinator --token-file t --listen 192.0.2.1:0", "flow: cannot listen at 192.0.2.1:0"),
    ],
)
def test_what_is_typed_wrongly_is_reported_in_one_line_and_starts_nothing(
    warren: Warren, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str, told: str
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("warren.live.enforcement.client.subprocess.Popen", started)
    monkeypatch.chdir(tmp_path)
    if "--name" in arguments:
        read_secret(Path("t"), make=True)
    found = warren("flow", *arguments.split())
    assert found.code in (1, 2)
    assert found.out == ""
    assert told in found.complaint


class _Process:
    """A command of ``warren flow`` whose lines are read as they come."""

    def __init__(self, *arguments: str, network: str = "") -> None:
        inside = ["ip", "netns", "exec", network] if network else []
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-m", "warren", "flow", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.err: list[str] = []
        self._rows: queue.Queue[dict[str, Any]] = queue.Queue()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._hear)]
        for one in self._threads:
            one.start()

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first row that comes from now on and for which it holds."""
        end_s = time.monotonic() + PATIENCE_S
        last: object = None
        while True:
            try:
                last = row = self._rows.get(timeout=max(0.01, end_s - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"not seen; last {last}, said {self.err}") from None
            if holds(row):
                return row

    def said(self, text: str) -> str:
        """The line of standard error that has this text, once it comes."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            for line in list(self.err):
                if text in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"{text!r} was not said: {self.err}")

    def end(self, with_signal: int = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        code = self.process.wait(PATIENCE_S)
        for one in self._threads:
            one.join()
        return code

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self._rows.put(json.loads(line))

    def _hear(self) -> None:
        assert self.process.stderr
        with self.process.stderr as lines:
            for line in lines:
                self.err.append(line.rstrip("\n"))


class _World:
    """Logs that grow, and processes that end with the test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.token = str(folder / "flow.token")
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write)
        self._writer.start()
        stack.callback(self._writer.join)
        stack.callback(self._over.set)

    def _write(self) -> None:
        """Let "late" be almost done, "early" in its midst."""
        curves = {"late": (400, 30.0), "early": (20, 300.0)}
        files = {name: (self.folder / f"{name}.log").open("a") for name in curves}
        step = 1
        while not self._over.is_set():
            for name, (begun, tau) in curves.items():
                for at in range(1 if step == 1 else begun + step - 1, begun + step):
                    files[name].write(f"step {at} acc {0.9 * (1 - math.exp(-at / tau)):.6f}\n")
                files[name].flush()
            step += 1
            self._over.wait(0.1)
        for file in files.values():
            file.close()

    def start(self, *arguments: str, network: str = "") -> _Process:
        found = _Process(*arguments, network=network)
        self._stack.callback(found.end, signal.SIGKILL)
        return found

    def coordinator(self, port: int = 0, period: float = 1.0, keep: int = 3) -> _Process:
        options = f"--period {period} --keep {keep} --wait 0.9 --json"
        return self.start(
            *("coordinator", "--listen", f"127.0.0.1:{port}", "--token-file", self.token),
            *options.split(),
        )

    def agent(self, name: str, port: int, *jobs: str) -> _Process:
        told = [f"--log {self.folder}/{job}.log --port {29500 + at}" for at, job in enumerate(jobs)]
        return self.start(
            *("agent", "--name", name, "--coordinator", f"127.0.0.1:{port}"),
            *("--token-file", self.token, "--dry-run", "--json", *" ".join(told).split()),
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[_World]:
    with ExitStack() as stack:
        yield _World(tmp_path, stack)


def _port_of(coordinator: _Process) -> int:
    return int(coordinator.said("listens at").rpartition(":")[2])


def _classes(row: dict[str, Any]) -> dict[str, int | None]:
    return {job["job"]: job["class"] for job in row["jobs"]}


@pytest.mark.live
@pytest.mark.machine
def test_jobs_of_two_hosts_are_ordered_also_when_one_agent_is_killed(world: _World) -> None:
    coordinator = world.coordinator()
    port = _port_of(coordinator)
    here = world.agent("a", port, "late", "early")
    there = world.agent("b", port, "early", "unlogged")
    both = {"early": 1, "late": 2, "unlogged": 0}
    coordinator.until(lambda row: row["agents"] == ["a", "b"] and _classes(row) == both)
    here.until(lambda row: _classes(row) == {"late": 2, "early": 1})
    there.until(lambda row: _classes(row) == {"early": 1, "unlogged": 0})
    there.end(signal.SIGKILL)
    alone = {"early": 1, "late": 2}
    gone = coordinator.until(lambda row: row["agents"] == ["a"] and _classes(row) == alone)
    coordinator.said("b at 127.0.0.1:")
    # Gains are told anew by the one that is left, for longer than old ones stand.
    coordinator.until(
        lambda row: (
            row["period"] > gone["period"] + 4
            and _classes(row) == alone
            and all(job["gain_periods"] < 3 for job in row["jobs"])
        )
    )
    assert coordinator.end() == 130
    assert here.end() == 130


@pytest.mark.live
@pytest.mark.machine
def test_classes_outlast_their_coordinator_for_so_long_and_come_back_with_the_next(
    world: _World,
) -> None:
    coordinator = world.coordinator(period=1.0, keep=2)
    port = _port_of(coordinator)
    agent = world.agent("a", port, "late", "early")
    ordered = {"late": 2, "early": 1}
    agent.until(lambda row: _classes(row) == ordered)
    coordinator.end(signal.SIGKILL)
    agent.until(lambda row: _classes(row) == {"late": None, "early": None})
    agent.said("no coordinator for 2 s: nothing is marked any more")
    again = world.coordinator(port=port, period=1.0, keep=2)
    again.until(lambda row: _classes(row) == ordered)
    agent.until(lambda row: _classes(row) == ordered)
    again.end()
    agent.end()


@pytest.mark.live
@pytest.mark.machine
def test_an_agent_that_hangs_holds_up_no_period_and_counts_again_when_it_goes_on(
    world: _World,
) -> None:
    coordinator = world.coordinator(keep=2)
    port = _port_of(coordinator)
    world.agent("a", port, "late")
    hung = world.agent("b", port, "early")
    ordered = {"early": 1, "late": 1}
    coordinator.until(lambda row: _classes(row) == ordered)
    hung.process.send_signal(signal.SIGSTOP)
    coordinator.until(lambda row: not row["jobs"][0]["answered"])
    gone = coordinator.until(lambda row: row["agents"] == ["a"])
    # Periods begin while it hangs, and the other agent answers in them.
    coordinator.until(lambda row: row["period"] > gone["period"] and row["jobs"][0]["answered"])
    assert "b at 127.0.0.1:" in coordinator.said("has said nothing for too long")
    hung.process.send_signal(signal.SIGCONT)
    coordinator.until(lambda row: row["agents"] == ["a", "b"] and _classes(row) == ordered)


def _stranger(port: int, secret: bytes) -> Stream:
    end = socket.create_connection(("127.0.0.1", port))
    return Stream(TlsSocket(end, secret, False), MOST_BYTES)


def _heard(stream: Stream) -> list[Any]:
    """What the coordinator says until it closes the connection or has said something."""
    end_s = time.monotonic() + PATIENCE_S
    found: list[Any] = []
    while not stream.closed and not found and time.monotonic() < end_s:
        found += [msgspec.msgpack.decode(body) for body in bodies(stream)]
        time.sleep(0.02)
    return found


@pytest.mark.live
@pytest.mark.machine
def test_nonsense_strangers_and_a_second_agent_of_a_name_hurt_no_other(world: _World) -> None:
    coordinator = world.coordinator()
    port = _port_of(coordinator)
    agent = world.agent("a", port, "late", "early")
    coordinator.until(lambda row: row["agents"] == ["a"])
    secret = read_secret(Path(world.token))
    # No TLS; a frame of an absurd length, in the clear; a right hello by another secret.
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\1\0\0\0" + b"\xff" * 8):
        with socket.create_connection(("127.0.0.1", port)) as end:
            end.sendall(noise)
            end.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                while end.recv(1000):
                    pass
    hello = {"type": "hello", "protocol": 2, "agent": "x", "instance": b"i" * 16, "jobs": ["late"]}
    other = _stranger(port, b"o" * 32)
    other.send(msgspec.msgpack.encode(hello))
    assert _heard(other) == []
    assert other.closed
    coordinator.said("does not show the secret")
    # Many that say nothing; those that know the secret get in all the same.
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(80)]
    coordinator.said("is one of too many")
    # One that knows the secret, counts, and then tells what nobody asked for.
    liar = _stranger(port, secret)
    liar.send(msgspec.msgpack.encode(hello))
    assert _heard(liar)[0]["type"] == "welcome"
    liar.send(msgspec.msgpack.encode({"type": "gain", "period": 0, "job": "late", "gain": 99.0}))
    assert "x at 127.0.0.1:" in coordinator.said("it tells a gain of late that it was not asked")
    # A second "a" ends with one line; the first one stays.
    second = world.agent("a", port, "late")
    assert second.process.wait(PATIENCE_S) == 2
    told = "warren: flow: --name: the coordinator refuses it: 'another agent is called a'"
    assert second.said("refuses") == told
    row = coordinator.until(lambda row: _classes(row) == {"early": 1, "late": 2})
    assert row["agents"] == ["a"]
    for one_end in (liar, *idle):
        one_end.close()
    for one in (coordinator, agent):
        one.end()
    assert not any("Traceback" in line for one in (coordinator, agent, second) for line in one.err)


def _marked(network: str) -> dict[str, int]:
    """The classes of jobs that the kernel has in a host's network."""
    inside = ["ip", "netns", "exec", network, "nft", "list", "ruleset"]
    rules = subprocess.run(inside, capture_output=True, text=True, check=True).stdout
    found = re.findall(r'chain job_(\S+) \{.*?comment "class (\d)"', rules, re.DOTALL)
    return {job: int(flow_class) for job, flow_class in found}


def _until_marked(network: str, expected: dict[str, int]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while (found := _marked(network)) != expected:
        assert time.monotonic() < end_s, found
        time.sleep(0.1)


@pytest.mark.live
@pytest.mark.machine
@pytest.mark.usefixtures("can_make_testbeds")
def test_agents_mark_in_their_hosts_and_all_is_gone_with_them_or_their_coordinator(
    world: _World, tmp_path: Path
) -> None:
    if not shutil.which("nft"):
        pytest.skip("the command nft is not here; it comes with nftables")
    hosts = tuple(BedHost(name=f"h{i}", link_bps=10**8) for i in range(2))
    name = f"co-{os.getpid()}"
    make(Bed(name=name, subnet="10.78.0.0/24", hosts=hosts))
    networks = [f"warren-{name}-{i}" for i in range(2)]
    try:
        at = ("10.78.0.1:7411", "--token-file", world.token)
        coordinator = world.start(
            *("coordinator", "--listen", *at, "--period", "1", "--keep", "2", "--json"),
            network=networks[0],
        )
        coordinator.said("listens at 10.78.0.1:7411")
        logs = [f"--log {tmp_path}/{job}.log --port {port}" for job, port in JOBS.items()]
        agents = [
            world.start(
                *("agent", "--name", f"h{i}", "--coordinator", *at, *" ".join(logs).split()),
                network=networks[i],
            )
            for i in range(2)
        ]
        for network in networks:
            _until_marked(network, {"early": 1, "late": 2})
        agents[1].end(signal.SIGKILL)
        _until_marked(networks[1], {})
        _until_marked(networks[0], {"early": 1, "late": 2})
        coordinator.end(signal.SIGKILL)
        _until_marked(networks[0], {})
        agents[0].said("no coordinator for 2 s: nothing is marked any more")
        agents[0].end()
    finally:
        remove(name)
