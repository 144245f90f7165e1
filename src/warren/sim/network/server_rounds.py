"""Jobs with parameter servers on links: pulls, computation, pushes and barriers.

*What.* A device asks for the state of its job's round, once a round: when one of the first ``1 +
look_ahead`` tasks of its queue that have not started belongs to it. When it gets that is said by
``warren.sim.network.served_states``. So bytes of coming tasks flow while the device computes. A
task starts when it is the first of its queue, its device computes nothing, its round has begun and
its state is there; and not while two updates of its job on the device have not arrived. When it has
computed, its update goes to all servers, and the device goes on. The task ends when the last byte
of its update has arrived; the round when its last task has, and the first server has the parts of
others that it needs. Servers take no time of their own.

When a shape moves the servers of a job that trains, its next round begins at the new ones, once
each old one has sent each new one its share of the new one's part. No state is sent ahead then.

Several tasks of an assignment are run one after another, each with its own update. A stretch is one
round after another; its barriers but the last are no events. A ring's stretch on a device is one
task, which has started when the ring has. A job whose bytes are unknown pulls nothing, and its task
ends T^s after its COMP.

*Source.* A live device: ``warren.live.device``. Which bytes flow when, and where a job without a
shape has its servers, is one rule for both worlds (decision 0036).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from warren.cost.run_rings import host_of_D
from warren.cost.run_servers import ServerParts, linked_J, moved_parts, server_parts
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Shape
from warren.model.events import CompDone, ServersMoved, TasksDone
from warren.model.run import Run
from warren.sim.lanes import Lanes
from warren.sim.network.link_flows import Arrival, LinkFlows
from warren.sim.network.served_states import ServedStates

_MOST_UPDATES: Final = 2
"""Updates of one job that a device may have computed and not brought to the servers."""


class _Push:
    """The update of a task on its way to the servers, in ``left`` transfers."""

    __slots__ = ("_rounds", "left", "round", "timer", "work")

    def __init__(self, rounds: ServerRounds, work: _Work) -> None:
        self._rounds = rounds
        self.work = work
        self.round = work.round
        self.left = 0
        self.timer = 0

    @property
    def job(self) -> int:
        """Return the job whose update it is."""
        return self.work.one.job

    def due(self, now: int) -> None:
        """Arrive after T^s."""
        self._rounds.pushed(self, now)

    def arrived(self, now: int) -> None:
        """Note one transfer that is over; with the last one the servers have the update."""
        self.left -= 1
        if self.left == 0:
            self._rounds.arrived(self, now)


class _Work:
    """An assignment at the head of its device's queue, until all its tasks have ended.

    ``round``: round of the next task to start, or of the computing task; ``place``: how many tasks
    of that round have started; ``sync_end_ns``: when the last of them has synchronized, where that
    takes T^s; ``left``: tasks of the last round that have not ended.
    """

    __slots__ = (
        "_rounds",
        "busy_ns",
        "comp_end_ns",
        "end_ns",
        "last",
        "left",
        "one",
        "place",
        "round",
        "start_ns",
        "sync_end_ns",
        "timer",
        "waits",
    )

    def __init__(self, rounds: ServerRounds, one: Assignment) -> None:
        self._rounds = rounds
        self.one = one
        self.round = one.round
        self.last = one.round + one.rounds - 1
        self.place = 0
        self.left = len(one.shards)
        self.start_ns = -1
        self.comp_end_ns = 0
        self.end_ns = -1
        self.busy_ns = 0
        self.sync_end_ns = 0
        self.waits = True
        self.timer = 0

    @property
    def job(self) -> int:
        """Return the job whose tasks they are."""
        return self.one.job

    def due(self, now: int) -> None:
        """Leave COMP."""
        self._rounds.computed(self, now)


class _Move:
    """The parts of a model on their way to other servers, in ``left`` transfers."""

    __slots__ = ("_rounds", "far_bytes", "job", "left", "round", "since_ns")

    def __init__(self, rounds: ServerRounds, job: int, round_: int, since_ns: int) -> None:
        self._rounds = rounds
        self.job = job
        self.round = round_
        self.since_ns = since_ns
        self.left = 0
        self.far_bytes = 0.0

    def arrived(self, now: int) -> None:
        """Note one transfer that is over; with the last one the round begins."""
        self.left -= 1
        if self.left == 0:
            self._rounds.moved(self, now)


class ServerRounds:
    """The part of a simulation that runs jobs with servers on links.

    Parameters
    ----------
    run
        Cluster and workload.
    costs
        Only the bytes of each job are read here.
    lanes
        The queues of the devices, and how long tasks take.
    flows
        The links.
    """

    __slots__ = (
        "_costs",
        "_donors",
        "_flows",
        "_host_D",
        "_lanes",
        "_linked_J",
        "_moving",
        "_pushing_D",
        "_rank_D",
        "_returned",
        "_run",
        "_servers_J",
        "_shapes",
        "_states",
        "_stretch_J",
        "_wait_J",
        "_window",
        "_work_D",
        "has_servers_J",
    )

    def __init__(self, run: Run, costs: CostTable, lanes: Lanes, flows: LinkFlows) -> None:
        devices = range(len(run.cluster.devices))
        jobs = run.workload.jobs
        self._run = run
        self._costs = costs
        self._lanes = lanes
        self._flows = flows
        self._host_D: list[int] = host_of_D(run.cluster).tolist()
        self._window = 1 + run.cluster.local.look_ahead
        self.has_servers_J = [job.sync != "ring" for job in jobs]
        self._linked_J = linked_J(run, costs)
        self._shapes: dict[int, Shape] = {}
        # Shapes that hold from the next barrier of their jobs on.
        self._moving: dict[int, Shape] = {}
        # Hosts that parts of a model are on their way from, and jobs that have lost their servers.
        self._donors: dict[int, set[int]] = {}
        self._returned: set[int] = set()
        self._servers_J: list[ServerParts | None] = [None for _ in jobs]
        self._states = ServedStates(run, costs, lanes, flows, self._host_D, self)
        # By job: updates that have not arrived.
        self._pushing_D: list[dict[int, int]] = [{} for _ in devices]
        # The last update of a round whose barrier waits for the servers.
        self._wait_J: list[_Push | None] = [None for _ in jobs]
        self._work_D: list[_Work | None] = [None for _ in devices]
        # The rank of a ring that is at work.
        self._rank_D: list[Assignment | None] = [None for _ in devices]
        # Work of a stretch, and of a round that the end of its job has cut.
        self._stretch_J: list[list[_Work]] = [[] for _ in jobs]

    def reshape(self, shapes: Mapping[int, Shape]) -> None:
        """Place the servers of jobs: now, or from the next barrier on if the job has begun."""
        for job, shape in shapes.items():
            if not self._linked_J[job] or not (shape.servers or job not in self._shapes):
                continue
            if not shape.servers and job in self._moving:
                continue  # it binds workers alone: servers move as was said
            self._moving.pop(job, None)
            after = server_parts(self._run, self._costs, job, shape)
            if not self._states.begun_J[job]:
                self._place(job, shape, after)
                if job in self._returned:
                    now, round_ = self._lanes.now_ns, self._lanes.round_J[job]
                    placed = shape.servers, shape.model_bytes or ()
                    self._lanes.emit(ServersMoved(now, job, round_, 0, 0, *placed))
            elif after != self.servers(job):
                self._moving[job] = shape

    def struck(self, host: int) -> list[int]:
        """Return the jobs under way that have a server, a task or an update on a host."""
        devices = [device for device, at in enumerate(self._host_D) if at == host]
        found = {one.job for device in devices for one in self._lanes.queue_D[device]}
        found |= {job for device in devices for job, n in self._pushing_D[device].items() if n}
        for job, at in enumerate(self._states.at_J):
            moving = self._moving.get(job)
            hosts = {one for one, _ in self.servers(job)} if at >= 0 else set()
            hosts.update(self._donors.get(job, ()), () if moving is None else moving.servers)
            if host in hosts:
                found.add(job)
        lanes = self._lanes
        under_way = [at >= 0 for at in self._states.at_J]
        return sorted(
            job for job in found if under_way[job] and lanes.round_J[job] < lanes.rounds_J[job]
        )

    def go_back(self, job: int) -> None:
        """Forget the rounds of a job under way: its servers have ended, and begin again."""
        shape = self._moving.pop(job, None)
        if shape is not None:
            self._place(job, shape, server_parts(self._run, self._costs, job, shape))
        self._flows.forget(job)
        self._states.forget(job)
        self._donors.pop(job, None)
        self._returned.add(job)
        self._wait_J[job], self._stretch_J[job] = None, []
        for device, work in enumerate(self._work_D):
            self._pushing_D[device].pop(job, None)
            if work is not None and work.one.job == job:
                self._work_D[device] = None

    def look(self, device: int) -> None:
        """Ask for the states of the next tasks in a device's queue."""
        left, work = self._window, self._work_D[device]
        for one in self._lanes.queue_D[device]:
            if not self.has_servers_J[one.job]:
                left -= one is not self._rank_D[device]
            else:
                tasks, first, started = len(one.shards), one.round, 0
                if work is not None and work.one is one:
                    first, started = work.round, work.place
                for round_ in range(first, one.round + one.rounds):
                    if tasks > started:
                        self._states.want(one.job, round_, device)
                        left -= tasks - started
                        if left <= 0:
                            return
                    started = 0
            if left <= 0:
                return

    def start_ranks(self, ranks: Iterable[Assignment]) -> None:
        """Note that a ring starts: its devices look at the tasks behind it."""
        for rank in ranks:
            self._rank_D[rank.device] = rank
            self.look(rank.device)

    def begin_round(self, job: int, round_: int) -> None:
        """Note that a round has begun: devices can pull its state.

        A job that has ended has no round to begin, whatever was assigned of it.
        """
        if round_ >= self._lanes.rounds_J[job]:
            return
        shape = self._moving.pop(job, None)
        if shape is None:
            self._states.begin(job, round_)
        else:
            self._migrate(job, round_, shape)

    def come(self, head: Assignment) -> None:
        """Take an assignment that is the first of its queue, and whose round has begun."""
        work = self._work_D[head.device] = _Work(self, head)
        if head.rounds > 1 or self._is_cut(head):
            self._stretch_J[head.job].append(work)
        self._try(work)

    def computed(self, work: _Work, now: int) -> None:
        """Send the update of a task that has computed, and go on with the next one."""
        one, push = work.one, _Push(self, work)
        job, device = one.job, one.device
        work.comp_end_ns = now
        self._send(push)
        if not self._linked_J[job] and work.sync_end_ns > now:
            push.left = 1
            self._flows.timers.set(push, work.sync_end_ns)
        pushing = self._pushing_D[device]
        pushing[job] = pushing.get(job, 0) + 1
        work.waits = True
        if work.place == len(one.shards):
            if work.round == work.last:
                work.waits = False
                # The barrier alone shows which tasks the job's end has cut.
                if not self._is_cut(one):
                    self._work_D[device] = None
                    self._lanes.emit(CompDone(now, job, one.round, one.rounds, one.shards, device))
            else:
                work.round, work.place = work.round + 1, 0
        # It may have arrived at once: then a barrier may pass here.
        if push.left == 0:
            self.arrived(push, now)
        if work.waits:
            self._try(work)

    def has_state(self, job: int, device: int) -> None:
        """Start the next task of a device that has the state for it."""
        work = self._work_D[device]
        if work is not None and work.waits and work.one.job == job:
            self._try(work)

    def whole(self, job: int, now: int) -> None:
        """Pass the barrier that has waited for the servers, if all its tasks have ended."""
        push, self._wait_J[job] = self._wait_J[job], None
        if push is not None:
            self._pass_barrier(push, now)

    def arrived(self, push: _Push, now: int) -> None:
        """End a task whose update the servers have; the last one of a round after their step."""
        job = push.work.one.job
        step_ns = self._states.step_ns(job)
        if step_ns and self._lanes.left_J[job] == 1:
            end_ns = now + step_ns
            self._flows.delays.hold(job, end_ns, partial(self.pushed, push, end_ns))
        else:
            self.pushed(push, now)

    def pushed(self, push: _Push, now: int) -> None:
        """End a task whose update has arrived, and its round with the last one."""
        work = push.work
        one, job, device = work.one, work.one.job, work.one.device
        self._pushing_D[device][job] -= 1
        if push.round == work.last:
            work.left -= 1
            if work.left == 0 and self._is_cut(one):
                work.end_ns = now
            elif work.left == 0:
                self._emit_done(work, now)
        left_J = self._lanes.left_J
        left_J[job] -= 1
        if left_J[job] == 0 and self._states.is_collecting(job):
            self._wait_J[job] = push
        elif left_J[job] == 0:
            self._pass_barrier(push, now)
        waiting = self._work_D[device]
        if waiting is not None and waiting.waits and waiting.one.job == job:
            self._try(waiting)

    def moves(self, job: int) -> bool:
        """Tell whether a job has other servers from its next barrier on."""
        return job in self._moving

    def moved(self, move: _Move, now: int) -> None:
        """Begin a round at servers that have all parts of the model."""
        self._donors.pop(move.job, None)
        far_bytes, took_ns = round(move.far_bytes), now - move.since_ns
        shape = self._shapes[move.job]
        placed = shape.servers, shape.model_bytes or ()
        self._lanes.emit(ServersMoved(now, move.job, move.round, far_bytes, took_ns, *placed))
        self._states.begin(move.job, move.round)

    def servers(self, job: int) -> ServerParts:
        """Return the servers of a job; none if their bytes are on no link."""
        parts = self._servers_J[job]
        if parts is None:
            parts = ()
            if self._linked_J[job]:
                parts = server_parts(self._run, self._costs, job, self._shapes.get(job))
            self._servers_J[job] = parts
        return parts

    def _place(self, job: int, shape: Shape, parts: ServerParts) -> None:
        self._shapes[job], self._servers_J[job] = shape, parts

    def _migrate(self, job: int, round_: int, shape: Shape) -> None:
        """Send the model to other servers, at which a round will begin."""
        before, after = self.servers(job), server_parts(self._run, self._costs, job, shape)
        self._place(job, shape, after)
        self._states.forget_ahead(job, round_)
        move = _Move(self, job, round_, self._lanes.now_ns)
        assert self._costs.model_bytes_J is not None, "the job's bytes are on links"
        self._donors[job] = {host for host, _ in before}
        for source, target, size in moved_parts(before, after, self._costs.model_bytes_J.item(job)):
            move.far_bytes += size if source != target else 0.0
            move.left += self._flows.transfer(job, source, target, size, move)
        if move.left == 0:
            self.moved(move, self._lanes.now_ns)

    def _is_cut(self, one: Assignment) -> bool:
        """Tell whether the end of its job has cut an assignment short."""
        cut_short = self._lanes.cut_short
        return bool(cut_short) and cut_short.get(one.job) == one.round

    def _send(self, push: _Push) -> None:
        """Send an update to all servers."""
        job, host = push.work.one.job, self._host_D[push.work.one.device]
        servers, transfer = self.servers(job), self._flows.transfer
        for part, (target, size) in enumerate(servers):
            # A single server has an update when the round does, and needs no message.
            arrival: Arrival = push if len(servers) == 1 else self._states.part_of(push, job, part)
            if transfer(job, host, target, size, arrival):
                push.left += 1
            elif len(servers) > 1:
                self._states.updated(job, part)

    def _try(self, work: _Work) -> None:
        """Start the next task of a device, if nothing keeps it from that."""
        one = work.one
        job, device, round_ = one.job, one.device, work.round
        if not self._states.is_here(job, round_, device) or (
            self._linked_J[job] and self._pushing_D[device].get(job, 0) >= _MOST_UPDATES
        ):
            return
        lanes = self._lanes
        # A switch comes before the task and is no COMP time of it (decision 0016).
        start = lanes.now_ns + lanes.switch_ns(job, device)
        shards = one.shards[work.place : work.place + 1]
        end, work.sync_end_ns = lanes.durations.run_round(
            job, round_, shards, lanes.type_D[device], start, start
        )
        if work.start_ns < 0:
            work.start_ns = start
        work.busy_ns += end - start
        work.place += 1
        work.waits = False
        self._flows.timers.set(work, end)
        self.look(device)

    def _pass_barrier(self, push: _Push, now: int) -> None:
        """Pass the barrier of a round whose last task has ended."""
        one, job = push.work.one, push.work.one.job
        if push.round < push.work.last:
            # Within a stretch the next round begins, which no event reports.
            self._lanes.left_J[job] = self._lanes.scale_J[job]
            begin = partial(self._begin_within, job, push.round + 1)
            delay_ns = self._flows.delays.take(job)
            if delay_ns:
                self._flows.delays.hold(job, now + delay_ns, begin)
            else:
                begin()
            return
        parts, self._stretch_J[job] = self._stretch_J[job], []
        if self._is_cut(one):
            for work in parts:
                part = work.one
                self._lanes.emit(
                    CompDone(now, job, part.round, part.rounds, part.shards, part.device)
                )
                self._emit_done(work, now)
        self._lanes.finish_rounds(one, now)

    def _begin_within(self, job: int, round_: int) -> None:
        """Begin a round of a stretch that is at work."""
        self.begin_round(job, round_)
        for work in self._stretch_J[job]:
            if work.waits:
                self._try(work)

    def _emit_done(self, work: _Work, now: int) -> None:
        """Emit the end of an assignment's last task."""
        one = work.one
        self._lanes.emit(
            TasksDone(
                now,
                one.job,
                one.round,
                one.rounds,
                one.shards,
                one.device,
                work.start_ns,
                work.comp_end_ns,
                work.busy_ns,
                work.end_ns,
            )
        )
