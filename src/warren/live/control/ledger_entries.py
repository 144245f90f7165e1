"""The entries of the ledger: one assignment in progress, and one job's barriers."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.model.decision import Assignment
from warren.model.events import TaskDropped, TasksDone


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedAssignment:
    """An assignment as it stood when the barrier of its round ``last`` passed."""

    assignment: Assignment
    last: int
    start_ns: int
    comp_end_ns: int
    busy_ns: int
    sync_end_ns: int

    def row(self, time_ns: int) -> TasksDone:
        """Return the event that reports the tasks run until then, at ``time_ns`` or later."""
        one = self.assignment
        return TasksDone(
            max(time_ns, self.sync_end_ns),
            one.job,
            one.round,
            self.last + 1 - one.round,
            one.shards,
            one.device,
            self.start_ns,
            self.comp_end_ns,
            self.busy_ns,
            self.sync_end_ns,
        )


def dropped(one: Assignment, at_ns: int, busy_ns: int) -> TaskDropped:
    """Return the event that a run of one task does not count, with its time on its device."""
    return TaskDropped(at_ns, one.job, one.round, one.shards[0], one.device, busy_ns)


@dataclass(slots=True)
class OpenAssignment:
    """An assignment in progress, as far as reports say. Times are cluster nanoseconds.

    Attributes
    ----------
    assignment : Assignment
        The assignment itself.
    comp_left : int
        Number of its tasks that have not left COMP.
    queued : bool
        Whether it is still in its device's queue.
    start_ns, comp_end_ns : int
        Start of its first task, -1 before that, and the time when the latest task left COMP.
    busy_ns : int
        Sum of the times of its tasks on COMP.
    sync_end_ns : int
        End of its latest synchronization.
    known : set of (int, int)
        Round and shard of tasks that have left COMP, before their barrier has passed.
    copy : bool
        Whether its task was in progress on another device when it was started.
    lost_race : bool
        Whether another device finished its task first.
    held_ns : int
        Until when a ring holds its device, whatever computes there.
    """

    assignment: Assignment
    comp_left: int
    queued: bool = True
    start_ns: int = -1
    comp_end_ns: int = 0
    busy_ns: int = 0
    sync_end_ns: int = 0
    known: set[tuple[int, int]] = field(default_factory=set)
    copy: bool = False
    lost_race: bool = False
    held_ns: int = 0

    @staticmethod
    def of(assignment: Assignment) -> OpenAssignment:
        """Return the entry of an assignment of which nothing has run."""
        return OpenAssignment(assignment, assignment.rounds * len(assignment.shards))

    @property
    def round(self) -> int:
        """The round of its next task on COMP."""
        one = self.assignment
        # Tasks run round by round, all shards of one before those of the next.
        done = one.rounds * len(one.shards) - self.comp_left
        return one.round + done // len(one.shards)

    @property
    def left_ns(self) -> int:
        """The time when it has left its device, or its ring has."""
        return max(self.comp_end_ns, self.held_ns)

    @property
    def end_round(self) -> int:
        """The round after its last."""
        return self.assignment.round + self.assignment.rounds

    def left_comp(self, round_no: int, shard: int, start_ns: int, end_ns: int) -> None:
        """Enter that a task has run, unless that is known already."""
        if (round_no, shard) in self.known:
            return
        self.known.add((round_no, shard))
        self.comp_left -= 1
        self.start_ns = start_ns if self.start_ns < 0 else min(self.start_ns, start_ns)
        self.comp_end_ns = max(self.comp_end_ns, end_ns)
        self.busy_ns += end_ns - start_ns

    def in_progress(self, passed: int, *, at_head: bool) -> tuple[int, ...]:
        """Return the shards that have run, or may be running, of the round after ``passed`` ones.

        ``at_head``: the assignment is at the head of its queue, so its next task may be running.
        """
        shards = tuple(shard for at, shard in sorted(self.known) if at == passed)
        if at_head and passed == self.round:
            left = (s for s in self.assignment.shards if (passed, s) not in self.known)
            shards += tuple(left)[:1]
        return shards

    def synced(self, round_no: int, end_ns: int) -> None:
        """Enter that all its tasks of a round have left COMM and the barrier has passed."""
        self.known = {task for task in self.known if task[0] > round_no}
        self.sync_end_ns = max(self.sync_end_ns, end_ns, self.comp_end_ns)

    def past(self, last: int) -> PassedAssignment:
        """Return the assignment as it stands now, at the barrier of round ``last``."""
        return PassedAssignment(
            assignment=self.assignment,
            last=last,
            start_ns=self.start_ns,
            comp_end_ns=self.comp_end_ns,
            busy_ns=self.busy_ns,
            sync_end_ns=self.sync_end_ns,
        )


@dataclass(slots=True)
class JobBarriers:
    """The progress of one job.

    Attributes
    ----------
    passed : int
        Barriers that it has passed.
    barrier_ns : int
        Time of the last barrier; the job's arrival, before the first.
    generation : int
        Generation of the servers, or ranks, that hold its state: each roll-back or migration begins
        one.
    reserved : int
        The last generation that has a number; servers of a later one may have been started.
    ended : bool
        Whether it has finished or failed.
    pasts : list of PassedAssignment
        Its stretches of several rounds, barrier by barrier, since the checkpoint before the last
        one. If the job goes back to a checkpoint inside a stretch, they list the tasks that ran
        before it.
    saves : (int, int)
        The first rounds of its last checkpoint but one and of its last.
    """

    passed: int = 0
    barrier_ns: int = 0
    generation: int = 0
    reserved: int = 0
    ended: bool = False
    pasts: list[PassedAssignment] = field(default_factory=list)
    saves: tuple[int, int] = (0, 0)

    def reserve(self) -> int:
        """Return the number of a generation to come, which no other one gets."""
        self.reserved += 1
        return self.reserved

    def saved(self, round_no: int) -> None:
        """Note the newest checkpoint of the job, which is of the beginning of this round."""
        # Two are remembered: when the last one is damaged on disk, the one before it is used.
        if round_no > self.saves[1]:
            self.saves = (self.saves[1], round_no)
            self.pasts = [past for past in self.pasts if past.last >= self.saves[0] - 1]

    def cut_at(self, round_no: int) -> list[PassedAssignment]:
        """Return the stretches that run across the beginning of this round, as they stood then."""
        return [
            past
            for past in self.pasts
            if past.last == round_no - 1
            and past.assignment.round + past.assignment.rounds > round_no
        ]

    def begin_again(self, round_no: int, at_ns: int) -> None:
        """Let the job go on at this round, in a new generation."""
        self.passed = round_no
        self.barrier_ns = at_ns
        self.generation = self.reserve()
        self.pasts = [past for past in self.pasts if past.last < round_no]
