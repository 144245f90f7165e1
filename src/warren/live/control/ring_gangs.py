"""The controller's side of rings: at most one gang for each job, on the assigned devices.

A gang is formed when all ranks of a stretch have a device. If its devices wait for nothing else,
that is at once. Otherwise gangs are formed in order of arrival, one at a time, since the processes
of a starting gang would take the cores from another. While stretches follow each other on the same
devices the gang stays. A stretch on other devices waits for the barrier before it; then the state
goes to disk, and another gang takes it up from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warren.live.control.devices import DeviceManager
from warren.live.control.ledger import Ledger
from warren.live.control.run_context import RunContext
from warren.live.emulated_times import Pads
from warren.live.process.specs import RankRole
from warren.live.rings.rank_proof import new_secret
from warren.live.testbed.names import LOOPBACK, NIC
from warren.live.training.checkpoints.files import latest_round
from warren.live.transport.ring_messages import AssignRank, GangReady, HandedOver, HandOver
from warren.live.transport.server_messages import CheckpointCommitted, DelayRound
from warren.live.transport.sockets import gang_address
from warren.model.decision import Assignment
from warren.model.job import Job


@dataclass(slots=True)
class LiveGang:
    """The processes of one ring.

    Attributes
    ----------
    incarnation : int
        Its number among the gangs of its job.
    generation : int
        The job's generation in which it was formed.
    begin : int
        The first round that it makes.
    devices : tuple of int
        The device of each rank.
    tickets : list of int
        The process of each rank.
    peer : bytes
        Rank 0, once all ranks have found each other; empty before that.
    leaving : bool
        Whether it was asked to save its state, to make way for a gang elsewhere.
    secret : bytes
        The secret that only its ranks get, when they are forked.
    """

    incarnation: int
    generation: int
    begin: int
    devices: tuple[int, ...]
    tickets: list[int] = field(default_factory=list)
    peer: bytes = b""
    leaving: bool = False
    secret: bytes = field(default_factory=new_secret, repr=False)


@dataclass(slots=True)
class _Stretch:
    """Rounds of a ring whose ranks all have a device.

    ``ranks_assigned``: the executors know which gang the ranks are for.
    """

    round: int
    rounds: int
    devices: tuple[int, ...]
    ranks_assigned: bool = False


@dataclass(slots=True)
class _RingState:
    """The present state of the ring of one job.

    ``begin`` is the round at which its next gang takes up the state. ``coming`` has, by the first
    round of a stretch, the device of each rank assigned so far. ``stretches`` are those whose ranks
    are all assigned, and whose last barrier has not passed. ``delay_ns``: delay of the round behind
    the next barrier, while there is no rank 0 to send it to; the next gang is forked with it.
    """

    gang: LiveGang | None = None
    incarnation: int = 0
    begin: int = 0
    coming: dict[int, dict[int, int]] = field(default_factory=dict)
    stretches: list[_Stretch] = field(default_factory=list)
    delay_ns: int | None = None


class GangManager:
    """Forms, moves, replaces and ends the gangs of jobs. It can stand in for ``Servers``.

    Parameters
    ----------
    context : RunContext
        Starts the processes and talks to them.
    pads : Pads
        The lengths of emulated tasks.
    manager : DeviceManager
        Talks to executors.
    ledger : Ledger
        Knows barriers and queues.
    opens_ns : callable
        Returns when a job may begin, in host time; None before time zero.
    """

    def __init__(
        self,
        context: RunContext,
        pads: Pads,
        manager: DeviceManager,
        ledger: Ledger,
        opens_ns: Callable[[Job], int | None],
    ) -> None:
        self._context = context
        self._pads = pads
        self._manager = manager
        self._ledger = ledger
        self._opens_ns = opens_ns
        # Hosts with agents may be away.
        self._agents = context.run.cluster.lease_ns is not None
        # Ranks on one machine talk over the loopback; hosts of a testbed each have a link. With
        # agents each finds the interface of its host.
        near = LOOPBACK if context.local.testbed is None else NIC
        self._interface = "" if self._agents else near
        self._rings = [_RingState() for _ in context.jobs]
        # Jobs with stretches whose executors do not know their gang yet.
        self._waiting: set[int] = set()

    # Calls of the controller.

    def assigned(self, one: Assignment) -> None:
        """Note that a rank has a device for some rounds; the last rank completes the stretch."""
        ring, scale = self._rings[one.job], self._context.jobs[one.job].scale
        devices = ring.coming.setdefault(one.round, {})
        devices[one.shards[0]] = one.device
        if len(devices) < scale:
            return
        whole = tuple(devices[rank] for rank in range(scale))
        known = [stretch for stretch in ring.stretches if stretch.round == one.round]
        # A device's new executor gets its assignments again, and must learn of the gang again.
        for stretch in known:
            stretch.ranks_assigned = False
        if not known:
            ring.stretches.append(_Stretch(one.round, one.rounds, whole))
        self._waiting.add(one.job)

    def ready(self, peer: bytes, said: GangReady) -> None:
        """Note that all ranks of a gang have found each other; ``peer`` is rank 0."""
        ring = self._rings[said.job]
        gang = ring.gang
        if gang is not None and gang.incarnation == said.incarnation:
            gang.peer = peer
            if ring.delay_ns is not None:
                self.delay(said.job, ring.delay_ns)
                ring.delay_ns = None

    def handed_over(self, said: HandedOver) -> None:
        """End a gang that has to leave, since its state is on disk."""
        ring = self._rings[said.job]
        if ring.gang is not None and ring.gang.incarnation == said.incarnation:
            self._end_gang(said.job)
            ring.begin = said.round

    def go_on(self) -> None:
        """Assign ranks to gangs wherever that is possible by now.

        To be called after every message and every assignment.
        """
        for job in sorted(self._waiting, key=self._priority):
            self._go_on(job)

    def incarnation(self, job: int) -> int | None:
        """Return the number of the job's running gang; None if none runs."""
        gang = self._rings[job].gang
        return None if gang is None else gang.incarnation

    def on(self, device: int) -> list[int]:
        """Return the jobs that have a rank on a device."""
        gangs = [(job, ring.gang) for job, ring in enumerate(self._rings)]
        return [job for job, gang in gangs if gang is not None and device in gang.devices]

    # The same methods as those of ``Servers``.

    def delay(self, job: int, delay_ns: int) -> None:
        """Delay the round behind a ring's next barrier by ``delay_ns`` real ns after it.

        A gang that will be elsewhere by then begins when it is there. A gang that replaces it after
        a loss does not get the delay.
        """
        ring = self._rings[job]
        if ring.gang is not None and ring.gang.peer:
            self._context.hub.send(ring.gang.peer, DelayRound(delay_ns))
        else:
            ring.delay_ns = delay_ns

    def checkpoint_committed(self, job: int, round_no: int) -> None:
        """Tell rank 0 of a job's gang that the journal has reached this round's end."""
        gang = self._rings[job].gang
        if gang is not None and gang.peer:
            self._context.hub.send(gang.peer, CheckpointCommitted(round_no))

    def end(self, job: int) -> None:
        """End the gang of a job that has ended or begins a new generation."""
        self._end_gang(job)

    def go_back(self, job: int, passed: int) -> int:
        """End the job's gang, and find the round at which another will begin.

        ``passed``: barriers that the core knows of; a checkpoint beyond them does not count.
        """
        ring = self._rings[job]
        self.end(job)
        ring.delay_ns = None
        # The core assigns the rounds of a job again once it has arrived; before, stretches stay.
        if self._ledger.arrived(job):
            ring.coming.clear()
            ring.stretches.clear()
        for stretch in ring.stretches:
            stretch.ranks_assigned = False
            self._waiting.add(job)
        ring.begin = latest_round(self._context.outputs.checkpoints(job), at_most=passed)
        return ring.begin

    def generation(self, job: int) -> int | None:
        """Return the generation of the job's running gang; None if none runs."""
        gang = self._rings[job].gang
        return None if gang is None else gang.generation

    # How gangs are formed and ended.

    def _go_on(self, job: int) -> None:
        """Forget a job's stretches that are over, and assign ranks to the next ones."""
        ring, passed = self._rings[job], self._ledger.passed(job)
        if self._ledger.ended(job):
            ring.stretches.clear()
        over = [one for one in ring.stretches if one.round + one.rounds <= passed]
        for one in over:
            ring.stretches.remove(one)
            ring.coming.pop(one.round, None)
        for stretch in ring.stretches:
            if not stretch.ranks_assigned and not self._assign_ranks(job, ring, stretch, passed):
                return
        self._waiting.remove(job)

    def _priority(self, job: int) -> tuple[bool, int, int]:
        """Return the sort key of jobs: first those that could begin at once, then by arrival."""
        return not self._begins(job), self._context.jobs[job].arrival_ns, job

    def _begins(self, job: int) -> bool:
        """Tell whether the next stretch of a job would begin at once: nothing is before it."""
        stretch = next((one for one in self._rings[job].stretches if not one.ranks_assigned), None)
        heads = [] if stretch is None else [self._ledger.head(one) for one in stretch.devices]
        if not all(one is not None and one.job == job for one in heads):
            return False
        return self._ledger.arrived(job)

    def _forming(self) -> bool:
        """Tell whether there is a forked gang whose ranks have not found each other yet."""
        return any(ring.gang is not None and not ring.gang.peer for ring in self._rings)

    def _assign_ranks(self, job: int, ring: _RingState, stretch: _Stretch, passed: int) -> bool:
        """Tell executors which gang a stretch is for, and form that gang; False: it has to wait."""
        gang, spec = ring.gang, self._context.jobs[job]
        opens_ns = self._opens_ns(spec)
        if opens_ns is None:
            return False
        # On other devices than before: all earlier rounds must have passed and the state be saved.
        if gang is not None and gang.devices != stretch.devices:
            if passed < stretch.round or not self._release_gang(job, gang, stretch.round):
                return False
            gang = None
        if gang is None:
            # Ranks would run out of time if they waited for one whose host is away.
            if self._agents and not all(map(self._manager.is_up, stretch.devices)):
                return False
            if self._forming() and not self._begins(job):
                return False
            gang = self._form(spec, ring, stretch.devices)
        # Each device once, in rank order.
        for device in dict.fromkeys(stretch.devices):
            self._manager.tell(device, AssignRank(job, stretch.round, gang.incarnation, opens_ns))
        stretch.ranks_assigned = True
        return True

    def _release_gang(self, job: int, gang: LiveGang, round_no: int) -> bool:
        """End a gang that must move; False: it has made rounds, and saves them first."""
        # It has made no round: its first state is still the state, and on disk already.
        if gang.begin == round_no:
            self._end_gang(job)
            return True
        if gang.peer and not gang.leaving:
            gang.leaving = True
            self._context.hub.send(gang.peer, HandOver(round_no))
        return False

    def _form(self, job: Job, ring: _RingState, devices: Sequence[int]) -> LiveGang:
        """Fork the ranks of a new gang."""
        ring.incarnation += 1
        generation = self._ledger.generation(job.index)
        gang = ring.gang = LiveGang(ring.incarnation, generation, ring.begin, tuple(devices))
        for rank, device in enumerate(devices):
            gang.tickets.append(self._context.pool.fork(self._role(job, gang, rank, device)))
        # The ranks have the delay: their first barrier may pass before a message reaches rank 0.
        ring.delay_ns = None
        return gang

    def _end_gang(self, job: int) -> None:
        """Kill a gang's processes; each device is free when the end of its rank is reported."""
        ring, folder = self._rings[job], str(self._context.folder)
        gang, ring.gang = ring.gang, None
        if gang is None:
            return
        for ticket in gang.tickets:
            self._context.pool.kill(ticket)
        # Where its ranks met and rank 0 listened: no other gang will use these paths.
        for path in (
            _meeting(folder, job, gang.incarnation),
            gang_address(folder, job, gang.incarnation),
        ):
            Path(path).unlink(missing_ok=True)

    def _role(self, job: Job, gang: LiveGang, rank: int, device: int) -> RankRole:
        """Return the role of a rank of a gang."""
        context = self._context
        return RankRole(
            folder=str(context.folder),
            base=context.run.base,
            job=job,
            log=context.outputs.log(job.index),
            params=context.outputs.params(job.index),
            store=str(context.outputs.checkpoints(job.index)),
            tmp=context.tmp(job.index),
            device=device,
            executor=self._manager.incarnation(device),
            rank=rank,
            incarnation=gang.incarnation,
            generation=gang.generation,
            round=gang.begin,
            meeting=_meeting(str(context.folder), job.index, gang.incarnation),
            interface=self._interface,
            secret=gang.secret,
            pads=self._pads.table(context.run.cluster.type_of_device[device]),
            delay_ns=self._rings[job.index].delay_ns or 0,
            # On a GPU kernels are loaded, and memory is measured, before the first round.
            rehearse=context.rehearse or context.gpus[device] is not None,
            verify=context.run.verify,
            core=self._manager.core(device),
            memory=context.memory,
            gpu=context.gpus[device],
        )


def _meeting(folder: str, job: int, incarnation: int) -> str:
    """Return the file through which the ranks of a gang find each other."""
    return f"{folder}/meeting-{job}.{incarnation}"
