"""One process's side of its host's memory budget: it builds in turn, spills, and keeps its share.

The invariant: under the lock of the host's table no process writes more into its row than the
budget leaves at that moment. It takes memory only after it has written it, and writes less only
after the memory has gone back. So the sum of rows stays within the budget whatever the order of
steps.
"""

from __future__ import annotations

import errno
import gc
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final

from warren.live.process.linux import map_large_memory, return_freed_memory
from warren.live.process.memory_limit import allow_more_data, data_limited
from warren.live.process.time_limit import size_text
from warren.live.training.input_data.host_memory import (
    BuildSizes,
    HostBudget,
    HostMemoryTable,
    PeakMemory,
    own_bytes,
)
from warren.live.training.input_data.input_reader import InputReader, ReadTimes
from warren.live.training.input_data.memory_release import let_go
from warren.live.training.input_data.memory_shares import (
    MemoryUse,
    alpha_bound,
    free_bytes,
    next_held_bytes,
    waits,
)
from warren.live.training.input_data.spilled_data import SpilledData, can_spill
from warren.live.training.memory.disk_memory import LEAST_BYTES, WINDOW_BYTES, DiskMemory
from warren.live.training.tensor_layout import Layout
from warren.model.errors import InputDataError, short_line, text_of

_STEPS: Final = 32
"""A step between processes is one part in this number of the data."""
_MEASURED_EVERY: Final = 10
"""Turns until the memory that is no input data is measured again."""
_TASKS: Final = 16
"""Tasks measured after a step before a process gives another one."""
_LOOK_S: Final = 0.02
_SLACK_BYTES: Final = 1 << 25
"""Bytes that a build may take beyond an equal one: its copies of shared pages."""
_TENSORS: Final = 3
"""Copies of the largest tensor of a model on disk that are in memory at once."""
_LEAST_BYTES: Final = 1 << 24
"""Less than this is not worth a try to build an app."""


class _NoRoom(InputDataError):
    """An app with its model in memory does not fit into its host's memory."""


