"""Rules of the controller, its servers and its hosts, each with the one case that needs it.

``experiments/mutants.py`` takes each rule away and looks whether a test notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from history_jobs import ROUNDS, a_job, app_of, reference
from history_modules import virtual_modules
from history_network import VirtualLink
from history_world import Process, ServerProcess, World
from live_worlds import job, of

from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger import Ledger
from warren.live.control.recovery import LIMIT, LossCounter, Recovery
from warren.live.process.leases.host_lease import (
    BeginLease,
    DeliverBody,
    HostLease,
    SendFrame,
    StopAll,
)
from warren.live.process.leases.messages import AskLease, LeasedMessage, LeaseGranted
from warren.live.process.leases.timing import LeaseTiming
from warren.live.process.specs import Exited, ServerRole
from warren.live.training.checkpoints.files import publish, save_part
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import HashLog, marks_path
from warren.live.transport.message import Message, TaskStamp
from warren.live.transport.messages import CompEnded
from warren.live.transport.server_messages import (
    Migrate,
    Open,
    OwnershipMoved,
    Piece,
    Push,
    RoundReport,
)
from warren.live.transport.sockets import controller_address
from warren.model.decision import Assignment
from warren.model.errors import SpecError
from warren.model.events import AnyEvent, RolledBack, RoundsDone, TasksDone
from warren.model.job import Checkpoint, Job
from warren.model.units import NS_PER_S

KILLED = "killed by SIGKILL"
STEP_NS = 600_000
"""Long enough for a server to report a barrier, and far from its first checkpoint."""


# Leases: what a host that slept past its lease hears.

TIMING = LeaseTiming(10 * NS_PER_S)


def _leased() -> tuple[HostLease, LeaseGranted, int]:
    """A host with a lease, what gave it, and when it is over."""
    lease = HostLease(0, "machine", 0, TIMING)
    (asked,) = lease.tick(0)
    assert isinstance(asked, SendFrame)
    assert isinstance(asked.frame, AskLease)
    granted = LeaseGranted("machine", 0, 1, 7, asked.frame.number, TIMING.lease_ns, 0)
    assert list(lease.hear(granted, 1)) == [BeginLease(1, 7)]
    return lease, granted, TIMING.agent_ns


def test_a_host_that_slept_past_its_lease_obeys_no_order_under_it() -> None:
    lease, _, over_ns = _leased()
    order = LeasedMessage(0, 1, 7, 0, b"start")
    assert DeliverBody(b"start") in list(_leased()[0].hear(order, over_ns - 1))
    assert list(lease.hear(order, over_ns)) == [StopAll()]
    assert not lease.holds


def test_a_host_that_slept_past_its_lease_does_not_renew_it() -> None:
    lease, granted, over_ns = _leased()
    asked = [one.frame for one in lease.tick(over_ns - 1) if isinstance(one, SendFrame)]
    (renewal,) = (frame.number for frame in asked if isinstance(frame, AskLease))
    late = LeaseGranted("machine", 0, 1, 7, renewal, granted.lease_ns, 0)
    assert list(lease.hear(late, over_ns)) == [StopAll()]
    assert not lease.holds


# The ledger: reports, copies and stretches around a roll-back.


def _ledger(rounds: int, scale: int = 1) -> tuple[Ledger, PendingEvents]:
    """The ledger of one job that has arrived, on two devices."""
    jobs: tuple[Job, ...] = (job(0, scale=scale, rounds=rounds),)
    pending = PendingEvents(jobs)
    ledger = Ledger(jobs, 2, pending)
    ledger.begin(ClusterClock(0), ["class"])
    pending.advance(0)
    _events(pending)
    return ledger, pending


def _events(pending: PendingEvents) -> list[AnyEvent]:
    """All events that are known by now."""
    events: list[AnyEvent] = []
    while got := pending.pop():
        events += got
    return events


def _round(
    ledger: Ledger, seq: int, round_no: int, *, generation: int, saved: int = 0, at_ns: int = 7
) -> None:
    """Report a round of one task; the barrier passed ``at_ns`` after its beginning."""
    begin = 10 * round_no
    ledger.report(CompEnded(seq, round_no, 0, begin, begin + 5, False))
    stamps = (TaskStamp(0, begin, begin + 5, begin + 6),)
    what = 0, generation, round_no, 1.0, None, False, begin + at_ns, stamps, saved
    ledger.report(RoundReport(*what))


def test_a_report_of_a_lost_servers_generation_counts_no_more() -> None:
    """It was on its way when the job went back; its new servers have computed nothing yet."""
    ledger, pending = _ledger(9)
    seq = ledger.assigned(Assignment(0, 0, 0, 9, (0,)))
    _round(ledger, seq, 0, generation=0)
    ledger.roll_back(0, 0, "lost", 20)
    _events(pending)
    new = ledger.assigned(Assignment(0, 0, 0, 9, (0,)))
    _round(ledger, new, 0, generation=0)
    assert not of(_events(pending), RoundsDone)
    assert ledger.passed(0) == 0
    _round(ledger, new, 0, generation=ledger.generation(0))
    assert [event.round for event in of(_events(pending), RoundsDone)] == [0]


def test_no_task_of_a_job_that_goes_back_is_copied() -> None:
    """The core answers with a copy before it has heard that the job goes back."""
    ledger, pending = _ledger(9)
    ledger.assigned(Assignment(0, 0, 0, 1, (0,)))
    ledger.roll_back(0, 0, "lost", 20)
    assert ledger.copied(Assignment(1, 0, 0, 1, (0,))) is None
    assert not list(ledger.unfinished(1))
    _events(pending)
    ledger.assigned(Assignment(0, 0, 0, 1, (0,)))
    assert ledger.copied(Assignment(1, 0, 0, 1, (0,))) is not None


def test_a_job_can_go_back_to_its_last_checkpoint_but_one_inside_a_stretch() -> None:
    """When the last is damaged: what of the stretch ran before the one before it still counts."""
    ledger, pending = _ledger(9)
    seq = ledger.assigned(Assignment(0, 0, 0, 9, (0,)))
    for round_no, saved in enumerate((0, 0, 2, 2, 4, 4)):
        _round(ledger, seq, round_no, generation=0, saved=saved)
    ledger.roll_back(0, 2, "lost", 70)
    (back,) = of(_events(pending), RolledBack)
    assert [(row.round, row.rounds, row.end_ns) for row in back.kept] == [(0, 2, 16)]


def test_a_barrier_is_not_before_the_synchronizations_that_it_waits_for() -> None:
    """A server's clock may be behind the clock of the host on which a task ran."""
    ledger, pending = _ledger(1)
    seq = ledger.assigned(Assignment(0, 0, 0, 1, (0,)))
    _round(ledger, seq, 0, generation=0, at_ns=2)
    events = _events(pending)
    (row,), (barrier,) = of(events, TasksDone), of(events, RoundsDone)
    assert row.end_ns == 6
    assert barrier.barrier_ns == 6


