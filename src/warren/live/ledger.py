"""What the processes report, made into the core's events: in causal order, times never back.

Reports come over several sockets, so a barrier's may overtake a task's. Each report waits here
until what it follows from is known; then it becomes events. An event's time never goes back; the
stamps inside it are those of the place where things happened. Pure: no socket, no clock, so that
tests can play any order of reports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from warren.live.agenda import Agenda
from warren.live.clock import ClusterClock
from warren.live.messages import CompEnded, RoundReport, SyncEnded
from warren.model.events import CompDone, JobFailed, ParamsSaved, RoundsDone, TasksDone
from warren.model.job import Job
from warren.model.plan import Assignment

Report = CompEnded | SyncEnded | RoundReport


@dataclass(slots=True)
class Entry:
    """An assignment under way. ``syncing`` holds its tasks that have left COMP."""

    assignment: Assignment
    comp_left: int
    sync_left: int
    start_ns: int = -1
    comp_end_ns: int = 0
    busy_ns: int = 0
    sync_end_ns: int = 0
    syncing: set[tuple[int, int]] = field(default_factory=set)

    @staticmethod
    def of(assignment: Assignment) -> Entry:
        """Nothing has run yet."""
        tasks = assignment.rounds * len(assignment.shards)
        return Entry(assignment, tasks, tasks)

    @property
    def round(self) -> int:
        """Round of its next task on COMP."""
        one = self.assignment
        done = one.rounds * len(one.shards) - self.comp_left
        return one.round + done // len(one.shards)


@dataclass(slots=True)
class Progress:
    """One job: barriers passed, when the last was, and tasks done by round since then."""

    passed: int = 0
    barrier_ns: int = 0
    synced_ns: int = 0
    synced: dict[int, int] = field(default_factory=dict)
    ended: bool = False


class Ledger:
    """Assignments under way, and what is known of each job."""

    def __init__(self, jobs: Sequence[Job], devices: int, agenda: Agenda) -> None:
        self._jobs, self._agenda, self._numerics = jobs, agenda, ""
        self._clock = ClusterClock(0)
        self._entries: dict[int, Entry] = {}
        self._queues: list[deque[int]] = [deque() for _ in range(devices)]
        self._free_ns = [0] * devices
        self._progress = [Progress(barrier_ns=job.arrival_ns) for job in jobs]
        self._held: list[Report] = []
        self._finished: list[int] = []

    # What goes in.

    def begin(self, clock: ClusterClock, numerics: str) -> None:
        """Time zero has come."""
        self._clock, self._numerics = clock, numerics

    def assigned(self, seq: int, assignment: Assignment) -> None:
        """An assignment has been handed to its executor."""
        self._entries[seq] = Entry.of(assignment)
        self._queues[assignment.device].append(seq)

    def report(self, report: Report) -> list[int]:
        """A process reports; it may have to wait for others. Gives the jobs that end by it."""
        self._finished = []
        self._held.append(report)
        while any(self._try(one) for one in tuple(self._held) if one in self._held):
            pass
        return self._finished

    def fail(self, job: int, reason: str, host_ns: int) -> None:
        """The job cannot go on. What is known of it already comes first."""
        at_ns = self._agenda.after_known(job, self._clock.cluster_ns(host_ns))
        self._agenda.cancel_arrival(job)
        self._end(job)
        self._agenda.push(JobFailed(at_ns, job, reason))

    # What can be asked.

    def ended(self, job: int) -> bool:
        """Whether it has finished or failed."""
        return self._progress[job].ended

    def job_of(self, seq: int) -> int | None:
        """The job of an assignment under way."""
        entry = self._entries.get(seq)
        return None if entry is None else entry.assignment.job

    def stuck(self) -> bool:
        """Whether nothing can happen any more without a further assignment."""
        if self._held or not self._agenda.empty:
            return False
        return not (
            any(entry.syncing for entry in self._entries.values())
            or any(queue and self._can_run(self._entries[queue[0]]) for queue in self._queues)
            or any(self._at_barrier(job.index) for job in self._jobs)
        )

    # Inside.

    def _can_run(self, head: Entry) -> bool:
        return head.round <= self._progress[head.assignment.job].passed

    def _at_barrier(self, job: int) -> bool:
        progress = self._progress[job]
        done = progress.synced.get(progress.passed, 0)
        return not progress.ended and done == self._jobs[job].scale

    def _try(self, report: Report) -> bool:
        """Apply a held report if it is ready or concerns nobody any more."""
        match report:
            case CompEnded(seq=seq) if seq in self._entries:
                ready = self._comp_ready(report)
            case SyncEnded(seq=seq, round=round, shard=shard) if seq in self._entries:
                ready = (round, shard) in self._entries[seq].syncing
            case RoundReport(job=job, round=round) if not self._progress[job].ended:
                ready = self._progress[job].passed == round and self._at_barrier(job)
            case _:
                self._held.remove(report)
                return False
        if ready:
            self._held.remove(report)
            self._apply(report)
        return ready

    def _comp_ready(self, report: CompEnded) -> bool:
        one = self._entries[report.seq].assignment
        at_head = self._queues[one.device][0] == report.seq
        first = next(r for r in self._held if isinstance(r, CompEnded) and r.seq == report.seq)
        return at_head and first is report and report.round <= self._progress[one.job].passed

    def _apply(self, report: Report) -> None:
        match report:
            case CompEnded():
                self._comp_ended(report, self._entries[report.seq])
            case SyncEnded():
                self._sync_ended(report, self._entries[report.seq])
            case RoundReport():
                self._round_ended(report)

    def _comp_ended(self, report: CompEnded, entry: Entry) -> None:
        one, clock = entry.assignment, self._clock
        floor_ns = max(self._free_ns[one.device], self._progress[one.job].barrier_ns)
        start_ns = max(clock.cluster_ns(report.start_ns), floor_ns)
        end_ns = max(clock.cluster_ns(report.end_ns), start_ns + 1)
        self._free_ns[one.device] = entry.comp_end_ns = end_ns
        if entry.start_ns < 0:
            entry.start_ns = start_ns
        entry.busy_ns += end_ns - start_ns
        entry.comp_left -= 1
        entry.syncing.add((report.round, report.shard))
        if entry.comp_left == 0:
            self._queues[one.device].popleft()
            self._agenda.push(
                CompDone(end_ns, one.job, one.round, one.rounds, one.shards, one.device)
            )

    def _sync_ended(self, report: SyncEnded, entry: Entry) -> None:
        one = entry.assignment
        progress = self._progress[one.job]
        at_ns = max(self._clock.cluster_ns(report.at_ns), entry.comp_end_ns)
        entry.sync_end_ns = max(entry.sync_end_ns, at_ns)
        entry.syncing.discard((report.round, report.shard))
        entry.sync_left -= 1
        progress.synced[report.round] = progress.synced.get(report.round, 0) + 1
        progress.synced_ns = max(progress.synced_ns, at_ns)
        if entry.sync_left == 0:
            del self._entries[report.seq]
            self._push_done(entry, one.rounds)

    def _push_done(self, entry: Entry, rounds: int) -> None:
        one = entry.assignment
        self._agenda.push(
            TasksDone(
                entry.sync_end_ns,
                one.job,
                one.round,
                rounds,
                one.shards,
                one.device,
                entry.start_ns,
                entry.comp_end_ns,
                entry.busy_ns,
                entry.sync_end_ns,
            )
        )

    def _cut_short(self, job: int) -> None:
        """The job ends inside a stretch: what ran of it is done, the rest will not come."""
        passed = self._progress[job].passed
        for entry in self._entries.values():
            one = entry.assignment
            if one.job == job and one.round < passed < one.round + one.rounds:
                rounds = passed - one.round
                self._agenda.push(
                    CompDone(entry.comp_end_ns, job, one.round, rounds, one.shards, one.device)
                )
                self._push_done(entry, rounds)

    def _round_ended(self, report: RoundReport) -> None:
        progress = self._progress[report.job]
        at_ns = max(self._clock.cluster_ns(report.at_ns), progress.synced_ns)
        metrics = tuple(sorted((report.metrics or {}).items()))
        del progress.synced[report.round]
        progress.passed += 1
        progress.barrier_ns = at_ns
        if report.finished:
            self._cut_short(report.job)
        done = RoundsDone(
            at_ns, report.job, report.round, 1, report.finished, report.loss, metrics, at_ns
        )
        at_ns = self._agenda.push(done)
        if report.finished:
            self._end(report.job)
            self._finished.append(report.job)
            self._agenda.push(ParamsSaved(at_ns, report.job, report.sha256, self._numerics))

    def _end(self, job: int) -> None:
        self._progress[job].ended = True
        gone = {seq for seq, entry in self._entries.items() if entry.assignment.job == job}
        self._held = [one for one in self._held if self._concerned(one) != job]
        self._entries = {s: entry for s, entry in self._entries.items() if s not in gone}
        self._queues = [deque(s for s in queue if s not in gone) for queue in self._queues]

    def _concerned(self, report: Report) -> int | None:
        return report.job if isinstance(report, RoundReport) else self.job_of(report.seq)
