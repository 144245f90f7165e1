"""A model whose blocks are on disk has the bits that it has in memory, and takes a window of it."""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from training_bench import OPTIMIZERS, MixedApp, a_job, drive_split, mixed_job, serve_split

from warren.apps.protocol import TorchApp
from warren.live.process.linux import map_large_memory
from warren.live.training.checkpoints.files import load_parts, publish, save_part
from warren.live.training.memory import disk_memory
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import digest
from warren.model.errors import InputDataError, SpecError

MB = 1 << 20
_LIBC = ctypes.CDLL(None)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskMemory]:
    """Memory on disk for tensors of any size, that gives pages up often."""
    memory = DiskMemory(str(tmp_path), window_bytes=MB, least_bytes=1)
    yield memory
    memory.close()


def held_bytes(memory: DiskMemory) -> int:
    """Bytes of its files that are in main memory, mapped or not."""
    found = 0
    for one in memory._pieces:
        if one.memory() is not None:
            pages = np.zeros(-(-one.size_bytes // mmap.PAGESIZE), np.uint8)
            _LIBC.mincore(one.address, one.size_bytes, pages.ctypes.data)
            found += int((pages & 1).sum()) * mmap.PAGESIZE
    return found


class Layers(TorchApp):
    """A stack of square layers, and one that no round uses."""

    def __init__(self, count: int = 6, width: int = 512, clip: float | None = None) -> None:
        self.count, self.width, self.clip_norm = count, width, clip

    def model(self) -> nn.Module:
        layers = [nn.Linear(self.width, self.width) for _ in range(self.count)]
        return nn.ModuleDict({"used": nn.Sequential(*layers), "rest": nn.Linear(self.width, 3)})

    def dataset(self) -> Tensor:
        return torch.randn(40, self.width)

    def optimizer(self, named_parameters: list[tuple[str, nn.Parameter]]) -> optim.Optimizer:
        return optim.AdamW([one for _, one in named_parameters], lr=0.01)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        assert isinstance(model["used"], nn.Sequential)  # type: ignore[index]
        return (model["used"](batch) - batch).square().mean()  # type: ignore[index]


def test_memory_on_disk_keeps_its_content_when_its_pages_are_given_up(tmp_path: Path) -> None:
    memory = DiskMemory(str(tmp_path), window_bytes=1 << 40)
    drawn = torch.rand(8, MB)
    held = memory.like(drawn.t())
    assert held.stride() == drawn.t().stride()
    assert held_bytes(memory) >= 32 * MB
    memory.give_back()
    assert held_bytes(memory) == 0
    assert torch.equal(held, drawn.t())
    memory.close()


def test_a_window_of_pages_is_in_memory_at_most(tmp_path: Path) -> None:
    memory = DiskMemory(str(tmp_path), window_bytes=8 * MB)
    memory.close()  # no thread helps
    held = []
    for _ in range(20):
        held.append(memory.like(torch.ones(MB)))
        assert held_bytes(memory) < 32 * MB
    assert memory.total_bytes >= 80 * MB
    assert all(one.eq(1).all() for one in held)


def test_a_thread_gives_pages_up_that_code_reads_elsewhere(tmp_path: Path) -> None:
    memory = DiskMemory(str(tmp_path), window_bytes=4 * MB)
    held = memory.like(torch.ones(16 * MB))
    memory.give_back()
    assert held.eq(1).all()
    until_s = time.monotonic() + 30
    while held_bytes(memory) > 16 * MB and time.monotonic() < until_s:
        time.sleep(0.01)
    assert held_bytes(memory) <= 16 * MB
    memory.close()


def test_files_end_with_the_tensors_in_them(tmp_path: Path) -> None:
    memory = DiskMemory(str(tmp_path))
    open_before = len(os.listdir("/proc/self/fd"))
    held = memory.fresh(100 * MB)
    assert memory.total_bytes == 100 * MB
    assert os.listdir(tmp_path) == []  # without a name
    memory.fresh(MB)
    del held
    gc.collect()
    memory.give_back()
    assert memory.total_bytes < 100 * MB
    memory.close()
    del memory
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= open_before


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    memory = DiskMemory(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MB, hard))
    try:
        with pytest.raises(InputDataError, match=r"^its model cannot be written to \S+: File too"):
            memory.fresh(2 * MB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        memory.close()


def test_a_model_is_made_on_disk_tensor_by_tensor_with_the_same_bits(disk: DiskMemory) -> None:
    def made() -> nn.Module:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(9, 5), nn.LSTM(4, 3), nn.Conv2d(2, 2, 3)).double()
        model.register_parameter("drawn", nn.Parameter(torch.randn(7) * 2))
        model.register_parameter("tied", model[0].weight)
        return model

    expected = made()
    with disk.making():
        found = made()
    assert digest(found.state_dict()) == digest(expected.state_dict())
    assert all(disk.holds(one) for one in found.parameters())
    assert found.tied is found[0].weight


@pytest.mark.parametrize(("name", "parts"), [*((name, 1) for name in OPTIMIZERS), ("adam", 2)])
def test_jobs_have_the_same_bits_with_their_models_on_disk(
    name: str, parts: int, tmp_path: Path
) -> None:
    disk = DiskMemory(str(tmp_path), least_bytes=1)

    def make() -> MixedApp:
        return MixedApp(chosen=name)

    job = mixed_job(rounds=2)
    expected, outcomes = serve_split(make, job, parts)
    stores = [ParameterStore(make(), job, part=at, parts=parts, disk=disk) for at in range(parts)]
    assert drive_split(stores, make, job, disk=disk) == outcomes
    assert stores[0].digest() == expected.digest()
    assert bytes(stores[0].save()) == bytes(expected.save())
    disk.close()


class Coupled(optim.SGD):
    """An optimizer that may look at several tensors at once."""


def test_an_optimizer_that_may_couple_tensors_is_refused_by_name(disk: DiskMemory) -> None:
    class App(Layers):
        def optimizer(self, named_parameters: list[tuple[str, nn.Parameter]]) -> optim.Optimizer:
            return Coupled([one for _, one in named_parameters], lr=0.1)

    with pytest.raises(SpecError, match=r"Coupled is not known to step .* cannot be on disk"):
        ParameterStore(App(width=4), a_job(), disk=disk)


@pytest.mark.parametrize("scale", [1, 2])
def test_clipped_gradients_have_the_same_bits_on_disk(disk: DiskMemory, scale: int) -> None:
    def make() -> Layers:
        return Layers(count=3, width=20, clip=0.01)

    job = a_job(scale=scale, rounds=3)
    expected, _ = serve_split(make, job, 2)
    stores = [ParameterStore(make(), job, part=at, parts=2, disk=disk) for at in range(2)]
    drive_split(stores, make, job, disk=disk)
    assert stores[0].digest() == expected.digest()


def test_a_job_goes_on_from_its_checkpoint_with_its_model_on_disk(
    tmp_path: Path, disk: DiskMemory
) -> None:
    def make() -> Layers:
        return Layers(count=3, width=20)

    job = a_job(rounds=3)
    expected, _ = serve_split(make, job, 1)
    store = ParameterStore(make(), job, disk=disk)
    drive_split([store], make, job, stop_at=2, disk=disk)
    folder = tmp_path / "kept"
    save_part(folder, 2, 0, store.checkpoint_part(), forget=True)
    publish(folder, 2, 1)
    for one in (disk, None):  # where it goes on
        other = ParameterStore(make(), job, disk=one)
        other.restore(load_parts(folder, 2, one))
        drive_split([other], make, job, disk=one)
        assert other.digest() == expected.digest()


def test_state_gradients_and_updates_of_a_model_are_on_disk(disk: DiskMemory) -> None:
    job = a_job(scale=1, rounds=1)
    store = ParameterStore(Layers(width=20), job, disk=disk)
    drive_split([store], lambda: Layers(width=20), job, disk=disk)
    replica = store._replica
    kept = [
        value
        for state in replica.optimizer.state.values()
        for value in state.values()
        if value.numel() > 1
    ]
    assert len(kept) == 2 * 2 * 6
    assert all(disk.holds(one) for one in (*kept, *replica.model.parameters()))
    assert all(one.grad is None for one in replica.model.parameters())


def anonymous_bytes() -> int:
    """Anonymous memory of this process."""
    found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def grown(folder: str) -> list[int]:
    """Most anonymous memory and most pages of files that two rounds of a job take here."""
    gc.freeze()  # the pages of what is there already stay those of the parent
    map_large_memory(disk_memory.LEAST_BYTES)
    disk = DiskMemory(folder, window_bytes=4 * MB)
    job = a_job(scale=1, rounds=3, batch=4)

    def make() -> Layers:
        return Layers(count=24, width=600)

    first, most = anonymous_bytes(), [0, 0]
    breathe = DiskMemory.breathe

    def looked(memory: DiskMemory) -> None:
        now = anonymous_bytes() - first, held_bytes(memory)
        most[:] = [max(pair) for pair in zip(most, now, strict=True)]
        breathe(memory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiskMemory, "breathe", looked)
        store, runner = ParameterStore(make(), job, disk=disk), TaskRunner(make(), job, disk=disk)
        for _ in range(2):
            (state,) = store.state()
            store.add(0, runner.run(state, store.version, 0))
            store.step()
            store.conclude()
        store.checkpoint_part()
    return [*most, disk.total_bytes]


def test_a_round_takes_a_few_tensors_of_a_large_model_in_memory(tmp_path: Path) -> None:
    said = tmp_path / "said"
    pid = os.fork()
    if not pid:
        try:
            said.write_text(json.dumps(grown(str(tmp_path))))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    anonymous, files, on_disk = json.loads(said.read_text())
    # The model has 33 MB, in a server and in a trainer, with gradients and twice that as state.
    assert on_disk > 250 * MB
    assert anonymous < 60 * MB
    # How soon the thread drops pages that are only read depends on how busy the machine is.
    assert files < on_disk
