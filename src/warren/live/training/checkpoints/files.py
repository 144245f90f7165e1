"""A job's checkpoints on disk: in a folder, for each saved round its parts and a note.

``ROUND-PART.part`` holds one server's part, ``ROUND.json`` says that all parts are there. Both come
by rename after their bytes are on disk, so that a checkpoint is complete or absent, whenever a
process or the machine stops. A part ends with its length and the CRC-32 of its job, round, number
and bytes. So a damaged part, or another job's, is noticed, and the checkpoint before it is used.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.live.transport.frames import Buffer
from warren.model.errors import WarrenError
from warren.store.files import open_regular, parsed_json, read

if TYPE_CHECKING:
    from warren.live.training.memory.disk_memory import DiskMemory

_LOGGER: Final = logging.getLogger("warren")
# ``_KEEP``: two checkpoints stay, so that a damaged one has another before it.
_FORMAT: Final = 1
_KEEP: Final = 2
# The end of a part: magic, length of the bytes before, and CRC-32, little-endian.
_TAIL: Final = struct.Struct("<8sQI")
_MAGIC: Final = b"WRN-part"
_READ_BYTES: Final = 1 << 20
_NOTE_BYTES: Final = 1 << 12
# Bytes that are written before the system is to forget them.
_FORGOTTEN_BYTES: Final = 1 << 25
# Number of times that a folder just removed by another process is made again.
_TRIES: Final = 100
_NOTE: Final = re.compile(r"(\d+)\.json")
_ANY: Final = re.compile(r"(\d+)(?:\.json|-\d+\.part)(?:\.new)?")


def save_part(
    folder: str | Path, round_no: int, part: int, data: Buffer, *, forget: bool = False
) -> None:
    """Put one server's part of the checkpoint of a round on disk.

    A published checkpoint of that round is withdrawn first, should there be one. ``forget`` as for
    ``write_whole``.

    Raises
    ------
    OSError
        With the name of the file.
    """
    path = Path(folder)
    make_folder(path)
    # Without the note, old and new parts of a round cannot pass for one checkpoint.
    with _named(_note(path, round_no)), contextlib.suppress(FileNotFoundError):
        os.unlink(_note(path, round_no))
    file, size = _part(path, round_no, part), memoryview(data).nbytes
    tail = _TAIL.pack(_MAGIC, size, zlib.crc32(data, _seed(file)))
    write_whole(file, data, tail, forget=forget)


def publish(folder: str | Path, round_no: int, parts: int) -> None:
    """Publish the checkpoint of a round, all of whose parts are saved, by writing its note.

    Raises
    ------
    OSError
        With the name of the file.
    """
    note = json.dumps({"format": _FORMAT, "round": round_no, "parts": parts}) + "\n"
    write_whole(_note(Path(folder), round_no), note.encode())


def prune(folder: str | Path, before: int) -> None:
    """Remove checkpoints of rounds earlier than ``before``, but never the newest two.

    The remains of an unfinished checkpoint of rounds earlier than those go as well.
    """
    path = Path(folder)
    rounds = _published(path)[:_KEEP]
    # With fewer than two published checkpoints nothing is removed (limit 0).
    limit = min([before, *rounds]) if len(rounds) == _KEEP else 0
    for name in os.listdir(path):
        found = _ANY.fullmatch(name)
        if found is not None and int(found[1]) < limit:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path / name)


def latest_round(folder: str | Path, at_most: int | None = None) -> int:
    """Return the newest round, up to ``at_most``, whose checkpoint is whole; 0 where none is.

    Every byte is read for that, at about two gigabytes a second. A damaged file is reported.
    """
    path = Path(folder)
    for round_no in _published(path):
        if at_most is not None and round_no > at_most:
            continue
        parts = _parts(path, round_no)
        files = (_part(path, round_no, part) for part in range(parts))
        damaged = _note(path, round_no) if not parts else next(filter(_is_damaged, files), None)
        if damaged is None:
            return round_no
        _LOGGER.warning("%s is damaged; an earlier checkpoint is used", damaged)
    return 0


def load_parts(
    folder: str | Path, round_no: int, disk: DiskMemory | None = None
) -> Sequence[Buffer]:
    """Return the bytes of all parts of a published checkpoint, in order.

    ``disk``: they stay in their files, and it gives their pages up; None: they are read.
    Raises
    ------
    OSError
        A file is missing or cannot be read.
    WarrenError
        The checkpoint does not exist, or a file is damaged.
    """
    path = Path(folder)
    parts = _parts(path, round_no)
    if not parts:
        raise WarrenError(f"{path} has no checkpoint of round {round_no}")
    return [_load(_part(path, round_no, part), disk) for part in range(parts)]


def write_whole(path: str | Path, *pieces: Buffer, forget: bool = False) -> None:
    """Write a file so that it is complete and on disk, or else unchanged.

    ``forget``: the system keeps little of it in memory meanwhile.

    Raises
    ------
    OSError
        With the name of the file; the partly written file is removed.
    """
    new = f"{path}.new"
    with _named(path):
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                for piece in pieces:
                    write_all(fd, piece, forget=forget)
                # The bytes are on disk before the rename, or a crash could leave an empty file.
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
        # The new name is on disk once its folder is.
        _sync_folder(Path(path).parent)


def make_folder(path: Path) -> None:
    """Make the folder of a job, even while the folder of all jobs is removed for being empty.

    Raises
    ------
    OSError
        With the name of the folder.
    """
    with _named(path):
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                os.makedirs(path, exist_ok=True)
                return
        os.makedirs(path, exist_ok=True)


def _note(folder: Path, round_no: int) -> Path:
    return folder / f"{round_no}.json"


def _part(folder: Path, round_no: int, part: int) -> Path:
    return folder / f"{round_no}-{part}.part"


def _published(folder: Path) -> list[int]:
    """Return the rounds that have a note, the newest first."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (_NOTE.fullmatch(name) for name in names)
    return sorted((int(match[1]) for match in found if match is not None), reverse=True)


