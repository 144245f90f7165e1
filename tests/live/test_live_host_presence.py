"""Which opportunistic hosts are there, by what the pool says: told once, in order, jobs go back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from live_worlds import job

from warren.live.control.agent_hosts import HostPresence, absent_at_first, refuse_agents
from warren.live.control.event_queue import PendingEvents
from warren.model.cluster import Cluster, Device, DeviceType, Host, Local
from warren.model.errors import SpecError
from warren.model.events import AnyEvent, HostJoined, HostLeft


def cluster(*opportunistic: int) -> Cluster:
    """Three hosts of a device each, with leases."""
    hosts = tuple(
        Host(name=f"h{at}", devices=(f"h{at}/cpu-0",), opportunistic=at in opportunistic)
        for at in range(3)
    )
    devices = tuple(
        Device(index=at, name=host.devices[0], type="cpu", host=host.name)
        for at, host in enumerate(hosts)
    )
    return Cluster(
        hosts=hosts, devices=devices, types=(DeviceType(name="cpu"),), local=Local(lease_ns=10**9)
    )


class Parts:
    """The parts around it, which note what they are asked to do."""

    def __init__(self, *opportunistic: int) -> None:
        self.changes: list[tuple[int, bool]] = []
        self.lost: list[list[int]] = []
        self.left_out: list[int] = []
        made = cluster(*opportunistic)
        context: Any = SimpleNamespace(
            absent=absent_at_first(made),
            devices=made.devices,
            pool=SimpleNamespace(changed_hosts=self._taken),
            run=SimpleNamespace(cluster=made),
        )
        self.pending = PendingEvents(())
        ledger: Any = SimpleNamespace(cluster_ns=lambda host_ns: host_ns)
        recovery: Any = SimpleNamespace(host_left=lambda devices, _: self.lost.append(devices))
        startup: Any = SimpleNamespace(leave_out=self._leave_out)
        self.context = context
        self.presence = HostPresence(context, ledger, self.pending, recovery, startup)

    def _taken(self) -> list[tuple[int, bool]]:
        changes, self.changes = self.changes, []
        return changes

    def _leave_out(self, devices: list[int]) -> None:
        self.left_out = devices

    def events(self) -> Iterator[AnyEvent]:
        while batch := self.pending.pop():
            yield from batch


def test_what_is_not_there_at_time_zero_is_reported_then_and_startup_does_not_wait_for_it() -> None:
    parts = Parts(1, 2)
    parts.changes = [(0, True), (2, True)]
    assert not parts.presence.look(0)
    assert parts.left_out == [1]
    parts.presence.begin(resumed=False)
    assert list(parts.events()) == [HostLeft(0, 1)]


def test_a_resumed_run_learns_of_hosts_that_are_there_too() -> None:
    parts = Parts(1, 2)
    parts.changes = [(2, True)]
    parts.presence.look(0)
    parts.presence.begin(resumed=True)
    assert list(parts.events()) == [HostLeft(0, 1), HostJoined(0, 2)]


def test_a_host_that_goes_takes_its_jobs_back_and_one_that_stays_says_nothing() -> None:
    """The loss of a host that is not opportunistic is no event: what is there waits for it."""
    parts = Parts(1)
    parts.changes = [(1, True)]
    parts.presence.look(0)
    parts.presence.begin(resumed=False)
    parts.changes = [(0, False), (2, False)]
    assert not parts.presence.look(5)
    parts.changes = [(1, False)]
    assert parts.presence.look(7)
    assert parts.lost == [[1]]
    assert list(parts.events()) == [HostLeft(7, 1)]


def test_a_host_that_goes_and_comes_at_one_instant_is_there_in_the_end() -> None:
    parts = Parts(1)
    parts.presence.begin(resumed=False)
    parts.changes = [(1, True), (1, False), (1, True)]
    parts.presence.look(9)
    kinds = [type(event) for event in parts.events()]
    assert kinds == [HostLeft, HostJoined, HostLeft, HostJoined]


def test_without_leases_all_hosts_are_this_machine_and_are_there() -> None:
    assert absent_at_first(cluster(1)) == {1}
    assert not absent_at_first(replace(cluster(1), local=Local()))


@pytest.mark.parametrize("wanted", [True, False])
def test_servers_of_a_job_are_awaited_where_their_hosts_are_there(wanted: bool) -> None:
    from warren.live.control.servers import Servers

    absent = set() if wanted else {1}
    servers = Servers.__new__(Servers)
    servers._context = SimpleNamespace(absent=absent)  # type: ignore[assignment]
    servers._stated_homes = lambda job: (0, 1)  # type: ignore[method-assign]
    assert servers.reachable(0) is wanted


def test_rings_are_refused_where_hosts_come_and_go() -> None:
    made = replace(cluster(1), local=Local(lease_ns=10**9))
    refuse_agents(replace(made, local=Local()), (job(0, sync="ring"),))
    refuse_agents(made, (job(0),))
    with pytest.raises(SpecError, match=r"hosts\[1\].opportunistic: h1 may come and go.*'job-0'"):
        refuse_agents(made, (job(0), job(0, sync="ring")))


def test_the_host_of_the_controller_cannot_come_and_go() -> None:
    """On a testbed that is the first; on Ray the controller is on no host."""
    made = cluster(0)
    refuse_agents(made, ())
    with pytest.raises(SpecError, match="h0 is where the run's controller is"):
        refuse_agents(replace(made, local=Local(testbed="lab", lease_ns=10**9)), ())
