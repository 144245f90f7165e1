"""Hosts of a run that are played: their agents, executors and servers, in one process.

All talk to the real controller as real ones would, each over a connection of its own with TLS:
leases, forks, assignments, reports. What is played is the work: a task takes its time and is done.
"""

from __future__ import annotations

import errno
import heapq
import select
import signal
import socket
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from warren.live.process.agents.messages import AGENT_DECODER, PutFile, StartZygote
from warren.live.process.leases.host_lease import (
    AgentEffect,
    BeginLease,
    DeliverBody,
    HostLease,
    SendFrame,
    StopAll,
)
from warren.live.process.leases.messages import TO_AGENT
from warren.live.process.leases.timing import LeaseTiming
from warren.live.process.specs import (
    End,
    ExecutorRole,
    Exited,
    Fork,
    Forked,
    ServerRole,
    ZygoteReady,
)
from warren.live.transport.frames import Stream, bodies
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import ENCODER, Assign, CompEnded, ExecutorReady
from warren.live.transport.server_messages import Open, RoundReport, ServerReady
from warren.live.transport.sockets import Link, Poller
from warren.live.transport.tcp_listener import FAR
from warren.live.transport.tls import TlsSocket

NUMERICS: Final = "played"


class FakeAgent:
    """An agent with a real lease; what it forks is played."""

    def __init__(self, hosts: FakeHosts, host: int, timing: LeaseTiming) -> None:
        self.hosts, self.host = hosts, host
        self.lease = HostLease(host, f"machine-{host}", 0, timing)
        self.stream = Stream(TlsSocket(_connected(hosts.agents_at), hosts.secret, False))
        self.do(self.lease.connected(time.monotonic_ns()))

    def do(self, effects: Iterable[AgentEffect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(frame):
                    self.stream.send(ENCODER.encode(frame))
                case DeliverBody(body):
                    self.obey(AGENT_DECODER.decode(body))
                case StopAll():
                    raise SystemExit("a played host has lost its lease")
                case BeginLease():
                    pass

    def obey(self, order: Any) -> None:
        match order:
            case StartZygote():
                self.say(ZygoteReady(("main",), NUMERICS))
            case Fork(ticket=ticket, role=role):
                self.say(Forked(ticket, ticket))
                self.hosts.begin(role)
            case End(ticket=ticket):
                self.say(Exited(ticket, ticket, "killed by SIGKILL"))
            case PutFile():
                pass

    def say(self, body: Any) -> None:
        self.do(self.lease.say(ENCODER.encode(body), time.monotonic_ns()))

    def hear(self) -> None:
        for body in bodies(self.stream):
            self.do(self.lease.hear(TO_AGENT.decode(body), time.monotonic_ns()))


class FakeHosts:
    """All hosts: ``serve`` plays them until the controller's listener has gone.

    Parameters
    ----------
    agents_at
        Where agents connect.
    control
        The path of the controller's hub.
    secret
        The run's.
    hosts, timing
        How many, and the times of their leases.
    task_ns
        How long a task takes.
    scales, rounds
        By job: how many tasks a round has, and how many rounds there are.
    """

    def __init__(
        self,
        agents_at: tuple[str, int],
        control: str,
        secret: bytes,
        hosts: int,
        timing: LeaseTiming,
        task_ns: int,
        scales: list[int],
        rounds: int,
    ) -> None:
        self.agents_at, self.control, self.secret = agents_at, control, secret
        self.task_ns, self.scales, self.rounds = task_ns, scales, rounds
        self.poller = Poller()
        self.device_of: dict[Link, int] = {}
        self.executors: dict[int, Link] = {}
        self.job_of: dict[Link, int] = {}
        self.servers: dict[int, Link] = {}
        self.queues: defaultdict[int, deque[list[Any]]] = defaultdict(deque)
        self.busy: set[int] = set()
        # Of each job: the round that is open, its stamps, and devices that wait for it.
        self.open_round: dict[int, int] = {}
        self.stamps: defaultdict[int, list[TaskStamp]] = defaultdict(list)
        self.waiting: defaultdict[int, set[int]] = defaultdict(set)
        self.due: list[tuple[int, int, int, int, int, int]] = []
        self._order = count()
        self.agents = {agent.stream.fileno(): agent for agent in self._agents(hosts, timing)}
        self.epoll = select.epoll()
        for agent in self.agents.values():
            agent.stream.watch(self.epoll)
        self.poller.register(self.epoll.fileno())

    def _agents(self, hosts: int, timing: LeaseTiming) -> list[FakeAgent]:
        return [FakeAgent(self, host, timing) for host in range(hosts)]

    def begin(self, role: object) -> None:
        """A process that is forked says that it is there; trainers say nothing."""
        match role:
            case ExecutorRole(device=device, incarnation=incarnation):
                link = self._link(ExecutorReady(device, incarnation))
                self.device_of[link], self.executors[device] = device, link
            case ServerRole(job=job, generation=generation, part=part):
                link = self._link(ServerReady(job.index, generation, part))
                self.job_of[link], self.servers[job.index] = job.index, link

    def _link(self, first: Any) -> Link:
        link = Link(FAR + self.control, self.secret)
        link.send(first)
        self.poller.register(link)
        return link

    def serve(self) -> None:
        """Play until told to end."""
        agents_ns = 0
        while True:
            now_ns = time.monotonic_ns()
            if now_ns >= agents_ns:
                for agent in self.agents.values():
                    agent.do(agent.lease.tick(now_ns))
                agents_ns = now_ns + 20_000_000
            left_ns = min(self.due[0][0] if self.due else agents_ns, agents_ns) - now_ns
            for source in self.poller.poll(max(0, left_ns) / 1e6):
                if isinstance(source, int):
                    for fd, _ in self.epoll.poll(0):
                        self.agents[fd].hear()
                elif isinstance(source, Link):
                    self._hear(source)
            now_ns = time.monotonic_ns()
            while self.due and self.due[0][0] <= now_ns:
                self._computed(*heapq.heappop(self.due))

    def _hear(self, link: Link) -> None:
        for message, _ in link.drain():
            if isinstance(message, Assign):
                device = self.device_of[link]
                for round_no in range(message.round, message.round + message.rounds):
                    for shard in message.shards:
                        self.queues[device].append([message.seq, message.job, round_no, shard])
                self._try(device)
            elif isinstance(message, Open):
                job = self.job_of[link]
                self.open_round.setdefault(job, 0)
                self._open(job)

    def _open(self, job: int) -> None:
        waiting, self.waiting[job] = self.waiting[job], set()
        for device in sorted(waiting):
            self._try(device)

    def _try(self, device: int) -> None:
        """Begin the next task of a device, if its round is open."""
        if device in self.busy or not self.queues[device]:
            return
        seq, job, round_no, shard = self.queues[device][0]
        if self.open_round.get(job) != round_no:
            self.waiting[job].add(device)
            return
        self.queues[device].popleft()
        self.busy.add(device)
        end_ns = time.monotonic_ns() + self.task_ns
        heapq.heappush(self.due, (end_ns, next(self._order), device, seq, job, shard))

    def _computed(self, end_ns: int, _: int, device: int, seq: int, job: int, shard: int) -> None:
        """A task leaves its device; with the last of its round the barrier passes."""
        round_no, start_ns = self.open_round[job], end_ns - self.task_ns
        self.executors[device].send(CompEnded(seq, round_no, shard, start_ns, end_ns, False))
        self.busy.discard(device)
        self.stamps[job].append(TaskStamp(shard, start_ns, end_ns, end_ns, device))
        if len(self.stamps[job]) == self.scales[job]:
            stamps = tuple(sorted(self.stamps.pop(job), key=lambda stamp: stamp.shard))
            over = round_no + 1 == self.rounds
            told = RoundReport(
                job, 0, round_no, 1.0, None, over, end_ns, stamps, sha256="0" * 64 if over else ""
            )
            self.servers[job].send(told)
            self.open_round[job] = round_no + 1
            self._open(job)
        self._try(device)


def _connected(address: tuple[str, int]) -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if end.connect_ex(address) not in (0, errno.EINPROGRESS):
        raise OSError("nobody listens")
    return end


def play(*what: Any) -> None:
    """Be all hosts, in a process of its own, until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    FakeHosts(*what).serve()
