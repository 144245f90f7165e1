"""The ledger: turns the reports of processes into the core's events, in causal order.

Reports come over several sockets, so a barrier's may overtake a task's. The ledger holds each
report until the facts that it follows from are known; then it becomes events. An event's time never
goes back; the stamps inside it are those of the process where things happened. A barrier's report
says when each of its tasks ran. So nothing is missing when the device of a task is lost before its
own report; a fact reported twice counts once. The module is pure: it has no socket and reads no
clock, so that tests can play any order of reports and losses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger_entries import JobBarriers, OpenAssignment, dropped
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
    ServersMoved,
    TasksLost,
)
from warren.model.job import Job

Report = CompEnded | RoundReport


class Ledger:
    """All assignments in progress, by number, and the progress of each job.

    Parameters
    ----------
    jobs : sequence of Job
        All jobs of the run.
    devices : int
        How many devices the cluster has.
    pending : PendingEvents
        Where the events go.
    """

    def __init__(self, jobs: Sequence[Job], devices: int, pending: PendingEvents) -> None:
        self._jobs, self._pending = jobs, pending
        self._clock = ClusterClock(0)
        self._seqs = count(1)
        # An assignment is in ``_entries`` and in ``_seqs_of`` its job from its start until its last
        # barrier; it is in its device's queue until all its tasks have left COMP. If it lost its
        # race while in a queue, it is out of ``_seqs_of`` already: its job does not wait for it.
        self._entries: dict[int, OpenAssignment] = {}
        self._seqs_of: list[list[int]] = [[] for _ in jobs]
        self._queues: list[deque[int]] = [deque() for _ in range(devices)]
        self._progress = [JobBarriers(barrier_ns=job.arrival_ns) for job in jobs]
        self._numerics_J: Sequence[str] = ()
        # Reports that came before the facts that they follow from.
        self._held: list[Report] = []
        self._finished: list[int] = []
        self._lost_races: list[tuple[int, int]] = []

    def over(self, job: int) -> None:
        """Note that a job of a resumed run has ended already. To be called before ``begin``."""
        self._progress[job].ended = True

    def assigned(self, assignment: Assignment) -> int:
        """Enter an assignment that goes to its executor, and return its number."""
        seq = next(self._seqs)
        self._entries[seq] = OpenAssignment.of(assignment)
        self._seqs_of[assignment.job].append(seq)
        self._queues[assignment.device].append(seq)
        return seq

    def cluster_ns(self, host_ns: int) -> int:
        """Return the cluster time of a host reading; a reading of 0 means before time zero."""
        return self._pending.last_ns if host_ns == 0 else self._clock.cluster_ns(host_ns)

    def arrived(self, job: int) -> bool:
        """Tell whether the job has arrived."""
        return self._pending.arrived(job)

    def ended(self, job: int) -> bool:
        """Tell whether the job has finished or failed."""
        return self._progress[job].ended

    def passed(self, job: int) -> int:
        """Return the number of barriers that the job has passed."""
        return self._progress[job].passed

    def generation(self, job: int) -> int:
        """Return the generation that the job's state is with: every roll-back begins another."""
        return self._progress[job].generation

    def unfinished(self, device: int) -> Iterator[tuple[int, Assignment]]:
        """Yield the work of a new executor of the device: numbers, and rounds not over yet."""
        for seq, entry in self._entries.items():
            one = entry.assignment
            # Rounds behind the job's last barrier are over, whichever process reported their tasks.
            first, end = max(one.round, self._progress[one.job].passed), entry.end_round
            if one.device == device and first < end and not entry.lost_race:
                yield seq, Assignment(device, one.job, first, end - first, one.shards)

    def wants(self, device: int, job: int) -> bool:
        """Tell whether a job has an assignment on a device that is not over."""
        entries = map(self._entries.__getitem__, self._seqs_of[job])
        passed = self._progress[job].passed
        return any(one.assignment.device == device and one.end_round > passed for one in entries)

    def in_progress(self, device: int) -> Iterator[Assignment]:
        """Yield a device's tasks that have run or may be running, and whose barrier is to come."""
        for seq, entry in self._entries.items():
            one, passed = entry.assignment, self._progress[entry.assignment.job].passed
            head = self._queues[device][0] if self._queues[device] else None
            shards = entry.in_progress(passed, at_head=seq == head)
            if one.device == device and shards:
                yield Assignment(device, one.job, passed, 1, shards)

    def head(self, device: int) -> Assignment | None:
        """Return the assignment that a device is at or waits to begin; None: it has none."""
        queue = self._queues[device]
        return self._entries[queue[0]].assignment if queue else None

    def job_of(self, seq: int) -> int | None:
        """Return the job of an assignment in progress; None if there is no such assignment."""
        entry = self._entries.get(seq)
        return None if entry is None else entry.assignment.job

    def is_copy(self, seq: int) -> bool:
        """Tell whether an assignment was started while its task was in progress elsewhere."""
        return self._entries[seq].copy

    def lost_races_on(self, device: int) -> list[int]:
        """Return the numbers in the device's queue whose tasks other devices finished first."""
        return [seq for seq in self._queues[device] if self._entries[seq].lost_race]

    def renew(self, job: int) -> int:
        """Begin a new generation of a job that has made no task, and return it."""
        self._progress[job].generation = self._progress[job].reserve()
        return self._progress[job].generation

    def reserve(self, job: int) -> int:
        """Return the number of a generation that the job's blocks are to migrate to."""
        return self._progress[job].reserve()

    def migrate(self, job: int, generation: int) -> None:
        """Begin a generation that was reserved, at the last barrier: nothing runs again."""
        self._progress[job].generation = generation

    def servers_moved(self, event: ServersMoved) -> None:
        """Tell that a job's blocks are at its new servers, unless the job has ended."""
        if not self._progress[event.job].ended:
            self._pending.push(event)

    def begin(self, clock: ClusterClock, numerics_J: Sequence[str]) -> None:
        """Set the clock at time zero, and the numerics class of the results of each job."""
        self._clock, self._numerics_J = clock, numerics_J

    def copied(self, copy: Assignment) -> int | None:
        """Enter a copy of a task, ahead of its device's tasks not begun, and return its number.

        None if the task is done, or its job gone, and the core has yet to hear of it.
        """
        job = copy.job
        # The core counts the copy as running: it hears that it was dropped when the barrier passes.
        passed_ns = self._pending.passes_ns(job, copy.round)
        if passed_ns is not None:
            self._pending.insert(dropped(copy, passed_ns, 0))
            return None
        if self._progress[job].ended or self._pending.returning(job):
            return None
        seq = self.assigned(copy)
        self._entries[seq].copy = True
        self._queues[copy.device].rotate(1)
        return seq

    def not_on_comp(self, seq: int, host_ns: int) -> list[int]:
        """Drop a task that lost its race and is not on COMP; return the jobs that end by it."""
        entry = self._entries.get(seq)
        if entry is not None and entry.lost_race:
            self._drop_loser(seq, self.cluster_ns(host_ns), 0)
        return self._try_all()

    def pop_lost_races(self) -> list[tuple[int, int]]:
        """Return device and number of tasks that have lost their race since this was asked last."""
        losers, self._lost_races = self._lost_races, []
        return losers

    def report(self, report: Report) -> list[int]:
        """Take a report, which may have to wait for others; return the jobs that end by it."""
        self._held.append(report)
        return self._try_all()

    def fail(self, job: int, reason: str, host_ns: int) -> list[int]:
        """Fail a job, after all known events of it; return other jobs that end by it."""
        at_ns = self._pending.after_known(job, self.cluster_ns(host_ns))
        self._pending.cancel_arrival(job)
        self._progress[job].ended = True
        self._forget(job)
        self._forget_losers(job)
        self._pending.push(JobFailed(at_ns, job, reason))
        self._leave_queues()
        return self._try_all()

    def tasks_lost(self, one: Assignment, reason: str, host_ns: int) -> None:
        """Report tasks that went down with a process, and will run again.

        Nothing is reported of a job that has ended, or has not arrived.
        """
        if not self._progress[one.job].ended and self._pending.arrived(one.job):
            at_ns = self._pending.after_known(one.job, self.cluster_ns(host_ns))
            event = TasksLost(at_ns, one.job, one.round, one.shards, one.device, reason)
            self._pending.push(event)

    def roll_back(self, job: int, round_no: int, reason: str, now_ns: int) -> list[int]:
        """Begin a new generation of a job at a checkpoint; reports of the old one count no more.

        The core need not know of it before a job has arrived: its tasks in queues stay there.

        Parameters
        ----------
        job : int
            The job's index.
        round_no : int
            The round that the checkpoint begins with.
        reason : str
            Why the job goes back, for the journal.
        now_ns : int
            The cluster time.

        Returns
        -------
        list of int
            Other jobs that end by it: their reports waited behind the job's tasks in queues.
        """
        progress = self._progress[job]
        if not self._pending.arrived(job):
            progress.generation = progress.reserve()
            return []
        at_ns = self._pending.after_known(job, now_ns)
        # Of a stretch that the checkpoint cuts in two, the part before it counts.
        kept = tuple(past.row(at_ns) for past in progress.cut_at(round_no))
        self._forget(job)
        self._forget_losers(job)
        progress.begin_again(round_no, at_ns)
        self._pending.push(RolledBack(at_ns, job, round_no, reason, kept))
        self._leave_queues()
        return self._try_all()

    # Queries.

    def stuck(self) -> bool:
        """Tell whether nothing can happen any more without a further assignment."""
        if all(one.ended for one in self._progress):
            return self._pending.settled
        # A held report, an event to come, and a task that waits for its barrier bring something.
        if self._held or not self._pending.empty or any(e.known for e in self._entries.values()):
            return False
        return not any(queue and self._can_run(self._entries[queue[0]]) for queue in self._queues)

    # Reports into events.

    def _try_all(self) -> list[int]:
        """Apply held reports as far as they are ready; return the jobs that end by them."""
        self._finished = []
        # A report that is applied may make any other ready, so try until none is.
        while any(self._try(one) for one in tuple(self._held) if one in self._held):
            pass
        return self._finished

    def _try(self, report: Report) -> bool:
        """Apply a held report if it is ready; drop it if its job no longer needs it.

        True if that has changed something, so that other reports may be ready now.
        """
        match report:
            case CompEnded(seq=seq, round=round_no, shard=shard):
                entry = self._entries.get(seq)
                if entry is not None and entry.lost_race:
                    # Its result is not wanted; its device was busy with it until now.
                    self._held.remove(report)
                    end_ns = self._clock.cluster_ns(report.end_ns)
                    busy_ns = max(0, end_ns - self._clock.cluster_ns(report.start_ns))
                    self._drop_loser(seq, end_ns, busy_ns)
                    return True
                # Assignments that are gone, or whose round's barrier has reported them, count no
                # more.
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
                # The generation tells a lost server's report from one of its successor.
                if progress.ended or report.generation != progress.generation:
                    self._held.remove(report)
                    return False
                if progress.passed != report.round or not self._complete(report):
                    return False
                self._round_ended(report)
        # It may be gone already: when its job ended, all that concerns the job was forgotten.
        if report in self._held:
            self._held.remove(report)
        return True

    def _complete(self, report: RoundReport) -> bool:
        """Enter the stamps of a report's tasks; tell whether their devices are done with them."""
        stamps = {stamp.shard: stamp for stamp in report.stamps}
        concerned, losers = self._runs(report.job, report.round, stamps)
        # Each task needs the entry of the run that counts; while one lacks it, the report waits.
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
        """Let assignments leave all queues: when a job is gone, others have come to their heads."""
        for device in range(len(self._queues)):
            self._leave_queue(device)

    def _leave_queue(self, device: int) -> None:
        """Let assignments leave a device's queue in its order, each when all its tasks have run."""
        queue = self._queues[device]
        while queue and not (entry := self._entries[queue[0]]).comp_left:
            queue.popleft()
            entry.queued = False
            one = entry.assignment
            what = (one.job, one.round, one.rounds, one.shards, device)
            self._pending.push(CompDone(entry.left_ns, *what))

    def _round_ended(self, report: RoundReport) -> None:
        """Make the events of a barrier that has passed."""
        progress = self._progress[report.job]
        synced_ns = 0
        stamps = {stamp.shard: stamp for stamp in report.stamps}
        winners, losers = self._runs(report.job, report.round, stamps)
        for entry in winners:
            ends = [self._clock.cluster_ns(stamps[s].end_ns) for s in entry.assignment.shards]
            entry.synced(report.round, max(ends))
            synced_ns = max(synced_ns, entry.sync_end_ns)
            # Only a stretch of several rounds can be cut in two by a checkpoint.
            if entry.assignment.rounds > 1:
                progress.pasts.append(entry.past(report.round))
        # The barrier is not before any synchronization that it waits for.
        at_ns = max(self._clock.cluster_ns(report.at_ns), synced_ns)
        metrics = tuple(sorted((report.metrics or {}).items()))
        progress.passed, progress.barrier_ns = report.round + 1, at_ns
        progress.saved(report.saved)
        # A checkpoint of the beginning of a round is whole before that round's barrier passes.
        saved = progress.cut_at(report.round) if report.saved == report.round else ()
        cut = tuple(past.row(at_ns) for past in saved)
        # Out of the job's list first: ``_push_done`` must not report the losers as done.
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
            numerics = self._numerics_J[report.job]
            self._pending.push(ParamsSaved(at_ns, report.job, report.sha256, numerics))
            self._leave_queues()

    def _set_aside(self, job: int, losers: list[int]) -> None:
        """Mark the runs that lost their race and are still in a queue.

        Their devices will report that they have left COMP, or that they were never on it. Runs
        behind them in the queue wait for that.
        """
        for seq in losers:
            entry = self._entries[seq]
            if entry.queued:
                entry.lost_race = True
                self._seqs_of[job].remove(seq)
                self._lost_races.append((entry.assignment.device, seq))

    def _drop_loser(self, seq: int, at_ns: int, busy_ns: int) -> None:
        """Report a run that lost its race as dropped, and free its place in the queue.

        ``busy_ns``: how long it was on COMP.
        """
        entry = self._entries.pop(seq)
        one = entry.assignment
        self._pending.push(dropped(one, at_ns, busy_ns))
        if entry.queued:
            self._queues[one.device].remove(seq)
            self._leave_queue(one.device)

    def _forget_losers(self, job: int) -> None:
        """Take the job's runs that lost their race out of all queues, without an event."""
        for queue in self._queues:
            for seq in [s for s in queue if self._entries[s].lost_race]:
                if self._entries[seq].assignment.job == job:
                    del self._entries[seq]
                    queue.remove(seq)

    def _push_done(self, job: int, *, finished: bool) -> None:
        """Report assignments whose rounds are over, and those cut short by a stop rule."""
        passed = self._progress[job].passed
        for seq in list(self._seqs_of[job]):
            entry = self._entries[seq]
            one = entry.assignment
            rounds = passed - one.round
            # Not begun, or not over; a job that has finished has no further rounds.
            if rounds < 1 or (rounds < one.rounds and not finished):
                continue
            # An assignment cut short has tasks left, so it did not leave its queue by itself.
            if entry.queued:
                what = (job, one.round, rounds, one.shards, one.device)
                self._pending.push(CompDone(entry.left_ns, *what))
            self._pending.push(entry.past(passed - 1).row(entry.sync_end_ns))
            self._remove(seq, entry)

    def _remove(self, seq: int, entry: OpenAssignment) -> None:
        """Forget an assignment."""
        del self._entries[seq]
        self._seqs_of[entry.assignment.job].remove(seq)
        if entry.queued:
            self._queues[entry.assignment.device].remove(seq)

    def _forget(self, job: int) -> None:
        """Forget all assignments of a job, and the reports about it that are held."""
        for seq in list(self._seqs_of[job]):
            self._remove(seq, self._entries[seq])
        self._held = [one for one in self._held if self._concerned(one) != job]

    def _concerned(self, report: Report) -> int | None:
        """Return the job that a report is about.

        None if its assignment is gone or has lost its race: that concerns the device only.
        """
        if isinstance(report, RoundReport):
            return report.job
        entry = self._entries.get(report.seq)
        return None if entry is None or entry.lost_race else entry.assignment.job

    def _runs(
        self, job: int, round_no: int, stamps: Mapping[int, TaskStamp]
    ) -> tuple[list[OpenAssignment], list[int]]:
        """Return the entries of a round that count, and the numbers of runs that lost a race.

        Only single tasks have copies. The device in the stamp says which run of a task counts.
        """
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
        """Enter that a task has left COMP, unless that is known already."""
        job = entry.assignment.job
        # No task begins before the barrier that it waits for, and none takes less than 1 ns, even
        # if two clock readings converted to cluster time say so.
        start_ns = max(self._clock.cluster_ns(stamp.start_ns), self._progress[job].barrier_ns)
        end_ns = max(self._clock.cluster_ns(stamp.comp_end_ns), start_ns + 1)
        entry.left_comp(round_no, stamp.shard, start_ns, end_ns)
        if self._jobs[job].sync == "ring":
            entry.held_ns = self._clock.cluster_ns(stamp.end_ns)

    def _through(self, entry: OpenAssignment, round_no: int) -> bool:
        """Tell whether an assignment's device is done with a round of it, in the queue's order."""
        if not entry.queued:
            return True
        # Still in the queue: it must be at the head, and kept there by further rounds of its own.
        head = self._queues[entry.assignment.device][0]
        return self._entries[head] is entry and entry.end_round > round_no + 1

    def _can_run(self, head: OpenAssignment) -> bool:
        """Tell whether the barrier before the next task of a head of a queue has passed."""
        return head.round <= self._progress[head.assignment.job].passed
