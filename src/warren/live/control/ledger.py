"""What the processes report, made into the core's events: in causal order, times never back.

Reports come over several sockets, so a barrier's may overtake a task's. Each report waits here
until what it follows from is known; then it becomes events. An event's time never goes back; the
stamps inside it are those of the place where things happened. A barrier's report says of each of
its tasks when it ran, so nothing is missing when the device that ran one is lost before it could
say so itself; what is told twice counts once. Pure: no socket, no clock, so that tests can play
any order of reports and losses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger_entries import JobBarriers, OpenAssignment
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import CompEnded
from warren.live.transport.server_messages import RoundReport
from warren.model.decision import Assignment
from warren.model.events import (
    CompDone,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TaskDropped,
    TasksLost,
)
from warren.model.job import Job


def place_of(one: Assignment) -> tuple[int, int, int, int]:
    """Job, round, shard and device of an assignment of one task."""
    return one.job, one.round, one.shards[0], one.device


Report = CompEnded | RoundReport


class Ledger:
    """Assignments under way, by number, and what is known of each job."""

    def __init__(self, jobs: Sequence[Job], devices: int, pending: PendingEvents) -> None:
        self._jobs, self._pending = jobs, pending
        self._clock = ClusterClock(0)
        self._seqs = count(1)
        self._entries: dict[int, OpenAssignment] = {}
        self._seqs_of: list[list[int]] = [[] for _ in jobs]
        self._queues: list[deque[int]] = [deque() for _ in range(devices)]
        self._progress = [JobBarriers(barrier_ns=job.arrival_ns) for job in jobs]
        self._numerics = ""
        self._held: list[Report] = []
        self._finished: list[int] = []
        self._lost_races: list[tuple[int, int]] = []

    def over(self, job: int) -> None:
        """Before the beginning: a job of a run that goes on has ended already."""
        self._progress[job].ended = True

    def assigned(self, assignment: Assignment) -> int:
        """An assignment goes to its executor; gives its number."""
        seq = next(self._seqs)
        self._entries[seq] = OpenAssignment.of(assignment)
        self._seqs_of[assignment.job].append(seq)
        self._queues[assignment.device].append(seq)
        return seq

    def cluster_ns(self, host_ns: int) -> int:
        """Cluster time; before time zero it stands still."""
        return self._pending.last_ns if host_ns == 0 else self._clock.cluster_ns(host_ns)

    def arrived(self, job: int) -> bool:
        """Whether it has arrived."""
        return self._pending.arrived(job)

    def ended(self, job: int) -> bool:
        """Whether it has finished or failed."""
        return self._progress[job].ended

    def passed(self, job: int) -> int:
        """Barriers it has passed."""
        return self._progress[job].passed

    def generation(self, job: int) -> int:
        """How often it was rolled back."""
        return self._progress[job].generation

    def unfinished(self, device: int) -> Iterator[tuple[int, Assignment]]:
        """What a new executor of the device has to run, by number: rounds not over yet."""
        for seq, entry in self._entries.items():
            one = entry.assignment
            first, end = max(one.round, self._progress[one.job].passed), entry.end_round
            if one.device == device and first < end and not entry.lost_race:
                yield seq, Assignment(device, one.job, first, end - first, one.shards)

    def in_progress(self, device: int) -> Iterator[Assignment]:
        """Tasks that have run, or may just be running, and whose barrier has not passed."""
        for seq, entry in self._entries.items():
            one, passed = entry.assignment, self._progress[entry.assignment.job].passed
            head = self._queues[device][0] if self._queues[device] else None
            shards = entry.in_progress(passed, at_head=seq == head)
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

    def lost_races_on(self, device: int) -> list[int]:
        """What the device still has of tasks that were done elsewhere."""
        return [seq for seq in self._queues[device] if self._entries[seq].lost_race]

    def begin(self, clock: ClusterClock, numerics: str) -> None:
        """Time zero has come."""
        self._clock, self._numerics = clock, numerics

    def copied(self, copy: Assignment) -> int | None:
        """A task starts once more, first of what its device has not begun; gives its number.

        None if it is done, or its job gone, and the core is only yet to hear of it.
        """
        job = copy.job
        passed_ns = self._pending.passes_ns(job, copy.round)
        if passed_ns is not None:
            self._pending.insert(TaskDropped(passed_ns, *place_of(copy), 0))
            return None
        if self._progress[job].ended or self._pending.returning(job):
            return None
        seq = self.assigned(copy)
        self._entries[seq].copy = True
        self._queues[copy.device].rotate(1)
        return seq

    def not_on_comp(self, seq: int, host_ns: int) -> list[int]:
        """A beaten task is not on COMP. Gives the jobs that end by it."""
        entry = self._entries.get(seq)
        if entry is not None and entry.lost_race:
            self._drop_loser(seq, self.cluster_ns(host_ns), 0)
        return self._try_all()

    def pop_lost_races(self) -> list[tuple[int, int]]:
        """Device and number of tasks that have been done elsewhere since this was asked last."""
        losers, self._lost_races = self._lost_races, []
        return losers

    def report(self, report: Report) -> list[int]:
        """A process reports; it may have to wait for others. Gives the jobs that end by it."""
        self._held.append(report)
        return self._try_all()

    def fail(self, job: int, reason: str, host_ns: int) -> list[int]:
        """The job cannot go on; what is known of it comes first. Gives others that end by it."""
        at_ns = self._pending.after_known(job, self.cluster_ns(host_ns))
        self._pending.cancel_arrival(job)
        self._progress[job].ended = True
        self._forget(job)
        self._forget_losers(job)
        self._pending.push(JobFailed(at_ns, job, reason))
        self._leave_queues()
        return self._try_all()

    def tasks_lost(self, one: Assignment, reason: str, host_ns: int) -> None:
        """Tasks of a job that has arrived went down with a process; they will run again."""
        if not self._progress[one.job].ended and self._pending.arrived(one.job):
            at_ns = self._pending.after_known(one.job, self.cluster_ns(host_ns))
            event = TasksLost(at_ns, one.job, one.round, one.shards, one.device, reason)
            self._pending.push(event)

    def roll_back(self, job: int, round_no: int, reason: str, now_ns: int) -> list[int]:
        """The job begins a new era at a checkpoint; reports of the old one count no more.

        ``now_ns`` is cluster time. The core need not know of a job that has not arrived: what it
        has in queues stays there. Gives jobs that end by it: their reports waited behind its tasks.
        """
        progress = self._progress[job]
        if not self._pending.arrived(job):
            progress.generation += 1
            return []
        at_ns = self._pending.after_known(job, now_ns)
        kept = tuple(past.row(at_ns) for past in progress.cut_at(round_no))
        self._forget(job)
        self._forget_losers(job)
        progress.begin_again(round_no, at_ns)
        self._pending.push(RolledBack(at_ns, job, round_no, reason, kept))
        self._leave_queues()
        return self._try_all()

    # What can be asked.

    def stuck(self) -> bool:
        """Whether nothing can happen any more without a further assignment."""
        if all(one.ended for one in self._progress):
            return self._pending.settled
        if self._held or not self._pending.empty or any(e.known for e in self._entries.values()):
            return False
        return not any(queue and self._can_run(self._entries[queue[0]]) for queue in self._queues)

    # Inside.

    def _try_all(self) -> list[int]:
        """Apply what waits as far as it is ready; gives the jobs that end by it."""
        self._finished = []
        while any(self._try(one) for one in tuple(self._held) if one in self._held):
            pass
        return self._finished

    def _try(self, report: Report) -> bool:
        """Apply a held report if it is ready or concerns nobody any more."""
        match report:
            case CompEnded(seq=seq, round=round_no, shard=shard):
                entry = self._entries.get(seq)
                if entry is not None and entry.lost_race:
                    self._held.remove(report)
                    end_ns = self._clock.cluster_ns(report.end_ns)
                    busy_ns = max(0, end_ns - self._clock.cluster_ns(report.start_ns))
                    self._drop_loser(seq, end_ns, busy_ns)
                    return True
                progress = None if entry is None else self._progress[entry.assignment.job]
                if entry is None or progress is None or progress.passed > round_no:
                    self._held.remove(report)
                    return False
                if round_no > progress.passed:
                    return False
                stamp = TaskStamp(shard, report.start_ns, report.end_ns, 0)
                self._left_comp(entry, round_no, stamp)
                self._leave_queue(entry.assignment.device)
            case RoundReport(job=job):
                progress = self._progress[job]
                if progress.ended or report.generation != progress.generation:
                    self._held.remove(report)
                    return False
                if progress.passed != report.round or not self._complete(report):
                    return False
                self._round_ended(report)
        if report in self._held:
            self._held.remove(report)
        return True

    def _complete(self, report: RoundReport) -> bool:
        """Take what the report says of its tasks; whether their devices are through with them."""
        stamps = {stamp.shard: stamp for stamp in report.stamps}
        concerned, losers = self._runs(report.job, report.round, stamps)
        if sum(len(entry.assignment.shards) for entry in concerned) < len(stamps):
            return False
        self._set_aside(report.job, losers)
        for entry in concerned:
            for shard in entry.assignment.shards:
                self._left_comp(entry, report.round, stamps[shard])
        for device in {entry.assignment.device for entry in concerned}:
            self._leave_queue(device)
        return all(self._through(entry, report.round) for entry in concerned)

    def _leave_queues(self) -> None:
        """A job is gone: others may have come to the head, and be through already."""
        for device in range(len(self._queues)):
            self._leave_queue(device)

    def _leave_queue(self, device: int) -> None:
        """Assignments leave a device's queue in its order, each when all its tasks have run."""
        queue = self._queues[device]
        while queue and not (entry := self._entries[queue[0]]).comp_left:
            queue.popleft()
            entry.queued = False
            one = entry.assignment
            what = (one.job, one.round, one.rounds, one.shards, device)
            self._pending.push(CompDone(entry.left_ns, *what))

    def _round_ended(self, report: RoundReport) -> None:
        progress = self._progress[report.job]
        synced_ns = 0
        stamps = {stamp.shard: stamp for stamp in report.stamps}
        winners, losers = self._runs(report.job, report.round, stamps)
        for entry in winners:
            ends = [self._clock.cluster_ns(stamps[s].end_ns) for s in entry.assignment.shards]
            entry.synced(report.round, max(ends))
            synced_ns = max(synced_ns, entry.sync_end_ns)
            if entry.assignment.rounds > 1:
                progress.pasts.append(entry.past(report.round))
        at_ns = max(self._clock.cluster_ns(report.at_ns), synced_ns)
        metrics = tuple(sorted((report.metrics or {}).items()))
        progress.passed, progress.barrier_ns = report.round + 1, at_ns
        progress.saved(report.saved)
        # A checkpoint of the beginning of a round is whole before that round's barrier passes.
        saved = progress.cut_at(report.round) if report.saved == report.round else ()
        cut = tuple(past.row(at_ns) for past in saved)
        for seq in losers:
            self._seqs_of[report.job].remove(seq)
        self._push_done(report.job, finished=report.finished)
        what = (report.job, report.round, 1, report.finished, report.loss, metrics)
        at_ns = self._pending.push(RoundsDone(at_ns, *what, at_ns, cut))
        for seq in losers:
            self._drop_loser(seq, at_ns, self._entries[seq].busy_ns)
        if report.finished:
            progress.ended = True
            self._forget(report.job)
            self._finished.append(report.job)
            self._pending.push(ParamsSaved(at_ns, report.job, report.sha256, self._numerics))
            self._leave_queues()

    def _set_aside(self, job: int, losers: list[int]) -> None:
        """These runs were beaten; of those that have not left COMP their devices will tell more.

        What ran behind them may have to wait for that: they may not have begun at all.
        """
        for seq in losers:
            entry = self._entries[seq]
            if entry.queued:
                entry.lost_race = True
                self._seqs_of[job].remove(seq)
                self._lost_races.append((entry.assignment.device, seq))

    def _drop_loser(self, seq: int, at_ns: int, busy_ns: int) -> None:
        entry = self._entries.pop(seq)
        one = entry.assignment
        self._pending.push(TaskDropped(at_ns, *place_of(one), busy_ns))
        if entry.queued:
            self._queues[one.device].remove(seq)
            self._leave_queue(one.device)

    def _forget_losers(self, job: int) -> None:
        for queue in self._queues:
            for seq in [s for s in queue if self._entries[s].lost_race]:
                if self._entries[seq].assignment.job == job:
                    del self._entries[seq]
                    queue.remove(seq)

    def _push_done(self, job: int, *, finished: bool) -> None:
        """Assignments whose rounds are over are done; one that a stop rule cuts short too."""
        passed = self._progress[job].passed
        for seq in list(self._seqs_of[job]):
            entry = self._entries[seq]
            one = entry.assignment
            rounds = passed - one.round
            if rounds < 1 or (rounds < one.rounds and not finished):
                continue
            if entry.queued:
                what = (job, one.round, rounds, one.shards, one.device)
                self._pending.push(CompDone(entry.left_ns, *what))
            self._pending.push(entry.past(passed - 1).row(entry.sync_end_ns))
            self._remove(seq, entry)

    def _remove(self, seq: int, entry: OpenAssignment) -> None:
        del self._entries[seq]
        self._seqs_of[entry.assignment.job].remove(seq)
        if entry.queued:
            self._queues[entry.assignment.device].remove(seq)

    def _forget(self, job: int) -> None:
        for seq in list(self._seqs_of[job]):
            self._remove(seq, self._entries[seq])
        self._held = [one for one in self._held if self._concerned(one) != job]

    def _concerned(self, report: Report) -> int | None:
        if isinstance(report, RoundReport):
            return report.job
        entry = self._entries.get(report.seq)
        return None if entry is None or entry.lost_race else entry.assignment.job

    def _runs(
        self, job: int, round_no: int, stamps: Mapping[int, TaskStamp]
    ) -> tuple[list[OpenAssignment], list[int]]:
        """The entries of a round that count, and the numbers of those that were beaten."""
        winners, losers = [], []
        for seq in self._seqs_of[job]:
            entry = self._entries[seq]
            one = entry.assignment
            if not one.round <= round_no < entry.end_round:
                continue
            stamp = stamps.get(one.shards[0]) if one.rounds == len(one.shards) == 1 else None
            if stamp is None or stamp.device in (-1, one.device):
                winners.append(entry)
            else:
                losers.append(seq)
        return winners, losers

    def _left_comp(self, entry: OpenAssignment, round_no: int, stamp: TaskStamp) -> None:
        """A task has left COMP, if that is news."""
        job = entry.assignment.job
        start_ns = max(self._clock.cluster_ns(stamp.start_ns), self._progress[job].barrier_ns)
        end_ns = max(self._clock.cluster_ns(stamp.comp_end_ns), start_ns + 1)
        entry.left_comp(round_no, stamp.shard, start_ns, end_ns)
        if self._jobs[job].sync == "ring":
            entry.held_ns = self._clock.cluster_ns(stamp.end_ns)

    def _through(self, entry: OpenAssignment, round_no: int) -> bool:
        """Whether its device is done with this round of it: told in the order of the queue."""
        if not entry.queued:
            return True
        head = self._queues[entry.assignment.device][0]
        return self._entries[head] is entry and entry.end_round > round_no + 1

    def _can_run(self, head: OpenAssignment) -> bool:
        return head.round <= self._progress[head.assignment.job].passed
