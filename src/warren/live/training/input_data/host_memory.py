"""The table of the memory that each process of a host takes; it outlives none of them.

It is one file a host, in the run's folder. Each process has a row, on whose byte it holds a lock of
the kernel's (``fcntl``) to its end, however that comes: a row with a free lock belongs to no
process. Rows are written and read under the lock of the whole table, so a process that takes more
sees the memory left at that moment. A second lock is held while an app is built: builds of a host
come one after the other.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from warren.live.process.linux import kernel_lines
from warren.live.training.input_data.memory_shares import MemoryUse
from warren.model.errors import InputDataError

_ROWS: Final = 1024
_ROW: Final = struct.Struct("<?QQQQQ?")
_SIZE_BYTES: Final = 8
_TABLE: Final = 0
_BUILD: Final = 1
_FIRST: Final = 2
"""Bytes of the file that are locked: for the table, for builds, then one a row."""


class HostBudget(msgspec.Struct, frozen=True, array_like=True):
    """The settings of a process that keeps its input data on disk.

    ``table``: the file of its host's table; empty: memory is not limited. ``host`` and
    ``stated_bytes`` as in the cluster file; all processes together take ``budget_bytes`` at most.
    ``disk_ratio``: the share of data on disk, where that is fixed. ``model_on_disk``: whether the
    blocks of its model are on disk; None: where memory is short without any data in it.
    """

    table: str = ""
    host: str = ""
    stated_bytes: int = 0
    budget_bytes: int = 0
    disk_ratio: float | None = None
    model_on_disk: bool | None = None


class HostMemoryTable:
    """One process's handle on the table. A process opens it once: closing it frees its locks."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._fd, _ROWS * _ROW.size)
        self._rows = mmap.mmap(self._fd, _ROWS * _ROW.size)
        self._at = -1
        with self._locked(_TABLE):
            taken = self._others()
            self._at = next((at for at in range(_ROWS) if at not in taken), -1)
            if self._at < 0:
                raise InputDataError(f"its host has {_ROWS} processes that hold data already")
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _FIRST + self._at)
            self._write(MemoryUse(fixed_bytes=0))

    def close(self) -> None:
        """Give up the row."""
        self._rows.close()
        os.close(self._fd)

    @contextmanager
    def open(self) -> Iterator[tuple[MemoryUse, list[MemoryUse]]]:
        """Yield this process's row and those of all others, which stay as they are meanwhile."""
        with self._locked(_TABLE):
            yield self._read(self._at), [self._read(at) for at in sorted(self._others())]

    def put(self, use: MemoryUse) -> None:
        """Replace this process's row; only while the table is ``open``."""
        self._write(use)

    @contextmanager
    def building(self) -> Iterator[None]:
        """Wait until no other process of the host builds an app, and let none begin meanwhile."""
        with self._locked(_BUILD):
            yield

    @contextmanager
    def _locked(self, byte: int) -> Iterator[None]:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, byte)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)

    def _others(self) -> set[int]:
        """Return the rows of living processes but this one; those of the others are free again."""
        marks = self._rows[:: _ROW.size]
        return {at for at, mark in enumerate(marks) if mark and at != self._at and self._held(at)}

    def _held(self, at: int) -> bool:
        """Tell whether the process that has written a row lives."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _FIRST + at)
        except OSError:
            return True
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _FIRST + at)
        self._rows[at * _ROW.size] = 0
        return False

    def _read(self, at: int) -> MemoryUse:
        _, fixed, data, held, wants, stop, builds = _ROW.unpack_from(self._rows, at * _ROW.size)
        return MemoryUse(
            fixed_bytes=fixed,
            data_bytes=data,
            held_bytes=held,
            wants_bytes=wants,
            stop_ppm=stop,
            builds=builds,
        )

    def _write(self, use: MemoryUse) -> None:
        fields = (use.fixed_bytes, use.data_bytes, use.held_bytes, use.wants_bytes, use.stop_ppm)
        _ROW.pack_into(self._rows, self._at * _ROW.size, True, *fields, use.builds)


class BuildSizes:
    """Peak memory of builds of a host's apps, by the number of the app.

    After one build of an app, the room that another build of it needs is known.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def known(self, number: int) -> int:
        """Return the bytes that the largest build took; 0: there was none."""
        return int.from_bytes(os.pread(self._fd, _SIZE_BYTES, number * _SIZE_BYTES), "little")

    def note(self, number: int, taken_bytes: int) -> None:
        """Note the memory of a build, unless another took more."""
        if taken_bytes > self.known(number):
            size = taken_bytes.to_bytes(_SIZE_BYTES, "little")
            os.pwrite(self._fd, size, number * _SIZE_BYTES)


class PeakMemory:
    """Measures the most memory that this process has taken since it was made."""

    def __init__(self) -> None:
        # "5" sets the peak back to the resident size; if that is refused it stays higher.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._before = _status_bytes("VmRSS")

    def grown_bytes(self) -> int:
        """Return the bytes by which the peak is above the first resident size."""
        return max(0, _status_bytes("VmHWM") - self._before)


def _status_bytes(name: str) -> int:
    """Return a size that the kernel tells of this process."""
    lines = kernel_lines(Path("/proc/self/status"))
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def own_bytes(pid: int | str = "self") -> int:
    """Return the memory that a process alone has, and its part of memory shared by intent.

    Pages shared with the process that forked it count for that one. 0: it is gone.
    """
    rows = dict(
        line.split(":", 1)
        for line in kernel_lines(Path(f"/proc/{pid}/smaps_rollup"))
        if ":" in line
    )
    names = ("Private_Dirty", "Private_Clean", "Pss_Shmem")
    return sum(1024 * int(rows[name].split()[0]) for name in names if name in rows)


def whole_bytes(pid: int) -> int:
    """Return a process's part of all the memory that it uses (Pss); 0: it is gone."""
    lines = kernel_lines(Path(f"/proc/{pid}/smaps_rollup"))
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
