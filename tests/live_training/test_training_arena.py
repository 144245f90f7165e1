"""Memory shared by processes: what one writes the other reads, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from warren.live.training.memory.shared_arena import Arena
from warren.live.transport.message import SharedSlot

pytestmark = pytest.mark.live

OTHER = """
import sys
from warren.live.training.memory.shared_arena import Arena
from warren.live.transport.message import SharedSlot
arena = Arena.open(SharedSlot(sys.argv[1], int(sys.argv[2]), 100, 2, 0))
slot = arena.slot(1)
print(bytes(slot[:5]).decode(), flush=True)
slot[:5] = b"heard"
print("written", flush=True)
sys.stdin.read()
"""
CREATOR = """
import sys
from warren.live.training.memory.shared_arena import Arena
arena = Arena.create(1 << 20, 4)
arena.slot(0)[:4] = b"here"
spot = arena.spot(0)
print(spot.path, spot.serial, flush=True)
sys.stdin.read()
"""


def start(code: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *args]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def held() -> tuple[int, int]:
    """Open files and mapped arenas of this process."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return len(os.listdir("/proc/self/fd")), sum("warren-arena" in row for row in maps)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = held()
    yield
    assert held() == before


def test_two_processes_see_the_same_bytes() -> None:
    arena = Arena.create(100, 2)
    arena.slot(1)[:5] = b"hello"
    child = start(OTHER, arena.path, str(arena.spot(0).serial))
    assert (line(child), line(child)) == ("hello", "written")
    assert bytes(arena.slot(1)[:6]) == b"heard\0"
    assert bytes(arena.slot(0)) == bytes(100)
    end(child)
    arena.close()


@pytest.mark.parametrize("slot_bytes", [0, 1, 64, 100, 4097])
def test_slots_have_their_size_begin_aligned_and_do_not_overlap(slot_bytes: int) -> None:
    arena = Arena.create(slot_bytes, 3)
    for index in range(3):
        slot = arena.slot(index)
        assert (slot.nbytes, slot.readonly) == (slot_bytes, False)
        if slot_bytes:
            assert np.frombuffer(slot, np.uint8).ctypes.data % 64 == 0
        slot[:] = bytes([index + 1]) * slot_bytes
    assert all(bytes(arena.slot(i)) == bytes([i + 1]) * slot_bytes for i in range(3))
    del slot
    arena.close()
    arena.close()


def test_no_slot_outside_the_arena_nor_after_its_close() -> None:
    arena = Arena.create(10, 2)
    for index in (-1, 2):
        with pytest.raises(ValueError, match=f"no slot {index} in an arena of 2"):
            arena.slot(index)
    arena.close()
    with pytest.raises(ValueError, match="or it is closed"):
        arena.slot(0)


def test_a_view_outlives_the_close_and_then_the_memory_goes() -> None:
    _, before = held()
    arena = Arena.create(100, 2)
    view = arena.slot(0)[10:20]
    view[:] = b"0123456789"
    arena.close()
    assert bytes(view) == b"0123456789"
    assert held()[1] == before + 1
    del view
    assert held()[1] == before


def test_another_size_and_a_closed_arena_are_refused() -> None:
    arena = Arena.create(100, 2)
    with pytest.raises(ValueError, match="not 3 slots of 100"):
        Arena.open(replace(arena.spot(0), slots=3))
    spot = arena.spot(0)
    with pytest.raises(ValueError, match="is not the memory that is meant"):
        Arena.open(replace(spot, serial=spot.serial + 1))
    arena.close()
    with pytest.raises(OSError, match="No such file"):
        Arena.open(spot)


def test_the_death_of_either_side_leaves_the_other_its_memory_and_then_nothing() -> None:
    creator = start(CREATOR)
    path, serial = line(creator).split()
    spot = SharedSlot(path, int(serial), 1 << 20, 4, 0)
    arena = Arena.open(spot)
    os.kill(creator.pid, signal.SIGKILL)
    creator.communicate()
    assert bytes(arena.slot(0)[:4]) == b"here"
    arena.slot(3)[-1] = 7
    with pytest.raises(OSError, match="No such file"):
        Arena.open(spot)
    arena.close()

    arena = Arena.create(100, 2)
    arena.slot(1)[:5] = b"hello"
    child = start(OTHER, arena.path, str(arena.spot(0).serial))
    assert line(child) == "hello"
    assert line(child) == "written"
    end(child)
    second = start(OTHER, arena.path, str(arena.spot(0).serial))
    assert line(second) == "heard", "a successor finds what was written"
    end(second)
    arena.close()


def refuse(*_: object, **__: object) -> int:
    raise PermissionError(1, "refused")


def test_without_nameless_memory_a_file_is_unlinked_once_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(OSError, match="refused by this system"):
        Arena.create(100, 2)
    arena = Arena.create(100, 2, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    other = Arena.open(arena.spot(0))
    other.slot(1)[:2] = b"ok"
    assert bytes(arena.slot(1)[:2]) == b"ok"
    other.close()
    arena.close()


def test_without_a_look_into_proc_the_file_keeps_its_name_until_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = os.open

    def hidden(path: str, *rest: int, **named: int) -> int:
        return refuse() if str(path).startswith("/proc/") else opens(path, *rest, **named)

    monkeypatch.setattr(os, "open", hidden)
    arena = Arena.create(100, 2, str(tmp_path))
    assert list(tmp_path.iterdir()) == [Path(arena.path)]
    other = Arena.open(arena.spot(0))
    other.slot(1)[:2] = b"ok"
    assert bytes(arena.slot(1)[:2]) == b"ok"
    other.close()
    arena.close()
    assert list(tmp_path.iterdir()) == []


def test_memory_that_cannot_be_had_leaves_no_open_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(PermissionError):
        Arena.create(100, 2)


def test_memory_opened_for_reading_cannot_be_written_and_a_relay_outlives_its_maker() -> None:
    arena = Arena.create(100, 2)
    arena.slot(1)[:4] = b"read"
    relay = Arena.open(arena.spot(1), read_only=True, relay=True)
    plain = Arena.open(arena.spot(1), read_only=True)
    with pytest.raises(TypeError, match="read-only"):
        relay.slot(1)[0] = 1
    assert plain.path == arena.path != relay.path
    arena.close()
    second = Arena.open(relay.spot(1))
    assert bytes(second.slot(1)[:4]) == b"read"
    relay.close()
    with pytest.raises(OSError, match="No such file"):
        Arena.open(relay.spot(1))
    second.close()
    plain.close()