class InputMemory:
    """The memory for input data of one process.

    Parameters
    ----------
    budget : HostBudget
        The host's budget, and its table.
    folder : str
        The folder for data that are not in memory.
    app : int
        The number of the app; equal numbers take the same memory.
    """

    def __init__(self, budget: HostBudget, folder: str, app: int = 0) -> None:
        self._budget = budget
        self._folder = folder
        self._app = app
        self._sizes = BuildSizes(f"{budget.table}-builds") if budget.table else None
        self._table = HostMemoryTable(budget.table) if budget.table else None
        self._data: SpilledData | None = None
        self._reader: InputReader | None = None
        self._turns = 0
        # The table's entry about data in memory, and when that was changed, in tasks.
        self._held_bytes = 0
        self._moved_at = 0
        self.reserved_bytes = 0
        """Bytes that the process will take later, beyond those after the build of its app."""
        self._may_spill = False
        self._turn_kept: ExitStack | None = None
        self.disk: DiskMemory | None = None
        """Where the blocks of the model lie; None: in memory."""
        if budget.model_on_disk:
            self._open_disk("as the cluster file says")

    def spill_model(self, error: InputDataError) -> bool:
        """Let the next build put the model on disk, after a build without room in memory.

        Others have let go of all their data by then (alpha = 1). False: it is on disk already, may
        not go there, or something else was wrong.
        """
        if not (self._may_go_to_disk and isinstance(error, _NoRoom)):
            return False
        # Behind the colon is the message of the allocation that failed.
        self._open_disk(f"since {str(error).partition(': ')[0]}")
        return True

    @property
    def _may_go_to_disk(self) -> bool:
        return self.disk is None and self._budget.model_on_disk is not False

    def _open_disk(self, why: str) -> None:
        print(f"model blocks are on disk {why}", flush=True)
        self.reserved_bytes = 0
        map_large_memory(LEAST_BYTES)
        self.disk = DiskMemory(self._folder)

    def reserve(self, layout: Layout, states: int, *, may_spill: bool) -> None:
        """Count what the process will take later.

        Parameters
        ----------
        layout : Layout
            The model.
        states : int
            Most bytes in memory later on, in times those of the model.
        may_spill : bool
            Whether the model may go to disk if it does not fit with them.
        """
        largest = max((entry.nbytes for entry in layout.entries), default=0)
        on_disk = WINDOW_BYTES + _TENSORS * largest
        self.reserved_bytes = states * layout.total_bytes if self.disk is None else on_disk
        self._may_spill = may_spill

    @contextmanager
    def building(self) -> Iterator[None]:
        """Build an app inside: alone on its host, and with no more memory than that has left.

        Raises
        ------
        InputDataError
            It does not fit into the host's memory.
        """
        self._forget()
        if self._table is None:
            yield
            return
        gc.collect()  # of a build that found no room
        # Before it waits for its turn: the present builder may be waiting for this memory.
        self._settle(self._table)
        with self._in_turn(self._table):
            room = self._room(self._table)
            peak = PeakMemory()
            try:
                with data_limited(room):
                    yield
                if self._sizes is not None:
                    self._sizes.note(self._number, peak.grown_bytes() + _SLACK_BYTES)
                self._check_later(self._table)
            except (MemoryError, RuntimeError, OSError) as error:
                if not _is_lack_of_memory(error):
                    raise
                refusal = self._too_large(room, error)
                # The frames that were left hold what was built so far.
                traceback.clear_frames(error.__traceback__)
                raise refusal from error
            finally:
                if self.disk is not None:
                    self.disk.give_back()
                return_freed_memory()
                self._settle(self._table)

    @contextmanager
    def _in_turn(self, table: HostMemoryTable) -> Iterator[None]:
        """Hold the host's turn to build; it is kept where a model without room goes to disk next.

        So no other process meets memory that the first build has not given back yet.
        """
        turn, self._turn_kept = self._turn_kept, None
        if turn is None:
            turn = ExitStack()
            turn.enter_context(table.building())
        else:
            gc.collect()
            self._settle(table)
        try:
            yield
        except _NoRoom:
            if self._may_go_to_disk:
                self._turn_kept = turn.pop_all()
            raise
        finally:
            turn.close()

    def spill(self, dataset: Any) -> InputReader | None:
        """Write a dataset that was just built to disk, and release its memory.

        Its tensors stay the same objects, for an app that keeps them: their content is read from
        the file when it is used. None: these data cannot be spilled, or the app keeps them in other
        tensors too, so that they stay in memory.

        Raises
        ------
        InputDataError
            The disk refuses the data, or has no place for them.
        """
        if not can_spill(dataset):
            print("input data stay in memory: they are small, or not tensors alone", flush=True)
            return None
        data = SpilledData(dataset, self._folder)
        # Their mapping counts as memory that may be written, though none of it is taken.
        allow_more_data(data.total_bytes)
        if not let_go(data):
            data.file.close()
            print("input data stay in memory: the app keeps them in other tensors too", flush=True)
            return None
        return_freed_memory()  # the C library keeps freed memory of its heap until then
        ratio = self._budget.disk_ratio
        if self._table is None and ratio is not None:
            data.resize(round((1 - ratio) * data.total_bytes))
        self._data = data
        self._reader = InputReader(data, self._turn)
        return self._reader

    def release(self, dataset: Any) -> None:
        """Let go of a dataset that is not indexed here, where the app may keep it: see ``spill``.

        Raises
        ------
        InputDataError
            The disk refuses the data, or has no place for them.
        """
        if can_spill(dataset):
            data = SpilledData(dataset, self._folder)
            allow_more_data(data.total_bytes)
            let_go(data)
            data.file.close()
            return_freed_memory()

    def _forget(self) -> None:
        """Release the data of an app that will be built again."""
        if self._reader is not None:
            self._reader.close()
        if self._data is not None:
            self._data.file.close()
        self._reader = self._data = None
        self._held_bytes = self._moved_at = 0

    def _room(self, table: HostMemoryTable) -> int:
        """Wait until others have released enough of their data for a build; reserve that memory.

        The amount is that of an earlier build of the same app; otherwise all that data take now.
        Return the room that there would be without data of others.
        """
        known = 0 if self._sizes is None else self._sizes.known(self._number)
        while True:
            with table.open() as (own, others):
                fixed_bytes = own.fixed_bytes + sum(other.fixed_bytes for other in others)
                room = self._budget.budget_bytes - fixed_bytes
                wanted = known or room
                if room < max(known, _LEAST_BYTES):
                    table.put(MemoryUse(fixed_bytes=own.fixed_bytes))
                    raise self._too_large(max(0, room), None)
                if room - sum(other.held_bytes for other in others) >= wanted:
                    table.put(MemoryUse(fixed_bytes=own.fixed_bytes + wanted))
                    return room
                table.put(replace(own, wants_bytes=wanted, builds=True))
            time.sleep(_LOOK_S)

    @property
    def _number(self) -> int:
        """Return the number of the app's builds, in memory or on disk."""
        return 2 * self._app + (self.disk is not None)

    def _check_later(self, table: HostMemoryTable) -> None:
        """Refuse a model in memory that has too little of it later on, if it may be on disk."""
        if not (self._may_go_to_disk and self._may_spill):
            return
        return_freed_memory()
        with table.open() as (_, others):
            fixed_bytes = sum(other.fixed_bytes for other in others)
        room = self._budget.budget_bytes - fixed_bytes
        if _taken_bytes() + self.reserved_bytes > room:
            self.reserved_bytes = 0
            raise self._too_large(room, None)

    def _settle(self, table: HostMemoryTable) -> None:
        """Write into the table the present memory of the process, with none of its data held."""
        data_bytes = 0 if self._data is None else self._data.total_bytes
        with table.open():
            fixed_bytes = _taken_bytes() + self.reserved_bytes
            table.put(MemoryUse(fixed_bytes=fixed_bytes, data_bytes=data_bytes))

    def _turn(self, times: ReadTimes) -> bool:
        """Take or give a step of memory, a block at a time; tell whether more blocks are to come.

        In between a task may get its batch.
        """
        data = self._data
        if data is None or self._table is None:
            return False
        if data.held_bytes == self._held_bytes:
            self._decide(data, self._table, times)
        data.resize(min(data.held_bytes + data.block_bytes, self._held_bytes))
        return data.held_bytes < self._held_bytes

    def _decide(self, data: SpilledData, table: HostMemoryTable, times: ReadTimes) -> None:
        """Write into the table the bytes of the data to hold in memory from now on."""
        self._turns += 1
        measured = self._turns % _MEASURED_EVERY == 0
        with table.open() as (own, others):
            if not own.data_bytes:  # not settled yet
                return
            taken = _taken_bytes() + self.reserved_bytes if measured else 0
            fixed = max(0, taken - own.held_bytes) if measured else own.fixed_bytes
            own = replace(own, fixed_bytes=fixed, stop_ppm=round(times.stop_ppm))
            wanted = data.whole_blocks(self._next(own, others, data, times))
            if wanted < own.held_bytes:
                data.resize(wanted)
            if wanted != own.held_bytes:
                self._moved_at = times.tasks
            lacks = data.total_bytes // _STEPS if waits(own) and wanted <= own.held_bytes else 0
            table.put(replace(own, held_bytes=wanted, wants_bytes=lacks))
        self._held_bytes = wanted

    def _next(
        self, own: MemoryUse, others: list[MemoryUse], data: SpilledData, times: ReadTimes
    ) -> int:
        """Return the bytes of the data to hold in memory: none, if the model is on disk too."""
        if self.disk is not None:
            return 0
        budget_bytes, ratio = self._budget.budget_bytes, self._budget.disk_ratio
        if ratio is None:
            step = max(data.block_bytes, data.total_bytes // _STEPS)
            bound = alpha_bound(data.blocks, times.use_ns, times.load_ns)
            gives = times.tasks >= self._moved_at + _TASKS
            return next_held_bytes(own, others, budget_bytes, step, bound, gives=gives)
        # A fixed ratio is kept to if it fits, but gives way to an app that is being built.
        target = round((1 - ratio) * data.total_bytes)
        if any(other.builds for other in others):
            return 0
        return min(target, own.held_bytes + max(0, free_bytes(budget_bytes, [own, *others])))

    def _too_large(self, room: int, error: BaseException | None) -> InputDataError:
        """Return the error that an app does not fit, with the numbers."""
        budget = self._budget
        kind = _NoRoom if self.disk is None else InputDataError
        why = "" if error is None else f": {short_line(text_of(error))}"
        return kind(
            f"to build it takes more than the {size_text(room)} that are left on host "
            f"{budget.host} beside processes that run, of {size_text(budget.stated_bytes)} "
            f"(cluster file, hosts[].memory){why}"
        )


def _taken_bytes() -> int:
    """Return the memory of this process and of its parent, which waits for its end."""
    return own_bytes() + own_bytes(os.getppid())


def _is_lack_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory was refused."""
    refused = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or refused or "can't allocate memory" in text_of(error)
