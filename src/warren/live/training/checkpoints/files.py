"""A job's checkpoints on disk: in a folder, for each saved round its parts and a note.

``ROUND-PART.part`` holds what one server gave, ``ROUND.json`` says that all parts are there. Both
come by rename after their bytes are on disk, so that a checkpoint is there whole or not at all,
whenever a process or the machine stops. A part ends with its length and CRC-32, so that a damaged
one is noticed and the checkpoint before it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from warren.live.transport.frames import Buffer
from warren.model.errors import WarrenError

# ``_KEEP``: two checkpoints stay, so that a damaged one has another before it.
_FORMAT: Final = 1
_KEEP: Final = 2
# What a part ends with: magic, length and CRC-32 of the bytes before, little-endian.
_TAIL: Final = struct.Struct("<8sQI")
_MAGIC: Final = b"WRN-part"
_READ_BYTES: Final = 1 << 20
# So often a folder that was just removed by another process is made again.
_TRIES: Final = 100
_NOTE: Final = re.compile(r"(\d+)\.json")
_ANY: Final = re.compile(r"(\d+)(?:\.json|-\d+\.part)(?:\.new)?")


def save_part(folder: str | Path, round_no: int, part: int, data: Buffer) -> None:
    """Put one server's part of the checkpoint of a round on disk.

    A published checkpoint of that round is withdrawn first, should there be one.

    Raises
    ------
    OSError
        With the name of the file.
    """
    path = Path(folder)
    make_folder(path)
    # Without the note, old and new parts of a round cannot pass for one checkpoint.
    with _named(path / f"{round_no}.json"), contextlib.suppress(FileNotFoundError):
        os.unlink(path / f"{round_no}.json")
    size = memoryview(data).nbytes
    write_whole(_part(path, round_no, part), data, _TAIL.pack(_MAGIC, size, zlib.crc32(data)))


def publish(folder: str | Path, round_no: int, parts: int) -> None:
    """Publish the checkpoint of a round, all of whose parts are saved, by writing its note.

    Raises
    ------
    OSError
        With the name of the file.
    """
    note = json.dumps({"format": _FORMAT, "round": round_no, "parts": parts}) + "\n"
    write_whole(Path(folder) / f"{round_no}.json", note.encode())


def prune(folder: str | Path, before: int) -> None:
    """Remove checkpoints of rounds earlier than ``before``, but never the newest two.

    What an unfinished one left of rounds earlier than those goes as well.
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

    Every byte is read for that, at about two gigabytes a second.
    """
    path = Path(folder)
    for round_no in _published(path):
        if at_most is not None and round_no > at_most:
            continue
        parts = _parts(path, round_no)
        if parts and all(_sound(_part(path, round_no, part)) for part in range(parts)):
            return round_no
    return 0


def load_parts(folder: str | Path, round_no: int) -> list[bytes]:
    """Return the bytes of all parts of a published checkpoint, in order.

    Raises
    ------
    OSError
        A file is missing or cannot be read.
    WarrenError
        There is no such checkpoint, or a file is damaged.
    """
    path = Path(folder)
    parts = _parts(path, round_no)
    if not parts:
        raise WarrenError(f"{path} has no checkpoint of round {round_no}")
    return [_load(_part(path, round_no, part)) for part in range(parts)]


def write_whole(path: str | Path, *pieces: Buffer) -> None:
    """Write a file so that it is whole and on disk, or else as it was before.

    Raises
    ------
    OSError
        With the name of the file; what was written of it is removed.
    """
    new = f"{path}.new"
    with _named(path):
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                for piece in pieces:
                    write_all(fd, piece)
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


def _part(folder: Path, round_no: int, part: int) -> Path:
    return folder / f"{round_no}-{part}.part"


def _published(folder: Path) -> list[int]:
    """Return the rounds that have a note, the newest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = (_NOTE.fullmatch(name) for name in names)
    return sorted((int(match[1]) for match in found if match is not None), reverse=True)


def _parts(folder: Path, round_no: int) -> int:
    """Return the number of parts that a round's note states; 0 where there is no sound note."""
    try:
        note = json.loads((folder / f"{round_no}.json").read_bytes())
        if (note["format"], note["round"]) == (_FORMAT, round_no):
            return max(0, int(note["parts"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0


def _sound(path: Path) -> bool:
    """Tell whether a part is as it was written; it is read in pieces, into the same memory."""
    try:
        with path.open("rb", buffering=0) as file:
            left = os.fstat(file.fileno()).st_size - _TAIL.size
            expected = left
            total = 0
            piece = memoryview(bytearray(_READ_BYTES))
            # CRC-32 of the pieces one after another is that of the whole.
            while left > 0 and (count := file.readinto(piece[: min(left, _READ_BYTES)])):
                total, left = zlib.crc32(piece[:count], total), left - count
            return left == 0 and _TAIL.unpack(file.read()) == (_MAGIC, expected, total)
    except (OSError, struct.error):
        return False


def _load(path: Path) -> bytes:
    with _named(path):
        whole = path.read_bytes()
    # A file shorter than a tail has a negative size, and is refused below.
    size = len(whole) - _TAIL.size
    tail = _TAIL.pack(_MAGIC, max(0, size), zlib.crc32(memoryview(whole)[: max(0, size)]))
    if size < 0 or whole[size:] != tail:
        raise WarrenError(f"{path} is damaged")
    return whole[:size]


def write_all(fd: int, data: Buffer) -> None:
    """Write all bytes of ``data``; the system may take fewer at a call."""
    left = memoryview(data)
    while left.nbytes:
        left = left[os.write(fd, left) :]


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
