"""Leases under any delay, loss, repetition, reordering, crash and wrong clock: nothing runs twice.

A world in virtual time: hosts with agents, controllers one after another, a network that does what
it likes, and services of which each is to run exactly once. What is checked is what truly runs, at
every moment, not what anybody believes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.process.leases.clock_comparison import ClockComparison
from warren.live.process.leases.host_lease import (
    AgentEffect,
    BeginLease,
    DeliverBody,
    HostLease,
    SendFrame,
    StopAll,
)
from warren.live.process.leases.lease_grants import (
    GrantEffect,
    HostLeased,
    HostLost,
    HostSaid,
    LeaseGrants,
    SendTo,
    Superseded,
)
from warren.live.process.leases.messages import TO_AGENT, TO_CONTROLLER
from warren.live.process.leases.ordered_channel import OrderedChannel
from warren.live.process.leases.timing import LeaseTiming
from warren.live.transport.messages import ENCODER
from warren.model.units import NS_PER_S

pytestmark = pytest.mark.slow

TIMING = LeaseTiming(10 * NS_PER_S, drift=0.05)
HOSTS = 3
SERVICES = 4
FAULTS_S = 120.0
CALM_S = 60.0
HISTORIES = 1000


@dataclass
class Network:
    """How messages fare: for each a chance to be lost, sent twice, or late."""

    draw: Random
    lost: float
    twice: float
    slow: float
    cut: set[int] = field(default_factory=set)

    def delays_s(self, host: int) -> list[float]:
        """How late each copy of a message from or to a host arrives; none: it is lost."""
        draw = self.draw
        if host in self.cut or draw.random() < self.lost:
            return []
        copies = 1 + (draw.random() < self.twice)
        late = (0.001, 0.3) if draw.random() >= self.slow else (0.3, 25.0)
        return [draw.uniform(*late) for _ in range(copies)]


@dataclass
class Running:
    """A service that truly runs: on which host, and who started it."""

    host: int
    agent: int


class Agent:
    """An agent with a clock of its own, and what it truly runs."""

    def __init__(self, world: World, host: int, machine: str, number: int) -> None:
        self.world, self.host, self.number = world, host, number
        self.lease = HostLease(host, machine, number, TIMING)
        drift = world.draw.uniform(-TIMING.drift, TIMING.drift)
        self.rate, self.offset_ns = 1 + drift, world.draw.randrange(10**15)
        self.services: dict[int, int] = {}
        self.alive = True
        self.epochs: list[int] = []

    def now_ns(self) -> int:
        return self.offset_ns + int(self.world.now_s * self.rate * NS_PER_S)

    def do(self, effects: Iterable[AgentEffect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(frame):
                    self.world.to_controllers(self.host, ENCODER.encode(frame))
                case BeginLease(epoch=epoch):
                    assert not self.services, "a lease begins where something runs"
                    self.epochs.append(epoch)
                case DeliverBody(body):
                    self.obey(msgspec.msgpack.decode(body))
                case StopAll():
                    # As late as is allowed, by its own clock.
                    late_s = self.world.draw.uniform(0, TIMING.stop_ns / NS_PER_S) / self.rate
                    self.world.at(late_s, self.stopped)
        self.world.wake(self, self.lease.wake_ns())

    def obey(self, order: list[Any]) -> None:
        kind, service, ticket = order
        if kind == "start":
            self.world.began(service, ticket, self)
            self.services[service] = ticket
        elif self.services.get(service) == ticket:
            self.ended(service)

    def ended(self, service: int) -> None:
        """A service ends, by order or by itself; the controller is told."""
        ticket = self.services.pop(service)
        self.world.over(service, ticket)
        self.do(self.lease.say(msgspec.msgpack.encode([service, ticket]), self.now_ns()))

    def stopped(self) -> None:
        if self.alive:
            self.drop_all()
            self.do(self.lease.stopped(self.now_ns()))

    def drop_all(self) -> None:
        for service, ticket in self.services.items():
            self.world.over(service, ticket)
        self.services.clear()

    def hear(self, data: bytes) -> None:
        if self.alive:
            self.do(self.lease.hear(TO_AGENT.decode(data), self.now_ns()))

    def tick(self) -> None:
        if self.alive:
            self.do(self.lease.tick(self.now_ns()))


class Controller:
    """A controller that wants each service to run once, wherever a host is leased."""

    def __init__(self, world: World, epoch: int) -> None:
        self.world, self.epoch = world, epoch
        self.rate = 1 + world.draw.uniform(-TIMING.drift, TIMING.drift)
        self.offset_ns = world.draw.randrange(10**15)
        self.grants = LeaseGrants(epoch, HOSTS, TIMING, self.now_ns())
        self.tickets = count(1)
        self.placed: dict[int, tuple[int, int]] = {}
        self.reported: set[int] = set()
        self.alive = True

    def now_ns(self) -> int:
        return self.offset_ns + int(self.world.now_s * self.rate * NS_PER_S)

    def do(self, effects: Iterable[GrantEffect]) -> None:
        for effect in effects:
            match effect:
                case SendTo(host, frame):
                    self.world.to_agent(host, ENCODER.encode(frame))
                case HostSaid(host, body):
                    self.heard(host, *msgspec.msgpack.decode(body))
                case HostLost(host):
                    for service, (where, _) in list(self.placed.items()):
                        if where == host:
                            del self.placed[service]
                case HostLeased() | Superseded():
                    self.alive = self.alive and not isinstance(effect, Superseded)
        self.place()
        self.world.wake(self, self.grants.wake_ns())

    def heard(self, host: int, service: int, ticket: int) -> None:
        assert ticket not in self.reported, "an end is told twice"
        self.reported.add(ticket)
        assert self.placed.pop(service) == (host, ticket), "an end of what is not there"

    def place(self) -> None:
        """Start each service that runs nowhere, on a host that is leased."""
        leased = [host for host in range(HOSTS) if self.grants.holds(host)]
        for service in range(SERVICES):
            if leased and service not in self.placed:
                host = self.world.draw.choice(leased)
                ticket = next(self.tickets)
                self.placed[service] = host, ticket
                self.order(host, ["start", service, ticket])

    def order(self, host: int, order: list[Any]) -> None:
        body = msgspec.msgpack.encode(order)
        for effect in self.grants.say(host, body, self.now_ns()):
            assert isinstance(effect, SendTo)
            self.world.to_agent(effect.host, ENCODER.encode(effect.frame))

    def end_one(self) -> None:
        """Tell a service to end, as when it is to go on elsewhere."""
        if self.alive and self.placed:
            service = self.world.draw.choice(list(self.placed))
            host, ticket = self.placed[service]
            self.order(host, ["end", service, ticket])

    def hear(self, data: bytes) -> None:
        # Who has been superseded finds that by the run's folder before it answers.
        if self.alive and self.epoch == self.world.epoch:
            self.do(self.grants.hear(TO_CONTROLLER.decode(data), self.now_ns()))

    def tick(self) -> None:
        if self.alive:
            self.do(self.grants.tick(self.now_ns()))


def _lives(who: Agent | Controller) -> bool:
    return who.alive


class World:
    """Time, the network, all agents and controllers, and what truly runs."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.now_s = 0.0
        self._queue: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._order = count()
        chance = self.draw.choice
        self.network = Network(
            self.draw, chance([0.0, 0.05, 0.4]), chance([0.0, 0.3]), chance([0.0, 0.05, 0.3])
        )
        self.epoch = 0
        self.controllers: list[Controller] = []
        self.agents: list[Agent] = []
        self.current: dict[int, Agent] = {}
        self.running: dict[int, tuple[int, Agent]] = {}
        self.started: set[tuple[int, int]] = set()
        self._numbers: dict[str, Any] = {}
        self._woken: dict[int, int | None] = {}
        self.controller_begins()
        for host in range(HOSTS):
            self.agent_begins(host, f"machine-{host}")

    # What truly happens.

    def began(self, service: int, ticket: int, agent: Agent) -> None:
        assert agent.alive
        assert service not in self.running, f"{service} runs twice at {self.now_s:.3f} s"
        key = agent.lease.epoch, ticket
        assert key not in self.started, "an order is obeyed twice"
        self.started.add(key)
        self.running[service] = ticket, agent
        self.at(self.draw.expovariate(1 / 40), self.ends_itself, service, ticket, agent)

    def ends_itself(self, service: int, ticket: int, agent: Agent) -> None:
        if agent.alive and agent.services.get(service) == ticket:
            agent.ended(service)

    def over(self, service: int, ticket: int) -> None:
        assert self.running.pop(service)[0] == ticket

    # Time and messages.

    def at(self, in_s: float, call: Any, *arguments: Any) -> None:
        entry = self.now_s + in_s, next(self._order), call, arguments
        heapq.heappush(self._queue, entry)

    def wake(self, who: Agent | Controller, at_ns: int | None) -> None:
        if at_ns is not None and self._woken.get(id(who)) != at_ns:
            self._woken[id(who)] = at_ns
            in_s = max(0.0, (at_ns - who.now_ns()) / NS_PER_S / who.rate) + 1e-6
            self.at(in_s, who.tick)

    def to_controllers(self, host: int, data: bytes) -> None:
        for controller in filter(_lives, self.controllers):
            for late_s in self.network.delays_s(host):
                self.at(late_s, controller.hear, data)

    def to_agent(self, host: int, data: bytes) -> None:
        for agent in filter(_lives, self.agents):
            if agent.host == host:
                for late_s in self.network.delays_s(host):
                    self.at(late_s, agent.hear, data)

    def run(self, until_s: float) -> None:
        while self._queue and self._queue[0][0] <= until_s:
            self.now_s, _, call, arguments = heapq.heappop(self._queue)
            call(*arguments)
        self.now_s = until_s

    # Faults.

    def controller_begins(self) -> None:
        """Another controller takes over; the one before it may not have noticed yet."""
        self.epoch += 1
        controller = Controller(self, self.epoch)
        self.controllers.append(controller)
        controller.tick()

    def agent_begins(self, host: int, machine: str) -> None:
        agent = Agent(self, host, machine, next(self._numbers.setdefault(machine, count())))
        self.agents.append(agent)
        self.current[host] = agent
        agent.tick()

    def agent_dies(self, host: int, machine: str, back_s: float) -> None:
        """An agent is killed, and with it all that it runs; another one begins on its machine."""
        agent = self.current[host]
        if agent.alive:
            agent.alive = False
            agent.drop_all()
            self.at(back_s, self.agent_begins, host, machine)

    def cut(self, host: int, for_s: float) -> None:
        self.network.cut.add(host)
        self.at(for_s, self.network.cut.discard, host)

    def fault(self) -> None:
        draw, host = self.draw, self.draw.randrange(HOSTS)
        faults = ["cut", "cut", "agent", "controller", "end", "twin", "connect", "connect", "fail"]
        match draw.choice(faults):
            case "connect":
                # The way is a new one; what was under way on the old one may still arrive.
                if (agent := self.current[host]).alive:
                    agent.do(agent.lease.connected(agent.now_ns()))
                if (controller := self.controllers[-1]).alive:
                    controller.do(controller.grants.connected(host, controller.now_ns()))
            case "fail":
                if (agent := self.current[host]).alive:
                    agent.do(agent.lease.give_back())
            case "cut":
                self.cut(host, draw.choice([1.0, 5.0, 20.0, 40.0]))
            case "agent":
                self.agent_dies(host, f"machine-{host}", draw.uniform(0.1, 15.0))
            case "controller":
                if draw.random() < 0.5:
                    self.controllers[-1].alive = False
                self.at(draw.uniform(0.0, 5.0), self.controller_begins)
            case "end":
                self.controllers[-1].end_one()
            case "twin" if draw.random() < 0.3:
                # Another machine says for a while that it is this host.
                twin = Agent(self, host, f"twin-{len(self.agents)}", 0)
                self.agents.append(twin)
                twin.tick()
                self.at(draw.uniform(1.0, 60.0), self.twin_dies, twin)
        self.at(draw.expovariate(1 / 8), self.fault)

    def twin_dies(self, twin: Agent) -> None:
        twin.alive = False
        twin.drop_all()

    def calm(self) -> None:
        """From now on nothing fails; controllers that were superseded have noticed."""
        self._queue = [one for one in self._queue if one[2] != self.fault]
        heapq.heapify(self._queue)
        self.network.lost = self.network.twice = self.network.slow = 0.0
        for controller in self.controllers[:-1]:
            controller.alive = False
        for agent in self.agents:
            if agent is not self.current[agent.host]:
                self.twin_dies(agent)
        if not self.controllers[-1].alive:
            self.controller_begins()


