"""The results of tasks, by hash: sent to servers, reported at a barrier, and kept on disk.

So tasks that are repeated after a loss, or in a later life of their job, can be compared.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from warren.live.training.app.app_contract import refuse
from warren.live.training.checkpoints.files import make_folder, write_all, write_whole
from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.tensor_layout import Layout
from warren.live.transport.frames import Buffer
from warren.model.job import Job
from warren.store.files import MAX_RESULT_BYTES, read

MARK_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The outcome of one task.

    ``update`` has the places of the state: gradients in the places of parameters, buffers as the
    forward pass left them; absent gradients and padding are zero. It comes in one piece a range of
    the receiver, or in one whole piece that lies on a device. ``present`` has one byte a parameter
    of the whole model, 1 if it has a gradient, 0 if that is None. ``marks`` are ``marks_of`` all of
    it. ``data_ns``: how long the task has waited for its batch.
    """

    loss: float
    present: bytes
    marks: bytes
    update: tuple[Buffer | DeviceBytes, ...]
    data_ns: int = 0

    def in_main_memory(self) -> Iterator[Buffer]:
        """Give the pieces of an update that does not lie on a device."""
        for piece in self.update:
            assert not isinstance(piece, DeviceBytes), "the update lies on a device"
            yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """The outcome of ``round``'s barrier: mean loss in shard order, metrics if evaluated."""

    round: int
    loss: float
    metrics: Mapping[str, float] | None
    finished: bool


def marks_of(
    layout: Layout,
    loss: float,
    present: bytes,
    update: Buffer,
    helpers: Helpers = ALONE,
) -> bytes:
    """Four bytes for loss and mask, then four for each entry: equal for equal work.

    The low half of XXH3, which takes a tenth of the time of SHA-256 or less: it guards against
    accidents, among them an app that is not deterministic, and not against malice. ``helpers``
    share the entries of a large update; the hashes are the same.
    """
    whole = memoryview(update)
    parts = [whole[entry.offset : entry.offset + entry.nbytes] for entry in layout.entries]
    hashed = helpers.each(lambda at: mark_of(parts[at]), [part.nbytes for part in parts])
    return packed_marks([mark_of(struct.pack("<d", loss) + present), *hashed])


def mark_of(part: Buffer) -> int:
    """Return the hash of some bytes, as a whole number of ``MARK_BYTES`` bytes."""
    return xxh3_64_intdigest(part) & 0xFFFFFFFF


def packed_marks(marks: Sequence[int]) -> bytes:
    """Return the bytes of hashes: of loss and mask, then of each entry."""
    return struct.pack(f"<{len(marks)}I", *marks)


def nondeterministic(layout: Layout, round_no: int, shard: int, known: bytes, marks: bytes) -> str:
    """Return a message that a task gave two results, and in which tensor."""
    # Mark 0 is of loss and mask, mark i + 1 of entry i.
    names = differing(layout, known, marks)
    what = f"tensor {names[0]!r} differs" if names else "only its loss or its mask differs"
    return f"app is not deterministic: task {shard} of round {round_no} ran twice, {what}"


def differs_filled(layout: Layout, round_no: int, shard: int, known: bytes, marks: bytes) -> str:
    """Return the message of ``nondeterministic`` for a second run in ``numerics.filled``."""
    message = nondeterministic(layout, round_no, shard, known, marks)
    return f"{message}; `warren check` tells whether it reads uninitialized memory"


def differing(layout: Layout, one: bytes, other: bytes) -> tuple[str, ...]:
    """Return the names of the tensors whose marks differ; none if only loss or mask do."""
    return tuple(
        entry.name
        for at, entry in enumerate(layout.entries, start=1)
        if one[at * MARK_BYTES :][:MARK_BYTES] != other[at * MARK_BYTES :][:MARK_BYTES]
    )


# The file: magic and number of entries, then records (round, shard, marks) with a CRC-32 each.
_HEAD: Final = struct.Struct("<8sI")
_MAGIC: Final = b"WRNmarks"
_KEY: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")


def marks_path(folder: str | Path, part: int, parts: int) -> Path:
    """Return the file in which a server, or a rank of a ring, keeps the marks of tasks."""
    return Path(folder) / f"marks.{part}-of-{parts}"


