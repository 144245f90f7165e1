"""Decode text from outside with a limit, and show it safely in one line."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from warren.model.errors import Problem, SpecError
from warren.workload.file_kinds import unreadable_kind

Reader: TypeAlias = Callable[[str], bytes]
"""Reads the content of a file; raises ``OSError`` where it cannot."""
HostsHere: TypeAlias = Callable[[], list[dict[str, Any]]]
"""Gives the hosts that this machine is, as a cluster file would list them."""

# Bounds of memory: a file in its own size, and a small gzip file after unpacking.
MAX_BYTES: Final = 64 << 20
MAX_UNPACKED_BYTES: Final = 1 << 30
_GZIP: Final = b"\x1f\x8b"
_SHOWN_CHARS: Final = 60
# Unlike YAML 1.1: no octal or sexagesimal numbers.
INT: Final = re.compile(r"[-+]?[0-9]{1,400}")
FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
"""Text that is a number, in YAML files and in tables of jobs alike."""


def shown(value: object) -> str:
    """Return a value as it may stand in an error line: printable and short."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    # Python refuses to print integers of very many digits, and a reader gains nothing from them.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def hint(name: str, allowed: Iterable[str]) -> str:
    """Return ``did you mean NAME? `` if one of the names is near, otherwise an empty text."""
    # The search takes time with the length of the name, which comes from outside.
    near = get_close_matches(name[:100], list(allowed), n=1)
    return f"did you mean {near[0]}? " if near else ""


def dotted(path: tuple[str | int, ...]) -> str:
    """Return a path as users write it: ``jobs[3].evaluate.every``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{_key(key)}" for key in path]
    return "".join(parts).removeprefix(".")


def _key(key: str) -> str:
    return key if key.isprintable() and 0 < len(key) <= _SHOWN_CHARS else shown(key)


def decoded(file: str, content: bytes, most_bytes: int = MAX_BYTES) -> str:
    """Return content as UTF-8 text, with or without a byte order mark.

    Raises SpecError if it is too large or not UTF-8; a file of a known kind is named.
    """
    if len(content) > most_bytes:
        message = f"is larger than {most_bytes >> 20} MiB"
        raise SpecError(Problem(file=file, message=message))
    if kind := unreadable_kind(content):
        raise SpecError(Problem(file=file, message=kind))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SpecError(Problem(file=file, line=line, message="is not UTF-8 text")) from None


def unpacked(file: str, content: bytes) -> bytes:
    """Unpack the content of a ``.gz`` file, known by its first bytes; return others unchanged.

    Raises SpecError if it is damaged, or unpacks to more than ``MAX_UNPACKED_BYTES``.
    """
    parts: list[bytes] = []
    room = MAX_UNPACKED_BYTES
    # A gzip file may be several members one after another; ``room`` bounds them together.
    while content.startswith(_GZIP) and (room > 0 or not parts):
        # 31 = 16 + 15: gzip header and trailer, the largest window.
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(content, room))
        except zlib.error:
            raise SpecError(Problem(file=file, message="is damaged gzip data")) from None
        # It stopped before its end: the data ends there, or the room is used up.
        if not unpacker.eof:
            raise SpecError(Problem(file=file, message="is gzip data cut short, or too large"))
        room -= len(parts[-1])
        content = unpacker.unused_data
    return b"".join(parts) if parts else content


def fetch(file: str, read: Reader, named_by: str = "") -> bytes:
    """Read the content of a file.

    Raises SpecError if it cannot be read; ``named_by`` tells which file and line asked for it.
    """
    try:
        return read(file)
    except OSError as error:
        where = f" (named in {named_by})" if named_by else ""
        message = f"cannot be read: {error.strerror or error}{where}"
        raise SpecError(Problem(file=file, message=message)) from None


def fetch_text(file: str, read: Reader, named_by: str = "") -> str:
    """Read the content of a file as text; raises SpecError as ``fetch`` and ``decoded`` do."""
    return decoded(file, fetch(file, read, named_by))


def plain(value: Any, depth: int = 50) -> Any:
    """Return an object as a file would hold it: dicts, lists, strings, finite numbers, None.

    Raises ValueError if it holds anything else; the message names it.
    """
    if depth < 0:
        raise ValueError("is nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # Subclasses of the plain types, such as numpy's or enums, become the plain value.
        return str.__str__(value)
    if isinstance(value, int):
        if abs(value) >= 10**400:
            raise ValueError("a number of more than 400 digits is too large")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is not a number Warren can use")
        return float(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("every key must be a string")
        return {key: plain(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, depth - 1) for inner in value]
    # A scalar of numpy, or an array or tensor without dimensions.
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return plain(value.item(), depth - 1)
    raise ValueError(f"{type(value).__name__} cannot stand in a file")