def history(seed: int) -> World:
    """One history: faults for a while, then calm."""
    world = World(seed)
    world.at(5.0, world.fault)
    world.run(FAULTS_S)
    world.calm()
    world.run(FAULTS_S + CALM_S)
    return world


@pytest.mark.parametrize("part", range(4))
def test_whatever_is_late_lost_repeated_or_cut_off_each_service_runs_once_and_in_the_end_all_run(
    part: int,
) -> None:
    for seed in range(part, HISTORIES, 4):
        world = history(seed)
        controller = world.controllers[-1]
        assert all(controller.grants.holds(host) for host in range(HOSTS)), seed
        assert len(controller.placed) == SERVICES, seed
        for agent in world.agents:
            # Never an earlier controller's after a later one's.
            assert agent.epochs == sorted(agent.epochs), seed


@given(
    ahead=st.integers(-(10**15), 10**15),
    ways=st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**8)), min_size=1),
)
def test_a_clock_is_known_as_well_as_its_quickest_answer_allows(
    ahead: int, ways: list[tuple[int, int]]
) -> None:
    clock, now = ClockComparison(), 10**12
    for there, back in ways:
        clock.learn(now, now + there + ahead, now + there + back)
        now += there + back
    assert clock.error_ns == min(there + back for there, back in ways[-16:])
    assert abs(clock.ahead_ns - ahead) <= clock.error_ns
    # Half as much where the difference is one at all.
    assert clock.ahead_ns in (0, ahead) or 2 * abs(clock.ahead_ns - ahead) <= clock.error_ns + 1


def test_a_channel_keeps_little_of_what_comes_before_its_turn_or_again() -> None:
    channel = OrderedChannel(NS_PER_S)
    assert list(channel.hear(0, b"first")) == [b"first"]
    for number in (0, 2, 5000, 2, 0):
        assert list(channel.hear(number, b"later")) == []
    assert channel._early == {2: b"later"}
    assert list(channel.hear(1, b"second")) == [b"second", b"later"]
