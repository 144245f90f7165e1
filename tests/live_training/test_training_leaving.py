"""A job that leaves its device and comes back has the bits of one that stayed."""

from __future__ import annotations

import os
import signal
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import wait_until
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.gpu.offload import Offload
from warren.live.gpu.trainer_device import memory_on
from warren.live.oracle.plain import train
from warren.live.server.checkpoint_schedule import CheckpointSchedule
from warren.live.server.local_tasks import LocalTasks
from warren.live.training.checkpoints.files import latest_round
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import StartedTask, TaskRunner
from warren.model.job import Checkpoint, Evaluate, Job

CPU = torch.device("cpu")
JOB = Job(index=0, name="job", app="app.py:Kept", scale=3, rounds=4, batch=2, seed=3)
Started = list[tuple[int, StartedTask]]


class Kept(TorchApp):
    """Keeps moments, statistics of batches, an average and the means of gradients."""

    clip_norm: float | None = None
    ema: float | None = None
    optimizer_name: str = "AdamW"

    def model(self) -> nn.Module:
        """Layers with buffers."""
        return nn.Sequential(nn.Linear(6, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 3))

    def dataset(self) -> Any:
        """Points and classes."""
        return torch.randn(24, 6), torch.arange(24) % 3

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy."""
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
        """The optimizer of that name."""
        kind: Any = getattr(torch.optim, self.optimizer_name)
        found: torch.optim.Optimizer = kind([one for _, one in named_parameters], lr=0.05)
        return found

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The sum of all weights."""
        return {"sum": float(sum(one.double().sum() for one in model.parameters()))}


def app_of(kind: str) -> Kept:
    app = Kept()
    app.clip_norm = 0.3 if kind == "clipped" else None
    app.ema = 0.7 if kind == "averaged" else None
    app.optimizer_name = {"heavy": "Rprop"}.get(kind, "AdamW")
    return app


