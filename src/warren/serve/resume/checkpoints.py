"""Complete checkpoints in a folder, found by names, sizes and the ends of files.

No checkpoint is loaded: that takes the libraries of the job, and the time of its grace.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from warren.serve.certificate.files import numbers_in, pattern

_SUFFIXES: Final = (".pt", ".pth", ".ckpt", ".safetensors", ".npz")
"""Ends of the names of files that are checkpoints by themselves."""
_NUMBERED: Final = re.compile(
    r"(step|epoch|iter|iteration|ckpt|checkpoint)[-_=]?\d+(\.ckpt)?\Z", re.IGNORECASE
)
"""Names of folders that are one checkpoint, of several files."""
_OF_LIBRARIES: Final = frozenset(
    ("config.json", "training_args.bin", "adapter_config.json", "optimizer.bin")
)
"""Files that only HuggingFace's Trainer and accelerate write."""
_WRITTEN_LAST: Final = ("trainer_state.json", "random_states_0.pkl")
"""Files that HuggingFace's Trainer and accelerate write last into their folders."""
_UNDER_WAY: Final = "checkpoint-is-incomplete.txt"
"""File that HuggingFace's Trainer has in a folder while it saves within its grace."""
_DEPTH: Final = 5
"""Most folders above a checkpoint, below the one that is looked through."""
_ENTRIES: Final = 20_000
"""Most files and folders that are looked at."""
_HEADER_BYTES: Final = 64 << 20
"""Longest header of a safetensors file that is read, in bytes."""
_ZIP_END_BYTES: Final = 22
"""Size of the record that ends a zip file without a comment, in bytes."""


_Entry: TypeAlias = "os.DirEntry[str]"


class SavedCheckpoint(NamedTuple):
    """A complete checkpoint; ``written`` is when its last file was, in seconds since 1970."""

    path: str
    written: float
    is_folder: bool


def complete_checkpoints(folder: str) -> list[SavedCheckpoint]:
    """Return the complete checkpoints in a folder and the folders below it.

    Hidden names are passed over, and what cannot be read; folders of a checkpoint are not looked
    through further.
    """
    return list(_Search().below(folder, _DEPTH))


def latest(found: Sequence[SavedCheckpoint]) -> str | None:
    """Return the path of the checkpoint to go on from; None if there is none.

    Of names that differ in numbers the highest counts, of different names the last written. A
    folder comes before files: beside one, files are parts or results.
    """
    newest: dict[str, SavedCheckpoint] = {}
    for one in sorted(found, key=lambda one: numbers_in(one.path)):
        newest[pattern(one.path)] = one
    candidates = [one for one in newest.values() if one.is_folder] or list(newest.values())
    return max(candidates, key=lambda one: one.written).path if candidates else None


class _Search:
    """One look through a folder; ``left`` is how many entries it may still look at."""

    def __init__(self) -> None:
        self.left = _ENTRIES

    def below(self, folder: str, depth: int) -> Iterator[SavedCheckpoint]:
        """Yield the complete checkpoints in a folder, which may be one itself."""
        entries = self._entries(folder)
        names = [name for name in entries if name.endswith(_SUFFIXES)]
        if ".metadata" in entries:
            yield from _saved(folder, entries, is_folder=True)
        elif _NUMBERED.search(folder) and (names or _has_traces(entries)):
            if _is_finished(entries) and all(_is_whole(entries[name].path) for name in names):
                yield from _saved(folder, entries, is_folder=True)
        else:
            yield from self._each(entries, depth)

    def _each(self, entries: Mapping[str, _Entry], depth: int) -> Iterator[SavedCheckpoint]:
        for name, entry in entries.items():
            if name.startswith("."):
                continue
            if entry.is_dir():
                if depth:
                    yield from self.below(entry.path, depth - 1)
            elif name.endswith(_SUFFIXES) and _is_whole(entry.path):
                yield from _saved(entry.path, {name: entry}, is_folder=False)

    def _entries(self, folder: str) -> dict[str, _Entry]:
        try:
            with os.scandir(folder) as entries:
                found = {entry.name: entry for entry in islice(entries, max(0, self.left))}
        except OSError:
            return {}
        self.left -= len(found)
        return dict(sorted(found.items()))


def _has_traces(entries: Mapping[str, _Entry]) -> bool:
    """Tell whether a library makes this folder, or has made it."""
    return not _OF_LIBRARIES.isdisjoint(entries) or any(
        name.endswith(".distcp") for name in entries
    )


def _is_finished(entries: Mapping[str, _Entry]) -> bool:
    """Tell whether the file is there that the library which makes such folders writes last."""
    if _UNDER_WAY in entries:
        return False
    return not _has_traces(entries) or any(one in entries for one in _WRITTEN_LAST)


def _saved(
    path: str, entries: Mapping[str, _Entry], *, is_folder: bool
) -> Iterator[SavedCheckpoint]:
    try:
        written = max(one.stat().st_mtime for one in entries.values())
    except OSError:  # it is being deleted
        return
    yield SavedCheckpoint(path, written, is_folder)


def _is_whole(path: str) -> bool:
    """Tell whether a file has its end: a save that was killed leaves one without."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            return False
        with open(path, "rb", opener=_open_at_once) as file:
            head = file.read(8)
            if path.endswith(".safetensors"):
                return status.st_size == _safetensors_bytes(head, file)
            if head.startswith(b"PK\3\4"):
                file.seek(max(0, status.st_size - _ZIP_END_BYTES))
                return file.read(4) == b"PK\5\6"
    except OSError:
        return False
    return True


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; if it has become a pipe meanwhile this process does not wait for it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _safetensors_bytes(head: bytes, file: BinaryIO) -> int:
    """Return the size that a safetensors file has by its header; -1 if there is no header."""
    length = int.from_bytes(head, "little")
    try:
        tensors = json.loads(file.read(min(length, _HEADER_BYTES)))
        ends = [one["data_offsets"][1] for name, one in tensors.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return -1
    return 8 + length + max(ends, default=0)
