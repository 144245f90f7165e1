"""A journal ends with what passed the links where the port counted it, and is else as ever."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from core_faults import Cut, Disk, FaultyPort, Trouble
from journal_replay import replay

from warren.core.journal import LinksUsed, encode, links_used
from warren.core.journal_reader import History, decode, read_history
from warren.core.loop import Core
from warren.core.resume import catch_up
from warren.model.costs import CostTable
from warren.model.errors import JournalError
from warren.model.link_use import LinkUse, LinkUseRecorder
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

COLUMNS = ("link_R", "job_R", "class_R", "bin_R", "bytes_R")


class CountingPort(SimPort):
    """A simulation that says what passed its links."""

    def __init__(self, run: Run, costs: CostTable, use: LinkUse | None) -> None:
        super().__init__(run, costs)
        self._use = use

    def link_use(self) -> LinkUse | None:
        return self._use


def counted(count: int = 50) -> LinkUse:
    recorder = LinkUseRecorder(2)
    for k in range(count):
        recorder.add((k % 2 * 2, 3), k % 3, k % 8, k * 10**7, k * 10**7 + 10**8, 1e5 + k)
    return recorder.use()


def journal_of(use: LinkUse | None, place: str = "srtf", compiled: bool = True) -> bytes:
    run, costs = worlds.random_world(1, jobs=3, devices=2)
    journal = bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy(place), port=CountingPort(run, costs, use),
        sink=journal.extend, world="sim", compiled=compiled,
    )  # fmt: skip
    core.execute()
    return bytes(journal)


def same(one: LinkUse | None, other: LinkUse) -> bool:
    assert one is not None
    return (one.bin_ns, one.since_ns) == (other.bin_ns, other.since_ns) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS
    )


@pytest.mark.parametrize(("place", "compiled"), [("srtf", True), ("hare", True), ("hare", False)])
def test_the_last_record_is_what_passed_the_links_and_all_before_it_is_as_without(
    place: str, compiled: bool
) -> None:
    plain, longer = journal_of(None, place, compiled), journal_of(counted(), place, compiled)
    assert longer.startswith(plain)
    assert longer[len(plain) :] == encode(links_used(counted()))
    assert read_history(plain).link_use is None
    assert same(read_history(longer).link_use, counted())


def test_nothing_that_passed_is_a_record_too() -> None:
    none = LinkUseRecorder(2).use()
    assert same(read_history(journal_of(none)).link_use, none)


def test_all_else_is_read_as_if_the_record_were_not_there() -> None:
    run, costs = worlds.random_world(1, jobs=3, devices=2)
    plain, longer = journal_of(None), journal_of(counted())
    assert _without_use(read_history(longer)) == _without_use(read_history(plain))
    before, after = (replay(one, run, costs) for one in (plain, longer))
    assert np.array_equal(before.round_J, after.round_J)
    assert before.now_ns == after.now_ns


def _without_use(history: History) -> list[Any]:
    line = history.timeline
    return [history.header, history.rounds, line.job_R.tolist(), line.end_ns_R.tolist()]


def test_cut_within_the_record_the_journal_is_that_of_the_run_without_it() -> None:
    plain, longer = journal_of(None), journal_of(counted())
    for size in (len(plain) + 1, (len(plain) + len(longer)) // 2, len(longer) - 1):
        assert read_history(longer[:size]).link_use is None
        assert list(decode(longer[:size])) == list(decode(plain))


def test_a_damaged_length_before_the_record_is_found() -> None:
    plain, longer = journal_of(None), bytearray(journal_of(counted()))
    last = encode(list(decode(plain))[-1])
    longer[len(plain) - len(last) + 3] ^= 0x40
    with pytest.raises(JournalError, match="damaged length"):
        list(decode(bytes(longer)))


@pytest.mark.parametrize(
    "change",
    [
        {"bin_ns": 0},
        {"job_R": np.full(3, 3)},
        {"job_R": np.array([0, -1, 0])},
        {"bytes_R": np.array([1, 2, -3])},
        {"link_R": np.zeros(2, dtype=np.int64)},
    ],
)
def test_columns_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    column = np.zeros(3, dtype=np.int64)
    use = LinkUse(1, column, column, column, column, column)
    assert read_history(journal_of(use)).link_use is not None
    with pytest.raises(JournalError, match="does not fit its header"):
        read_history(journal_of(msgspec.structs.replace(use, **change)))


def test_a_record_of_other_columns_is_refused() -> None:
    record = links_used(counted())
    wrong = LinksUsed(record.bin_ns, 0, record.columns[:4])
    with pytest.raises(JournalError, match="does not fit its header"):
        read_history(journal_of(None) + encode(wrong))


class CountingFaults(FaultyPort):
    """A world that is cut off, and says what passed its links."""

    def link_use(self) -> LinkUse:
        return counted()


def test_a_run_that_went_on_says_since_when_its_bytes_are_counted() -> None:
    run, costs = worlds.random_world(3, jobs=5, devices=3)
    journal, disk = bytearray(), Disk()

    def core(cut_at: int | None) -> Core:
        port = CountingFaults(run, costs, Trouble(seed=1, rate=0.0), disk, cut_at)
        made = Core(
            run=run, costs=costs, policy=place_policy("srtf"), port=port,
            sink=journal.extend, world="live", check=True,
        )  # fmt: skip
        restart, size = catch_up(made, bytes(journal))
        del journal[size:]
        port.resume(restart)
        return made

    with pytest.raises(Cut):
        core(25).execute()
    assert read_history(bytes(journal)).link_use is None
    cut_ns = replay(bytes(journal), run, costs).now_ns
    core(None).execute()
    use = read_history(bytes(journal)).link_use
    assert use is not None
    assert use.since_ns == cut_ns > 0
    # A run that is over can be led to its end once more.
    size = len(journal)
    assert core(None).state.done_J.all()
    assert len(journal) == size
