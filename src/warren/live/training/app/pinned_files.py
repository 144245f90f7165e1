"""The texts of a run's apps in a folder: each file once, named by its hash, and an index.

``SHA256.py`` is a text; ``index.json`` lists sets of them, the latest last: the run's first set,
then each set that replaced it. Every text is compared with its name when it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from warren.model.errors import Problem, SpecError
from warren.model.job import AppSource, Sources
from warren.store.files import read

APPS: Final = "apps"
"""The folder's name, in a run's folder and in its private one."""
INDEX: Final = "index.json"


class _App(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One app in the index; ``files`` has hashes by path relative to ``folder``, as it was read."""

    folder: str
    main: str
    files: dict[str, str]


class _Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sets: list[dict[str, _App]]
    format: Literal[1] = 1


def pin_files(sets: Sequence[Sources]) -> dict[str, bytes]:
    """Return the files of a folder that holds these sets, by name; the index is the last."""
    every = [source for one in sets for source in one.values()]
    texts = {
        f"{digest}.py": source.texts[file]
        for source in every
        for file, digest in source.hashes.items()
    }
    index = _Index(
        [
            {file: _App(one.folder, one.main, one.hashes) for file, one in sources.items()}
            for sources in sets
        ]
    )
    # The index comes last, so that a folder with an index has all texts that the index names.
    return {**texts, INDEX: msgspec.json.format(msgspec.json.encode(index)) + b"\n"}


def save_pins(folder: Path, sources: Sources) -> None:
    """Write one set to a new folder, which no process reads yet."""
    folder.mkdir()
    for name, data in pin_files([sources]).items():
        (folder / name).write_bytes(data)


def load_pins(folder: Path) -> list[Sources]:
    """Return the sets of app texts that a folder holds, the latest last.

    Raises
    ------
    SpecError
        If a file is missing or was changed.
    """
    index = folder / INDEX
    try:
        sets = msgspec.json.decode(_read(index), type=_Index).sets
    except (msgspec.DecodeError, RecursionError) as error:
        raise SpecError(Problem(file=str(index), message=f"is damaged: {error}")) from None
    # Sets share most files, so each text is read and hashed once.
    texts: dict[str, bytes] = {}

    def text(digest: str) -> bytes:
        if digest not in texts:
            texts[digest] = _text(folder / f"{digest}.py", digest)
        return texts[digest]

    return [{file: _source(index, one, text) for file, one in apps.items()} for apps in sets]


def _source(index: Path, app: _App, text: Callable[[str], bytes]) -> AppSource:
    if app.main not in app.files:
        raise SpecError(Problem(file=str(index), message=f"is damaged: no file {app.main!r}"))
    texts: Mapping[str, bytes] = {file: text(digest) for file, digest in app.files.items()}
    return AppSource(folder=app.folder, main=app.main, texts=texts)


def _text(path: Path, digest: str) -> bytes:
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != digest:
        message = "is damaged: its text has another hash than its name says"
        raise SpecError(Problem(file=str(path), message=message))
    return data


def _read(path: Path) -> bytes:
    try:
        return read(path)
    except FileNotFoundError:
        raise SpecError(Problem(file=str(path), message="is missing")) from None
    except OSError as error:
        message = f"cannot be read: {error}"
        raise SpecError(Problem(file=str(path), message=message)) from None
