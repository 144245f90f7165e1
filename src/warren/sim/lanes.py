"""The lanes of devices: started tasks, and the events that follow from them.

Once a task starts, everything about it is known: its COMP end, its synchronization end and, when it
is the last of its round to start, the barrier. So nothing is kept but the events that will be
emitted. A stretch runs its first round that way, since its devices may become free at different
times; the rounds after it are all alike and are taken in one step. If times change while it runs,
its equal rounds between two changes are a *leg*: one step, which is cut back if it has been taken
too far, so that rounds that start at or after the change are taken again. Only the last round's
events are emitted, when it starts.

The durations give the time of a task; the network says when a ring's round is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import RANK, AnyEvent, CompDone, RoundsDone, TasksDone
from warren.model.run import Run
from warren.sim.parts import Durations
from warren.sim.recorded_metrics import shown_metrics
from warren.sim.verified_tasks import VerifiedTasks

StretchPart = tuple[Assignment, int, int]
"""A stretch on one device: its assignment, its start, its COMP time in the first round."""


@dataclass(slots=True)
class Leg:
    """``count`` equal rounds of a stretch, the first of them its round ``offset``.

    Per part of the stretch: ``busy`` is its COMP time before the leg, ``comp`` that of each round.
    """

    parts: list[StretchPart]
    busy: list[int]
    comp: list[int]
    offset: int
    begin_ns: int
    round_ns: int = 0
    count: int = 0

    @property
    def end_ns(self) -> int:
        """Return the barrier of its last round."""
        return self.begin_ns + self.count * self.round_ns

    def cut(self, now: int) -> None:
        """Keep the rounds that start before ``now``."""
        # The quotient is rounded up: a round that has begun keeps its times to its end.
        if self.round_ns:
            self.count = min(self.count, -(-(now - self.begin_ns) // self.round_ns))

    def pass_on(self) -> None:
        """Move to where the leg ends."""
        self.begin_ns = self.end_ns
        self.offset += self.count
        self.busy = [b + self.count * c for b, c in zip(self.busy, self.comp, strict=True)]
        self.count = 0


class EventQueue:
    """The events to come, in the total order (time, rank, sequence) of decision 0002.

    Most events share their instant with another one. So the heap holds instants, which are whole
    numbers, and of equals the first added stays first.
    """

    __slots__ = ("_events", "_times_ns")

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._events: dict[int, list[AnyEvent]] = {}

    def __bool__(self) -> bool:
        return bool(self._times_ns)

    def __iter__(self) -> Iterator[AnyEvent]:
        """Yield all events, in no order of time."""
        return (event for events in self._events.values() for event in events)

    @property
    def first_ns(self) -> int:
        """Return the next instant; the queue must not be empty."""
        return self._times_ns[0]

    def add(self, event: AnyEvent) -> None:
        """Add one more event."""
        time_ns = event.time_ns
        events = self._events.get(time_ns)
        if events is None:
            self._events[time_ns] = [event]
            heappush(self._times_ns, time_ns)
        else:
            events.append(event)

    def take(self) -> tuple[AnyEvent, ...]:
        """Take out all events of the next instant, by (rank, sequence)."""
        events = self._events.pop(heappop(self._times_ns))
        # The sort is stable, so the sequence need not be stored.
        if len(events) > 1:
            events.sort(key=_rank)
        return tuple(events)

    def drop(self, is_meant: Callable[[AnyEvent], bool]) -> None:
        """Take back events that will not happen."""
        for time_ns, events in list(self._events.items()):
            events[:] = [event for event in events if not is_meant(event)]
            # An instant without events must not stay in the heap: ``take`` would deliver it.
            if not events:
                del self._events[time_ns]
        self._times_ns = list(self._events)
        heapify(self._times_ns)


def _rank(event: AnyEvent) -> int:
    """Return the rank of an event among those of its instant."""
    return RANK[type(event)]


class Lanes:
    """Queues, COMM lanes and barriers of a run, which the port and its parts share.

    Parameters
    ----------
    run
        Cluster, workload and the hidden truth.
    costs
        The profile; only the time of a device between jobs is read here.
    durations
        How long tasks take.
    verified
        Which tasks are computed again; None: their time is not counted.

    ``legs``: stretches whose rounds are still to be taken, where durations change. ``cut_short``:
    for jobs that end inside a stretch, where that stretch begins.
    """

    __slots__ = (
        "_held",
        "_last_job_D",
        "_parts_J",
        "_shown",
        "_switch_JT",
        "barrier_J",
        "comm_free_D",
        "cut_short",
        "durations",
        "emit",
        "events",
        "left_J",
        "legs",
        "now_ns",
        "queue_D",
        "round_J",
        "rounds_J",
        "scale_J",
        "type_D",
        "verified",
        "waiting_J",
    )

    def __init__(
        self,
        run: Run,
        costs: CostTable,
        durations: Durations,
        verified: VerifiedTasks | None = None,
    ) -> None:
        jobs = run.workload.jobs
        devices = range(len(run.cluster.devices))
        switch_ns_JT = costs.switch_ns_JT
        self.durations = durations
        self.verified = verified
        self.now_ns = 0
        self.events = EventQueue()
        self.emit = self.events.add
        self.type_D = run.cluster.type_of_device
        self.queue_D: list[deque[Assignment]] = [deque() for _ in devices]
        self.comm_free_D = [0 for _ in devices]
        self.scale_J = [job.scale for job in jobs]
        self.rounds_J = [job.rounds or 0 for job in jobs]
        self.round_J = [0 for _ in jobs]
        # The tasks of the job's round at hand that have not started.
        self.left_J = [job.scale for job in jobs]
        # The latest end of a synchronization of that round so far.
        self.barrier_J = [0 for _ in jobs]
        # The devices whose head waits for the job.
        self.waiting_J: list[list[int]] = [[] for _ in jobs]
        self.legs: list[Leg] = []
        self.cut_short: dict[int, int] = {}
        shows = run.truth.losses or run.truth.metrics
        self._shown = shown_metrics(run) if shows else None
        self._switch_JT = [] if switch_ns_JT is None else switch_ns_JT.tolist()
        self._last_job_D = [-1 for _ in devices]
        self._parts_J: list[list[StretchPart]] = [[] for _ in jobs]
        self._held: dict[int, list[tuple[Assignment, int, int, int]]] = {}

    def start(self, head: Assignment) -> None:
        """Start the first round of an assignment on its device; nothing keeps it from that."""
        device = head.device
        job = head.job
        round_ = head.round
        shards = head.shards
        # A switch comes before the task and is no COMP time of it (decision 0016).
        start = self.now_ns + (self.switch_ns(job, device) if self._switch_JT else 0)
        comp_end, end = self.durations.run_round(
            job, round_, shards, self.type_D[device], start, self.comm_free_D[device]
        )
        self.comm_free_D[device] = end
        if end > self.barrier_J[job]:
            self.barrier_J[job] = end
        part = head, start, comp_end - start
        # A stretch that is cut short to one round shows its end at the barrier, on all devices. The
        # barrier is known when the last of them has started; until then its parts are held.
        if self.cut_short and self.cut_short.get(job) == round_ and head.rounds == 1:
            self._held.setdefault(job, []).append((head, start, comp_end, end))
        elif head.rounds == 1:
            self._finish_part(part, comp_end, end, end)
        else:
            self._parts_J[job].append(part)
        left = self.left_J[job] = self.left_J[job] - len(shards)
        # With all tasks of the round started, ``barrier_J`` is the end of the last of them.
        if left == 0:
            barrier = self.barrier_J[job]
            if head.rounds > 1:
                parts, self._parts_J[job] = self._parts_J[job], []
                self._run_rest(parts, barrier)
                return
            for one, start, comp_end, end in self._held.pop(job, ()) if self._held else ():
                self._finish_part((one, start, comp_end - start), comp_end, end, barrier)
            self.finish_rounds(head, barrier)

    def switch_ns(self, job: int, device: int) -> int:
        """Note that the device goes to ``job``; return the time that it spends on that, ns.

        Its first job costs nothing, nor does the job that it ran last.
        """
        if not self._switch_JT:
            return 0
        last, self._last_job_D[device] = self._last_job_D[device], job
        return 0 if last in (-1, job) else int(self._switch_JT[job][self.type_D[device]])

    def finish_rounds(self, one: Assignment, barrier: int) -> None:
        """Emit the last barrier of an assignment's rounds."""
        self.emit(self.passed(barrier, one.job, one.round, one.rounds))

    def passed(self, barrier: int, job: int, round_: int, rounds: int) -> RoundsDone:
        """Return the event of a barrier, with the job's metric there."""
        last = round_ + rounds == self.rounds_J[job]
        shown = () if self._shown is None else self._shown.metrics(job, round_, rounds)
        return RoundsDone(barrier, job, round_, rounds, last, None, shown)

    def go_on(self, leg: Leg) -> None:
        """Take the next leg of a stretch, or its last round."""
        leg.pass_on()
        begin = leg.begin_ns
        # The barrier has passed, so all parts begin together, and from here on all are alike.
        spans = [self._round_of(part, leg.offset, begin) for part, _, _ in leg.parts]
        leg.comp = [comp_end - begin for comp_end, _ in spans]
        end = max(end for _, end in spans)
        left = leg.parts[0][0].rounds - leg.offset
        # All rounds but the last, whose events are emitted below; with noise no two are equal.
        if left > 1:
            leg.round_ns, leg.count = end - begin, 1 if self.durations.noisy else left - 1
            return
        self.legs.remove(leg)
        each = zip(leg.parts, spans, leg.busy, leg.comp, strict=True)
        for (part, start, _), (comp_end, part_end), busy, comp in each:
            self.comm_free_D[part.device] = part_end
            self._finish_part((part, start, busy + comp), comp_end, part_end, end)
        self.finish_rounds(leg.parts[0][0], end)

    def _finish_part(self, part: StretchPart, comp_end: int, end: int, barrier: int) -> None:
        """Emit the end of a part whose COMP time is known in full.

        Where the end of the job cut its stretch short, that shows at the barrier.
        """
        one, start, busy = part
        device = one.device
        job = one.job
        round_ = one.round
        rounds = one.rounds
        shards = one.shards
        if self.cut_short and self.cut_short.get(job) == round_:
            self.emit(CompDone(barrier, job, round_, rounds, shards, device))
            self.emit(
                TasksDone(barrier, job, round_, rounds, shards, device, start, comp_end, busy, end)
            )
        else:
            self.emit(CompDone(comp_end, job, round_, rounds, shards, device))
            self.emit(TasksDone(end, job, round_, rounds, shards, device, start, comp_end, busy))
        if self.verified is not None:
            self.verified.computed(one, comp_end, busy)

    def _run_rest(self, parts: list[StretchPart], barrier: int) -> None:
        """Run rounds 2 and later of a stretch whose first barrier is ``barrier``."""
        if self.durations.changing:
            # A leg of no rounds, which ends at the barrier: ``go_on`` takes the next one there.
            first = [busy for _, _, busy in parts]
            self.legs.append(Leg(parts, first, first, offset=1, begin_ns=barrier))
            return
        rounds = parts[0][0].rounds
        if self.durations.noisy:
            # Rounds 2 to the last but one, each from barrier to barrier; only sums are kept.
            for offset in range(1, rounds - 1):
                spans = [self._round_of(part, offset, barrier) for part, _, _ in parts]
                parts = [
                    (part, start, busy + comp_end - barrier)
                    for (part, start, busy), (comp_end, _) in zip(parts, spans, strict=True)
                ]
                barrier = max(end for _, end in spans)
            repeat = 1
        else:
            # All rounds are alike: look at the last one and count it rounds - 1 times.
            repeat = rounds - 1
        spans = [self._round_of(part, rounds - 1, barrier) for part, _, _ in parts]
        last = max([end for _, end in spans])
        # The last round was taken from the first barrier on, as if no other lay between; it begins
        # ``skipped`` later.
        skipped = (repeat - 1) * (last - barrier)
        for (part, start, busy), (comp_end, end) in zip(parts, spans, strict=True):
            busy += repeat * (comp_end - barrier)
            comp_end, end = comp_end + skipped, end + skipped
            self.comm_free_D[part.device] = end
            self._finish_part((part, start, busy), comp_end, end, last + skipped)
        self.finish_rounds(parts[0][0], last + skipped)

    def _round_of(self, part: Assignment, offset: int, begin: int) -> tuple[int, int]:
        """Return the ends of COMP and synchronization of a part's round begun at ``begin``, ns."""
        kind = self.type_D[part.device]
        # The barrier has passed, so this device's COMM lane is free.
        return self.durations.run_round(
            part.job, part.round + offset, part.shards, kind, begin, begin
        )
