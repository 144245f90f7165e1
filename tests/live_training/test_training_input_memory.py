"""Processes of a host share its memory by a table, and an app that does not fit is refused."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from processes import wait_until
from torch import nn

from warren.live.process.linux import return_freed_memory
from warren.live.process.memory_limit import _data_bytes
from warren.live.process.time_limit import size_text
from warren.live.training.input_data.host_memory import HostBudget, HostMemoryTable, own_bytes
from warren.live.training.input_data.input_memory import InputMemory, let_go
from warren.live.training.input_data.memory_shares import MemoryUse
from warren.live.training.input_data.spilled_data import SpilledData
from warren.live.training.tensor_layout import Layout
from warren.model.errors import InputDataError

MB = 10**6
ITEMS = np.arange(50)
_LIBC = ctypes.CDLL(None)
_LIBC.malloc.restype = ctypes.c_void_p
_LIBC.free.argtypes = (ctypes.c_void_p,)


def budget(folder: Path, budget_bytes: int, ratio: float | None = None) -> HostBudget:
    """A budget with a table in a folder."""
    return HostBudget(
        table=str(folder / "table"),
        host="h-0",
        stated_bytes=budget_bytes,
        budget_bytes=budget_bytes,
        disk_ratio=ratio,
    )


def taken_bytes() -> int:
    """What this process counts for."""
    return own_bytes() + own_bytes(os.getppid())


def left_mb(says: str) -> float:
    """What a refusal says is left, in MB."""
    found = re.search(r"more than the ([0-9.]+) MB that are left on host h-0", says)
    assert found is not None
    return float(found[1])


def in_child(act: Callable[[], object]) -> int:
    """Let another process act, and wait until it has; it stays until it is killed."""
    ready, say = os.pipe()
    pid = os.fork()
    if not pid:
        gc.freeze()  # as in a zygote: to look through what is there would copy it
        try:
            act()
            os.write(say, b"x")
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(say)
    assert os.read(ready, 1) == b"x"
    os.close(ready)
    return pid


def end(pid: int) -> None:
    """Kill another process."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def fill(path: str, use: MemoryUse) -> HostMemoryTable:
    """Take a row."""
    table = HostMemoryTable(path)
    with table.open():
        table.put(use)
    return table


def test_a_row_lives_as_long_as_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    theirs = MemoryUse(fixed_bytes=7, data_bytes=9, held_bytes=3, wants_bytes=1, stop_ppm=5)
    kept: list[object] = []
    pid = in_child(lambda: kept.append(fill(path, theirs)))
    try:
        table = fill(path, MemoryUse(fixed_bytes=2, builds=True))
        with table.open() as (own, others):
            assert (own, others) == (MemoryUse(fixed_bytes=2, builds=True), [theirs])
    finally:
        end(pid)
    with table.open() as (_, others):
        assert others == []
    table.close()


def refused(folder: Path) -> tuple[str, int, str]:
    """What an app is told that takes ever more memory, what it had taken, and what was stated."""
    whole = budget(folder, taken_bytes() + 100 * MB)
    inputs = InputMemory(whole, str(folder))
    limit, before = resource.getrlimit(resource.RLIMIT_DATA), _data_bytes()
    taken: list[torch.Tensor] = []
    with pytest.raises(InputDataError) as raised, inputs.building():
        # The heap may have free places for some of them, which are the process's already.
        taken.extend(torch.empty(50 * MB, dtype=torch.uint8) for _ in range(200))
    grown_bytes = _data_bytes() - before
    # The limit is gone with the build.
    assert resource.getrlimit(resource.RLIMIT_DATA) == limit
    return str(raised.value), grown_bytes, size_text(whole.stated_bytes)


def test_an_app_that_takes_more_than_is_left_is_refused_with_the_numbers(tmp_path: Path) -> None:
    # Not here: where the C library was refused memory, it looks for it elsewhere ever after. Nor in
    # a fork, which copies pages of this process as it goes on.
    act = "print(json.dumps(there.refused(pathlib.Path(sys.argv[1]))))"
    program = f"import json, pathlib, sys, {Path(__file__).stem} as there; {act}"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.check_output([sys.executable, "-c", program, tmp_path], env=paths, text=True)
    says, grown_bytes, stated = json.loads(said)
    assert 90 < left_mb(says) < 105
    assert grown_bytes <= 105 * MB
    assert f"of {stated} (cluster file, hosts[].memory)" in says


