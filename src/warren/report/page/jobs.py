"""The table of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from warren.report.number_text import NOTHING, number
from warren.report.page.colours import Colouring
from warren.report.page.svg import escape

MOST_ROWS: Final = 1_500
_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("job", "job"),
    ("model", "model"),
    ("user", "user"),
    ("status", "status"),
    ("weight", "weight"),
    ("rounds", "rounds"),
    ("scale", "scale"),
    ("arrival_s", "arrival s"),
    ("start_s", "start s"),
    ("finish_s", "finish s"),
    ("wait_s", "wait s"),
    ("jct_s", "JCT s"),
)
_TEXT: Final = frozenset({"job", "model", "user", "status"})


def jobs_table(rows: Sequence[Mapping[str, Any]], colours: Colouring) -> str:
    """A sortable table of at most ``MOST_ROWS`` jobs: of more, those with the longest JCT."""
    chosen = list(enumerate(rows))
    note = ""
    if len(chosen) > MOST_ROWS:
        chosen.sort(key=lambda item: -(item[1]["jct_s"] or float("inf")))
        chosen = sorted(chosen[:MOST_ROWS])
        note = (
            f'<p class="note">{MOST_ROWS:,} of {len(rows):,} jobs are listed: those that did not '
            "finish and the longest ones. jobs.csv has all.</p>"
        )
    columns = [column for column in _COLUMNS if column[0] != "user" or any(r["user"] for r in rows)]
    if any("final_loss" in row for row in rows):
        columns += [("final_loss", "final loss"), ("params_sha256", "parameters")]
    body = "".join(_line(index, row, columns, colours) for index, row in chosen)
    return note + table([label for _, label in columns], body, [k in _TEXT for k, _ in columns])


def _line(
    index: int,
    row: Mapping[str, Any],
    columns: Sequence[tuple[str, str]],
    colours: Colouring,
) -> str:
    cells = []
    for key, _ in columns:
        value: Any = _waited(row) if key == "wait_s" else row.get(key)
        if key == "job":
            cells.append(f'<td><i class="{colours.class_J[index]}"></i>{escape(value)}</td>')
        elif key == "status":
            cells.append(f'<td class="{escape(value)}">{escape(value)}</td>')
        elif key == "params_sha256":
            cells.append(f'<td title="{escape(value or "")}">{escape((value or NOTHING)[:8])}</td>')
        elif isinstance(value, float | int):
            cells.append(f'<td class="n" data-v="{value!r}">{number(value)}</td>')
        else:
            shown = NOTHING if value in (None, "") else value
            cells.append(f"<td{'' if key in _TEXT else ' class=n'}>{escape(shown)}</td>")
    return f'<tr data-j="{index}" data-k="{colours.key_J[index]}">{"".join(cells)}</tr>'


def _waited(row: Mapping[str, Any]) -> float | None:
    return None if row["start_s"] is None else max(0.0, row["start_s"] - row["arrival_s"])


def table(headings: Iterable[str], body: str, left: Sequence[bool]) -> str:
    """A sortable table in a box that scrolls by itself; ``left`` marks columns of text."""
    head = "".join(
        f'<th scope="col"{"" if is_left else " class=n"}><button type="button">'
        f"{escape(_unit_held(heading))}</button></th>"
        for heading, is_left in zip(headings, left, strict=True)
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _unit_held(heading: str) -> str:
    """A heading that wraps in a narrow table, but not between a word and its unit."""
    return "\u00a0".join(heading.rsplit(" ", 1)) if heading.endswith(" s") else heading
