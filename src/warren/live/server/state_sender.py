"""A server's answers to requests for states, sent as soon as there is a state."""

from __future__ import annotations

from dataclasses import dataclass

from warren.live.server.local_tasks import LocalTasks
from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.message import SharedSlot, TaskStamp, place_on_device
from warren.live.transport.server_messages import BarrierPassed, JobOver, StateSent
from warren.live.transport.sockets import Hub


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedState:
    """A job's present place in its rounds, as one of its servers sees it.

    ``first``: this is the server that keeps the barrier. ``passed``: barriers passed; the last one
    at ``since_ns`` (monotonic ns). ``over``: number of rounds that are over, under any servers.
    ``unsure``: it is not known yet whether another round follows, or a delay holds it. ``done``:
    tasks of the round in progress that are done.
    """

    first: bool
    passed: int
    over: int
    since_ns: int
    unsure: bool
    done: tuple[TaskStamp, ...]


class StateSender:
    """Pulls that wait for their state, and peers that have one ahead of its barrier.

    ``_lent``: states that peers read where they lie, by peer and round.
    """

    def __init__(self, hub: Hub, store: ParameterStore, local: LocalTasks | None = None) -> None:
        self._hub = hub
        self._store = store
        self._local = local
        self._parked: list[tuple[bytes, int]] = []
        self._ahead: list[bytes] = []
        # The views keep the states as they are: memory is written to again when none is left.
        self._lent: dict[bytes, list[tuple[int, tuple[memoryview, ...]]]] = {}
        self._peer_of: dict[int, bytes] = {}

    def park(self, peer: bytes, round_no: int, device: int) -> None:
        """Note that the executor of a device asks for the state that a round begins with."""
        before = self._peer_of.get(device, peer)
        if before != peer:  # that executor is gone, and reads no more
            self._lent.pop(before, None)
        self._peer_of[device] = peer
        self._parked.append((peer, round_no))

    def taken(self, peer: bytes, round_no: int) -> None:
        """Note that a peer does not need a state any more where it lies."""
        lent = self._lent.get(peer, [])
        # One, not all: a peer that released a state and requested it again has it twice.
        found = next((at for at, (round_, _) in enumerate(lent) if round_ == round_no), None)
        if found is not None:
            del lent[found]

    def release(self, passed: int, at_ns: int) -> None:
        """Tell the holders of the new state that its barrier has passed, so that they use it."""
        for peer in self._ahead:
            self._hub.send(peer, BarrierPassed(passed, at_ns))
        self._ahead.clear()

    def answer(self, now: ServedState) -> int:
        """Answer the requests whose state is here; return their number. The others stay parked."""
        if not self._parked:
            return 0
        parked, self._parked = self._parked, []
        for peer, wanted in parked:
            if not self._answer(peer, wanted, now):
                self._parked.append((peer, wanted))
        return len(parked) - len(self._parked)

    def _answer(self, peer: bytes, wanted: int, now: ServedState) -> bool:
        """Send the state of a round, or that it is over; False if it is not here yet.

        The state after the last round never is: a policy may have assigned rounds that a stop
        rule made void.
        """
        store = self._store
        if wanted < now.over:
            self._hub.send(peer, JobOver(wanted))
        elif wanted == store.version - 1:
            # The step is made but its barrier has not passed: a task of the round may run again.
            self._send(peer, wanted, now)
        elif wanted > store.version or store.finished or now.unsure:
            return False
        else:
            self._send(peer, wanted, now)
            # Sent ahead: the peer waits until it hears that the barrier has passed.
            if now.first and wanted > now.passed:
                self._ahead.append(peer)
        return True

    def _send(self, peer: bytes, round_no: int, now: ServedState) -> None:
        """Send a state: its bytes, or where they lie if the peer can read them there."""
        store = self._store
        # Only the first server tells of barriers and done tasks, and only of the round in progress.
        current = now.first and round_no == now.passed
        done = now.done if current else ()
        since_ns = now.since_ns if current else None
        have = () if now.first else store.results.have(round_no)
        here = self._local is not None and self._peer_of.get(self._local.device) == peer
        blocks = () if here else self._blocks(round_no)
        if here:  # its trainer is this process
            spot: SharedSlot | None = place_on_device(store.total_bytes, 0)
        else:
            spot = None if self._hub.is_far(peer) else store.spot(blocks)
        header = StateSent(
            round_no,
            since_ns,
            store.total_bytes,
            store.ranges,
            done,
            have,
            spot,
            on_disk=store.disk is not None,
        )
        if spot is None:
            self._hub.send(peer, header, *blocks)
        elif self._hub.send(peer, header) and not here:
            self._lent.setdefault(peer, []).append((round_no, blocks))

    def _blocks(self, round_no: int) -> tuple[memoryview, ...]:
        """Return the state of a round in main memory, of this version or of the last."""
        store = self._store
        return store.state() if round_no == store.version else store.previous_state()
