"""The rows of the history database and their fields. Its tables: ``store/history_database.py``.

Fields are columns of the same name and in the same order; their annotations say which values a
column may hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A row of ``profiles``: the cost of a kind of task on a device type, in real seconds.

    The first columns are those of ``warren.profile.measured.TaskKind`` and its key. ``job`` and
    ``model`` are those it was last seen with. ``comp_s`` and ``sync_s``: medians of ``samples``
    tasks that ran alone; None: never measured so. ``*_avg_s``: moving averages over the
    ``avg_tasks`` tasks of live runs. ``memory_bytes`` 0: not measured. ``updated_at``: Unix time.
    ``load``: the machine's load average over a minute when the tasks were measured alone, in
    processes; None: not known.
    """

    key: str
    device_type: str
    app: str
    source_sha256: str
    params: str
    batch: int
    sync: str
    numerics: str
    machine: str
    job: str
    model: str | None
    model_bytes: int
    memory_bytes: int
    comp_s: float | None
    sync_s: float | None
    samples: int
    comp_avg_s: float | None
    sync_avg_s: float | None
    avg_tasks: int
    updated_at: float
    load: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A row of ``runs``: one live run.

    Tasks that ended by cluster time ``until_ns`` are in the averages of ``profiles``.
    """

    id: str
    name: str
    began_at: float
    until_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A row of ``jobs``: a job of a live run that has finished, failed or was cancelled.

    ``position`` is its index in the run. ``rounds`` is how many ran. ``costs`` is JSON:
    by device type ``comp_s``, ``sync_s`` (means, in the run's cluster seconds) and ``tasks``, how
    many were timed there; with 0 the times are those that the run was scheduled with.
    ``began_at`` (of the run) and ``ended_at`` are Unix times.
    """

    run: str
    position: int
    run_name: str
    began_at: float
    arrival_s: float
    name: str
    user: str
    group: str
    model: str | None
    app: str | None
    batch: int
    scale: int
    sync: str
    weight: float
    rounds: int
    status: str
    model_bytes: int
    costs: str
    ended_at: float


Row = TypeVar("Row", Profile, LiveRun, EndedJob)
TABLES: Final[dict[type, str]] = {Profile: "profiles", LiveRun: "runs", EndedJob: "jobs"}
_KEYS: Final[dict[type, tuple[str, ...]]] = {
    Profile: ("key", "device_type"),
    LiveRun: ("id",),
    EndedJob: ("run", "position"),
}
# By the text of a field's annotation, which a dataclass keeps in this file.
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (float,),
    "str | None": (str, type(None)),
    "float | None": (float, type(None)),
}


def upsert(kind: type) -> str:
    """Return the statement that writes a row of this kind.

    The row replaces one with the same key, except among jobs: a job ends once.
    """
    # ``excluded`` is SQLite's name for the row that could not be inserted.
    names = [field.name for field in fields(kind)]
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names)
    again = "NOTHING" if kind is EndedJob else f"UPDATE SET {changes}"
    return (
        f"INSERT INTO {TABLES[kind]} ({', '.join(map(_quoted, names))}) "
        f"VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT ({', '.join(_KEYS[kind])}) DO {again}"
    )


def select(kind: type, order: str) -> str:
    """Return the statement that reads all rows of this kind, ordered by these columns."""
    names = ", ".join(_quoted(field.name) for field in fields(kind))
    return f"SELECT {names} FROM {TABLES[kind]} ORDER BY {order}"


def row_of(kind: type[Row], values: Sequence[Any]) -> Row:
    """Return a row of this kind with the values that were read.

    Raises
    ------
    ValueError
        If the column may not hold a value; the text names table and column.
    """
    # The file may have been changed by other programs, and SQLite does not enforce types. No column
    # holds a negative, infinite or undefined number.
    columns = fields(kind)
    for column, value in zip(columns, values, strict=True):
        good = type(value) in _KINDS[str(column.type)]
        if not good or (isinstance(value, int | float) and not 0 <= value < math.inf):
            raise ValueError(f"table {TABLES[kind]}: column {column.name} holds {value!r}")
    return kind(**{column.name: value for column, value in zip(columns, values, strict=True)})


def _quoted(name: str) -> str:
    """Return a column's name in quotes: ``user`` and ``group`` are words of SQL."""
    return f'"{name}"'
