"""Do a server's part of a job: combine a round's updates in shard order, step, evaluate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from warren.apps.protocol import TorchApp
from warren.live.gpu.offload import Offload
from warren.live.training.app.app_contract import (
    check_job,
    ends,
    tensorwise,
)
from warren.live.training.block_ownership import Ranges, owners_of
from warren.live.training.checkpoints import state as checkpoint
from warren.live.training.checkpoints.archive import Archive
from warren.live.training.checkpoints.barrier_state import is_looked_at
from warren.live.training.checkpoints.repeated_steps import RepeatedSteps
from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.input_data.input_memory import InputMemory
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.replica import Replica
from warren.live.training.round_results import RoundResults
from warren.live.training.task_hashes import KnownHashes, RoundOutcome, TaskResult
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import digest, host_copy
from warren.live.training.weight_average import averaged_state, safetensors_of, write_params
from warren.live.transport.frames import Buffer
from warren.live.transport.message import SharedSlot
from warren.model.job import Job

Packed: TypeAlias = tuple[memoryview, ...] | DeviceBytes
"""A packed state: one buffer a range, or the whole of it on a device."""


class ParameterStore:
    """The parameters, buffers, optimizer and schedule of one job, or one server's part of them.

    ``version`` counts steps made, so it is the round whose tasks may be computed next. A round is
    ``add`` for each task, ``step``, and on part 0 ``conclude``; if ``wants_whole`` after the step,
    part 0 takes the other parts' blocks in between. ``results`` has the results of the round at
    hand, ``known`` the hashes of all tasks that may run again, and ``repeated`` the steps that are
    to be made again on a copy.

    Parameters
    ----------
    part, parts
        This is server number ``part`` of ``parts``. All together give the bits of one.
    model_bytes
        How many bytes of the model each server is to hold; empty: about the same.
    shared
        Large states are where other processes of this host can read them; a folder as for
        ``Arena.create``.
    runner
        A rank of a ring computes tasks with it. App and model are shared, unless they lie on a
        device: then ``app`` is another object. Others have the same whole store, and of each round
        its mean as one result.
    inputs
        The budget for data; None: they stay in memory.
    helpers
        Threads that share sums and copies.
    disk
        Where large tensors lie, with all states and means; None: in main memory.
    device
        Where the model, its optimizer's state and all else lie; None: in main memory.

    Raises
    ------
    SpecError
        The app breaks its contract, or its optimizer cannot be split.
    """

    def __init__(
        self,
        app: TorchApp,
        job: Job,
        *,
        part: int = 0,
        parts: int = 1,
        model_bytes: Sequence[int] = (),
        shared: str | None = None,
        runner: TaskRunner | None = None,
        inputs: InputMemory | None = None,
        helpers: Helpers = ALONE,
        disk: DiskMemory | None = None,
        device: torch.device | None = None,
    ) -> None:
        check_job(app, job)
        self._job = job
        self._runner = runner
        self.disk = disk
        self._replica = Replica(
            app, job, part, parts, model_bytes, shared, runner, inputs, helpers, disk, device
        )
        self.layout = self._replica.layout
        self.owners = self._replica.owners
        self.ranges: Ranges = self._replica.ranges
        self.total_bytes = self.layout.total_bytes
        self.version = 0
        self.finished = False
        self.known = KnownHashes(self.layout, job)
        # In a ring the ranks have summed already: a round's mean comes as one result.
        tasks = job.scale if runner is None else 1
        on_device = self.device is not None
        self.results = RoundResults(
            job, self.layout, self.ranges, tasks, self.known, on_device=on_device
        )
        self.repeated = RepeatedSteps(self._replica, job)
        self._archive = Archive(disk)
        # Values that no checkpoint can keep are refused now, and not when the first one is due.
        checkpoint.check(self._replica)
        self._squares: tuple[float, ...] | None = None
        self._state: Packed | None = None
        self._previous: Packed | None = None
        self._offload: Offload | None = None
        # The copy in main memory of a state on a device that was asked for last.
        self._copied: tuple[DeviceBytes, tuple[memoryview, ...]] | None = None

    def state(self) -> tuple[memoryview, ...]:
        """Return the owned bytes of the current version, one buffer a range; never written again.

        Raises
        ------
        ValueError
            The step has been made and its evaluation has not, which may still change buffers.
        """
        return self._pieces(self._packed())

    def there(self, round_no: int) -> DeviceBytes:
        """Return the state of a round where it lies on the device: of this version, or the last.

        Raises
        ------
        ValueError
            It is of another version, or lies in main memory.
        """
        self.come_back()
        found = self._previous if round_no == self.version - 1 else self._packed()
        if round_no not in (self.version, self.version - 1) or not isinstance(found, DeviceBytes):
            raise ValueError(f"the state of round {round_no} does not lie on a device")
        return found

    def blocks(self) -> tuple[memoryview, ...]:
        """Return what part 0 takes of this part: its state, and the averages of its weights."""
        return (*self.state(), *self._replica.pack_averages())

    def spot(self, state: tuple[memoryview, ...]) -> SharedSlot | None:
        """Return the place where other processes find a held state; None: it has to be sent."""
        return self._replica.spot(state)

    def previous_state(self) -> tuple[memoryview, ...]:
        """Return the state of the version before the last step, for a task that was lost after it.

        Raises
        ------
        ValueError
            There was no step yet, or ``forget_previous`` was called since.
        """
        if self._previous is None:
            raise ValueError(f"the state before version {self.version} is not kept")
        self.come_back()
        return self._pieces(self._previous)

    def forget_previous(self) -> None:
        """Forget the state and marks of the last round, all of whose tasks are safe."""
        self._previous = None
        self.known.forget_before(self.version)

    def add(self, shard: int, result: TaskResult) -> None:
        """Take the result of task (version, shard); its buffers must stay as they are until step.

        Raises
        ------
        SpecError
            The same task was computed before with another result.
        ValueError
            The result cannot belong to this job's current round.
        """
        if self.finished:
            raise ValueError(f"no task {shard} is awaited in round {self.version}")
        self.results.add(shard, result)

    @property
    def wants_whole(self) -> bool:
        """Tell whether this version is evaluated or saved, and so needs every part's blocks."""
        job = self._job
        return self.version > 0 and (
            job.evaluates_after(self.version) or self.version == job.rounds
        )

    @property
    def clips(self) -> bool:
        """Tell whether a step needs the norm of all gradients."""
        return self._replica.app.clip_norm is not None

    def combine(self) -> tuple[float, ...]:
        """Take the means of a complete round, and return the squares that ``step`` needs.

        They are the squared norms of the owned gradients, if the app clips; else there are none.
        ``step`` needs those of all parts.
        """
        if not self.results.complete:
            raise ValueError(f"round {self.version} is not complete")
        if self.results.loss is not None:
            raise ValueError(f"round {self.version - 1} is not concluded")
        if self._squares is None:
            # Packed now, since means of buffers are written into the model next.
            packed = self._packed()
            if self._runner is not None and not self._runner.on_device:
                self._runner.put_back(self._pieces(packed)[0], self.version)
            self._squares = self._replica.combine(self.results.in_order())
        return self._squares

    def step(self, squares: Sequence[float] | None = None) -> None:
        """Combine, step the optimizer and the schedule; ``version`` is then one more.

        ``squares``: the results of ``combine`` on all parts, in order; None: there are no others.
        """
        own = self.combine()
        self.results.check_converges()
        # The state before the step is kept for tasks of this round that may have to run again.
        previous = self._packed()
        self._replica.step(self.version, own if squares is None else squares)
        self.version += 1
        if is_looked_at(self.version):
            checkpoint.check(self._replica)
        self._begin(previous)
        self.results.step(concludes=not self._replica.part)
        if self._replica.part:
            self.finished = self.version == self._job.rounds

    # A job that leaves its device for others.

    def leave(self, beside: Sequence[Tensor] = ()) -> None:
        """Bring all of the job out of its device into main memory, until it is needed there again.

        ``beside``: other tensors of the job on this device.
        """
        if self.device is None:
            return
        if self._offload is None:
            self._offload = Offload(self.device)
        kept, empty = self._replica.on_device()
        self._offload.leave([*kept, *beside], empty)

    def come_back(self) -> None:
        """Begin to bring the job back to its device, if it has left that."""
        if self._offload is not None and self._offload.away:
            self._offload.come_back()

    @property
    def goes_on(self) -> bool:
        """Tell whether the round of this version is sure to follow, with its state as it is."""
        waits = not self.results.confirmed or self.results.loss is not None
        evaluates = waits and self._job.evaluates_after(self.version)
        return not (self.finished or evaluates or self.version == self._job.rounds)

    def seed(self) -> None:
        """Set the next step's generators ahead of time; nothing else may run here before it."""
        self._replica.seed(self.version)

    def take(self, ranges: Ranges, buffers: Sequence[Buffer]) -> None:
        """Put the ``blocks`` of another part, of this version, into the model."""
        self.come_back()
        self._replica.take(ranges, buffers)

    def conclude(self) -> RoundOutcome:
        """Evaluate if due and return the outcome of the last step. Part 0 only, once after each
        step.

        Raises
        ------
        SpecError
            The app's evaluation breaks its contract.
        ValueError
            There was no step, or blocks of another part are missing.
        """
        if self.results.loss is None:
            raise ValueError("there is no step to conclude")
        self.come_back()
        metrics = None
        if self._job.evaluates_after(self.version):
            self._need_whole()
            metrics = self._replica.evaluate()
        stopped = metrics is not None and ends(self._replica.app, self._job, metrics)
        self.finished = self.version == self._job.rounds or stopped
        loss, self.results.loss = self.results.loss, None
        return RoundOutcome(
            round=self.version - 1, loss=loss, metrics=metrics, finished=self.finished
        )

    def follow(self, *, finished: bool) -> None:
        """Conclude the round as another rank of the ring has, which evaluates if that is due.

        Raises
        ------
        ValueError
            There was no step.
        """
        if self.results.loss is None:
            raise ValueError("there is no step to conclude")
        self.finished, self.results.loss = finished, None

    def warm(self) -> None:
        """Evaluate the untrained model and forget it, so that no barrier pays for loading."""
        if self._job.evaluate is not None or self._job.stop is not None:
            self._replica.rehearse()

    def touch(self) -> None:
        """Write to all memory that a barrier writes to, whose pages would come one by one there."""
        self.state()
        self._replica.touch()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the model's own state_dict, as copies in main memory, sorted by name."""
        self._need_whole()
        model = self._replica.model
        return {name: host_copy(value) for name, value in sorted(model.state_dict().items())}

    def averaged_state_dict(self) -> dict[str, Tensor] | None:
        """Return the state_dict with averaged weights, as copies, sorted by name; None: no such."""
        self._need_whole()
        return averaged_state(self._replica.model, self._replica.averages)

    def write_params(self, path: str) -> None:
        """Write the state_dict to a safetensors file, and that of the average beside it.

        Raises
        ------
        OSError
            With the name of the file.
        """
        average = self.averaged_state_dict()
        write_params(path, self.save(), average, forget=self.disk is not None)

    def save(self) -> Buffer:
        """Return the state_dict as the bytes of a safetensors file."""
        if self.disk is not None:
            self._need_whole()
            return self._archive.pack(dict(self._replica.model.state_dict()), None)
        return safetensors_of(self.state_dict())

    def digest(self) -> str:
        """Return ``params_sha256``, the hash of the state_dict."""
        self._need_whole()
        return digest(self._replica.model.state_dict())

    def checkpoint_part(self) -> memoryview:
        """Return the part's state on which the next round depends, without the round in progress.

        The bytes stay as they are while anyone has them.

        Raises
        ------
        ValueError
            The step has been made and its evaluation has not.
        SpecError
            Barriers have changed something that a checkpoint cannot keep.
        """
        return self.begin_checkpoint()()

    def begin_checkpoint(self) -> Callable[[], memoryview]:
        """Begin ``checkpoint_part``; the store may go on meanwhile.

        Returns
        -------
        Callable
            The function that gives the bytes, to be called once, by any thread. State of a device
            is still on its way to main memory meanwhile.

        Raises
        ------
        ValueError
            The step has been made and its evaluation has not.
        SpecError
            Barriers have changed something that a checkpoint cannot keep.
        """
        self._need_evaluated()
        return checkpoint.begin_encode(
            self._replica, self._archive, self.version, finished=self.finished
        )

    def restore(self, parts: Sequence[Buffer]) -> None:
        """Go back to a checkpoint of the same job, made by any number of servers.

        ``parts`` are all of them, in any order. Results added since are dropped.

        Raises
        ------
        SpecError
            The parts do not belong together, or are of another model or optimizer.
        """
        self.come_back()
        self.version, self.finished = checkpoint.decode(parts, self._replica)
        self.known.go_on_from(self.version)
        self.results.begin(self.version)
        self._begin(None)

    def check_restored(self, other: ParameterStore) -> None:
        """Refuse a store that was restored from this one and would not go on as this one does.

        Raises
        ------
        SpecError
            It has other values; the message names one.
        """
        checkpoint.check_same(self._replica, other._replica)

    @property
    def tensorwise(self) -> bool:
        """Tell whether a step is each tensor's alone, so that the model may be on disk."""
        return self._replica.ema is None and tensorwise(self._replica.optimizer)

    def piece_for(self, part: int, homes: int, model_bytes: Sequence[int]) -> memoryview:
        """Return the piece of this part that server ``part`` of ``homes`` future servers will own.

        ``model_bytes``: bytes of the model that each of them holds; empty: about the same. They
        hold what a checkpoint would of it.

        Raises
        ------
        ValueError
            The step has been made and its evaluation has not.
        SpecError
            Barriers have changed something that a checkpoint cannot keep.
        """
        self._need_evaluated()
        heir = checkpoint.Heir(part, owners_of(self.layout, homes, model_bytes))
        return checkpoint.encode(
            self._replica, self._archive, self.version, finished=self.finished, heir=heir
        )

    def inherit(self, pieces: Sequence[Buffer]) -> None:
        """Begin where other servers of the job have ended: ``pieces`` has one of each of them.

        Raises
        ------
        SpecError
            The pieces do not belong together, or are not of this part.
        """
        self.come_back()
        self.version, self.finished = checkpoint.decode(pieces, self._replica, owned_only=True)
        self.known.go_on_from(self.version)
        self.results.begin(self.version)
        self._begin(None)

    @property
    def device(self) -> torch.device | None:
        """The device on which the store lies; None: in main memory."""
        return self._replica.device

    def _packed(self) -> Packed:
        """Return the state of this version where it lies."""
        self._need_evaluated()
        if self._state is None:
            self._state = self._replica.pack()
        return self._state

    def _pieces(self, packed: Packed) -> tuple[memoryview, ...]:
        """Return a state in main memory, one buffer a range."""
        if not isinstance(packed, DeviceBytes):
            return packed
        if self._copied is None or self._copied[0] is not packed:
            self._copied = packed, packed.pieces(self.ranges)
        return self._copied[1]

    def _need_evaluated(self) -> None:
        self.come_back()
        if self.results.loss is not None and self._job.evaluates_after(self.version):
            raise ValueError(f"conclude round {self.version - 1} first, it evaluates")

    def _need_whole(self) -> None:
        self.come_back()
        if not self._replica.whole:
            raise ValueError(f"blocks of other parts of version {self.version} were not taken")

    def _begin(self, previous: Packed | None) -> None:
        """Begin a round; ``previous`` is the state before the last step."""
        self._previous = previous
        self._state = None
        self._squares = None
