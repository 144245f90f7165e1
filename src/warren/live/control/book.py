"""What is written down in the ledger, and what can be asked of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from warren.live.clock import ClusterClock
from warren.live.control.event_queue import Agenda
from warren.live.control.ledger_entries import Entry, Progress
from warren.live.transport.message import Stamp
from warren.model.job import Job
from warren.model.plan import Assignment


class Book:
    """Assignments under way, by number, and how far each job is."""

    def __init__(self, jobs: Sequence[Job], devices: int, agenda: Agenda) -> None:
        self._jobs, self._agenda = jobs, agenda
        self._clock = ClusterClock(0)
        self._seqs = count(1)
        self._entries: dict[int, Entry] = {}
        self._seqs_of: list[list[int]] = [[] for _ in jobs]
        self._queues: list[deque[int]] = [deque() for _ in range(devices)]
        self._progress = [Progress(barrier_ns=job.arrival_ns) for job in jobs]

    def over(self, job: int) -> None:
        """Before the beginning: a job of a run that goes on has ended already."""
        self._progress[job].ended = True

    def assigned(self, assignment: Assignment) -> int:
        """An assignment goes to its executor; gives its number."""
        seq = next(self._seqs)
        self._entries[seq] = Entry.of(assignment)
        self._seqs_of[assignment.job].append(seq)
        self._queues[assignment.device].append(seq)
        return seq

    def cluster_ns(self, host_ns: int) -> int:
        """Cluster time; before time zero it stands still."""
        return self._agenda.last_ns if host_ns == 0 else self._clock.cluster_ns(host_ns)

    def arrived(self, job: int) -> bool:
        """Whether it has arrived."""
        return self._agenda.arrived(job)

    def ended(self, job: int) -> bool:
        """Whether it has finished or failed."""
        return self._progress[job].ended

    def passed(self, job: int) -> int:
        """Barriers it has passed."""
        return self._progress[job].passed

    def era(self, job: int) -> int:
        """How often it was rolled back."""
        return self._progress[job].era

    def unfinished(self, device: int) -> Iterator[tuple[int, Assignment]]:
        """What a new executor of the device has to run, by number: rounds not over yet."""
        for seq, entry in self._entries.items():
            one = entry.assignment
            first, end = max(one.round, self._progress[one.job].passed), entry.end_round
            if one.device == device and first < end and not entry.beaten:
                yield seq, Assignment(device, one.job, first, end - first, one.shards)

    def under_way(self, device: int) -> Iterator[Assignment]:
        """Tasks that have run, or may just be running, and whose barrier has not passed."""
        for seq, entry in self._entries.items():
            one, passed = entry.assignment, self._progress[entry.assignment.job].passed
            head = self._queues[device][0] if self._queues[device] else None
            shards = entry.under_way(passed, at_head=seq == head)
            if one.device == device and shards:
                yield Assignment(device, one.job, passed, 1, shards)

    def head(self, device: int) -> Assignment | None:
        """What the device is at, or waits to begin."""
        queue = self._queues[device]
        return self._entries[queue[0]].assignment if queue else None

    def job_of(self, seq: int) -> int | None:
        """The job of an assignment under way."""
        entry = self._entries.get(seq)
        return None if entry is None else entry.assignment.job

    def is_copy(self, seq: int) -> bool:
        """Whether it was started when its task was under way elsewhere."""
        return self._entries[seq].copy

    def beaten_on(self, device: int) -> list[int]:
        """What the device still has of tasks that were done elsewhere."""
        return [seq for seq in self._queues[device] if self._entries[seq].beaten]

    # Inside.

    def _runs(
        self, job: int, round_no: int, stamps: Mapping[int, Stamp]
    ) -> tuple[list[Entry], list[int]]:
        """The entries of a round that count, and the numbers of those that were beaten."""
        winners, beaten = [], []
        for seq in self._seqs_of[job]:
            entry = self._entries[seq]
            one = entry.assignment
            if not one.round <= round_no < entry.end_round:
                continue
            stamp = stamps.get(one.shards[0]) if one.rounds == len(one.shards) == 1 else None
            if stamp is None or stamp.device in (-1, one.device):
                winners.append(entry)
            else:
                beaten.append(seq)
        return winners, beaten

    def _left_comp(self, entry: Entry, round_no: int, stamp: Stamp) -> None:
        """A task has left COMP, if that is news."""
        job = entry.assignment.job
        start_ns = max(self._clock.cluster_ns(stamp.start_ns), self._progress[job].barrier_ns)
        end_ns = max(self._clock.cluster_ns(stamp.comp_end_ns), start_ns + 1)
        entry.left_comp(round_no, stamp.shard, start_ns, end_ns)
        if self._jobs[job].sync == "ring":
            entry.held_ns = self._clock.cluster_ns(stamp.end_ns)

    def _through(self, entry: Entry, round_no: int) -> bool:
        """Whether its device is done with this round of it: told in the order of the queue."""
        if not entry.queued:
            return True
        head = self._queues[entry.assignment.device][0]
        return self._entries[head] is entry and entry.end_round > round_no + 1

    def _can_run(self, head: Entry) -> bool:
        return head.round <= self._progress[head.assignment.job].passed


def place_of(one: Assignment) -> tuple[int, int, int, int]:
    """Job, round, shard and device of an assignment of one task."""
    return one.job, one.round, one.shards[0], one.device
