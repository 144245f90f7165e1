"""The tables of a run's jobs and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from warren.report.fairness.users import UserShare
from warren.report.metrics import JobRow
from warren.report.number_text import NOTHING, number, percent, time_unit
from warren.report.page.colours import Colouring
from warren.report.page.table import Cell, TableRow, number_cell, table
from warren.report.phases import PHASES, times_of

MOST_ROWS: Final = 1_500
"""Most jobs that are listed, so that the browser can sort the table at once."""
MOST_USERS: Final = 500
"""Most users that are listed."""
_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("job", "job"),
    ("model", "model"),
    ("user", "user"),
    ("status", "status"),
    ("weight", "weight"),
    ("rounds", "rounds"),
    ("scale", "scale"),
    ("arrival_s", "arrival"),
    ("start_s", "start"),
    ("finish_s", "finish"),
    ("wait_s", "wait"),
    ("jct_s", "JCT"),
)
_SPANS: Final = frozenset({"wait_s", "jct_s"})
"""The times that are lengths; the others are points of the run. Each kind has one unit."""
_TEXT: Final = frozenset({"job", "model", "user", "status"})


def jobs_table(rows: Sequence[JobRow], colours: Colouring) -> Markup:
    """Make a sortable table of at most ``MOST_ROWS`` jobs: of more, those with the longest JCT."""
    chosen = list(enumerate(rows))
    note = ""
    if len(chosen) > MOST_ROWS:
        # Without a JCT a job did not finish: such jobs are looked for first.
        chosen.sort(key=lambda item: -(item[1]["jct_s"] or float("inf")))
        chosen = sorted(chosen[:MOST_ROWS])
        note = (
            f"{MOST_ROWS:,} of {len(rows):,} jobs are listed: those that did not "
            "finish and the longest ones. jobs.csv has all."
        )
    # A column that is empty for all jobs is left out.
    columns = [column for column in _COLUMNS if column[0] != "user" or any(r["user"] for r in rows)]
    if any("final_loss" in row for row in rows):
        columns += [("final_loss", "final loss"), ("params_sha256", "parameters")]
    points = time_unit(max((row["finish_s"] or row["arrival_s"] for row in rows), default=0.0))
    spans = time_unit(max((row["jct_s"] or _waited(row) or 0.0 for row in rows), default=0.0))
    units = {key: spans if key in _SPANS else points for key, _ in columns if key.endswith("_s")}
    lines = (
        TableRow(
            cells=[_cell(key, row, colours.class_J[index], units) for key, _ in columns],
            key=colours.key_J[index],
            job=index,
        )
        for index, row in chosen
    )
    headings = [
        (f"{label} {units[key][1]}" if key in units else label, key in _TEXT)
        for key, label in columns
    ]
    return table(headings, lines, note)


def _cell(key: str, row: JobRow, colour: str, units: Mapping[str, tuple[float, str]]) -> Cell:
    """Make the cell of a column; ``wait_s`` is the only column that the row does not have."""
    values: Mapping[str, Any] = row
    value: Any = _waited(row) if key == "wait_s" else values.get(key)
    if key == "job":
        return Cell(text=value, colour=colour)
    if key == "status":
        return Cell(text=value, kind=value)
    if key == "params_sha256":
        return Cell(text=(value or NOTHING)[:8], title=value or "")
    if key in units and value is not None:
        return number_cell(f"{value / units[key][0]:,.2f}", value)
    if isinstance(value, float | int):
        return number_cell(number(value), value)
    return Cell(text=NOTHING if value in (None, "") else value, kind="" if key in _TEXT else "n")


def _waited(row: JobRow) -> float | None:
    """Return the seconds from arrival to first start; None where the job did not start."""
    # A live start may be stamped a rounding before its arrival.
    return None if row["start_s"] is None else max(0.0, row["start_s"] - row["arrival_s"])


def users_table(rows: Sequence[UserShare]) -> Markup:
    """Make a sortable table of at most ``MOST_USERS`` users: of more, those with most device time.

    Empty where there is no user.
    """
    if not rows:
        return Markup()
    chosen = sorted(rows, key=lambda row: -row.device_s)[:MOST_USERS]
    note = ""
    if len(chosen) < len(rows):
        note = f"{MOST_USERS:,} of {len(rows):,} users are listed: those with most device time."
    busy = time_unit(max(row.device_s for row in rows))
    jct = time_unit(max(row.mean_jct_s or 0.0 for row in rows))
    headings = [
        ("user", True),
        ("jobs", False),
        ("finished", False),
        (f"device time {busy[1]}", False),
        ("share of device time", False),
        (f"mean JCT {jct[1]}", False),
        ("mean slow-down", False),
        ("worst finish-time fairness", False),
    ]
    lines = (
        TableRow(
            cells=[
                Cell(text=row.user or NOTHING),
                number_cell(f"{row.jobs:,}", row.jobs),
                number_cell(f"{row.finished:,}", row.finished),
                _number(row.device_s, busy[0]),
                number_cell(percent(row.device_share), row.device_share, 100 * row.device_share),
                _number(row.mean_jct_s, jct[0]),
                _number(row.mean_slowdown),
                _number(row.max_finish_time_fairness),
            ],
            key=f"u{at}",
        )
        for at, row in enumerate(chosen)
    )
    return table(headings, lines, note)


def phases_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Make a sortable table of jobs' speed and phases, as ``summary.json`` has them in ``phases``.

    Empty where nothing was measured.
    """
    if not rows:
        return Markup()
    shares = [times_of(row).shares() for row in rows]
    names = [phase for phase in PHASES if any(share.get(phase) for share in shares)]
    headings = [("job", True), ("tasks a second", False), *((PHASES[one], False) for one in names)]
    lines = [
        TableRow(
            cells=[
                Cell(text=row["job"]),
                _number(row["tasks_per_s"]),
                *(number_cell(percent(part.get(one)), part.get(one)) for one in names),
            ],
            key=f"p{at}",
        )
        for at, (row, part) in enumerate(zip(rows, shares, strict=True))
    ][:MOST_ROWS]
    return table(headings, lines)


def _number(value: float | None, unit: float = 1.0) -> Cell:
    return number_cell(NOTHING if value is None else f"{value / unit:,.2f}", value)
