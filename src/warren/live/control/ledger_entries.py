"""The ledger's pages: one assignment under way, and one job's progress."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.model.decision import Assignment
from warren.model.events import TasksDone


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
        """What ran until then, told at ``time_ns``."""
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


@dataclass(slots=True)
class OpenAssignment:
    """An assignment under way. ``known``: tasks that have left COMP, their barrier not passed.

    ``copy``: its task was under way elsewhere. ``beaten``: it was done elsewhere first.
    ``held_ns``: a ring holds its device so long, whatever computes there.
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
        """Nothing has run yet."""
        return OpenAssignment(assignment, assignment.rounds * len(assignment.shards))

    @property
    def round(self) -> int:
        """Round of its next task on COMP."""
        one = self.assignment
        done = one.rounds * len(one.shards) - self.comp_left
        return one.round + done // len(one.shards)

    @property
    def left_ns(self) -> int:
        """When it has left its device."""
        return max(self.comp_end_ns, self.held_ns)

    @property
    def end_round(self) -> int:
        """The round after its last."""
        return self.assignment.round + self.assignment.rounds

    def left_comp(self, round_no: int, shard: int, start_ns: int, end_ns: int) -> None:
        """A task has run, if that is news."""
        if (round_no, shard) in self.known:
            return
        self.known.add((round_no, shard))
        self.comp_left -= 1
        self.start_ns = start_ns if self.start_ns < 0 else min(self.start_ns, start_ns)
        self.comp_end_ns = max(self.comp_end_ns, end_ns)
        self.busy_ns += end_ns - start_ns

    def in_progress(self, passed: int, *, at_head: bool) -> tuple[int, ...]:
        """Shards of the round in progress that have run; ``at_head``, the one that may run too."""
        shards = tuple(shard for at, shard in sorted(self.known) if at == passed)
        if at_head and passed == self.round:
            left = (s for s in self.assignment.shards if (passed, s) not in self.known)
            shards += tuple(left)[:1]
        return shards

    def synced(self, round_no: int, end_ns: int) -> None:
        """All its tasks of a round have left COMM and the barrier has passed."""
        self.known = {task for task in self.known if task[0] > round_no}
        self.sync_end_ns = max(self.sync_end_ns, end_ns, self.comp_end_ns)

    def past(self, last: int) -> PassedAssignment:
        """As it stands now, at the barrier of round ``last``."""
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
    """One job: barriers passed and when the last was; ``generation`` counts its returns.

    ``pasts``: its stretches of several rounds, barrier by barrier, since the checkpoint before
    the last one; should the job go back to one inside a stretch, they say what is left of it.
    """

    passed: int = 0
    barrier_ns: int = 0
    generation: int = 0
    ended: bool = False
    pasts: list[PassedAssignment] = field(default_factory=list)
    saves: tuple[int, int] = (0, 0)

    def saved(self, round_no: int) -> None:
        """The job's newest checkpoint is of the beginning of this round."""
        if round_no > self.saves[1]:
            self.saves = (self.saves[1], round_no)
            self.pasts = [past for past in self.pasts if past.last >= self.saves[0] - 1]

    def cut_at(self, round_no: int) -> list[PassedAssignment]:
        """Stretches that run across the beginning of this round, as they stood then."""
        return [
            past
            for past in self.pasts
            if past.last == round_no - 1
            and past.assignment.round + past.assignment.rounds > round_no
        ]

    def begin_again(self, round_no: int, at_ns: int) -> None:
        """The job goes on at this round, in a new era."""
        self.passed, self.barrier_ns, self.generation = round_no, at_ns, self.generation + 1
        self.pasts = [past for past in self.pasts if past.last < round_no]
