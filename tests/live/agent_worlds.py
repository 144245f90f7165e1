"""Hosts with agents on this machine alone, without rights: all at the loopback address.

Agents find stand-ins for GPUs. A host is cut off from its controller while a file is there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from warren.live.control import engine
from warren.live.gpu.discovery import Gpu
from warren.live.gpu.trainer_device import STAND_IN
from warren.live.process.agents import launcher
from warren.live.process.agents.spec import AgentSpec
from warren.live.process.host_placement import HostPlacement
from warren.live.testbed.namespaces import HostNamespace
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.run import Run

LEASE_NS = 1 * 10**9
KIND = "cuda"
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

    def program(spec: AgentSpec) -> list[str]:
        rows = [
            (gpu.index, gpu.name, gpu.memory_bytes, gpu.libraries, gpu.uuid)
            for gpu in gpus_H[spec.host]
        ]
        code = _AGENT.format(rows=rows, cut=str(cut_of(folder, spec.host)))
        return [sys.executable, "-P", "-c", code]

    monkeypatch.setattr(engine, "placement_of", placed)
    monkeypatch.setattr(launcher, "program", program)


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
