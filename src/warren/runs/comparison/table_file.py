"""Read the table that ``warren compare --csv`` writes, a row a policy and swept value."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from warren.model.errors import Problem, SpecError
from warren.report.seeds import SPREAD
from warren.store.files import read, refused


def read_table(path: str) -> list[dict[str, Any]]:
    """Return the rows of a comparison as ``Comparison.table`` makes them, without ``against``.

    Raises
    ------
    SpecError
        The file cannot be read, or is no such table.
    """
    try:
        text = read(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise refused(Path(path), f"cannot be read: {error}") from None
    lines = csv.DictReader(io.StringIO(text, newline=""))
    header = list(lines.fieldnames or [])
    if missing := [key for key in ("run", "place", "world", "seed", *SPREAD) if key not in header]:
        message = f"has no column {missing[0]!r}; give a table of warren compare --csv"
        raise SpecError(Problem(file=path, line=1, message=message))
    # ``Comparison.csv_text`` puts the swept keys between these two.
    swept = header[header.index("place") + 1 : header.index("world")]
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for number, line in enumerate(lines, start=2):
        try:
            row = _row(line, swept)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(Problem(file=path, line=number, message=f"no row: {error}")) from None
        # Runs of several seeds have one mean, the same in each row of a policy. Without seeds,
        # each row is a run of its own.
        found.setdefault((row["run"], row["place"], *(row[key] for key in swept)), row)
    return list(found.values())


def _row(line: dict[str, str], swept: list[str]) -> dict[str, Any]:
    """Return one line of the file as a row of the table."""
    several = bool(line.get("seeds"))
    name = line["run"].removesuffix(f" seed {line['seed']}") if several else line["run"]
    row: dict[str, Any] = {"run": name, "place": line["place"]}
    row |= {key: line[key] for key in swept}
    row |= {"seeds": int(line["seeds"]) if several else 1, "finished": int(line["finished"])}
    for key in SPREAD:
        mean, half = (line[f"{key}_mean"], line[f"{key}_ci95"]) if several else (line[key], "")
        row |= {key: float(mean) if mean else None, f"{key}_ci95": float(half) if half else None}
    return row
