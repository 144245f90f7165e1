"""A run cut off at any step, its journal at any byte, goes on and ends as it should."""

from __future__ import annotations

import random
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from core_faults import Cut, Disk, FaultyPort, Trouble
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_replay import replay
from test_core_rollback import COARSE, WAYS, check_counts, policy_of, world_of

from warren.core.journal import MAGIC, Header, Resumed, Step, encode
from warren.core.journal_reader import decode, frames, read_history
from warren.core.loop import Core
from warren.core.ports import Restart
from warren.core.resume import catch_up
from warren.core.scheduling_rules import check_invariants
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision
from warren.model.errors import InfeasibleDecision, JournalError
from warren.model.events import JobArrived, RolledBack, RoundsDone, TasksDone, Woken
from warren.model.run import Grain, Run
from warren.model.view import View
from warren.policy.protocol import is_blind

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

pytestmark = pytest.mark.slow

TROUBLE = Trouble(seed=1, rate=0.05)


def core_of(run: Run, costs: CostTable, policy: Any, port: Any, journal: bytearray) -> Core:
    return Core(
        run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="live",
        check=True,
    )  # fmt: skip


def go(
    run: Run, costs: CostTable, policy: Any, journal: bytearray, disk: Disk, cut_at: int | None
) -> bool:
    """Begin, or go on where the journal ends; whether it came to its end."""
    port = FaultyPort(run, costs, TROUBLE, disk, cut_at)
    core = core_of(run, costs, policy, port, journal)
    restart, size = catch_up(core, bytes(journal))
    assert not any(port._queues), "nothing is submitted while it catches up"
    del journal[size:]
    port.resume(restart)
    try:
        core.execute()
    except Cut:
        return False
    return True


