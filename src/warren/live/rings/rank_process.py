"""The process of a rank: waits for its device, then for the others, and makes rounds.

Rank 0 counts the ready ranks: when every rank's device is free, it lets all begin. That goes over
Unix sockets, or encrypted ones between hosts with agents, where nothing runs out of time while a
device is busy with other jobs.
"""

from __future__ import annotations

import select
import sys
from typing import Final

from warren.live import run_clock
from warren.live.process.linux import (
    direct_output,
    leave_short,
    own_temporary_folder,
    pin_to_core,
    set_name,
    sleep_until,
    wait_for_end,
)
from warren.live.process.specs import RankRole, Role
from warren.live.rings.allreduce import RingBroken
from warren.live.rings.marked_connections import mark_connections
from warren.live.rings.meeting_store import MeetingStore
from warren.live.rings.rank import RingRank
from warren.live.server.process import last_words
from warren.live.training.app.app_errors import print_traceback, reason_of
from warren.live.training.memory.model_memory import ran_out
from warren.live.transport.host_identity import NOWHERE
from warren.live.transport.messages import AnyMessage, Evict, Evicted
from warren.live.transport.ring_messages import (
    BeginRing,
    BeginRounds,
    GangBroke,
    GangReady,
    HandedOver,
    HandOver,
    RankDone,
    RankPresent,
    RankReady,
)
from warren.live.transport.server_messages import CheckpointCommitted, DelayRound, FlowClass
from warren.live.transport.sockets import (
    Hub,
    Link,
    Poller,
    executor_address,
    gang_address,
    link_to_controller,
)
from warren.live.transport.tcp_listener import FAR
from warren.model.units import NS_PER_S

_MOMENT_S: Final = 1.0
"""Seconds that a rank which has lost another waits, so that the cause is reported first."""


def main(role: Role, lifeline: int) -> None:
    """Run a rank until the zygote is gone."""
    assert isinstance(role, RankRole)
    set_name(f"warren-rank-{role.job.index}.{role.rank}")
    pin_to_core(role.core)
    direct_output(role.log)
    own_temporary_folder(role.tmp)
    control = link_to_controller(role.folder, role.identity)
    try:
        RankProcess(role, lifeline, control).serve()
    except RingBroken as error:
        print(
            f"rank {role.rank} of incarnation {role.incarnation}: {error}",
            file=sys.stderr,
            flush=True,
        )
        select.select([lifeline], [], [], _MOMENT_S)
        control.send(GangBroke(role.job.index, role.incarnation, reason_of(error)))
        wait_for_end(lifeline)
    except BaseException as error:  # user code may raise anything, SystemExit too
        print_traceback(error)
        if role.gpu is not None and ran_out(error):
            leave_short()
        control.send(last_words(role, f"rank {role.rank} of its ring", error))
        wait_for_end(lifeline)


