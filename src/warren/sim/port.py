"""Virtual time: the cluster as a discrete-event simulation behind the core's port.

A device runs its queue strictly first in, first out. ``warren.sim.lanes`` computes what follows
from a start. This file holds the queues, the order in which time passes, and the order in which the
parts (``warren.sim.parts``) are asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from warren.model.costs import CostTable
from warren.model.decision import PLACE_ALONE, Assignment, Group, Plan, Question, Shape
from warren.model.events import (
    RANK,
    AnyEvent,
    CompDone,
    HostLeft,
    JobArrived,
    RolledBack,
    RoundsDone,
    TaskDropped,
    TasksDone,
    Woken,
)
from warren.model.link_use import LinkUse
from warren.model.run import Run
from warren.model.timeline import PlanOutcome
from warren.sim.lanes import Lanes
from warren.sim.parts import IDLE_NS
from warren.sim.task_durations import TaskDurations, check_simulable

if TYPE_CHECKING:
    # Links are shared in compiled code, which a run without them does not load.
    from warren.sim.jobs_after_others import JobsAfterOthers
    from warren.sim.network.link_flows import LinkFlows
    from warren.sim.network.ring_gangs import GangsAtWork
    from warren.sim.network.server_rounds import ServerRounds
    from warren.sim.opportunistic_hosts import OpportunisticHosts
    from warren.sim.shared_cpu import SharedProcessors
    from warren.sim.speculation import TaskCopies


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one simulation, see ``warren.sim.parts``; None: the run does not need it.

    ``flows`` are the links of servers, and of rings beside them. ``processors`` are the durations
    of the lanes where all devices share processors.
    """

    lanes: Lanes
    rings: GangsAtWork | None = None
    flows: LinkFlows | None = None
    servers: ServerRounds | None = None
    hosts: OpportunisticHosts | None = None
    after: JobsAfterOthers | None = None
    copies: TaskCopies | None = None
    processors: SharedProcessors | None = None


def questions_of_links(run: Run) -> frozenset[Question]:
    """Return the questions whose answers a simulation carries out.

    Groups bind where tasks go, whatever the network. Classes of bytes and hosts of servers say
    something where bytes are on links; elsewhere they would change no time, and a simulation must
    not look as if they did.
    """
    carried = PLACE_ALONE | {Question.GROUP}
    if run.cluster.network.model != "fluid":
        return carried
    carried |= {Question.SHAPE}
    return carried | {Question.FLOW} if may_classify(run) else carried


def may_classify(run: Run) -> bool:
    """Tell whether a policy of the run may answer which jobs' bytes go first."""
    return run.scheduler.flow != "fair" or run.scheduler.joint is not None