def test_an_app_is_refused_where_other_processes_leave_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    kept: list[object] = []
    pid = in_child(lambda: kept.append(fill(path, MemoryUse(fixed_bytes=95 * MB))))
    inputs = InputMemory(budget(tmp_path, taken_bytes() + 100 * MB), str(tmp_path))
    try:
        with pytest.raises(InputDataError) as raised:
            inputs.building().__enter__()
    finally:
        end(pid)
    assert left_mb(str(raised.value)) < 10


def test_an_error_of_the_app_stays_what_it_is(tmp_path: Path) -> None:
    inputs = InputMemory(budget(tmp_path, 10**10), str(tmp_path))
    with pytest.raises(RuntimeError, match="wrong shape"), inputs.building():
        raise RuntimeError("wrong shape")


@pytest.fixture(params=[False, True], ids=["wherever", "in the heap"])
def in_heap(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the next large tensor is known to lie where others were freed, in the heap."""
    return_freed_memory()
    if not request.param:
        yield False
        return
    # Too small for mappings of their own. First they fill what is free here and there, however the
    # heap looks after other tests; those that lie side by side are one free place when all but the
    # last, which keeps that in the heap, are freed.
    pieces: list[int] = []
    side_by_side = 0
    while side_by_side < 400 and len(pieces) < 10_000:
        pieces.append(_LIBC.malloc(100_000))
        last = pieces[-2:]
        side_by_side = side_by_side + 1 if 0 < last[-1] - last[0] < 100_100 else 0
    for piece in pieces[:-1]:
        _LIBC.free(ctypes.c_void_p(piece))
    yield True
    _LIBC.free(ctypes.c_void_p(pieces[-1]))


def is_mapping(tensor: torch.Tensor) -> bool:
    """Whether the C library has made a mapping for a tensor alone: it notes so before it."""
    return bool(ctypes.c_size_t.from_address(tensor.data_ptr() - 8).value & 2)


@pytest.mark.parametrize("kind", ["own", "reshaped", "slice"])
def test_spilled_memory_goes_back_to_the_system_though_the_app_keeps_its_tensors(
    tmp_path: Path, kind: str, in_heap: bool
) -> None:
    shape = (30_000, 1000) if kind != "reshaped" else (30 * MB,)
    rows = torch.ones(shape, dtype=torch.uint8)
    assert not (in_heap and is_mapping(rows))
    app_keeps = [rows] if kind != "slice" else []
    # What a view was made from is kept by the view itself.
    rows = rows.view(30_000, 1000) if kind == "reshaped" else rows
    rows = rows[:25_000] if kind == "slice" else rows
    data = rows, torch.arange(len(rows))
    before = own_bytes()
    inputs = InputMemory(HostBudget(disk_ratio=1.0), str(tmp_path))
    reader = inputs.spill(data)
    assert before - own_bytes() > 25 * MB
    assert reader is not None
    x, y = reader.take((0, 0), ITEMS)
    assert torch.equal(data[0][ITEMS], x)
    assert all(torch.equal(one.view(-1, 1000)[ITEMS], x) for one in app_keeps)
    assert y.tolist() == ITEMS.tolist()
    reader.close()


@pytest.mark.parametrize("kind", ["other view", "whole"])
def test_data_that_the_app_keeps_in_other_tensors_stay_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    whole = torch.arange(400_000.0).view(-1, 100)
    data = whole[:3900]
    app_keeps = whole if kind == "whole" else whole[1:]
    del whole
    expected, place = app_keeps.clone(), data.data_ptr()
    inputs = InputMemory(HostBudget(disk_ratio=1.0), str(tmp_path))
    assert inputs.spill(data) is None
    assert data.data_ptr() == place
    assert torch.equal(data, torch.arange(390_000.0).view(-1, 100))
    assert torch.equal(app_keeps, expected)
    said = "input data stay in memory: the app keeps them in other tensors too\n"
    assert capsys.readouterr().out == said


def test_of_several_tensors_those_that_are_free_go(tmp_path: Path) -> None:
    data = torch.ones(4000, 100), torch.arange(80_000.0).view(4000, 20)
    app_keeps = data[1].view(-1, 1)
    assert let_go(SpilledData(data, str(tmp_path)))
    assert torch.equal(data[1].view(-1), app_keeps.view(-1))


@pytest.mark.parametrize("ratio", [None, 0.25])
def test_a_process_alone_takes_what_it_may(tmp_path: Path, ratio: float | None) -> None:
    inputs = InputMemory(budget(tmp_path, 10**10, ratio), str(tmp_path))
    with inputs.building():
        reader = inputs.spill(torch.ones(8000, 1000))
    assert reader is not None
    data = inputs._data
    assert data is not None
    wanted = data.total_bytes * (1 - (ratio or 0))
    assert wait_until(lambda: data.held_bytes >= wanted - data.block_bytes)
    assert wanted - data.block_bytes <= data.held_bytes <= wanted
    with inputs.building():  # anew: what was held is forgotten
        assert inputs._data is None


def test_what_the_thread_meets_is_reported_by_the_next_task(tmp_path: Path) -> None:
    inputs = InputMemory(HostBudget(disk_ratio=1.0), str(tmp_path))
    reader = inputs.spill(torch.ones(8000, 100))
    assert reader is not None
    assert inputs._data is not None
    os.pwrite(inputs._data.file._fd, b"damage", 400 * 7)
    reader.ahead((0, 0), ITEMS)
    with pytest.raises(InputDataError, match="item 7 is not what was written"):
        reader.take((0, 0), ITEMS)
    reader.close()


def test_who_is_to_build_again_lets_go_before_it_waits_for_its_turn(tmp_path: Path) -> None:
    inputs = InputMemory(budget(tmp_path, 10**10), str(tmp_path))
    with inputs.building():
        inputs.spill(torch.ones(8000, 100))
    assert inputs._data is not None
    data = inputs._data
    assert wait_until(lambda: data.held_bytes)
    began, say = os.pipe()
    pid = os.fork()
    if not pid:
        # It builds, and waits for all that others hold.
        table = HostMemoryTable(str(tmp_path / "table"))
        with table.building():
            os.write(say, b"x")
            for _ in range(1000):
                with table.open() as (_, others):
                    if not any(other.held_bytes for other in others):
                        os._exit(0)
                time.sleep(0.01)
        os._exit(1)
    assert os.read(began, 1) == b"x"
    with inputs.building():
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def went_to_disk(folder: Path, *, later: bool) -> list[object]:
    """What a process says whose model has no room in memory, at once or only later on."""
    inputs = InputMemory(budget(folder, taken_bytes() + 300 * MB), str(folder))
    layout = Layout.of(nn.Linear(1000, 5000))
    found: list[object] = []
    taken = []
    try:
        with inputs.building():
            if later:
                inputs.reserve(layout, 100, may_spill=True)
            else:
                taken.extend(torch.empty(50 * MB, dtype=torch.uint8) for _ in range(200))
    except InputDataError as error:
        taken.clear()
        found += [inputs.spill_model(error), inputs.spill_model(error)]
        # No other process of the host has its turn in between.
        found.append(other_may_build(folder))
    with inputs.building():
        assert inputs.disk is not None
        ones = torch.ones(100 * MB, dtype=torch.uint8)
        found.append(inputs.disk.like(ones).numel())
        inputs.reserve(layout, 100, may_spill=True)
    return [*found, other_may_build(folder)]


def other_may_build(folder: Path) -> bool:
    """Whether another process of the host may build now."""
    pid = os.fork()
    if not pid:
        fd = os.open(folder / "table", os.O_RDWR)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("later", [False, True], ids=["now", "later"])
def test_a_model_without_room_in_memory_goes_to_disk_in_the_same_turn(
    tmp_path: Path, later: bool
) -> None:
    said = tmp_path / "said"
    # Not here: it changes how the C library finds memory.
    end(in_child(lambda: said.write_text(json.dumps(went_to_disk(tmp_path, later=later)))))
    assert json.loads(said.read_text()) == [True, False, False, 100 * MB, True]


def test_a_model_stays_in_memory_where_the_cluster_file_says_so(tmp_path: Path) -> None:
    stays = replace(budget(tmp_path, taken_bytes() + MB), model_on_disk=False)
    inputs = InputMemory(stays, str(tmp_path))
    with pytest.raises(InputDataError) as raised:
        inputs.building().__enter__()
    assert not inputs.spill_model(raised.value)


def test_data_larger_than_memory_are_read_from_a_file_of_the_app(tmp_path: Path) -> None:
    """``torch.from_file`` maps them, so that no build takes them whole."""
    size = 200 * MB
    path = tmp_path / "data"
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(7000)
        file.write(b"x" * 1000)

    def build() -> list[object]:
        inputs = InputMemory(budget(tmp_path, taken_bytes() + 120 * MB), str(tmp_path))
        with inputs.building():
            data = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)
            rows = data.view(-1, 1000)
            reader = inputs.spill(rows)
        assert reader is not None
        batch = reader.take((0, 0), np.array([6, 7]))
        reader.close()
        return [batch.sum(1).tolist(), own_bytes() < 120 * MB]

    said = tmp_path / "said"
    end(in_child(lambda: said.write_text(json.dumps(build()))))
    assert json.loads(said.read_text()) == [[0, 1000 * ord("x")], True]
