"""A file that is no text, or no trace, is named for what it is, with a way forward."""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
import struct
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from warren.model.errors import SpecError
from warren.workload.file_kinds import unreadable_kind
from warren.workload.text import decoded
from warren.workload.traces.registry import detected

CSV = "step,value\n1,2\n2,3\n"


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return content.getvalue()


def tar() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"))
    return content.getvalue()


def in_arrow(write: object) -> bytes:
    content = io.BytesIO()
    write(pa.table({"step": [1, 2]}), content)  # type: ignore[operator]
    return content.getvalue()


def events() -> bytes:
    """Return the first record of an event file: length, checksum, an event with its version."""
    event = b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a\x0dbrain.Event:2"
    return struct.pack("<Q", len(event)) + b"\x01\x02\x03\x04" + event + b"\x05\x06\x07\x08"


KINDS = {
    "a Parquet file": in_arrow(parquet.write_table),
    "an Arrow file": in_arrow(feather.write_feather),
    "an event file of TensorBoard": events(),
    "an Excel file": zipped("[Content_Types].xml", "xl/workbook.xml"),
    "a checkpoint of PyTorch": zipped("archive/data.pkl", "archive/version"),
    "a NumPy archive": zipped("a.npy"),
    "a zip archive": zipped("curve.csv"),
    "a tar archive": tar(),
    "a pickle of Python": pickle.dumps({"loss": [1, 2]}),
    "UTF-16 text": CSV.encode("utf-16"),
    "UTF-16LE text": CSV.encode("utf-16-le"),
    "UTF-16BE text": CSV.encode("utf-16-be"),
    "UTF-32 text": CSV.encode("utf-32"),
    "packed by xz": b"\xfd7zXZ\0rest",
    "a web page": b"\n<!DOCTYPE html><html>Sign in</html>",
    "a pointer of Git LFS": b"version https:/" + b"/git-lfs.x/spec/v1\noid sha256:0\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_text_is_named_with_a_way_forward(kind: str) -> None:
    for reader in (detected, decoded):
        with pytest.raises(SpecError) as error:
            reader("f", KINDS[kind])
        assert str(error.value).startswith(f"f: is {kind}")
        assert "; " in str(error.value)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_any_protocol_is_named(protocol: int) -> None:
    for value in ([1, 2], {"a": 1}, (1.5, "x"), "text"):
        assert unreadable_kind(pickle.dumps(value, protocol)).startswith("is a pickle")


def test_a_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE curve (step, value)")
    connection.close()
    assert unreadable_kind(path.read_bytes()).startswith("is an SQLite database; ")


@given(st.text())
def test_text_is_never_taken_for_another_kind(text: str) -> None:
    plain = text.replace("\0", "")
    kind = unreadable_kind(plain.encode())
    assert kind == "" or kind.startswith(("is a web page", "is a PDF", "is an ORC", "is packed by"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "f: is empty"),
        ("\n \n", "f: is empty"),
        ("id,submit,duration,gpus\n", "f: has a header and no row: 'id', 'submit', 'duration'"),
        ("id;submit;duration\n\n", "f: has a header and no row: 'id', 'submit', 'duration'"),
        ("timestamp,duration,num_gpus\n", "f: has a header and no row: 'timestamp'"),
        (
            "JobID           JobName\n------------ ----------\n1001            train-a\n",
            "f: has columns of fixed width, as `sacct` prints without -P; write it by `sacct -P --",
        ),
        (
            "JOBID  PARTITION   NAME ST\n  7        gpu  train  R\n  8        gpu  train  R\n",
            "f: has columns of fixed width; allowed: cells with comma, semicolon, tab, bar betw",
        ),
        (json.dumps({"jobs": [], "meta": {"Slurm": {}}}), "f: is JSON; the one trace of JSON "),
        (json.dumps([1, 2], indent=1), "f: is JSON; "),
    ],
)
def test_text_that_is_no_trace_is_named_and_no_command_is_advised_that_fails(
    text: str, told: str
) -> None:
    with pytest.raises(SpecError) as error:
        detected("f", text.encode())
    assert str(error.value).startswith(told)
    assert "warren trace inspect" not in str(error.value)
