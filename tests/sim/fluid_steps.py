"""Bytes of servers and rings on links, once more: a slow, plain simulation of ``network: fluid``.

It shares no code with the simulator. Given which assignments and classes were decided when, it
tells when each task starts, ends its COMP and ends, when barriers pass, and which bytes were on
which link when. It goes from instant to instant; at each, everything is looked at again, and all
rates are found from scratch. Times are whole nanoseconds.

The model, in its order:

1. The state of a job's round is there when the barrier before it has passed (its first: when the
   job has arrived). Parts of other servers than the first are there sooner: each when that server
   has all updates of the round before.
2. A device wants it while one of the first ``1 + look_ahead`` tasks of its queue that have not
   started is of that round. Then each server sends its part to the device's host: a *transfer*. A
   device gets each state once.
3. A task starts when it is the head of its device's queue, the device computes nothing, the state
   is there, and fewer than two updates of its job on this device are computed or pushed. What the
   device pays for going to another job comes first, and keeps it as COMP does.
4. At the end of its COMP it sends each server a part. The device goes on meanwhile.
5. The task ends when the last part has arrived; the barrier is the end of a round's last task.
   Where the round is evaluated, and behind the last one, other servers send the first their part
   when they have all updates, and the barrier waits for these, too.

A transfer between hosts waits the latency, then flows over an uplink and a downlink; within a host
it has the host's inner rate, and shares it with nobody. A ring starts when all its devices have
come to it; a round is its longest COMP, what each host adds, and its bytes, one flow over all its
hosts. A device has one task of a ring's stretch, which has started when the ring has. Flows are
max-min fair in their class.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fluid_model import Assigned, Classed, Interval, Model, fair_rates


@dataclass(frozen=True)
class Rounding:
    """How ends of flows become whole nanoseconds: ``add_ns``, then down; 0.5: to the nearest.

    A flow that would end up to ``close_ns`` after an instant ends with it. Two simulations round at
    different places, so that it may be over in the other; were it not here, a class that comes
    first from this instant on could keep its last byte for seconds.
    """

    add_ns: float = 0.5
    close_ns: float = 2.0


NEAREST = Rounding()


@dataclass
class Task:
    """One task, in the queue of its device; ``of``: the number of its assignment."""

    job: int
    round: int
    shard: int
    device: int
    of: int
    start_ns: float = math.inf
    comp_end_ns: float = math.inf
    end_ns: float = math.inf
    parts: int = 0


@dataclass(eq=False)
class Flow:
    """What flows, or waits until ``begin_ns``: at most ``most``, from the host ``sender``."""

    job: int
    links: tuple[int, ...]
    most: float
    left: float
    begin_ns: float
    sender: int | None
    arrived: Callable[[float], None]
    rate: float = 0.0


@dataclass
class Ring:
    """A ring at work: its tasks by round, and which round is at hand."""

    rounds: list[list[Task]]
    links: tuple[int, ...]
    most: float
    added_ns: float
    at: int = 0
    comp_end_ns: float = math.inf


@dataclass
class Device:
    """A queue of tasks, the first ``started`` of which are or were at work."""

    queue: list[Task] = field(default_factory=list)
    started: int = 0
    busy_until_ns: float = -math.inf
    last_job: int = -1


class Simulation:
    """One run of the model; ``run`` leads it to the end of all that was assigned."""

    def __init__(
        self,
        model: Model,
        assigned: Iterable[Assigned],
        classed: Iterable[Classed] = (),
        rounding: Rounding = NEAREST,
    ) -> None:
        self.model = model
        self.rounding = rounding
        self.now = 0.0
        self.assigned = sorted(assigned, key=lambda one: one.time_ns)
        self.classed = sorted(classed, key=lambda one: one.time_ns)
        self.devices = [Device() for _ in model.host_D]
        self.round_J = [0] * len(model.jobs)
        self.class_J = [0] * len(model.jobs)
        self.host_class: dict[tuple[int, int], int] = {}
        self.ended_J = [0] * len(model.jobs)  # tasks of the round at hand
        # By device, job and round: what is to come of each part that was sent, 1 or 0.
        self.states: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
        self.had: dict[tuple[int, int, int], int] = defaultdict(int)  # updates by job, round, part
        self.blocks_J = [0] * len(model.jobs)  # on their way to the first server
        self.updates: dict[tuple[int, int], int] = defaultdict(int)  # by device and job
        self.computing: list[Task] = []
        self.flows: list[Flow] = []
        self.syncs: list[Task] = []  # of jobs without bytes: T^s after COMP
        self.rings: list[Ring] = []
        self.tasks: list[Task] = []
        self.number = 0  # of assignments so far
        self.barriers: dict[tuple[int, int], float] = {}
        self.intervals: list[Interval] = []
        self.stale = True

    def run(self) -> Simulation:
        while True:
            while self._step():
                pass
            if self.stale:
                self._share()
            then = min(self._due(), default=math.inf)
            if then == math.inf:
                return self
            self._pass(then)

    def _has_come(self, time_ns: float) -> bool:
        return time_ns <= self.now

    def _step(self) -> bool:
        """Do what is due at this instant; True if anything was."""
        return (
            self._assign() | self._classify() | self._finish_flows() | self._finish_comp()
            | self._finish_syncs() | self._pull() | self._start() | self._lead_rings()
        )  # fmt: skip

    def _due(self) -> Iterable[float]:
        """When something may happen next."""
        for waiting in (self.assigned, self.classed):
            if waiting:
                yield float(waiting[0].time_ns)
        yield from (job.arrival_ns for job in self.model.jobs if job.arrival_ns > self.now)
        yield from (one.busy_until_ns for one in self.devices if one.busy_until_ns > self.now)
        yield from (task.end_ns for task in self.syncs)
        yield from (ring.comp_end_ns for ring in self.rings)
        for flow in self.flows:
            if flow.begin_ns > self.now:
                yield flow.begin_ns
            elif flow.rate > 0:
                yield self._end_of(flow)

    def _end_of(self, flow: Flow) -> float:
        """When a flow is over at its rate, to a nanosecond, in which all times are counted."""
        return math.floor(self.now + flow.left / flow.rate + self.rounding.add_ns)

    def _pass(self, then: float) -> None:
        """Let time pass: what flows arrives."""
        there = [flow for flow in self.flows if flow.begin_ns <= self.now]
        shown = tuple((f.links, self._class(f), f.most, f.rate, f.job) for f in there)
        self.intervals.append(Interval(self.now, then, shown))
        for flow in [flow for flow in there if flow.rate > 0]:
            whole = self._end_of(flow) <= then + self.rounding.close_ns
            flow.left = 0.0 if whole else flow.left - flow.rate * (then - self.now)
            self.stale = self.stale or whole
        self.stale = self.stale or any(self.now < f.begin_ns <= then for f in self.flows)
        self.now = then

    def _class(self, flow: Flow) -> int:
        if flow.sender is None:
            return self.class_J[flow.job]
        return self.host_class.get((flow.sender, flow.job), self.class_J[flow.job])

    def _share(self) -> None:
        """Find all rates: one class after the other, each from what those before it leave."""
        weights = self.model.weights
        flowing = [flow for flow in self.flows if self._has_come(flow.begin_ns) and flow.left > 0]
        left = {2 * h + way: rate for h, rate in enumerate(self.model.up) for way in (0, 1)}
        ranks: dict[int, list[Flow]] = defaultdict(list)
        for flow in flowing:
            kind = self._class(flow)
            ranks[kind if weights is None else min(kind, 1)].append(flow)
        for _, flows in sorted(ranks.items()):
            kinds = [self._class(flow) for flow in flows]
            share = [1.0 if weights is None or not kind else weights[kind - 1] for kind in kinds]
            rows = [(f.links, f.most, a) for f, a in zip(flows, share, strict=True)]
            for flow, rate in zip(flows, fair_rates(rows, left), strict=True):
                # What a class before leaves of a full link by rounding is nothing.
                flow.rate = rate if rate > 1e-12 * max(self.model.up) else 0.0
        self.stale = False

    def _assign(self) -> bool:
        due = [one for one in self.assigned if self._has_come(one.time_ns)]
        for one in due:
            self.assigned.remove(one)
            self.number += 1
            if self.round_J[one.job] == self.model.jobs[one.job].rounds:
                continue
            for round_ in range(one.round, one.round + one.rounds):
                for shard in one.shards:
                    task = Task(one.job, round_, shard, one.device, self.number)
                    self.devices[one.device].queue.append(task)
                    self.tasks.append(task)
        return bool(due)

    def _classify(self) -> bool:
        due = [one for one in self.classed if self._has_come(one.time_ns)]
        for one in due:
            self.classed.remove(one)
            if one.host is not None:
                self.host_class[one.host, one.job] = one.flow_class
                continue
            self.class_J[one.job] = one.flow_class
            for host in range(len(self.model.up)):
                self.host_class.pop((host, one.job), None)
        self.stale = self.stale or bool(due)
        return bool(due)

    def _is_open(self, task: Task) -> bool:
        """Whether the state of its round is there, at the servers."""
        job = self.model.jobs[task.job]
        return self._has_come(job.arrival_ns) and self.round_J[task.job] == task.round

    def _pull(self) -> bool:
        pulled = False
        for number, device in enumerate(self.devices):
            for task in self._ahead(device):
                job, key = self.model.jobs[task.job], (number, task.job, task.round)
                for part, size in enumerate(job.server_bytes):
                    if part in self.states[key] or not self._is_there(task, part):
                        continue
                    pulled = True
                    self.states[key][part] = 1
                    to = self.model.host_D[number]
                    self._send(task.job, job.server_hosts[part], to, size, self._part_of(key, part))
        return pulled

    def _is_there(self, task: Task, part: int) -> bool:
        """Whether a server has its part of a state that may be sent."""
        had, job = self.had[task.job, task.round - 1, part], self.model.jobs[task.job]
        ahead = part > 0 and task.round < job.rounds and had == job.scale
        return ahead or self._is_open(task)

    def _ahead(self, device: Device) -> Iterable[Task]:
        """The first tasks of a queue that have not started; those of a ring's stretch are one."""
        seen, ring = 0, -1
        for task in device.queue[device.started :]:
            if task.of == ring:
                continue
            if self.model.jobs[task.job].ring_bytes is not None:
                ring = task.of
            seen += 1
            if seen > 1 + self.model.look_ahead:
                return
            yield task

    def _part_of(self, key: tuple[int, int, int], part: int) -> Callable[[float], None]:
        def arrived(_: float) -> None:
            self.states[key][part] = 0

        return arrived

    def _send(
        self, job: int, sender: int, to: int, size: float, arrived: Callable[[float], None]
    ) -> None:
        """Begin a transfer from host to host."""
        apart = sender != to
        links = (2 * sender, 2 * to + 1) if apart else ()
        most = math.inf if apart else self.model.inner[to]
        begin = self.now + (self.model.latency_ns if apart else 0.0)
        left = 0.0 if most == math.inf and not apart else size
        self.flows.append(Flow(job, links, most, left, begin, sender, arrived))
        self.stale = True

    def _finish_flows(self) -> bool:
        done = [flow for flow in self.flows if not flow.left and self._has_come(flow.begin_ns)]
        for flow in done:
            self.flows.remove(flow)
            flow.arrived(self.now)
        self.stale = self.stale or bool(done)
        return bool(done)

    def _start(self) -> bool:
        """Start the heads of queues that nothing keeps from it."""
        began = False
        for number, device in enumerate(self.devices):
            if device.started == len(device.queue) or not self._has_come(device.busy_until_ns):
                continue
            task = device.queue[device.started]
            if self._may_start(task):
                began = True
                device.started += 1
                self.updates[number, task.job] += 1
                task.start_ns = self.now + self._switch_ns(number, task.job)
                comp_ns = self.model.comp_ns(task.job, task.round, task.shard, number)
                task.comp_end_ns = device.busy_until_ns = task.start_ns + comp_ns
                self.computing.append(task)
        return began

    def _switch_ns(self, number: int, job: int) -> float:
        last, self.devices[number].last_job = self.devices[number].last_job, job
        return 0.0 if last in (-1, job) else self.model.switch_ns(job, number)

    def _may_start(self, task: Task) -> bool:
        job = self.model.jobs[task.job]
        if job.ring_bytes is not None or not self._is_open(task):
            return False
        if not job.server_bytes:
            return True
        state = self.states[task.device, task.job, task.round]
        whole = len(state) == len(job.server_bytes) and not any(state.values())
        return whole and self.updates[task.device, task.job] < 2

    def _finish_comp(self) -> bool:
        done = [task for task in self.computing if self._has_come(task.comp_end_ns)]
        for task in done:
            self.computing.remove(task)
            job, here = self.model.jobs[task.job], self.model.host_D[task.device]
            if not job.server_bytes:
                sync_ns = self.model.sync_ns(task.job, task.round, task.shard, task.device)
                task.end_ns = task.comp_end_ns + sync_ns
                self.syncs.append(task)
            task.parts = len(job.server_bytes)
            for part, size in enumerate(job.server_bytes):
                self._send(task.job, here, job.server_hosts[part], size, self._push_of(task, part))
        return bool(done)

    def _push_of(self, task: Task, part: int) -> Callable[[float], None]:
        def arrived(now: float) -> None:
            job, key = self.model.jobs[task.job], (task.job, task.round, part)
            self.had[key] += 1
            if part and self.had[key] == job.scale and job.is_gathered(task.round + 1):
                self.blocks_J[task.job] += 1
                hosts, size = job.server_hosts, job.server_bytes[part]
                self._send(task.job, hosts[part], hosts[0], size, self._block_of(task))
            task.parts -= 1
            if not task.parts:
                self._end(task, now)

        return arrived

    def _block_of(self, task: Task) -> Callable[[float], None]:
        def arrived(now: float) -> None:
            self.blocks_J[task.job] -= 1
            self._end_round(task, now)

        return arrived

    def _finish_syncs(self) -> bool:
        done = [task for task in self.syncs if self._has_come(task.end_ns)]
        for task in done:
            self.syncs.remove(task)
            self._end(task, task.end_ns)
        return bool(done)

    def _end(self, task: Task, now: float) -> None:
        """End a task; the last of its round ends the round."""
        task.end_ns = now
        self.updates[task.device, task.job] -= 1
        self.ended_J[task.job] += 1
        self._end_round(task, now)

    def _end_round(self, task: Task, now: float) -> None:
        """Pass the barrier if nothing keeps it."""
        all_ended = self.ended_J[task.job] == self.model.jobs[task.job].scale
        if all_ended and not self.blocks_J[task.job]:
            self.ended_J[task.job] = 0
            self.barriers[task.job, task.round] = now
            self.round_J[task.job] += 1
            if self.round_J[task.job] == self.model.jobs[task.job].rounds:
                self._drop(task.job)

    def _drop(self, job: int) -> None:
        """Forget what was assigned beyond the end of a job, by a policy that does not know it."""
        for device in self.devices:
            first = device.started
            left = [task for task in device.queue[first:] if task.job != job]
            device.queue[first:] = left

    def _lead_rings(self) -> bool:
        """Start rings all of whose devices have come, and send what has been computed."""
        changed = False
        for number, job in enumerate(self.model.jobs):
            if job.ring_bytes is not None and (come := self._come(number)):
                self._start_ring(number, come)
                changed = True
        for ring in [ring for ring in self.rings if self._has_come(ring.comp_end_ns)]:
            ring.comp_end_ns, changed = math.inf, True
            job = ring.rounds[0][0].job
            size = self.model.jobs[job].ring_bytes or 0.0
            left = 0.0 if not ring.links and ring.most == math.inf else size
            begin, arrived = self.now + ring.added_ns, self._round_of(ring)
            self.flows.append(Flow(job, ring.links, ring.most, left, begin, None, arrived))
            self.stale = True
        return changed

    def _come(self, job: int) -> list[Device]:
        """The devices of a ring, once it is the head of each; none before."""
        come, shards = list[Device](), 0
        for device in self.devices:
            if device.started == len(device.queue) or not self._has_come(device.busy_until_ns):
                continue
            head = device.queue[device.started]
            if head.job == job and self._is_open(head):
                come.append(device)
                ahead = device.queue[device.started :]
                shards += sum(task.of == head.of and task.round == head.round for task in ahead)
        return come if shards == self.model.jobs[job].scale else []

    def _start_ring(self, job: int, come: list[Device]) -> None:
        rows: dict[int, list[Task]] = defaultdict(list)
        hosts: dict[int, int] = defaultdict(int)
        start = self.now
        for device in come:
            head = device.queue[device.started]
            for task in [task for task in device.queue[device.started :] if task.of == head.of]:
                rows[task.round].append(task)
                device.started += 1
            hosts[self.model.host_D[head.device]] += 1
            start = max(start, self.now + self._switch_ns(head.device, job))
        links = [2 * host + way for host in hosts for way in (0, 1)] if len(hosts) > 1 else []
        within = [self.model.inner[host] for host, count in hosts.items() if count > 1]
        most, added_ns = min([math.inf, *within]), self.model.xi2_ns * len(hosts)
        ring = Ring(list(rows.values()), tuple(links), most, added_ns)
        self.rings.append(ring)
        self._compute(ring, start)

    def _compute(self, ring: Ring, start: float) -> None:
        """Begin the ring's round at hand."""
        for task in ring.rounds[ring.at]:
            comp_ns = self.model.comp_ns(task.job, task.round, task.shard, task.device)
            task.start_ns, task.comp_end_ns = start, start + comp_ns
            self.devices[task.device].busy_until_ns = math.inf
        ring.comp_end_ns = max(task.comp_end_ns for task in ring.rounds[ring.at])

    def _round_of(self, ring: Ring) -> Callable[[float], None]:
        def arrived(now: float) -> None:
            for task in ring.rounds[ring.at]:
                self._end(task, now)
            ring.at += 1
            if ring.at < len(ring.rounds):
                self._compute(ring, now)
                return
            self.rings.remove(ring)
            for task in ring.rounds[0]:
                self.devices[task.device].busy_until_ns = now

        return arrived
