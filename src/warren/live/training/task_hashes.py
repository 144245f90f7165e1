"""What tasks gave, kept on disk, so that those computed again after a loss can be compared."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warren.live.training.checkpoints.files import make_folder, write_whole
from warren.live.training.task_result import MARK_BYTES

_HEAD: Final = struct.Struct("<8sI")
_MAGIC: Final = b"WRNmarks"
_KEY: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")


def marks_path(folder: str | Path, part: int, parts: int) -> Path:
    """Where one of a job's servers, or a rank of its ring, keeps the marks of tasks."""
    return Path(folder) / f"marks.{part}-of-{parts}"


class MarkLog:
    """Marks of a job's tasks since an old checkpoint, in one file.

    Records are written at once and unbuffered: whatever the process dies of, what was appended is
    there. When the machine dies the last ones may be missing; then less is compared, no more.

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
        """Take what the file has; it is cut off where a record is not whole.

        Raises
        ------
        OSError
            It is there and cannot be read, or cannot be cut off.
        """
        try:
            data = self._path.read_bytes()
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
        """Remember a task.

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
        """The marks of a task, if it was computed before."""
        return self._known.get((round_no, shard))

    def forget_before(self, round_no: int) -> None:
        """Tasks of earlier rounds will not be computed again: the file is written anew, by rename.

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
        """Records up to the first that is not whole."""
        size = self._record.size
        for at in range(_HEAD.size, len(data) - size - _CRC.size + 1, size + _CRC.size):
            record = data[at : at + size]
            if data[at + size : at + size + _CRC.size] != _CRC.pack(zlib.crc32(record)):
                return
            round_no, shard, marks = self._record.unpack(record)
            yield (round_no, shard), marks

    def _write(self, record: bytes) -> None:
        try:
            if self._fd is None:
                make_folder(self._path.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o644)
                if not os.fstat(self._fd).st_size:
                    record = self._head + record
            while record:
                record = record[os.write(self._fd, record) :]
        except OSError as error:
            if error.filename is None:
                raise OSError(error.errno, error.strerror, str(self._path)) from None
            raise
