"""Hosts with agents on this machine alone, without rights: all at the loopback address.

Agents find stand-ins for GPUs. A host is cut off from its controller while a file is there.
``warm_agents`` lets agents, also those of testbeds, and their zygotes be forked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
import warm_program
from warm_zygote import Forked

from warren.live.control import engine
from warren.live.gpu.discovery import Gpu
from warren.live.gpu.trainer_device import STAND_IN
from warren.live.process.agents import launcher
from warren.live.process.agents.spec import AgentSpec
from warren.live.process.host_placement import HostPlacement
from warren.live.testbed.namespaces import HostNamespace
from warren.live.training.numerics import clean_environment
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.run import Run

LEASE_NS = 1 * 10**9
KIND = "cuda"
AGENT = """
from warren.live.process.agents import agent
agent.main()
"""
_AGENT = """
import os
from warren.live.gpu.discovery import Gpu
from warren.live.process.agents import agent

agent.gpus_here = lambda: [Gpu(*row) for row in {rows!r}]
agent._LOOK_AGAIN_S = 0.2
cut = {cut!r}


class CutOff(agent.HostAgent):
    def _connect(self, now_ns):
        if os.path.exists(cut):
            self._retry_ns = now_ns + 10**7
        else:
            super()._connect(now_ns)

    def _timeout_s(self):
        if os.path.exists(cut):
            self._disconnect()
        return min(0.02, super()._timeout_s())


agent.HostAgent = CutOff
agent.main()
"""


def stand_in(host: int, name: str = "stand-in", number: int = 0) -> Gpu:
    """A GPU that no other one is, and no GPU."""
    return Gpu(STAND_IN, name, 1 << 30, "", f"{host}-{number}")


def cut_of(folder: Path, host: int) -> Path:
    """The file that cuts a host off."""
    return folder / f"cut-{host}"


def agents_with(
    monkeypatch: pytest.MonkeyPatch, folder: Path, gpus_H: Sequence[Sequence[Gpu]]
) -> None:
    """Let hosts with agents be this machine, and their agents find these GPUs."""

    def placed(cluster: Cluster) -> HostPlacement:
        names = [host.name for host in cluster.hosts]
        here = [HostNamespace(address="127.0.0.1")] * len(names)
        return HostPlacement(here, [names.index(one.host) for one in cluster.devices], agents=True)

    def code(spec: AgentSpec) -> str:
        rows = [
            (gpu.index, gpu.name, gpu.memory_bytes, gpu.libraries, gpu.uuid)
            for gpu in gpus_H[spec.host]
        ]
        return _AGENT.format(rows=rows, cut=str(cut_of(folder, spec.host)))

    monkeypatch.setattr(engine, "placement_of", placed)
    warm_agents(monkeypatch, folder, code)


def warm_agents(
    monkeypatch: pytest.MonkeyPatch, folder: Path, code: Callable[[AgentSpec], str]
) -> None:
    """Let agents run ``code`` in forks of a process that has loaded what their zygotes load.

    Each zygote of a cold one loads PyTorch, which takes 3 s of a core. Empty ``code``: the agent is
    started as those of users are.
    """
    start_cold, program_cold = launcher.start_agent, launcher.program

    def program(spec: AgentSpec) -> list[str]:
        path, text = folder / f"agent-{spec.host}.py", code(spec)
        path.write_text(text)
        return [str(path)] if text else program_cold(spec)

    def start(spec: bytes, log: Path, command: Sequence[str]) -> Any:
        return (_start_warm if len(command) == 1 else start_cold)(spec, log, command)

    monkeypatch.setattr(launcher, "program", program)
    monkeypatch.setattr(launcher, "start_agent", start)


class _Agent(Forked):
    """An agent that was forked; ``stdin``: the pipe that keeps it alive."""

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        super().__init__(pid)
        self.stdin = stdin


def _start_warm(spec: bytes, log: Path, command: Sequence[str]) -> _Agent:
    """Start an agent as ``launcher.start_agent`` does."""
    read, write = os.pipe()
    environment = clean_environment(os.environ)
    with log.open("ab") as output, os.fdopen(read):
        forked = warm_program.start(command, environment, output, output, entry=[read])
    agent = _Agent(forked.pid, os.fdopen(write, "wb"))
    launcher.hand_over(agent, spec)  # type: ignore[arg-type]
    return agent


def on_agents(run: Run, kinds_H: Sequence[Sequence[str]], memory_bytes: int | None = None) -> Run:
    """The same run on hosts with agents, each with devices of these types."""
    names = [f"n{host}" for host in range(len(kinds_H))]
    rows = [(name, kind) for name, kinds in zip(names, kinds_H, strict=True) for kind in kinds]
    devices = tuple(
        Device(index=index, name=f"{name}/{kind}-{index}", type=kind, host=name)
        for index, (name, kind) in enumerate(rows)
    )
    hosts = tuple(
        Host(name=name, devices=tuple(one.name for one in devices if one.host == name))
        for name in names
    )
    cluster = replace(
        run.cluster,
        hosts=hosts,
        devices=devices,
        types=tuple(DeviceType(name=kind) for kind in dict.fromkeys(kind for _, kind in rows)),
        local=replace(run.cluster.local, lease_ns=LEASE_NS, memory_bytes=memory_bytes),
    )
    return replace(run, cluster=cluster)
