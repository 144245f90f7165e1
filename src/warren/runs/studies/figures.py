"""A figure of a paper reproduced by its program, beside the committed rows.

A checkout of Warren has under ``experiments/`` a program for the figures of each paper, and under
``experiments/results/`` the rows that it made.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any, Final, TypeAlias

from warren.model.errors import Problem, SpecError
from warren.workload.text import hint

PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "hare": ("hare_figures", "hare_motivation"),
    "hlas": ("hlas_figures",),
    "sjf-bco": ("sjf_bco_figures",),
    "jpas": ("jpas_figures",),
}
"""Programs under ``experiments/`` whose parts are the figures of a paper, by paper."""
_TIMED: Final = ("decide_s", "compile_s", "wall_s")
"""Real times: another machine has others, so they are not compared."""
_EQUAL: Final = 1e-9
"""Largest difference of two equal figures, in shares of the larger one or absolutely."""
_SHOWN: Final = ("weighted_jct_s", "mean_jct_s", "makespan_s")
"""The main figure of a row: the first of these that it has."""

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, ...]
"""The texts of a row, which tell it from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A part of the results of a program; ``folder``: the checkout's ``experiments/``."""

    folder: Path
    program: str
    part: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A reproduced figure.

    ``rows``: an entry a row, with both values of its main figure (``committed``, ``made``), whether
    all figures ``agree``, and the names of those that ``differ``. ``returncode``: the program's.
    """

    rows: list[Row]
    returncode: int


def figures_of(checkout: Path) -> dict[str, Figure]:
    """Return the figures of a checkout by name, such as ``hare-14``, in order of the papers.

    ``checkout``: its folder, or one inside it. Raises SpecError if the folder is in no checkout.
    """
    return dict(_figures(_experiments(checkout)))


def figure_named(name: str, figures: Mapping[str, Figure]) -> Figure:
    """Return the figure of this name.

    Raises SpecError if there is none.
    """
    if name not in figures:
        message = f"unknown figure {name!r}; {hint(name, figures)}`warren reproduce` lists them"
        raise SpecError(Problem(file="reproduce", message=message))
    return figures[name]


def reproduced(figure: Figure) -> Reproduction:
    """Reproduce a figure with its present program; nothing in the checkout changes."""
    committed = _rows(figure.folder / "results", figure)
    made, returncode = _made_again(figure)
    return Reproduction(rows=_compared(committed, made), returncode=returncode)


def _experiments(checkout: Path) -> Path:
    """Return the folder of the programs, of a checkout that contains the given folder.

    Raises SpecError if there is none.
    """
    for folder in (checkout.absolute(), *checkout.absolute().parents):
        if (folder / "experiments" / "_common.py").is_file():
            return folder / "experiments"
    message = "is in no checkout of Warren, whose experiments/ are needed; give --checkout DIR"
    raise SpecError(Problem(file=str(checkout), message=message))


def _figures(folder: Path) -> Iterator[tuple[str, Figure]]:
    """Yield the figures whose results are committed, with their names."""
    for paper, programs in PROGRAMS.items():
        for program in programs:
            path = folder / "results" / f"{program}.json"
            parts = json.loads(path.read_text())["parts"] if path.is_file() else {}
            # Numbered figures first and by number: padded with blanks, 9 comes before 14.
            for part in sorted(parts, key=lambda part: (not part.isdigit(), part.rjust(9))):
                name = f"{paper}-{part.replace(' ', '-')}"
                rows = len(parts[part]["rows"])
                yield name, Figure(folder=folder, program=program, part=part, rows=rows)


def _rows(results: Path, figure: Figure) -> list[Row]:
    """Read the rows of a figure from a folder of results."""
    content = json.loads((results / f"{figure.program}.json").read_text())
    rows: list[Row] = content["parts"][figure.part]["rows"]
    return rows


def _made_again(figure: Figure) -> tuple[list[Row], int]:
    """Return the rows of the present program, and its exit code."""
    folder = figure.folder
    results = Path(tempfile.mkdtemp(prefix="warren-reproduce-"))
    try:
        # The program writes into a copy of its results, and makes one part again.
        shutil.copy(folder / "results" / f"{figure.program}.json", results)
        command = [sys.executable, str(folder / f"{figure.program}.py"), "--part", figure.part]
        own = {"WARREN_RESULTS": str(results), "TMPDIR": str(results)}
        # In a group of its own: an interrupt is passed on once, and ends it without a traceback.
        with subprocess.Popen(
            command,
            env={**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"},
            # Its output goes to standard error: standard output is for a command's answer.
            stdout=2,
            start_new_session=True,
        ) as program:
            _await(program)
        rows = _rows(results, figure)
    finally:
        shutil.rmtree(results, ignore_errors=True)
    return rows, program.returncode


def _await(program: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a program; an interruption ends all processes that it has started."""
    try:
        program.wait()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        raise


def _compared(committed: list[Row], made: list[Row]) -> list[Row]:
    """Return an entry a row: both values of its main figure, and the figures that differ."""
    old, new = (dict(map(_read, rows)) for rows in (committed, made))
    entries = []
    # A row that only one side has differs in all its figures.
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key, {}), new.get(key, {})
        numbers = dict.fromkeys((*before, *after))
        differ = [one for one in numbers if not _same(before.get(one), after.get(one))]
        shown = next((one for one in _SHOWN if one in numbers), next(iter(numbers), ""))
        entries.append(
            {
                "row": list(key),
                "figure": shown,
                "committed": before.get(shown),
                "made": after.get(shown),
                "agree": not differ,
                "differ": differ,
            }
        )
    return entries


def _same(one: float | None, other: float | None) -> bool:
    """Tell whether two figures agree, or both are absent."""
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=_EQUAL, abs_tol=_EQUAL)


def _read(row: Row) -> tuple[Key, dict[str, float]]:
    """Return the key of a row, and its numbers by name."""
    texts = {name: one for name, one in row.items() if isinstance(one, str)}
    # The commit at which a row was made is no part of its key.
    key = tuple(one for name, one in texts.items() if name != "commit")
    return key, {name: one for name, one in _numbers("", row) if name not in _TIMED}


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers inside a value with their dotted names."""
    if isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for part, one in items:
            yield from _numbers(f"{name}.{part}".removeprefix("."), one)
    elif isinstance(value, int | float):
        yield name, float(value)