class HashLog:
    """The marks of a job's tasks since an old checkpoint, in one file.

    Records are written at once and unbuffered: however the process dies, appended records are
    there. When the machine dies the last ones may be missing; then fewer are compared.

    Parameters
    ----------
    path
        The file; its folder is made when it is first needed.
    entries
        Tensors of the job's layout. A file of another number is not this job's: it is forgotten.
    """

    def __init__(self, path: str | Path, entries: int) -> None:
        self._path = Path(path)
        self._entries = entries
        self._record = struct.Struct(f"{_KEY.format}{MARK_BYTES * (1 + entries)}s")
        self._known: dict[tuple[int, int], bytes] = {}
        self._fd: int | None = None

    def load(self) -> None:
        """Read the marks in the file, and cut it off where a record is not whole.

        Raises
        ------
        OSError
            It is there and cannot be read, or cannot be cut off.
        """
        try:
            data = read(self._path, MAX_RESULT_BYTES)
        except FileNotFoundError:
            return
        size = self._record.size + _CRC.size
        end = _HEAD.size
        if data[:end] == self._head:
            for key, marks in self._records(data):
                self._known[key] = marks
                end += size
        else:
            end = 0
        if end < len(data):
            os.truncate(self._path, end)

    def append(self, round_no: int, shard: int, marks: bytes) -> None:
        """Append the marks of a task to the file, unless they are there already.

        Raises
        ------
        OSError
            With the name of the file.
        """
        if self._known.get((round_no, shard)) == marks:
            return
        self._known[round_no, shard] = marks
        record = self._record.pack(round_no, shard, marks)
        self._write(record + _CRC.pack(zlib.crc32(record)))

    def expected(self, round_no: int, shard: int) -> bytes | None:
        """Return the marks of a task if it was computed before, otherwise None."""
        return self._known.get((round_no, shard))

    def forget_before(self, round_no: int) -> None:
        """Forget tasks of earlier rounds, which will not run again; replace the file by rename.

        Raises
        ------
        OSError
            With the name of the file.
        """
        self._known = {key: marks for key, marks in self._known.items() if key[0] >= round_no}
        self.close()
        records = [self._record.pack(*key, marks) for key, marks in self._known.items()]
        body = b"".join(record + _CRC.pack(zlib.crc32(record)) for record in records)
        make_folder(self._path.parent)
        write_whole(self._path, self._head, body)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @property
    def _head(self) -> bytes:
        return _HEAD.pack(_MAGIC, self._entries)

    def _records(self, data: bytes) -> Iterator[tuple[tuple[int, int], bytes]]:
        """Yield the records up to the first that is not whole."""
        size = self._record.size
        for at in range(_HEAD.size, len(data) - size - _CRC.size + 1, size + _CRC.size):
            record = data[at : at + size]
            if data[at + size : at + size + _CRC.size] != _CRC.pack(zlib.crc32(record)):
                return
            round_no, shard, marks = self._record.unpack(record)
            yield (round_no, shard), marks

    def _write(self, record: bytes) -> None:
        """Append a record, with the head before it in a new file."""
        try:
            if self._fd is None:
                make_folder(self._path.parent)
                # O_APPEND: a record never overwrites an earlier one, wherever the file was cut.
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o644)
                if not os.fstat(self._fd).st_size:
                    record = self._head + record
            write_all(self._fd, record)
        except OSError as error:
            if error.filename is None:
                raise OSError(error.errno, error.strerror, str(self._path)) from None
            raise


Expected = Callable[[int, int], bytes | None]
"""Gives by round and shard the marks of that task in an earlier life, or None if unknown."""


class KnownHashes:
    """The known marks by round and shard; ``expected`` looks up those of an earlier life."""

    def __init__(self, layout: Layout, job: Job) -> None:
        self._layout, self._job = layout, job
        self._marks: dict[tuple[int, int], bytes] = {}
        self._copied: int | None = None
        self.expected: Expected | None = None

    def check(self, round_no: int, shard: int, marks: bytes) -> None:
        """Compare a task with its earlier result, if that is known.

        A job of ``numerics: mixed`` may get other bits on another kind of device.

        Raises
        ------
        SpecError
            It differs; the message names the tensor.
        """
        known = self._marks.get((round_no, shard))
        if known is None and self.expected is not None:
            known = self.expected(round_no, shard)
        if known is None or known == marks or self._job.numerics == "mixed":
            return
        message = nondeterministic(self._layout, round_no, shard, known, marks)
        # The round of a copy begins with the same state to the bit; a later one with the
        # optimizer's result.
        if self._copied is not None and round_no > self._copied:
            message += (
                f"; or its optimizer, schedule or attributes keep what no checkpoint has: since "
                f"round {self._copied} the job goes on from a copy of its state"
            )
        raise refuse(self._job, "", message)

    def add(self, round_no: int, shard: int, marks: bytes) -> None:
        """Keep the marks of a task."""
        self._marks[round_no, shard] = marks

    def forget_before(self, round_no: int) -> None:
        """Forget tasks of earlier rounds, which will not run again."""
        self._marks = {key: marks for key, marks in self._marks.items() if key[0] >= round_no}

    def go_on_from(self, round_no: int) -> None:
        """Forget all marks, as the job goes on from a copy of a round; ``expected`` stays."""
        self._marks.clear()
        self._copied = round_no
