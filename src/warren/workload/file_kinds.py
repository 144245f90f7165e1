"""Recognize files that are no text by their beginning, and say how to make text of them."""

from __future__ import annotations

import re
from typing import Final

_SNIFFED: Final = 1 << 12
_TABLE: Final = "write it as CSV, with pandas: `{}(FILE).to_csv('table.csv', index=False)`"
_PARQUET: Final = _TABLE.format("read_parquet")
_MAGIC: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"PAR1", "a Parquet file", _PARQUET),
    (b"ARROW1", "an Arrow file", _TABLE.format("read_feather")),
    (b"FEA1", "a Feather file", _TABLE.format("read_feather")),
    (b"ORC", "an ORC file", _TABLE.format("read_orc")),
    (b"Obj\x01", "an Avro file", "write it as CSV"),
    (b"SQLite format 3\0", "an SQLite database", "write a table as CSV: `sqlite3 -csv -header`"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _TABLE.format("read_hdf")),
    (b"\x93NUMPY", "a NumPy array", "write it as CSV, with `numpy.savetxt`"),
    (b"BZh", "packed by bzip2", "unpack it first, or pack it by gzip"),
    (b"\xfd7zXZ\0", "packed by xz", "unpack it first, or pack it by gzip"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", "unpack it first, or pack it by gzip"),
    (b"\x04\x22\x4d\x18", "packed by lz4", "unpack it first, or pack it by gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "save it as CSV"),
    (b"%PDF", "a PDF file", "give the table or log that it was made of"),
    (b"\x89PNG", "a picture", "give the table or log that it was made of"),
    (b"\xff\xd8\xff", "a picture", "give the table or log that it was made of"),
    (b"\x7fELF", "a program", "give a text file"),
    (b":W&B", "a file of a wandb run", "export the run's history as CSV"),
    (b"version https:/" + b"/git-lfs.", "a pointer of Git LFS", "`git lfs pull` fetches it"),
)  # fmt: skip
_ZIPPED: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"xl/", "an Excel file", "save it as CSV"),
    (b"word/", "a Word file", "save the table in it as CSV"),
    (b"data.pkl", "a checkpoint of PyTorch", "give a table or log of the metrics"),
    (b".npy", "a NumPy archive", "write its arrays as CSV, with `numpy.savetxt`"),
)
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_EVENTS: Final = re.compile(rb".{8}.{4}.{0,40}brain\.Event:", re.DOTALL)
_PAGE: Final = re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)


def unreadable_kind(content: bytes) -> str:
    """Return the kind of a file that cannot be read, and a way out; empty if it can be read.

    The text follows the name of the file: ``is a Parquet file; write it as CSV``.
    """
    start = content[:_SNIFFED]
    for magic, what, way in _MAGIC:
        if start.startswith(magic):
            return _told(what, way)
    if start.startswith(b"PK\x03\x04"):
        # The names of packed files stand at the start of each part, and all at the end.
        names = start + content[-_SNIFFED:]
        found = next((one for one in _ZIPPED if one[0] in names), None)
        return _told(*found[1:]) if found else _told("a zip archive", "unpack it first")
    if start[257:262] == b"ustar":
        return _told("a tar archive", "unpack it first")
    if wide := _wide(start):
        way = f"write it as UTF-8, with `iconv -f {wide} -t UTF-8`"
        return _told(f"{wide} text, as PowerShell writes it", way)
    if _EVENTS.match(start):
        way = "export the curve as CSV in TensorBoard, and read its columns Step and Value"
        return _told("an event file of TensorBoard", way)
    if _PICKLE.match(start):
        return _told("a pickle of Python", "write its table as CSV")
    if _PAGE.match(start):
        return _told("a web page", "save the file that it shows or links to")
    return ""


def _told(what: str, way: str) -> str:
    return f"is {what}; {way}"


def _wide(start: bytes) -> str:
    """Return the name of the encoding of two or four bytes a character; empty if it is none."""
    for mark, name in (
        (b"\xff\xfe\0\0", "UTF-32"),
        (b"\0\0\xfe\xff", "UTF-32"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    ):
        if start.startswith(mark):
            return name
    # Without a mark: of text in Latin letters every other byte is 0.
    even, odd = start[0:64:2], start[1:64:2]
    if len(odd) >= 4 and not any(odd) and all(even):
        return "UTF-16LE"
    return "UTF-16BE" if len(odd) >= 4 and not any(even) and all(odd) else ""