# Losses, and what servers are told of checkpoints.


def test_only_a_barrier_never_passed_before_is_progress() -> None:
    """A job that loses its server at barriers 5, 3, 5, 3, ... would else run for ever."""
    passed = iter((5, 3, 5, 3))
    losses = LossCounter(lambda _: next(passed))
    assert [losses.out(0, (), KILLED) for _ in range(LIMIT)] == [False, False, True]


def _recovery(passed: list[int], told: list[tuple[int, int]]) -> Recovery:
    """The recovery of a run of one job that has passed ``passed[0]`` barriers."""
    ledger = SimpleNamespace(
        passed=lambda _: passed[0], ended=lambda _: False, arrived=lambda _: True,
        cluster_ns=lambda at_ns: at_ns, roll_back=lambda *what: [], reserve=lambda _: 1,
    )  # fmt: skip
    owners = SimpleNamespace(
        checkpoint_committed=lambda *what: told.append(what),
        generations=lambda _: {0, 1},
        go_back=lambda *what: 0,
        servers=SimpleNamespace(give_up=lambda *what: False),
    )
    context = SimpleNamespace(jobs=(job(0),))
    manager = SimpleNamespace(drop=lambda *what, **how: None)
    return Recovery(context, ledger, manager, owners)  # type: ignore[arg-type]


def _journalled(recovery: Recovery, round_no: int) -> None:
    """The core has been handed a barrier, and has put it into its journal."""
    recovery.delivered(RoundsDone(7, 0, round_no, 1, False))
    recovery.journalled()


def test_a_checkpoint_of_a_barrier_that_the_ledger_does_not_know_is_not_reported_of() -> None:
    """A lost server said so before the job went back: its new ones have no such checkpoint."""
    passed, told = [2], list[tuple[int, int]]()
    recovery = _recovery(passed, told)
    recovery.saved(RoundReport(0, 0, 4, 1.0, None, False, 7, (), 3))
    passed[0] = 5
    _journalled(recovery, 3)
    assert told == []
    recovery.saved(RoundReport(0, 1, 4, 1.0, None, False, 7, (), 3))
    _journalled(recovery, 4)
    assert told == [(0, 3)]


def test_servers_of_a_job_that_went_back_hear_of_checkpoints_from_there_on() -> None:
    passed, told = [4], list[tuple[int, int]]()
    recovery = _recovery(passed, told)
    recovery.saved(RoundReport(0, 0, 3, 1.0, None, False, 7, (), 3))
    _journalled(recovery, 3)
    role = ServerRole(
        folder="", base="", job=job(0), log="", params="", store="", tmp="", part=0, homes=(0,),
        generation=0, round=0,
    )  # fmt: skip
    recovery.ended(role, Exited(1, 1, KILLED), 20)
    passed[0] = 2
    recovery.saved(RoundReport(0, 1, 1, 1.0, None, False, 7, (), 1))
    _journalled(recovery, 1)
    assert told == [(0, 3), (0, 1)]


# Servers that take over, and servers that would give.


@pytest.fixture
def _virtual() -> Iterator[None]:
    with virtual_modules():
        yield