@pytest.mark.parametrize(("name", "grain"), WAYS)
def test_cut_off_at_any_step_and_torn_at_any_byte_every_job_finishes(
    name: str, grain: Grain
) -> None:
    resumed = 0

    @settings(max_examples=settings().max_examples // 6)  # in each of fifty ways
    @given(st.integers(0, 10**6))
    def check(seed: int) -> None:
        nonlocal resumed
        run, costs = world_of(seed, name, grain)
        journal, disk, policy = bytearray(), Disk(), policy_of(name)
        draw = random.Random(seed)
        for _ in range(draw.randint(1, 4)):
            if go(run, costs, policy, journal, disk, draw.randint(1, 40)):
                break
            del journal[draw.randint(len(journal) // 2, len(journal)) :]
        go(run, costs, policy, journal, disk, None)
        history = read_history(bytes(journal))
        assert (history.finish_ns_J >= 0).all()
        check_counts(run, history)
        resumed += history.resumed
        state = replay(bytes(journal), run, costs)
        check_invariants(state)
        assert state.done_J.all()

    check()
    assert resumed > 5


def cut_run(name: str = "srtf", cut_at: int = 25) -> tuple[Run, CostTable, bytes, Disk]:
    run, costs = worlds.random_world(3, jobs=5, devices=3)
    journal, disk = bytearray(), Disk()
    assert not go(run, costs, policy_of(name), journal, disk, cut_at)
    return run, costs, bytes(journal), disk


def test_a_core_that_caught_up_stands_where_the_journal_ends() -> None:
    for name in ("srtf", "gavel-fifo", "hare", "round-robin"):
        run, costs, journal, _ = cut_run(name)
        written = bytearray()
        core = core_of(run, costs, policy_of(name), None, written)
        restart, size = catch_up(core, journal)
        state = replay(journal, run, costs, blind=is_blind(core.policy))
        assert size == len(journal)
        assert not written
        for column in ("round_J", "next_round_J", "next_shard_J", "open_J", "queued_D", "phase_J"):
            assert np.array_equal(getattr(core.state, column), getattr(state, column)), column
        assert restart.now_ns == state.now_ns > 0
        assert restart.rounds_J == tuple(state.round_J)
        assert restart.ended_J == tuple(state.done_J)
        assert restart.arrived_J == tuple(state.arrived_J)


def test_a_core_that_goes_on_says_so_first_and_continues_time() -> None:
    run, costs, before, disk = cut_run()
    journal = bytearray(before + b"\x05\x00")
    assert go(run, costs, policy_of("srtf"), journal, disk, None)
    assert journal[: len(before)] == before
    number = len(list(decode(before)))
    resumed, step = list(decode(bytes(journal)))[number : number + 2]
    assert isinstance(resumed, Resumed)
    assert isinstance(step, Step)
    assert all(isinstance(event, RolledBack) for event in step.events)
    assert resumed.time_ns == step.events[0].time_ns == replay(before, run, costs).now_ns


def test_a_journal_in_which_nothing_happened_is_begun_again() -> None:
    run, costs, journal, _ = cut_run("hare", 1)
    ends = [end for _, end in frames(journal)]
    for size in (0, 5, len(MAGIC), ends[0] - 1, ends[0], ends[1], len(journal)):
        core = core_of(run, costs, policy_of("hare"), None, bytearray())
        restart, kept = catch_up(core, journal[:size])
        assert kept == 0
        assert not core.begun
        assert restart.arrived_J == (False,) * len(run.workload.jobs)


def with_header(journal: bytes, **changes: str) -> bytes:
    """A journal that opens otherwise."""
    header, *rest = decode(journal)
    changed = msgspec.structs.replace(header, **changes)
    return MAGIC + b"".join(map(encode, [changed, *rest]))


def test_where_a_run_goes_on_has_its_numerics_class_and_an_old_journal_has_none() -> None:
    run, costs, journal, _ = cut_run()
    for before, numerics in ((with_header(journal, numerics="a class"), "a class"), (journal, "")):
        core = core_of(run, costs, policy_of("srtf"), None, bytearray())
        assert catch_up(core, before)[0].numerics == numerics
    header = next(decode(journal))
    values = msgspec.to_builtins(header)
    assert values[-1] == ""
    payload = msgspec.msgpack.encode(values[:-1])
    old = MAGIC + struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
    assert list(decode(old)) == [header]


class Moody:
    """Gives a task to another device when asked again."""

    name, source, offline, needs_rounds = "moody", "test", False, False
    triggers = frozenset({JobArrived, RoundsDone, RolledBack})

    def __init__(self, device: int) -> None:
        self._device = device

    def initial(self, view: View) -> None:
        return None

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        if not view.open_J[0]:
            return Decision(), None
        device = self._device if view.round_J[0] == 2 else 0
        return Decision(assign=(Assignment(device, 0, int(view.round_J[0]), 1, (0,)),)), None

    def explain(self, view: View, memory: None, job: int) -> str:
        return "on a whim"


def test_a_policy_that_decides_otherwise_is_named_with_the_record() -> None:
    run = worlds.run(worlds.cluster(["A", "A"]), [worlds.job(0, rounds=5)])
    costs = worlds.costs([[1.0]], [[0.5]])
    port, journal = FaultyPort(run, costs, Trouble(rate=0)), bytearray()
    core_of(run, costs, Moody(0), port, journal).execute()
    number = next(
        place
        for place, one in enumerate(decode(bytes(journal)))
        if isinstance(one, Step) and any(a.round == 2 for a in one.assign)
    )
    again = core_of(run, costs, Moody(1), None, bytearray())
    expected = f"policy moody decided otherwise when asked again at record {number}: is it determ"
    with pytest.raises(InfeasibleDecision, match=expected):
        catch_up(again, bytes(journal))


def test_the_journal_of_another_run_is_refused_by_what_differs() -> None:
    run, costs, journal, _ = cut_run()
    other, other_costs = worlds.random_world(3, jobs=5, devices=3, grain=COARSE)
    with pytest.raises(JournalError, match="another grain"):
        catch_up(core_of(other, other_costs, policy_of("srtf"), None, bytearray()), journal)
    with pytest.raises(JournalError, match="another place policy"):
        catch_up(core_of(run, costs, policy_of("hare"), None, bytearray()), journal)
    changed = core_of(run, costs, policy_of("srtf"), None, bytearray())
    changed.inputs = "another hash"
    with pytest.raises(JournalError, match="were changed since it began"):
        catch_up(changed, journal)
    damaged = bytearray(journal)
    damaged[len(journal) // 2] ^= 1
    with pytest.raises(JournalError, match="damaged"):
        catch_up(core_of(run, costs, policy_of("srtf"), None, bytearray()), bytes(damaged))


class Waking(Moody):
    """Asks to be woken, and gives its tasks then."""

    triggers = frozenset({JobArrived, RoundsDone, RolledBack, Woken})

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        if any(isinstance(event, Woken) for event in view.changes):
            return super().decide(view, None)
        return Decision(wake_ns=view.now_ns + 10), None


def test_wake_ups_that_have_not_come_are_asked_for_again() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0, rounds=2)])
    costs = worlds.costs([[1.0]], [[0.5]])
    row = Assignment(0, 0, 0, 1, (0,))
    header = Header("test", "live", "moody", "1", 0, ("j0",), ("h/A-0",))
    steps = [
        Step((JobArrived(0, 0),), (), (), 10),
        Step((Woken(10),), (row,)),
        Step((TasksDone(20, 0, 0, 1, (0,), 0, 10, 15, 5),)),
    ]
    journal = bytearray(MAGIC + encode(header) + b"".join(map(encode, steps[:1])))
    core = core_of(run, costs, Waking(0), None, bytearray())
    assert catch_up(core, bytes(journal))[0] == Restart(
        now_ns=0, rounds_J=(0,), arrived_J=(True,), ended_J=(False,), wakes_ns=(10,)
    )
    core = core_of(run, costs, Waking(0), None, bytearray())
    woken = bytes(journal) + encode(steps[1])
    assert catch_up(core, woken)[0].wakes_ns == ()
    assert go(run, costs, Waking(0), journal, Disk(), None)
    assert read_history(bytes(journal)).finish_ns_J[0] > 0
