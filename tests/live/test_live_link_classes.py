"""Who is told which class: drawn answers and losses, against what stands by the core's rules."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from live_worlds import job, virtual

from warren.core.answers.standing import StandingAnswers
from warren.live.control.link_classes import LinkClasses, StandingClasses
from warren.live.transport.server_messages import FlowClass
from warren.model.cluster import Device, Host
from warren.model.decision import CLASSES, Decision

HOSTS = 2
JOBS = (job(0), job(1), job(2, sync="ring"))
HOMES = {0: (0, 1), 1: (1,), 2: ()}
KINDS = st.integers(0, CLASSES - 1)
NAMES = st.integers(0, len(JOBS) - 1)
ANSWERS = st.tuples(
    st.dictionaries(NAMES, KINDS, max_size=2),
    st.dictionaries(st.tuples(st.integers(0, HOSTS - 1), NAMES), KINDS, max_size=2),
)
STEPS = st.lists(ANSWERS | st.integers(0, HOSTS - 1) | st.just("servers"), max_size=8)


class Heard:
    """Executors, one a host, and servers, with the last class that each was told of a job."""

    def __init__(self) -> None:
        self.devices: dict[int, dict[int, int]] = {host: {} for host in range(HOSTS)}
        self.servers: dict[tuple[int, int], int] = {}

    def tell_device(self, device: int, said: FlowClass) -> None:
        self.devices[device][said.job] = said.flow_class

    def tell_server(self, job: int, part: int, said: FlowClass) -> None:
        assert said.job == job
        self.servers[job, part] = said.flow_class


@given(STEPS)
def test_all_who_are_up_know_the_class_of_what_they_send(steps: list[Any]) -> None:
    run, _ = virtual(JOBS, 1)
    hosts = tuple(Host(name=f"h{i}", devices=()) for i in range(HOSTS))
    devices = tuple(Device(index=i, name=f"h{i}/a", type="cpu", host=f"h{i}") for i in range(HOSTS))
    cluster = replace(run.cluster, hosts=hosts, devices=devices)
    run = replace(run, cluster=cluster)
    standing, heard = StandingAnswers(run), Heard()
    ledger: Any = SimpleNamespace(ended=lambda job: False)
    manager: Any = SimpleNamespace(tell=heard.tell_device)
    servers: Any = SimpleNamespace(homes=HOMES.get, tell=heard.tell_server)
    flows = LinkClasses(run, StandingClasses(JOBS), ledger, manager, servers)
    for step in steps:
        if isinstance(step, tuple):
            standing.apply(Decision(classes=step[0], host_classes=step[1]))
            flows.classify(*step)
        elif step == "servers":  # of job 0: they are lost, and others come
            heard.servers.pop((0, 0), None)
            flows.tell_servers(0)
        else:  # an executor is lost, and another comes
            heard.devices[step].clear()
            flows.tell_device(step)

        def kind(host: int, one: int) -> int:
            everywhere = standing.class_J.item(one)
            if JOBS[one].sync == "ring":
                return everywhere
            return standing.host_classes.get((host, one), everywhere)

        for one in range(len(JOBS)):
            for host in range(HOSTS):
                assert heard.devices[host].get(one, 0) == kind(host, one)
            for part, home in enumerate(HOMES[one]):
                assert heard.servers.get((one, part), 0) == kind(home, one)
