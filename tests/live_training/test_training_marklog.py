"""The log of marks: what was appended is there after any death, and nothing else is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn
from training_bench import Points, a_job, serve, whole

from warren.live.training.helpers import Helpers
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import HashLog, differing, marks_of
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import Layout
from warren.model.errors import SpecError


def marks(seed: int) -> bytes:
    return bytes((seed + index) % 256 for index in range(12))


def filled(path: Path, rounds: int = 3) -> HashLog:
    log = HashLog(path, 2)
    log.load()
    for round_no in range(rounds):
        for shard in range(2):
            log.append(round_no, shard, marks(10 * round_no + shard))
    return log


def again(path: Path, entries: int = 2) -> HashLog:
    log = HashLog(path, entries)
    log.load()
    return log


def test_a_log_is_found_again_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "job" / "marks"
    filled(path).close()
    log = again(path)
    assert log.expected(2, 1) == marks(21)
    assert log.expected(3, 0) is None
    log.append(3, 0, marks(30))
    size = path.stat().st_size
    log.append(3, 0, marks(30))
    assert path.stat().st_size == size, "the same again is one record"
    log.close()
    assert again(path).expected(3, 0) == marks(30)


def test_a_torn_tail_is_cut_off_and_the_rest_counts(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    filled(path).close()
    data = path.read_bytes()
    record = (len(data) - 12) // 6
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        log = again(path)
        known = [log.expected(index // 2, index % 2) is not None for index in range(6)]
        assert sum(known) == max(0, end - 12) // record
        assert known == sorted(known, reverse=True)
        log.append(9, 9, marks(99))
        log.close()
        assert again(path).expected(9, 9) == marks(99)


def test_a_flipped_bit_ends_the_log_there(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    filled(path).close()
    data = bytearray(path.read_bytes())
    data[12 + 2 * ((len(data) - 12) // 6) + 15] ^= 1
    path.write_bytes(data)
    log = again(path)
    assert [log.expected(index // 2, index % 2) is not None for index in range(4)] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_file_of_another_layout_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    filled(path).close()
    log = again(path, entries=3)
    assert log.expected(0, 0) is None
    log.append(0, 0, bytes(16))
    log.close()
    assert again(path, entries=3).expected(0, 0) == bytes(16)
    path.write_bytes(b"something else that is long enough to be a header")
    assert again(path).expected(0, 0) is None


def test_earlier_rounds_are_forgotten_on_disk_too(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    log = filled(path)
    size = path.stat().st_size
    log.forget_before(2)
    assert path.stat().st_size < size / 2
    log.append(3, 0, marks(30))
    for one in (log, again(path)):
        assert one.expected(1, 1) is None
        assert (one.expected(2, 0), one.expected(3, 0)) == (marks(20), marks(30))
    assert os.listdir(tmp_path) == ["marks"]
    log.close()
    HashLog(tmp_path / "new" / "marks", 2).forget_before(3)
    assert again(tmp_path / "new" / "marks").expected(3, 0) is None


@pytest.mark.live
def test_what_was_appended_survives_the_death_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    child = os.fork()
    if not child:
        filled(path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert again(path).expected(2, 1) == marks(21)


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left.*marks"):
        HashLog(path, 2).append(0, 0, marks(0))


def test_marks_name_the_tensor_that_differs() -> None:
    job = a_job()
    store, runner = ParameterStore(Points(), job), TaskRunner(Points(), job)
    one = runner.run(whole(store), 0, 0)
    other = runner.run(whole(store), 0, 1)
    assert differing(runner.layout, one.marks, one.marks) == ()
    assert differing(runner.layout, one.marks, other.marks) == ("weight", "bias")
    mixed = one.marks[:8] + other.marks[8:]
    assert differing(runner.layout, one.marks, mixed) == ("bias",)
    assert differing(runner.layout, one.marks, other.marks[:4] + one.marks[4:]) == ()


def test_threads_give_the_marks_that_one_gives() -> None:
    torch.manual_seed(1)
    layout = Layout.of(nn.Sequential(nn.Linear(1500, 1500), *(nn.Linear(9, 9) for _ in range(40))))
    update = torch.randint(0, 256, (layout.total_bytes,), dtype=torch.uint8).numpy()
    one = marks_of(layout, 0.5, b"\1", update)
    helpers = Helpers(3)
    assert marks_of(layout, 0.5, b"\1", update, helpers) == one
    update[layout.entries[7].offset] ^= 1
    changed = marks_of(layout, 0.5, b"\1", update, helpers)
    assert differing(layout, one, changed) == (layout.entries[7].name,)


def test_a_task_that_was_computed_in_an_earlier_life_must_repeat_its_bits(tmp_path: Path) -> None:
    job = a_job(scale=2)
    first, runner = ParameterStore(Points(), job), TaskRunner(Points(), job)
    result = runner.run(whole(first), 0, 0)
    log = HashLog(tmp_path / "marks", len(first.layout.entries))
    log.append(0, 0, result.marks)
    store = ParameterStore(Points(), job)
    store.known.expected = again(tmp_path / "marks", len(first.layout.entries)).expected
    store.add(1, runner.run(whole(store), 0, 1))
    with pytest.raises(SpecError, match=r"task 0 of round 0 ran twice, tensor 'weight' differs"):
        store.add(0, runner.run(whole(store), 0, 1))
    store.add(0, result)
    assert store.results.complete


def test_other_bits_after_the_round_of_a_checkpoint_may_come_of_what_it_lacks() -> None:
    """In its own round all ranks and servers begin with the same bytes, so it is the task."""
    job = a_job(scale=1)
    first, _ = serve(Points, job, stop_at=2)
    saved, runner = bytes(first.checkpoint_part()), TaskRunner(Points(), job)
    store = ParameterStore(Points(), job)
    store.known.expected = lambda round_no, shard: bytes(4 * (1 + len(store.layout.entries)))
    store.restore([saved])
    told = []
    for round_no in (2, 3):
        with pytest.raises(SpecError, match="app is not deterministic: task 0") as found:
            store.known.check(round_no, 0, runner.run(whole(store), round_no, 0).marks)
        told.append("since round 2 the job goes on from a copy of its state" in str(found.value))
    assert told == [False, True]


def test_a_task_of_the_last_round_is_compared_until_it_is_forgotten() -> None:
    job = a_job(scale=1)
    store, runner = ParameterStore(Points(), job), TaskRunner(Points(), job)
    with pytest.raises(ValueError, match="before version 0 is not kept"):
        store.previous_state()
    state = whole(store)
    result, other = runner.run(state, 0, 0), runner.run(state, 1, 0)
    store.add(0, result)
    store.step()
    store.conclude()
    assert b"".join(store.previous_state()) == state
    store.known.check(0, 0, result.marks)
    with pytest.raises(SpecError, match="task 0 of round 0 ran twice"):
        store.known.check(0, 0, other.marks)
    store.forget_previous()
    store.known.check(0, 0, other.marks)
    with pytest.raises(ValueError, match="before version 1 is not kept"):
        store.previous_state()


def test_a_loss_that_differs_alone_is_reported_so() -> None:
    store, _ = serve(Points, a_job(scale=1), stop_at=1)
    result = TaskRunner(Points(), a_job(scale=1)).run(whole(store), 1, 0)
    store.add(0, result)
    with pytest.raises(SpecError, match="only its loss or its mask differs"):
        store.known.check(1, 0, b"\0\0\0\0" + result.marks[4:])
