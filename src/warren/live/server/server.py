"""A parameter server of a job: adds updates, passes barriers, hands out states, saves itself.

The barrier of a round needs all updates and all commits. The step is computed as soon as the
updates are here and the next state is sent ahead, so that only a short message is left to send
when the last commit comes. Of several servers each owns some blocks; the first one keeps the
barrier for all, evaluates, and talks to the controller. At a barrier other servers may take over
(``warren.live.server.migration``).
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from warren.live import run_clock
from warren.live.process.linux import end_as_killed
from warren.live.process.specs import ServerRole
from warren.live.process.time_limit import Alarm
from warren.live.server.built_store import built_within_budget
from warren.live.server.committed_tasks import CommittedTasks
from warren.live.server.global_norm import GlobalNorm
from warren.live.server.local_tasks import LocalTasks
from warren.live.server.migration import Donor, Inheritance
from warren.live.server.peer_servers import PeerServers
from warren.live.server.restored_copy import RestoredCopy
from warren.live.server.round_report import DeferredReport
from warren.live.server.round_start import RoundStart
from warren.live.server.state_sender import ServedState, StateSender
from warren.live.server.update_reader import UpdateReader
from warren.live.training import numerics
from warren.live.training.task_hashes import RoundOutcome, TaskResult
from warren.live.transport.message import SharedSlot
from warren.live.transport.server_messages import (
    BeginRound,
    CheckpointCommitted,
    Commit,
    DelayRound,
    FlowClass,
    LastRound,
    Migrate,
    Open,
    OwnershipMoved,
    PartDone,
    PartSaved,
    Piece,
    Pull,
    Push,
    Pushed,
    ServerReady,
    Squares,
    StateReleased,
)
from warren.live.transport.sockets import Hub, Link, Poller, link_to_server, server_address


class Server:
    """One server of a job: the state machine of the job's rounds.

    ``store.version`` counts steps computed, ``_passed`` barriers passed; the first is ahead by one
    while commits are missing. A barrier has the time of its last commit, or of its step if nothing
    is emulated. ``_since_ns`` is when the round in progress began.
    """

    def __init__(self, role: ServerRole, lifeline: int, control: Link) -> None:
        self._role = role
        self._lifeline = lifeline
        self._control = control
        self._job = role.job
        self._alarm = Alarm()
        part, parts = role.part, role.parts
        self._store, self._schedule, self._marks = built_within_budget(role, self._alarm)
        store = self._store
        self.local: LocalTasks | None = None
        """The tasks of this process, if it computes some."""
        if role.trainer is not None:
            self.local = LocalTasks(store, role.trainer.device)
        job = role.job.index
        address = server_address(role.folder, job, role.generation, part)
        self._hub = Hub(address, role.identity)
        self._sender = StateSender(self._hub, store, self.local)
        self._reader = UpdateReader(store.ranges, store.disk)
        self._peers = PeerServers(self._hub, store, parts)
        self._donor = Donor(role, store)
        self._copy = RestoredCopy(store, role.job, role.base, within=role.inputs is None)
        self._inheritance = Inheritance(role.donors)
        self.poller = Poller()
        # None on the first server, which keeps the barrier for all.
        self._first: Link | None = None
        if part:
            first = server_address(role.folder, job, role.generation, 0)
            self._first = link_to_server(first, role.homes[0], role.identity)
        self._mark(role.flow_class)
        tell = self._peers.tell if self._first is None else self._first.send
        self._clipping = GlobalNorm(store, part, parts, tell)
        self._opening = RoundStart()
        self._begin = role.round
        # How long the round behind the next barrier is delayed. On the first server also: when the
        # round at hand begins, until it has.
        self._delay_ns = 0
        self._delayed = RoundStart()
        # -1: the job has not arrived, no task may start. Only the first server hears when it has.
        self._passed = role.round if part else -1
        # The round in progress: whether this server has made its step, the outcome of the round,
        # the tasks that are done, and the updates that are not acknowledged.
        self._stepped = False
        self._outcome: RoundOutcome | None = None
        self._committed = CommittedTasks()
        self._taken: list[tuple[bytes, Pushed]] = []
        self._since_ns = 0
        # The barrier before it, until that is reported.
        self._left: DeferredReport | None = None
        self._sha256 = ""

    def end_if_cut_off(self) -> None:
        """End this process if its way to the controller is broken: another one replaces it."""
        if self._control.far and self._control.lost:
            end_as_killed()

    def listen(self) -> None:
        """Listen to all that this server hears, and say that it does."""
        for source in (self._hub, self._control, self._lifeline):
            self.poller.register(source)
        if self._first is not None:
            self.poller.register(self._first)
        if not self._role.donors:
            self._stand_ready()
        self._control.send(ServerReady(self._job.index, self._role.generation, self._role.part))

    def turn(self, ready: Container[object]) -> None:
        """Take the messages of the ``ready`` sources, and do all that follows from them."""
        self._wind_up(late=True)
        if self._control in ready:
            self._hear_controller()
        self._open()
        if self._hub in ready:
            self._hear()
        if self._first is not None and self._first in ready:
            self._hear_first(self._first)
        self._donor.go_on(ready)
        self._step()
        self._pass_barrier()
        if self.local is not None and self.local.early and self._left is None:
            for peer, push in self.local.take_early():
                self._take(peer, push, [])
            self._step()
            self._pass_barrier()
        self._answer_pulls()
        # While a report is put off its acknowledgements are too: both wake up processes that
        # would take the cores that trainers need to begin.
        if self._left is None:
            self._acknowledge()

    def _stand_ready(self) -> None:
        """Tell the first server, if that is another, that this one stands where the job goes on."""
        if self._first is not None:
            self._first.send(PartDone(self._role.part, -1))

    def timeout_ms(self) -> int | None:
        """Return how long to wait for messages; None: for ever."""
        if self._left is not None:
            return 1
        return (self._delayed if self._passed >= 0 else self._opening).timeout_ms()

    def _open(self) -> None:
        """Begin the first round if the job has arrived and every server stands at it.

        Or a later one, which a delay has held until now.
        """
        since_ns = self._opening.since_ns() if self._peers.all_here else None
        if self._passed < 0 and since_ns is not None:
            self._passed, self._since_ns = self._begin, since_ns
            self._sender.release(self._passed, since_ns)
            if self._role.donors:
                self._begin_round()
        if self._delayed.since_ns() is not None:
            self._delayed.at_ns = None
            self._sender.release(self._passed, self._since_ns)
            self._begin_round()

    # Messages.

    def _hear_controller(self) -> None:
        """Take the messages of the controller."""
        for message, _ in self._control.drain():
            match message:
                case Open(at_ns=at_ns):
                    self._opening.at_ns = at_ns
                case CheckpointCommitted(round=round_no):
                    self._schedule.kept = round_no
                case FlowClass(flow_class=flow_class):
                    self._mark(flow_class)
                case DelayRound(delay_ns=delay_ns):
                    self._delay_ns = delay_ns
                case Migrate():
                    self._donor.to = message
                case _:
                    raise ValueError(f"the controller does not send {message}")

    def _mark(self, flow_class: int) -> None:
        """Mark this server's traffic to other hosts with a class."""
        self._donor.flow_class = flow_class
        self._hub.mark(flow_class)
        if self._first is not None:
            self._first.mark(flow_class)

    def _hear(self) -> None:
        """Take everything that is here; updates before pulls, so that rounds end early."""
        for peer, message, buffers in self._hub.drain():
            match message:
                case Pull(round=round_no, device=device):
                    self._sender.park(peer, round_no, device)
                case StateReleased(round=round_no):
                    self._sender.taken(peer, round_no)
                case Push():
                    self._take(peer, message, buffers)
                case Commit(round=round_no, stamp=stamp):
                    if round_no == self._passed:
                        self._committed.add(stamp)
                case PartDone():
                    self._peers.hear(peer, message, buffers)
                case Squares():
                    self._clipping.hear(message)
                case PartSaved(part=part, round=round_no):
                    self._schedule.part_saved(part, round_no)
                case Piece():
                    if self._inheritance.take(message, *buffers, far=self._hub.is_far(peer)):
                        self._inherit(message)
                case _:
                    raise ValueError(f"an executor does not send {message}")

    def _hear_first(self, first: Link) -> None:
        """Take the messages of the first server, on another one."""
        for message, _ in first.drain():
            match message:
                case Squares():
                    self._clipping.hear(message)
                case BeginRound():
                    self._next_round(message)
                case LastRound():
                    self._give(message)
                case _:
                    raise ValueError(f"the first server does not send {message}")

    def _take(self, peer: bytes, push: Push, buffers: list[memoryview]) -> None:
        """Add an update to the round in progress, or compare it if the step has been made."""
        store, local = self._store, self._local_of(push)
        self._wind_up()
        if local is not None:
            if push.round > self._passed or self._delayed.at_ns is not None:
                local.early.append((peer, push))
                return
            if local.confirm(push):
                self._marks.append(push.round, push.shard, push.marks)
        elif push.round == store.version and not store.finished:
            pieces = buffers if push.spot is None else self._pieces(push, push.spot)
            if pieces is None:
                return  # the executor is gone with its memory; the task will run again
            result = TaskResult(
                loss=push.loss, present=push.present, marks=push.marks, update=tuple(pieces)
            )
            store.add(push.shard, result)
            self._marks.append(push.round, push.shard, push.marks)
        elif push.round == store.version - 1:
            # It ran twice, and the step has been made with the first result: the bits must agree.
            # This process may have computed it unasked; then its numbers are not known yet.
            store.results.confirm(push.round, push.shard, push.loss, push.marks)
            self._marks.append(push.round, push.shard, push.marks)
        if push.committed and push.round == self._passed:
            # What this process computed has ended on its device, whenever that is heard of here.
            self._committed.real |= local is None
            end_ns = run_clock.now_ns() if local is None else push.stamp.comp_end_ns
            self._committed.add(msgspec.structs.replace(push.stamp, end_ns=end_ns))
        taken = Pushed(push.round, push.shard)
        # An emulated task ends when this message comes: not after the step, nor behind the next
        # state.
        if not push.committed:
            self._hub.send(peer, taken)
        self._make_step()  # while the last update may still lie where it was computed
        if push.committed:
            self._taken.append((peer, taken))

    def _local_of(self, push: Push) -> LocalTasks | None:
        """Return the tasks of this process if the push is of one of them."""
        if push.spot is None or not push.spot.on_device:
            return None
        assert self.local is not None, "a push from a device comes from this process"
        return self.local

    def step_here(self) -> None:
        """Step a round whose tasks are all on their way, if the barrier before it has passed."""
        if self.local is not None:
            self.local.add_all()
            self._make_step()

    def _pieces(self, push: Push, spot: SharedSlot) -> list[memoryview] | None:
        """Return this server's pieces of an update that lies in shared memory.

        The last update of a round is used where it lies, unless an emulated COMM lane waits; others
        are copied. None: the executor is gone.
        """
        store = self._store
        # Only an update that is used before its acknowledgement may stay: then its slot is used
        # again.
        others = set(store.results.have(store.version)) | {push.shard}
        last = len(others) == self._job.scale and store.version == self._passed
        if last and push.committed and not self._stepped:
            return self._reader.look(spot)
        return self._reader.fetch(spot)

    def _acknowledge(self) -> None:
        """Tell executors that their updates are here, so that they use the memory again."""
        for peer, pushed in self._taken:
            self._hub.send(peer, pushed)
        self._taken.clear()

    def _next_round(self, begun: BeginRound) -> None:
        """Begin the next round: the first server, which is another, has passed the barrier."""
        self._follow(begun.round)
        if begun.save:
            self._schedule.save(begun.round)
            self._marks.forget_before(self._schedule.previous)
            assert self._first is not None
            self._first.send(PartSaved(self._role.part, begun.round))

    def _follow(self, round_no: int) -> None:
        """Be where the first server is, which has passed the barrier before this round."""
        self._passed = round_no
        self._stepped = False
        self._delay_ns = 0
        self._store.forget_previous()
        numerics.pin()

    # Blocks migrate.

    def _give(self, last: LastRound) -> None:
        """Give all blocks to other servers, and serve no more."""
        if self._first is not None:
            self._follow(last.round)
        self._donor.give(last, self.poller)

    def _inherit(self, piece: Piece) -> None:
        """Begin where other servers have ended: all blocks of this one are here."""
        with self._alarm.within(self._job.task_limit_ns):
            self._store.inherit(self._inheritance.pop())
        self._schedule.follow(piece.kept, piece.saved, piece.save_not_before_ns)
        self._marks.load()
        self._begin = piece.round
        if self._first is None:
            self._opening.at_ns = piece.since_ns
        else:
            # Its state may be sent ahead; the round begins when the first server says so.
            self._passed = piece.round - 1
        self._stand_ready()
        self._control.send(self._inheritance.report(self._role))

    # Consequences.

    def _step(self) -> None:
        """Make the step if the round is complete; on the first server also conclude the round."""
        self._make_step()
        if self._first is None and self._stepped and self._outcome is None:
            self._conclude()

    def _make_step(self) -> None:
        """Step this server's blocks once all updates of the round are here.

        Commits may still be missing: the next state is computed and sent ahead of its barrier.
        """
        store = self._store
        # ``version == _passed``: the barrier before this round has passed, so that at most one step
        # is ahead of the barriers. What is still to do for that barrier may save this version.
        waits = self._stepped or self._left is not None or store.version != self._passed
        if store.results.complete and not waits:
            round_no = store.version
            with self._alarm.within(self._job.task_limit_ns):
                squares = self._clipping.squares()
                if squares is None:
                    return  # the step waits for the norms of the other servers' tensors
                store.step(squares)
            self._stepped = True
            if self._first is not None:
                blocks = store.blocks() if store.wants_whole else ()
                # Blocks on disk are read where they lie, if the first server can read them there.
                spot = store.spot(blocks) if store.disk and not self._first.far else None
                done = PartDone(self._role.part, round_no, spot)
                self._first.send(done, *(blocks if spot is None else ()))

    def _conclude(self) -> None:
        """Evaluate if that is due, and write the parameters of a finished job.

        Waits until every server has made the step.
        """
        if not (self._peers.all_done and self._store.results.confirmed):
            return
        self._peers.take()
        with self._alarm.within(self._job.task_limit_ns):
            self._outcome = self._store.conclude()
            if self._outcome.finished:
                self._store.write_params(self._role.params)
                self._sha256 = self._store.digest()
        # Nothing emulated: step and evaluation take their time before the barrier. With pads they
        # happen inside the next one (decision 0008).
        if self._committed.real or self._outcome.metrics is not None or self._outcome.finished:
            self._committed.put_off(run_clock.now_ns())

    def _pass_barrier(self) -> None:
        """Pass the barrier once the step is made, all tasks are committed and the save is whole."""
        outcome, tasks = self._outcome, self._committed
        if outcome is None or len(tasks) < self._job.scale or not self._schedule.published:
            return
        self._outcome = None
        self._stepped = False
        self._passed = self._store.version
        delay_ns, self._delay_ns = self._delay_ns, 0
        self._since_ns = tasks.barrier_ns + delay_ns
        self._store.forget_previous()
        self._left = DeferredReport(
            self._job.index, self._role.generation, outcome, tasks.barrier_ns, tasks.stamps()
        )
        tasks.clear()
        if self._donor.to is not None and not outcome.finished:
            self._donor.gave = True
            self._wind_up()
            self._hand_over(self._donor.to)
            return
        if delay_ns and not outcome.finished:
            self._delayed.at_ns = self._since_ns
        elif not outcome.finished:  # messages that others wait for go first
            self._sender.release(self._passed, self._since_ns)
            # Trainers wake up on the new state now: reporting and saving wait a moment. Several
            # servers cannot wait, since the others begin their round by ``_wind_up``.
            if self._answer_pulls() and tasks.real and self._role.parts == 1:
                return
        self._wind_up()

    def _hand_over(self, to: Migrate) -> None:
        """Let the round at hand begin at other servers; ownership moves before the blocks do."""
        saves = self._schedule
        saves.settle(wait=True)
        times = saves.kept, saves.last, saves.not_before_ns
        last = LastRound(self._passed, self._since_ns, *times, to)
        self._peers.tell(last)
        begins = OwnershipMoved(self._job.index, to.generation, self._passed, self._since_ns)
        self._control.send(begins)
        self._give(last)

    def _wind_up(self, *, late: bool = False) -> None:
        """Report and save the last barrier; ``late``: only if it was put off for long enough."""
        left = self._left
        if left is None or (late and not left.due):
            return
        self._left = None
        self._acknowledge()
        # The folder of a job that has ended goes, and nothing may be written to it then.
        self._schedule.settle(wait=left.outcome.finished)
        left.report(self._control, self._schedule.last, self._sha256)
        waits = self._delayed.at_ns is not None or self._donor.gave
        if not (left.outcome.finished or waits):
            self._begin_round()
            self._copy.after_round()
        numerics.pin()  # the app may have changed any setting
        if self.local is None:  # else tasks of this process set the generators meanwhile
            self._store.seed()  # for the next step, whose updates are still being computed

    def _begin_round(self) -> None:
        """Let all servers begin the round, and save the state it begins with if that is due."""
        save = self._schedule.due(self._passed)
        self._peers.turn(self._passed, save=save)
        if save:
            self._schedule.save(self._passed)
            self._marks.forget_before(self._schedule.previous)

    def _answer_pulls(self) -> int:
        """Send states to the requests whose state is here; return the number of answers."""
        if self._inheritance.lacking:
            return 0  # this model is untrained, and which rounds are over is not known here
        first = self._first is None
        # The step is made but not evaluated: it may turn out to have been the last.
        unsure = first and self._stepped and self._outcome is None
        # The state of a delayed round is sent when the round begins, as others' updates may be. If
        # the round begins at other servers, they send the state.
        held = self._delayed.at_ns is not None or self._donor.gave
        later = self._delay_ns > 0 or self._donor.to is not None
        held = held or (later and self._store.version > self._passed)
        standing = ServedState(
            first=first,
            passed=self._passed,
            # Until the first round here has begun, those before it are over all the same.
            over=max(self._passed, self._begin),
            since_ns=self._since_ns,
            unsure=unsure or held,
            done=self._committed.stamps(),
        )
        return self._sender.answer(standing)