class Stage:
    """One real server of a job in a world without time; the test sends it what others would."""

    def __init__(self, folder: Path, one: Job, *, homes: int = 1, donors: int = 0) -> None:
        self.right = reference("Whole", one.scale)
        self.world = World.now = World(0, str(folder), self.right, 1)
        self.said: list[Message] = []
        self.world.watch = SimpleNamespace(server_says=lambda _, message: self.said.append(message))
        role = ServerRole(
            folder=str(folder), base="", job=one, log="", params=str(folder / "params"),
            store=str(folder / "store"), tmp="", part=0, homes=(0,) * homes,
            generation=int(donors > 0), round=0, donors=donors,
        )  # fmt: skip
        self.world.acting = self.world.controller
        hub = self.world.hub(controller_address(str(folder)))
        self.process = self.world.acting = ServerProcess(self.world, 1, role)
        self.process.start()
        assert self.process.server is not None
        self.server = self.process.server
        (self._down,) = (link.down for _, link in hub.links.values())
        self._other = VirtualLink(
            self.world.network, Process(self.world, "other"), self.server._hub.address
        )

    def controller_says(self, message: Message) -> None:
        self._down.send(message)
        self._down.deliver(1)
        self._turn()

    def hears(self, message: Message, *buffers: object) -> None:
        """Something comes from an executor or another server."""
        self._other.send(message, *buffers)
        assert self._other.up is not None
        self._other.up.deliver(1)
        self._turn()

    def task(self, round_no: int) -> None:
        """The task of a round is done."""
        one = self.right.results[round_no][0]
        what = round_no, 0, one.loss, one.present, one.marks, True, TaskStamp(0, 1, 2, 3)
        whole = memoryview(one.update[0])  # type: ignore[arg-type]
        self.hears(Push(*what), *(whole[begin:end] for begin, end in self.server._store.ranges))

    def told(self, kind: type) -> list[Any]:
        return [message for message in self.said if isinstance(message, kind)]

    def _turn(self) -> None:
        for _ in range(2):  # the second reports what the first has put off
            self.world.now_ns += STEP_NS
            self.world.acting = self.process
            self.server.turn(self.process.poller.ready())


def _piece(one: Job, rounds: int) -> memoryview:
    """What the one server of a job gives after so many rounds to the first of its heirs."""
    store = ParameterStore(app_of(one), one)
    for results in reference("Whole", 1).results[:rounds]:
        store.add(0, results[0])
        store.step()
        store.conclude()
    return store.piece_for(0, 1, ())


@pytest.mark.usefixtures("_virtual")
def test_an_heir_goes_on_with_the_checkpoints_of_its_donors(tmp_path: Path) -> None:
    """Else a job whose servers move often is never saved, and nothing old is removed."""
    one, store = a_job("Whole", 1, None, None), tmp_path / "store"
    for round_no in (1, 2):
        save_part(store, round_no, 0, b"state")
        publish(store, round_no, 1)
    stage = Stage(tmp_path, one, donors=1)
    due_ns = stage.world.now_ns  # long before the heir, on its own, would save it
    stage.hears(Piece(0, 3, 1, 2, 2, due_ns), _piece(one, 3))
    stage.task(3)
    (report,) = stage.told(RoundReport)
    assert (report.round, report.saved) == (3, 3)
    assert sorted(path.name for path in store.glob("*.json")) == ["2.json", "3.json"]


@pytest.mark.usefixtures("_virtual")
def test_an_heir_reports_the_checkpoint_of_its_donors_until_it_has_made_one(tmp_path: Path) -> None:
    one = a_job("Whole", 1, None, None)
    stage = Stage(tmp_path, one, donors=1)
    stage.hears(Piece(0, 2, 1, 1, 1, 10**15), _piece(one, 2))
    stage.task(2)
    (report,) = stage.told(RoundReport)
    assert (report.round, report.saved) == (2, 1)


@pytest.mark.usefixtures("_virtual")
def test_an_heir_compares_tasks_that_run_again_with_what_they_gave_before(tmp_path: Path) -> None:
    one = replace(a_job("Whole", 1, None, None), checkpoint=Checkpoint(every=ROUNDS))
    stage = Stage(tmp_path, one, donors=1)
    right = stage.right.results[2][0].marks
    log = HashLog(marks_path(tmp_path / "store", 0, 1), len(stage.server._store.layout.entries))
    log.append(2, 0, bytes(len(right)))
    log.close()
    stage.hears(Piece(0, 2, 1, 0, 0, 10**15), _piece(one, 2))
    with pytest.raises(SpecError, match="task 0 of round 2 ran twice"):
        stage.task(2)


@pytest.mark.usefixtures("_virtual")
def test_a_job_that_has_finished_gives_its_blocks_to_no_other_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a_job("Whole", 1, None, None))
    stage.controller_says(Open(1))
    for round_no in range(ROUNDS - 1):
        stage.task(round_no)
    stage.controller_says(Migrate(1, (0,), ()))
    stage.task(ROUNDS - 1)
    assert [(one.round, one.finished) for one in stage.told(RoundReport)][-1] == (ROUNDS - 1, True)
    assert not stage.told(OwnershipMoved)
