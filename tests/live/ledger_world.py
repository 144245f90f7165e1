"""A world in miniature around the ledger: devices, servers and what they send, all by chance.

Every message travels on its own way and may be late or, when a process is lost, never come. The
core's state stands at the other end and refuses whatever cannot have happened.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from live_worlds import virtual

from warren.core.scheduling_rules import check_copy, check_invariants
from warren.core.state import State
from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger import Ledger, Report
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import CompEnded, LeftComp
from warren.live.transport.server_messages import RoundReport
from warren.model.decision import Assignment
from warren.model.errors import InfeasibleDecision
from warren.model.events import AnyEvent
from warren.model.job import Job

Task = tuple[int, int, int, int, int]
"""(seq, job, era, round, shard)."""
Word = Report | LeftComp


@dataclass(slots=True)
class Computing:
    """A task on COMP; ``beaten``: it was done elsewhere."""

    task: Task
    start: int
    end: int
    beaten: bool = False


@dataclass(slots=True)
class Server:
    """Barriers of one job in one era."""

    generation: int
    passed: int
    since: int
    stamps: dict[int, TaskStamp] = field(default_factory=dict)


class World:
    """``devices`` run what they are given; the caller says by how much chance it goes on.

    ``eager``: tasks are assigned as soon as they may be, else only to devices that are idle.
    """

    def __init__(
        self, jobs: tuple[Job, ...], devices: int, seed: int, *, eager: bool = True
    ) -> None:
        self.draw, self.eager = random.Random(seed), eager
        self.jobs, self.now = jobs, 0
        run, costs = virtual(jobs, devices)
        self.pending = PendingEvents(jobs)
        self.ledger = Ledger(jobs, devices, self.pending)
        self.ledger.begin(ClusterClock(0), ["class"] * len(jobs))
        self.state = State(run, costs)
        self.events: list[AnyEvent] = []
        self.queues: list[deque[Task]] = [deque() for _ in range(devices)]
        self.free = [0] * devices
        self.servers = {job.index: Server(0, 0, job.arrival_ns) for job in jobs}
        self.comp: list[Computing | None] = [None] * devices
        self.beaten: list[deque[int]] = [deque() for _ in range(devices)]
        self.ways: dict[str, deque[Word]] = {}
        self.commits: dict[int, deque[tuple[int, int, int, TaskStamp]]] = {}
        self.lost = self.copies = 0

    # The controller's side.

    def assign(self) -> None:
        """Hand out rounds of the jobs that the core says are open, on any device that may be."""
        for job in self.jobs:
            while self.state.open_J[job.index]:
                first = int(self.state.next_round_J[job.index])
                if first > self.state.round_J[job.index] and not self.eager:
                    break
                for shard in range(int(self.state.next_shard_J[job.index]), job.scale):
                    devices = [d for d, n in enumerate(self.state.queued_D) if self.eager or not n]
                    if not devices:
                        return
                    self._assign(
                        Assignment(self.draw.choice(devices), job.index, first, 1, (shard,))
                    )
                if self.draw.random() < 0.5:
                    break

    def _assign(self, one: Assignment) -> None:
        self.state.assign(one)
        if self.pending.returning(one.job):
            return
        seq, generation = self.ledger.assigned(one), self.ledger.generation(one.job)
        self.queues[one.device].append((seq, one.job, generation, one.round, *one.shards))

    def take_events(self) -> None:
        """The core asks for what is next."""
        while got := self.pending.pop():
            for event in got:
                self.state.apply(event)
            check_invariants(self.state)
            self.events += got
            self.assign()

    def copy(self) -> bool:
        """Start a task that the core thinks is on COMP once more, on any device that may be."""
        heads = [queue[0] for queue in self.state.queues if queue]
        device = self.draw.randrange(len(self.queues))
        for head in self.draw.sample(heads, len(heads)):
            one = Assignment(device, head.job, head.round, 1, head.shards)
            try:
                check_copy(self.state, one)
            except InfeasibleDecision:
                continue
            self.state.copy(one)
            self.copies += 1
            if (seq := self.ledger.copied(one)) is not None:
                task = (seq, one.job, self.ledger.generation(one.job), one.round, *one.shards)
                self.queues[device].appendleft(task)
            return True
        return False

    # What happens by chance.

    def run_task(self, device: int) -> bool:
        """What is on COMP ends; else the head of the queue runs if its barrier has passed."""
        queue = self.queues[device]
        if self._end_comp(device) or not queue:
            return False
        seq, job, generation, round_no, shard = queue[0]
        server = self.servers[job]
        if server.generation != generation or round_no < server.passed:
            queue.popleft()
            return True
        if round_no == server.passed and shard in server.stamps:
            queue.popleft()
            ran = server.stamps[shard]
            told = CompEnded(seq, round_no, shard, ran.start_ns, ran.comp_end_ns, False)
            if ran.device == device:
                self._send(f"device {device}", told)
            return True
        if round_no > server.passed or self.jobs[job].arrival_ns > self.now:
            return False
        queue.popleft()
        start = max(self.free[device], server.since)
        end = start + self.draw.randint(1, 20)
        self.free[device] = end
        self.comp[device] = Computing((seq, job, generation, round_no, shard), start, end)
        return self.draw.random() < 0.3 or self._end_comp(device)

    def _end_comp(self, device: int) -> bool:
        on = self.comp[device]
        if on is None:
            return False
        self.comp[device] = None
        seq, job, generation, round_no, shard = on.task
        self._send(f"device {device}", CompEnded(seq, round_no, shard, on.start, on.end, False))
        sync = on.end + self.draw.randint(0, 30)
        self.now = max(self.now, on.end if on.beaten else sync)
        if not on.beaten:
            commit = (job, generation, round_no, TaskStamp(shard, on.start, on.end, sync, device))
            self.commits.setdefault(device, deque()).append(commit)
        return True

    def hear_beaten(self, device: int) -> bool:
        """A device is told that one of its tasks has been done elsewhere."""
        if not self.beaten[device]:
            return False
        seq, on = self.beaten[device].popleft(), self.comp[device]
        if on is not None and on.task[0] == seq:
            on.beaten = True
            return True
        self.queues[device] = deque(task for task in self.queues[device] if task[0] != seq)
        self._send(f"device {device}", LeftComp(seq))
        return True

    def _tell_beaten(self) -> None:
        for device, seq in self.ledger.pop_lost_races():
            self.beaten[device].append(seq)

    def commit(self, device: int) -> bool:
        """A device's oldest commit reaches its server."""
        if not self.commits.get(device):
            return False
        job, generation, round_no, stamp = self.commits[device].popleft()
        server = self.servers[job]
        if (server.generation, server.passed) == (generation, round_no):
            server.stamps.setdefault(stamp.shard, stamp)
            self._pass(job, server)
        return True

    def deliver(self) -> bool:
        """One message reaches the controller."""
        ways = sorted(name for name, way in self.ways.items() if way)
        if not ways:
            return False
        self.pending.advance(self.now)
        word = self.ways[self.draw.choice(ways)].popleft()
        if isinstance(word, LeftComp):
            self.ledger.not_on_comp(word.seq, self.now)
        else:
            self.ledger.report(word)
        self._tell_beaten()
        return True

    def lose_device(self, device: int) -> None:
        """An executor is killed: of what it sent, any latest part is lost."""
        self.lost += 1
        self._cut(self.ways.get(f"device {device}"))
        self._cut(self.commits.get(device))
        self.comp[device] = None
        for one in list(self.ledger.in_progress(device)):
            self.ledger.tasks_lost(one, "killed", self.now)
        self.queues[device] = deque(
            (seq, one.job, self.ledger.generation(one.job), round_no, shard)
            for seq, one in self.ledger.unfinished(device)
            for round_no in range(one.round, one.round + one.rounds)
            for shard in one.shards
        )
        again = [task for task in self.queues[device] if self.ledger.is_copy(task[0])]
        for task in again:
            self.queues[device].remove(task)
            self.queues[device].appendleft(task)
        self.beaten[device] = deque(self.ledger.lost_races_on(device))
        self.free[device] = self.now

    def lose_server(self, job: int) -> None:
        """A server is killed: the job goes back to any round that the controller knows of."""
        if self.ledger.ended(job):
            return
        self.lost += 1
        self._cut(self.ways.get(f"server {job}"))
        round_no = self.draw.randint(0, self.ledger.passed(job))
        self.ledger.roll_back(job, round_no, "killed", self.now)
        self._tell_beaten()
        for device, queue in enumerate(self.queues):
            self.queues[device] = deque(task for task in queue if task[1] != job)
            on = self.comp[device]
            if on is not None and on.task[1] == job:
                self.comp[device] = None
        self.now += 1
        self.servers[job] = Server(self.ledger.generation(job), round_no, self.now)

    def _send(self, way: str, word: Word) -> None:
        self.ways.setdefault(way, deque()).append(word)

    def _cut(self, way: deque[Word] | deque[tuple[int, int, int, TaskStamp]] | None) -> None:
        while way and self.draw.random() < 0.7:
            way.pop()

    def _pass(self, job: int, server: Server) -> None:
        if len(server.stamps) < self.jobs[job].scale:
            return
        at = max(stamp.end_ns for stamp in server.stamps.values()) + self.draw.randint(0, 5)
        last = server.passed + 1 == self.jobs[job].rounds
        stamps = tuple(server.stamps.values())
        self.now = max(self.now, at)
        report = RoundReport(
            job, server.generation, server.passed, 0.5, None, last, at, stamps, 0, "hash"
        )
        self._send(f"server {job}", report)
        server.passed, server.since = server.passed + 1, at
        server.stamps = {}