class RankProcess:
    """The connections of one rank; it turns their messages into rounds of the ring."""

    def __init__(self, role: RankRole, lifeline: int, control: Link) -> None:
        self._role = role
        self._lifeline = lifeline
        self._control = control
        # Rank 0 listens before it meets the others in the ring: they may send right after that.
        address = gang_address(role.folder, role.job.index, role.incarnation)
        identity = role.identity
        far = identity.control_far
        self._hub = None if role.rank else Hub(address, identity if far else NOWHERE)
        address = FAR + address if far else address
        self._first = Link(address, identity.secret) if role.rank else None
        self._poller = Poller()
        # To the other ranks: a rank is rank 0, or has a link to it.
        source = self._hub or self._first
        assert source is not None
        self._poller.register(source)
        self._member = RingRank(role, MeetingStore(source, self._poller) if far else None)
        self._executor = Link(executor_address(role.folder, role.device, role.executor))
        # Of the round behind the next barrier, on rank 0; and when the next round may begin.
        self._delay_ns = role.delay_ns
        self._begins_ns = 0
        self._here: dict[int, RankPresent] = {}
        self._peers: list[bytes] = []

    def serve(self) -> None:
        """Make the rounds that executors give, until the zygote closes the lifeline."""
        job = self._role.job.index
        incarnation = self._role.incarnation
        poller = self._poller
        for source in (self._executor, self._control, self._lifeline):
            poller.register(source)
        self._executor.send(RankReady(job, incarnation, *self._member.settled))
        if self._role.rank == 0:
            self._control.send(GangReady(job, incarnation))
        while self._lifeline not in poller.poll():
            for message, _ in self._executor.drain():
                self._hear(message)
            for message, _ in self._control.drain():
                self._hear(message)
            if self._hub is not None:
                self._hear_others(self._hub)
            if self._first is not None:
                for message, _ in self._first.drain():
                    self._hear(message)

    def _hear(self, message: AnyMessage) -> None:
        """Take a message of the executor, the controller or rank 0."""
        rank = self._role.rank
        match message:
            case BeginRing(round=round_no, rounds=rounds, at_ns=at_ns):
                self._arrived(RankPresent(rank, round_no, rounds, at_ns))
            case Evict():
                self._member.evict()
                self._executor.send(Evicted(self._role.job.index))
            case BeginRounds(rounds=rounds, at_ns=at_ns):
                self._run(rounds, at_ns)
            case CheckpointCommitted(round=round_no):
                self._member.schedule.kept = round_no
            case FlowClass(flow_class=flow_class):
                mark_connections(flow_class)
            case DelayRound(delay_ns=delay_ns):
                self._delay_ns = delay_ns
            case HandOver(round=round_no):
                self._member.save(round_no)
                job, incarnation = self._role.job.index, self._role.incarnation
                self._control.send(HandedOver(job, incarnation, round_no))
            case _:
                raise ValueError(f"no process sends {message} to a rank")

    def _hear_others(self, hub: Hub) -> None:
        """Take the messages of the other ranks, on rank 0."""
        for peer, message, _ in hub.drain():
            assert isinstance(message, RankPresent)
            self._peers.append(peer)
            self._arrived(message)

    def _arrived(self, here: RankPresent) -> None:
        """Note that a rank's device is free; begin the rounds when all are."""
        # Not rank 0, which alone counts: it will say when to begin.
        if self._first is not None:
            self._first.send(here)
            return
        self._here[here.rank] = here
        if len(self._here) < self._role.job.scale:
            return
        # A ring begins when the last of its devices is free.
        at_ns = max(one.at_ns for one in self._here.values())
        peers, self._peers = self._peers, []
        self._here.clear()
        assert self._hub is not None
        for peer in peers:
            self._hub.send(peer, BeginRounds(here.round, here.rounds, at_ns))
        self._run(here.rounds, at_ns)

    def _run(self, rounds: int, at_ns: int) -> None:
        """Make rounds one after another; the device is held to the barrier of the last."""
        role, member = self._role, self._member
        for _ in range(rounds):
            if not self._wait_for_begin():
                return
            # The executor says nothing else before it hears that these rounds are over.
            for message, _ in self._executor.drain():
                self._hear(message)
            report = member.round(max(at_ns, self._begins_ns), self._next_delay)
            at_ns = report.at_ns
            self._begins_ns = at_ns + member.delay_ns
            sleep_until(at_ns)
            if role.rank == 0:
                self._control.send(report)
                member.save_if_due()
            if report.finished:
                break
        self._executor.send(RankDone(role.job.index, role.incarnation, at_ns))

    def _wait_for_begin(self) -> bool:
        """Wait until the next round may begin, if it is delayed; False: the zygote is gone."""
        left_s = (self._begins_ns - run_clock.now_ns()) / NS_PER_S
        return left_s <= 0 or not select.select([self._lifeline], [], [], left_s)[0]

    def _next_delay(self) -> int:
        """Return the delay of the round behind the next barrier, and only once."""
        for message, _ in self._control.drain():
            self._hear(message)
        delay_ns, self._delay_ns = self._delay_ns, 0
        return delay_ns