@pytest.fixture(autouse=True)
def _memory_that_comes_back_is_spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill memory that a storage gets, as a device that others have used gives it."""
    resize = torch.UntypedStorage.resize_

    def resized(storage: torch.UntypedStorage, nbytes: int) -> None:
        resize(storage, nbytes)
        storage.fill_(0xFF)

    monkeypatch.setattr(torch.UntypedStorage, "resize_", resized)


class Here:
    """A store and the tasks of its process, all on one device."""

    def __init__(self, app: Kept, job: Job, *, part: int = 0, parts: int = 1) -> None:
        self.store = ParameterStore(app, job, part=part, parts=parts, device=CPU)
        self.runner = TaskRunner(app_again(app), job, memory_on(CPU))
        self.local = LocalTasks(self.store, 0)

    def begin(self, round_no: int, shard: int) -> StartedTask:
        """Launch a task, whose update stays on the device."""
        update = self.local.lend()
        started = self.runner.start(self.local.state(round_no), round_no, shard, update)
        self.local.computed(round_no, shard, started.present, update)
        return started

    def leave(self) -> None:
        """Leave the device, and check that no memory of it is kept."""
        self.local.leave()
        self.runner.evict()
        kept, empty = self.store._replica.on_device()
        there = [*kept, *empty, *self.local._places.lent(), *self.runner._model.parameters()]
        there += self.store._replica.averages.values()
        for state in (self.store._state, self.store._previous):
            assert state is None or isinstance(state, DeviceBytes)
            there += [] if state is None else [state.flat]
        storages = [one.untyped_storage() for one in there]
        # On a GPU no storage is one that was read from a file, whose size is fixed.
        assert sum(one.nbytes() for one in storages if one.resizable()) == 0


def app_again(app: Kept) -> Kept:
    """Return another object of the same app, as the tasks of a process have."""
    other = Kept()
    other.__dict__.update(app.__dict__)
    return other


@pytest.mark.parametrize("kind", ["moments", "clipped", "averaged", "heavy"])
def test_a_store_that_leaves_its_device_between_all_tasks_has_the_bits_of_plain(kind: str) -> None:
    job = replace(JOB, evaluate=Evaluate(every=2))
    here = Here(app_of(kind), job)
    for round_no in range(4):
        left: Started = []
        for shard in range(job.scale):
            left.append((shard, here.begin(round_no, shard)))
            here.local.add_all()
            results = [(at, end()) for at, end in left]  # before the job leaves
            left = []
            here.leave()
            for at, result in results:
                if at != 1:  # it is known after the step
                    here.store.results.confirm(round_no, at, result.loss, result.marks)
                else:
                    late = result
        here.store.step()
        here.leave()
        here.store.results.confirm(round_no, 1, late.loss, late.marks)
        here.leave()
        here.store.conclude()
        here.leave()
    assert here.store.digest() == train(app_of(kind), job).digest


def test_tasks_of_several_shards_may_be_launched_when_their_job_leaves() -> None:
    here = Here(app_of("moments"), JOB)
    for round_no in range(4):
        ends = [here.begin(round_no, shard) for shard in range(JOB.scale)]
        results = [end() for end in ends]
        here.leave()  # none of the updates was added
        here.local.add_all()
        here.leave()  # all were added, and no loss is known
        here.store.step()
        for shard, result in enumerate(results):
            here.leave()
            here.store.results.confirm(round_no, shard, result.loss, result.marks)
        here.store.conclude()
    assert here.store.digest() == train(app_of("moments"), JOB).digest


@pytest.mark.parametrize("kind", ["moments", "clipped"])
def test_parts_of_a_store_on_two_devices_leave_and_come_back(kind: str) -> None:
    parts = [Here(app_of(kind), JOB, part=part, parts=2) for part in range(2)]
    first, second = (one.store for one in parts)
    for round_no in range(4):
        state = bytearray(first.total_bytes)
        for store in (first, second):
            for (begin, end), piece in zip(store.ranges, store.state(), strict=True):
                state[begin:end] = piece
        for shard in range(JOB.scale):
            result = parts[shard % 2].runner.run(state, round_no, shard)
            whole = memoryview(result.update[0])  # type: ignore[arg-type]
            for one in parts:
                pieces = tuple(whole[begin:end] for begin, end in one.store.ranges)
                one.store.add(shard, replace(result, update=pieces))
                one.leave()
        squares: dict[int, float] = {}
        for one in parts:
            owned = sorted(one.store._replica.owned)  # parameters first
            squares.update(zip(owned, one.store.combine(), strict=False))
            one.leave()
        for one in parts:
            one.store.step([squares[at] for at in sorted(squares)] if squares else None)
            one.leave()
        if first.wants_whole:
            first.take(second.ranges, second.blocks())
        first.conclude()
    assert first.digest() == train(app_of(kind), JOB).digest


@pytest.mark.parametrize("kind", ["moments", "averaged"])
def test_a_checkpoint_of_a_job_that_is_away_is_that_of_one_that_stayed(kind: str) -> None:
    stores = [Here(app_of(kind), JOB) for _ in range(2)]
    for round_no in range(4):
        for here in stores:
            for shard in range(JOB.scale):
                end = here.begin(round_no, shard)
                here.local.add_all()
                result = end()
                here.store.results.confirm(round_no, shard, result.loss, result.marks)
            here.store.step()
            here.store.conclude()
        away, stayed = stores
        away.leave()
        begun = away.store.begin_checkpoint()
        away.leave()  # while a thread writes it
        saved = bytes(begun())
        assert saved == bytes(stayed.store.checkpoint_part())
        # The job moves to another device, where it begins with what was saved.
        other = Here(app_of(kind), JOB)
        other.leave()
        other.store.restore([saved])
        stores[0] = other
    assert stores[0].store.digest() == train(app_of(kind), JOB).digest


def test_a_job_leaves_and_comes_back_to_the_same_tensors() -> None:
    offload, one = Offload(CPU), torch.arange(300.0)
    view, spare = one[7:], torch.ones(5)
    offload.leave([one, view], [spare])
    assert offload.away
    assert (one.untyped_storage().nbytes(), spare.untyped_storage().nbytes()) == (0, 0)
    offload.leave([one])  # it is away already
    offload.come_back()
    assert not offload.away
    assert torch.equal(view, torch.arange(7.0, 300.0))
    assert spare.untyped_storage().nbytes() == 20


def trained(folder: Path, rounds: int) -> Here:
    """Train from the newest checkpoint on, while a thread writes one each round."""
    job = replace(JOB, rounds=rounds, checkpoint=Checkpoint(every=1))
    here, begin = Here(app_of("averaged"), job), latest_round(folder)
    schedule = CheckpointSchedule(here.store, job, str(folder), begin, 0, 1)
    while not here.store.finished:
        if here.store.version > begin:
            schedule.save(here.store.version)
        here.leave()  # perhaps before the state is in main memory
        for shard in range(job.scale):
            end = here.begin(here.store.version, shard)
            here.local.add_all()
            result = end()
            here.store.results.confirm(here.store.version, shard, result.loss, result.marks)
        here.store.step()
        here.store.conclude()
    schedule.settle(wait=True)
    return here


@pytest.mark.live
def test_a_process_that_is_killed_while_a_thread_writes_goes_on_with_its_bits(
    tmp_path: Path,
) -> None:
    seen = [0]
    for _ in range(4):
        child = os.fork()
        if not child:
            try:
                trained(tmp_path, 10**6)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        came = wait_until(lambda: latest_round(tmp_path) >= seen[-1] + 3)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert came
        seen.append(latest_round(tmp_path))
    assert seen == sorted(set(seen))
    rounds = seen[-1] + 2
    found = trained(tmp_path, rounds).store.digest()
    assert found == train(app_of("averaged"), replace(JOB, rounds=rounds)).digest