class SimPort:
    """``warren.core.ports.Port`` in virtual time.

    Parameters
    ----------
    run
        Cluster, workload and the hidden truth.
    costs
        The profile that policies see; true times follow from it and ``run.truth``.
    parts
        The parts chosen by ``warren.sim.build``; None: lanes and the durations of tasks alone.

    Raises
    ------
    SpecError
        See ``warren.sim.task_durations.check_simulable``.
    """

    __slots__ = (
        "_begin", "_copies", "_costs", "_flows", "_hosts", "_is_late", "_lanes", "_may_begin_J",
        "_passed", "_passes_time", "_processors", "_queue_D", "_released", "_ring_J", "_rings",
        "_round_J", "_run", "_servers", "_start", "_void", "_waiting_J", "_wakes",
    )  # fmt: skip

    def __init__(self, run: Run, costs: CostTable, parts: Parts | None = None) -> None:
        if parts is None:
            check_simulable(run)
            parts = Parts(lanes=Lanes(run, costs, TaskDurations(run, costs)))
        lanes = self._lanes = parts.lanes
        self._run = run
        self._costs = costs
        self._rings = parts.rings
        self._flows = parts.flows
        self._servers = parts.servers
        self._hosts = parts.hosts
        self._copies = parts.copies
        self._processors = parts.processors
        # The queues of the lanes, here too: most of a simulation's time is spent with them.
        self._queue_D = lanes.queue_D
        self._waiting_J = lanes.waiting_J
        self._round_J = lanes.round_J
        # Whether the job's round at hand may begin: it has arrived, and no delay holds it.
        self._may_begin_J = [False for _ in run.workload.jobs]
        # Whether rounds that a delay held have begun since parts were last asked.
        self._released = False
        self._ring_J = [job.sync == "ring" for job in run.workload.jobs]
        # Jobs with assignments in queues that lie wholly beyond their end.
        self._void: set[int] = set()
        self._wakes: set[int] = set()
        self._start: Callable[[Assignment], None] = lanes.start
        if self._copies is not None:
            self._start = self._copies.start
        # Nothing keeps an assignment from starting: it starts at once, or a part puts it off.
        self._begin = self._start
        self._passes_time = not (
            self._rings is None and self._processors is None and self._flows is None
        )
        if self._passes_time:
            self._begin = self._begin_with_parts
        self._passed = tuple(one.passed for one in (parts.hosts, parts.after) if one is not None)
        late = frozenset[int]() if parts.after is None else parts.after.late
        self._is_late = bool(late)
        for job in run.workload.jobs:
            if job.index not in late:
                lanes.emit(JobArrived(job.arrival_ns, job.index))

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append to device queues, in order. Called only with checked assignments."""
        if self._rings is not None:
            self._rings.assigned(assignments)
        verified = self._lanes.verified
        if verified is not None:
            for one in assignments:
                verified.assigned(one)
        rounds_J = self._lanes.rounds_J
        for assignment in assignments:
            if assignment.round + assignment.rounds > rounds_J[assignment.job]:
                assignment = self._cut(assignment)
            queue = self._queue_D[assignment.device]
            queue.append(assignment)
            if self._servers is not None:
                self._servers.look(assignment.device)
            if len(queue) == 1:
                self._start_or_wait(assignment)

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """Start tasks once more; on shared processors when all of this instant is known."""
        assert self._copies is not None, "this run has no copies"
        if self._processors is None:
            self._copies.copy(copies)
        else:
            self._processors.due_copies += copies

    def wake_at(self, time_ns: int) -> None:
        """Ask for a ``Woken`` event at ``time_ns`` (or now, if that is past); one an instant."""
        time_ns = max(time_ns, self._lanes.now_ns)
        if time_ns not in self._wakes:
            self._wakes.add(time_ns)
            self._lanes.emit(Woken(time_ns))

    def next_events(self) -> tuple[AnyEvent, ...]:
        """Return all events of the next instant, sorted by (rank, sequence); () when over."""
        if self._passes_time:
            self._pass_time()
        lanes = self._lanes
        events = lanes.events
        if not events:
            return ()
        now = lanes.now_ns = events.first_ns
        batch, returned = events.take(), list[AnyEvent]()
        for event in batch:
            match event:
                case TasksDone():
                    # Its device went on when its COMP ended: synchronization is the other lane's.
                    pass
                case CompDone():
                    self._free(event.device)
                case RoundsDone():
                    if event.finished and event.job in self._void:
                        self._drop(event.job)
                    self._pass_barrier(event)
                    for passed in self._passed:
                        passed(event)
                case HostLeft() if self._hosts is not None:
                    returned += self._hosts.lose(event)
                case JobArrived():
                    self._begin_round(event.job)
                case Woken():
                    self._wakes.discard(now)
        if self._copies is not None:
            for event in batch:
                if isinstance(event, TaskDropped) and self._copies.frees(event):
                    self._free(event.device)
        if returned:
            self._begin_again([event.job for event in returned if isinstance(event, RolledBack)])
        if self._is_late and events and events.first_ns == now:
            # Jobs arrive since others have ended at this very instant.
            returned += self.next_events()
        if returned:
            batch = tuple(sorted((*batch, *returned), key=lambda event: RANK[type(event)]))
        return batch

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Run a whole plan in compiled code; see ``warren.sim.plan_runner.run_plan``.

        None where it goes through events: compiled code knows no rings and no links, and does not
        take its rows in order of time, as counting the devices at work needs.
        """
        if self._passes_time:
            return None
        # Imported here, so that numba is loaded only when a plan is run.
        from warren.sim.plan_runner import run_plan

        return run_plan(plan, self._run, self._costs)

    @property
    def carries(self) -> frozenset[Question]:
        """Return the questions whose answers the port can carry out; see ``questions_of_links``."""
        return questions_of_links(self._run)

    def reshape(self, shapes: Mapping[int, Shape]) -> None:
        """Place the servers of jobs; see ``warren.sim.network.server_rounds``."""
        if self._servers is not None:
            self._servers.reshape(shapes)

    def regroup(self, groups: tuple[Group, ...]) -> None:
        """Do nothing: groups bind where tasks go, and steps interleave on devices and links."""

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Give the bytes of jobs their classes, from now on."""
        assert self._flows is not None, "this run has no links"
        self._flows.classify(classes, host_classes)

    def delay(self, delays_ns: Mapping[int, int]) -> None:
        """Delay the next rounds of jobs; see ``warren.sim.network.round_delays``."""
        assert self._flows is not None, "this run has no links"
        self._flows.delay(delays_ns)

    def link_use(self) -> LinkUse | None:
        """Return which bytes passed each link when; None where that was not added up."""
        return None if self._flows is None else self._flows.link_use()

    def _cut(self, one: Assignment) -> Assignment:
        """Return the rounds of an assignment that the job has; a policy may not know its end.

        An assignment wholly beyond the end is void: it stays queued until the job has ended.
        """
        left = self._lanes.rounds_J[one.job] - one.round
        if left > 0:
            self._lanes.cut_short[one.job] = one.round
            return Assignment(one.device, one.job, one.round, left, one.shards)
        self._void.add(one.job)
        return one

    def _drop(self, job: int) -> None:
        """Take void entries of a job that has ended out of queues.

        It would wait for a barrier that does not come, and all behind it too.
        """
        self._void.remove(job)
        end = self._lanes.rounds_J[job]
        # Devices whose head is void wait for the job no more.
        heads = {device: self._queue_D[device][0] for device in self._waiting_J[job]}
        self._waiting_J[job] = [device for device, head in heads.items() if head.round < end]
        self._take_out(lambda one: one.job == job and one.round >= end)

    def _begin_again(self, jobs: list[int]) -> None:
        """Take the tasks of jobs that go back off all devices, and begin their rounds at hand."""
        gone = set(jobs)
        self._void -= gone
        for job in jobs:
            self._waiting_J[job] = []
        self._take_out(lambda one: one.job in gone)
        for job in jobs:
            self._begin_round(job)

    def _take_out(self, is_gone: Callable[[Assignment], bool]) -> None:
        """Take assignments out of queues; those behind them go on."""
        for device, queue in enumerate(self._queue_D):
            kept = deque(one for one in queue if not is_gone(one))
            if len(kept) < len(queue):
                self._queue_D[device] = kept
                if self._servers is not None:
                    self._servers.look(device)
                # A new head has not been looked at yet; the old one is at work or waits already.
                if kept and kept[0] is not queue[0]:
                    self._start_or_wait(kept[0])

    def _free(self, device: int) -> None:
        """Take the assignment that has left COMP off its device, and look at the next one."""
        queue = self._queue_D[device]
        queue.popleft()
        if queue:
            self._start_or_wait(queue[0])

    def _pass_barrier(self, event: RoundsDone) -> None:
        """Begin the job's next round, after more rounds are over; later if it is delayed."""
        job, lanes = event.job, self._lanes
        if self._processors is not None:
            # Only a first run whose copy has won at this very instant is due in a round that ends.
            for head in self._take_put_off(job):
                self._start(head)
        if self._copies is not None:
            self._copies.pass_barrier(job)
        if self._rings is not None:
            self._rings.pass_barrier(job)
        # Parts have read the round that ends above; from here on it is the next one.
        self._round_J[job] += event.rounds
        lanes.left_J[job] = lanes.scale_J[job]
        lanes.barrier_J[job] = 0
        flows = self._flows
        delay_ns = 0 if flows is None else flows.delays.take(job)
        if flows is not None and delay_ns and not event.finished:
            self._may_begin_J[job] = False
            flows.delays.hold(job, lanes.now_ns + delay_ns, partial(self._begin_held, job))
        else:
            self._begin_round(job)

    def _begin_held(self, job: int) -> None:
        """Begin a round that a delay has held."""
        self._begin_round(job)
        self._released = True

    def _begin_round(self, job: int) -> None:
        """Begin the job's round at hand."""
        self._may_begin_J[job] = True
        if self._servers is not None:
            self._servers.begin_round(job, self._round_J[job])
        self._retry(job)

    def _retry(self, job: int) -> None:
        """Look again at the devices whose head waits for this job."""
        waiting = self._waiting_J[job]
        if waiting:
            # A new list, since a head of a later round goes back to waiting in this very loop.
            self._waiting_J[job] = []
            for device in waiting:
                self._start_or_wait(self._queue_D[device][0])

    def _start_or_wait(self, head: Assignment) -> None:
        """Start the head of a queue if its job is there and its round is the next; else park it."""
        job = head.job
        if self._may_begin_J[job] and self._round_J[job] == head.round:
            self._begin(head)
        else:
            self._waiting_J[job].append(head.device)

    def _begin_with_parts(self, head: Assignment) -> None:
        """Hand a head that may start to the part that says when.

        The last device of a ring to come starts all; a task with servers on links waits for its
        state; on shared processors a start is put off until all devices at work are counted.
        """
        servers = self._servers
        if servers is not None and servers.has_servers_J[head.job]:
            servers.come(head)
            return
        verified = self._lanes.verified
        if verified is not None and verified.keeps(head.device, self._lanes.now_ns):
            verified.blocked.append(head)
        elif self._rings is not None and self._ring_J[head.job]:
            ranks = self._rings.come(head)
            if servers is not None:
                servers.start_ranks(ranks)
        elif self._processors is not None:
            self._processors.due.append(head)
        else:
            self._start(head)

    def _take_put_off(self, job: int) -> list[Assignment]:
        """Take out starts that only this instant, or a task computed again, has kept back."""
        assert self._processors is not None, "nothing else puts starts off"
        found, verified = self._processors.take_due_of(job), self._lanes.verified
        if verified is not None:
            found += [head for head in verified.blocked if head.job == job]
            verified.blocked = [head for head in verified.blocked if head.job != job]
        return found

    def _pass_time(self) -> None:
        """Pass rounds that are no events, up to the next event.

        A ring's last round may end at the next event's instant and then belongs to it. A stretch's
        leg, or a task computed again, waits for the events of its instant, which may change counts.
        """
        lanes, rings, flows, verified = self._lanes, self._rings, self._flows, self._lanes.verified
        self._settle()
        while True:
            events_ns = lanes.events.first_ns if lanes.events else IDLE_NS
            rings_ns = IDLE_NS if rings is None else rings.next_ns()
            # Only once all rings that have ended by now have been reported: none of them begins
            # again.
            if self._released and rings_ns > lanes.now_ns:
                self._settle()
                continue
            leg = min(lanes.legs, key=lambda leg: leg.end_ns, default=None)
            leg_ns = IDLE_NS if leg is None else leg.end_ns
            over_ns = IDLE_NS if verified is None else verified.next_over_ns(IDLE_NS)
            # At equal instants rings step first: an end of theirs is an event of that instant.
            # Events come before legs and tasks computed again.
            others_ns = min(events_ns, rings_ns, leg_ns, over_ns)
            flows_ns = IDLE_NS if flows is None else flows.next_ns(others_ns)
            # Links come first of all: rings, servers and events follow from arrivals.
            if flows is not None and flows_ns < IDLE_NS and flows_ns <= others_ns:
                lanes.now_ns = flows_ns
                flows.step(flows_ns)
            elif rings is not None and rings_ns < IDLE_NS and rings_ns <= min(leg_ns, over_ns):
                if events_ns < rings_ns:
                    return
                rings.step()
            elif events_ns <= min(leg_ns, over_ns):
                return
            elif leg is not None and leg_ns <= over_ns:
                lanes.go_on(leg)
            else:
                lanes.now_ns = over_ns
                self._settle()

    def _settle(self) -> None:
        """Count the devices at work, then start the assignments that this instant has released."""
        self._released = False
        processors = self._processors
        changed = False
        if processors is not None:
            self._release()
            # Counted before anything starts, so that all that starts now has the same count.
            changed = processors.count(self._at_work())
            if changed:
                for leg in self._lanes.legs:
                    leg.cut(self._lanes.now_ns)
            for head in processors.take_due():
                self._start(head)
            copies = processors.take_due_copies()
            if copies and self._copies is not None:
                self._copies.copy(copies)
        if self._rings is not None:
            self._rings.settle(changed)

    def _release(self) -> None:
        """Look again at assignments that were kept by a device that computed a task again."""
        verified = self._lanes.verified
        if verified is not None:
            for head in verified.release(self._lanes.now_ns):
                queue = self._queue_D[head.device]
                if queue and queue[0] is head:
                    self._begin(head)

    def _at_work(self) -> int:
        """Count the devices at work, with those on which a due copy is about to start."""
        assert self._processors is not None, "only shared processors count devices"
        busy = {device for device in range(len(self._queue_D)) if self._is_at_work(device)}
        return len(busy.union(one.device for one in self._processors.due_copies))

    def _is_at_work(self, device: int) -> bool:
        """Tell whether a device computes, synchronizes, or computes a task again."""
        queue, lanes = self._queue_D[device], self._lanes
        waits = self._rings is not None and self._rings.waits(device)
        if queue and not waits and device not in self._waiting_J[queue[0].job]:
            return True
        if lanes.verified is not None and lanes.verified.keeps(device, lanes.now_ns):
            return True
        return lanes.comm_free_D[device] > lanes.now_ns
