"""Checkpoints on disk: old or new, never torn, whatever fails and whenever."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from training_bench import Points, a_job, drive, drive_split

from warren.live.oracle.plain import train
from warren.live.server.checkpoint_schedule import CheckpointSchedule
from warren.live.training.checkpoints.files import (
    latest_round,
    load_parts,
    prune,
    publish,
    save_part,
    write_whole,
)
from warren.live.training.parameter_store import ParameterStore
from warren.model.errors import SpecError, WarrenError


def save(folder: Path, round_no: int, *parts: bytes) -> None:
    for part, data in enumerate(parts):
        save_part(folder, round_no, part, data)
    publish(folder, round_no, len(parts))


def test_what_was_saved_comes_back_from_the_newest_round(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "job"
    assert latest_round(folder) == 0
    save(folder, 4, b"four", b"")
    save(folder, 10, b"ten" * 1000, memoryview(b"tail"), bytearray(b"x"))  # type: ignore[arg-type]
    assert latest_round(folder) == 10
    assert load_parts(folder, 10) == [b"ten" * 1000, b"tail", b"x"]
    assert load_parts(folder, 4) == [b"four", b""]
    assert [latest_round(folder, at_most) for at_most in (10, 9, 4, 3)] == [10, 4, 4, 0]


def test_parts_without_a_note_are_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 4, b"four")
    save_part(tmp_path, 8, 0, b"eight")
    assert latest_round(tmp_path) == 4
    with pytest.raises(WarrenError, match="has no checkpoint of round 8"):
        load_parts(tmp_path, 8)
    publish(tmp_path, 8, 1)
    save_part(tmp_path, 8, 0, b"eight again")
    assert latest_round(tmp_path) == 4, "parts that change are no checkpoint until it is published"


def test_pruning_leaves_two_and_what_is_still_needed(tmp_path: Path) -> None:
    (tmp_path / "marks.0-of-1").write_bytes(b"not a checkpoint")

    def left() -> list[int]:
        return [
            round_no for round_no in (2, 4, 6, 8) if latest_round(tmp_path, round_no) == round_no
        ]

    for round_no in (2, 4, 6, 8):
        save(tmp_path, round_no, b"a", b"b")
        prune(tmp_path, 2)
    (tmp_path / "2-7.part.new").write_bytes(b"a process died here")
    assert left() == [2, 4, 6, 8]
    prune(tmp_path, 4)
    assert left() == [4, 6, 8]
    prune(tmp_path, 100)
    assert left() == [6, 8]
    assert sorted(os.listdir(tmp_path)) == [
        "6-0.part", "6-1.part", "6.json", "8-0.part", "8-1.part", "8.json", "marks.0-of-1",
    ]  # fmt: skip
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    save(tmp_path, 2, b"a")
    prune(tmp_path, 100)
    assert latest_round(tmp_path) == 2, "the only one stays"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "cut": cut,
    "flipped": flip,
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "deep JSON": lambda path: path.write_text("[" * 4000),
    "large": lambda path: os.truncate(path, 1 << 40),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["8-0.part", "8-1.part", "8.json"])
def test_a_damaged_file_makes_the_one_before_count(tmp_path: Path, name: str, damage: str) -> None:
    save(tmp_path, 4, b"four")
    save(tmp_path, 8, os.urandom(3 << 20), b"eight")
    DAMAGE[damage](tmp_path / name)
    if (name, damage) == ("8.json", "cut"):
        return  # its last byte is the end of the line
    assert latest_round(tmp_path) == 4
    if name.endswith("part"):
        with pytest.raises((WarrenError, OSError), match=name):
            load_parts(tmp_path, 8)
    DAMAGE[damage](tmp_path / "4-0.part")
    assert latest_round(tmp_path) == 0


def test_a_checkpoint_of_another_round_or_job_makes_the_one_before_count_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for job, content in (("a", b"of a"), ("b", b"of b")):
        save(tmp_path / job, 4, content)
        save(tmp_path / job, 8, content, content)
    a, b = tmp_path / "a", tmp_path / "b"
    shutil.copy(b / "8-1.part", a / "8-1.part")
    assert latest_round(a) == 4
    with pytest.raises(WarrenError, match=r"8-1\.part is damaged"):
        load_parts(a, 8)
    for part in (0, 1):
        shutil.copy(b / f"8-{part}.part", b / f"9-{part}.part")
    publish(b, 9, 2)
    assert latest_round(b) == 8
    assert [record.getMessage() for record in caplog.records] == [
        f"{a}/8-1.part is damaged; an earlier checkpoint is used",
        f"{b}/9-0.part is damaged; an earlier checkpoint is used",
    ]


def test_a_server_does_not_begin_at_another_round_than_it_is_asked_for(tmp_path: Path) -> None:
    job = a_job()
    store = ParameterStore(Points(), job)
    drive(store, Points, job, stop_at=2)
    save(tmp_path, 5, bytes(store.checkpoint_part()))
    with pytest.raises(SpecError, match="checkpoint 5 holds round 2"):
        CheckpointSchedule(ParameterStore(Points(), job), job, str(tmp_path), 5, 0, 1)


def test_a_note_of_another_kind_does_not_count(tmp_path: Path) -> None:
    save(tmp_path, 4, b"four")
    for note in ("[]", "3", '{"format": 2, "round": 4, "parts": 1}', '{"round": 4}',
                 '{"format": 1, "round": 5, "parts": 1}', '{"format": 1, "round": 4, "parts": "x"}',
                 '{"format": 1, "round": 4, "parts": -1}',
                 '{"format": 1, "round": 4, "parts": 1e999}', "[" * 4000):  # fmt: skip
        (tmp_path / "4.json").write_text(note)
        assert latest_round(tmp_path) == 0, note
    (tmp_path / "4.json").write_text(json.dumps({"format": 1, "round": 4, "parts": 1}))
    assert latest_round(tmp_path) == 4


CALLS = ("makedirs", "open", "write", "fsync", "close", "replace", "unlink")


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[list[str]]:
    """Let call number ``at`` to the file system fail; gives the calls made."""
    made: list[str] = []

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            made.append(name)
            if len(made) == at + 1:
                if name == "close":
                    call(*args)
                if name == "write":  # a disk that fills up takes a part of it
                    call(args[0], args[1][: len(args[1]) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*args, **named)

        return run

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrapped(name, getattr(os, name)))
        yield made


def contents(folder: Path) -> list[bytes]:
    return load_parts(folder, latest_round(folder)) if latest_round(folder) else []


@pytest.mark.parametrize("again", [False, True])
def test_whatever_fails_the_checkpoint_is_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    old, new = [b"old" * 100, b"second" * 50], [b"new" * 200, b"other" * 70]
    seen = set()
    for at in count():
        folder = tmp_path / str(at)
        save(folder, 4, *old)
        if again:  # a round that was saved in an earlier life
            save(folder, 8, *new)
        fds, error = len(os.listdir("/proc/self/fd")), None
        with failing(monkeypatch, at) as calls:
            try:
                save(folder, 8, *new)
            except OSError as raised:
                error = raised
        if len(calls) <= at:
            break
        if error is not None:
            assert (error.errno, str(folder) in error.filename) == (errno.ENOSPC, True)
        assert contents(folder) in (old, new)
        assert len(os.listdir("/proc/self/fd")) == fds
        seen.add(latest_round(folder))
        prune(folder, 4)
        save(folder, 12, b"later")
        assert contents(folder) == [b"later"]
    assert set(calls) == set(CALLS)
    assert at > 20
    assert seen == {4, 8}


@pytest.mark.live
@pytest.mark.parametrize("at", range(12))
def test_a_process_that_is_killed_between_two_steps_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """As the last test, but nothing is tidied up: a new process finds what lies there."""
    save(tmp_path, 4, b"old")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        made = 0

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **named: Any) -> Any:
                nonlocal made
                made += 1
                if made == at + 1:
                    os._exit(0)
                return call(*args, **named)

            return run

        for name in CALLS:
            setattr(os, name, dying(getattr(os, name)))
        save(tmp_path, 8, b"new")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)
    assert contents(tmp_path) in ([b"old"], [b"new"])
    save(tmp_path, 8, b"new")
    prune(tmp_path, 8)
    assert contents(tmp_path) == [b"new"]


def test_every_file_of_a_checkpoint_is_on_disk_before_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a machine that stops may keep the note and not the part, or a name without bytes."""
    told: list[str] = []

    def name_of(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name

    def fsync(fd: int, call: Callable[[int], None] = os.fsync) -> None:
        size = os.fstat(fd).st_size if name_of(fd) != tmp_path.name else 0
        told.append(f"{name_of(fd)}: {size} bytes")
        call(fd)

    def replace(old: str, new: str, call: Callable[[str, str], None] = os.replace) -> None:
        told.append(f"{Path(old).name} -> {Path(new).name}")
        call(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    save_part(tmp_path, 4, 0, b"state")
    publish(tmp_path, 4, 1)
    sizes = [(tmp_path / name).stat().st_size for name in ("4-0.part", "4.json")]
    folder = f"{tmp_path.name}: 0 bytes"
    assert told == [
        f"4-0.part.new: {sizes[0]} bytes", "4-0.part.new -> 4-0.part", folder,
        f"4.json.new: {sizes[1]} bytes", "4.json.new -> 4.json", folder,
    ]  # fmt: skip


def test_a_disk_error_keeps_its_number_and_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileExistsError) as found:
        save_part(tmp_path / "file", 4, 0, b"data")
    assert found.value.filename.endswith("file")
    with pytest.raises(FileNotFoundError, match=r"4\.json"):
        publish(tmp_path / "none", 4, 1)
    write_whole(tmp_path / "a", b"1", b"2")
    assert (tmp_path / "a").read_bytes() == b"12"


def test_a_job_goes_on_from_disk_with_its_bits(tmp_path: Path) -> None:
    job = a_job(rounds=8)
    stores = [ParameterStore(Points(), job, part=part, parts=2) for part in range(2)]
    drive_split(stores, Points, job, stop_at=5)
    for part, store in enumerate(stores):
        save_part(tmp_path, 5, part, store.checkpoint_part())
    publish(tmp_path, 5, 2)
    other = ParameterStore(Points(), job)
    other.restore(load_parts(tmp_path, latest_round(tmp_path)))
    drive(other, Points, job)
    assert other.digest() == train(Points(), job).digest