def _parts(folder: Path, round_no: int) -> int:
    """Return the number of parts that a round's note states; 0 where there is no sound note."""
    try:
        note = parsed_json(read(_note(folder, round_no), _NOTE_BYTES))
        if (note["format"], note["round"]) == (_FORMAT, round_no):
            return max(0, int(note["parts"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        pass
    return 0


def _seed(path: Path) -> int:
    """Return the first value of a part's CRC-32, from its job, its round and its number."""
    return zlib.crc32(f"{path.parent.name}/{path.name}".encode())


def _is_damaged(path: Path) -> bool:
    """Tell whether a part is not as it was written; it is read in pieces, into the same memory."""
    try:
        with open_regular(path) as file:
            left, stated = _read_tail(file)
            total = _seed(path)
            piece = memoryview(bytearray(_READ_BYTES))
            # CRC-32 of the pieces one after another is that of the whole.
            while left > 0 and (count := file.readinto(piece[: min(left, _READ_BYTES)])):
                total, left = zlib.crc32(piece[:count], total), left - count
            return (left, total) != (0, stated)
    except (OSError, ValueError):
        return True


def _load(path: Path, disk: DiskMemory | None) -> Buffer:
    with _named(path), open_regular(path) as file:
        try:
            size, stated = _read_tail(file)
        except ValueError:
            raise WarrenError(f"{path} is damaged") from None
        data: Buffer
        if disk is None:
            data = file.readall()[:size]
        else:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            disk.adopt(os.dup(file.fileno()), pages)
            data = memoryview(pages)[:size]
    if zlib.crc32(data, _seed(path)) != stated:
        raise WarrenError(f"{path} is damaged")
    return data


def _read_tail(file: FileIO) -> tuple[int, int]:
    """Return the bytes of a part before its tail, and their CRC-32 as the tail states it.

    Raises
    ------
    ValueError
        It has no tail, or its tail states another length.
    """
    size = os.fstat(file.fileno()).st_size - _TAIL.size
    # Before a byte of it is read: a damaged file may be of any length.
    tail = os.pread(file.fileno(), _TAIL.size, size) if size >= 0 else b""
    if len(tail) < _TAIL.size or _TAIL.unpack(tail)[:2] != (_MAGIC, size):
        raise ValueError("no tail, or of another length")
    return size, int(_TAIL.unpack(tail)[2])


def write_all(fd: int, data: Buffer, *, forget: bool = False) -> None:
    """Write all bytes of ``data``; the system may take fewer at a call.

    ``forget``: a piece is on disk, and out of memory, before the next one is written.
    """
    left = memoryview(data)
    while left.nbytes:
        left = left[os.write(fd, left[:_FORGOTTEN_BYTES] if forget else left) :]
        if forget:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Let an OSError name the file it is about; writing to a descriptor does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
