"""``warren reproduce``: one figure of a paper made again, beside the value that is committed."""

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
from typing import Annotated, Any, Final, TypeAlias

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.workload.text import hint

PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "hare": ("hare_figures", "hare_motivation"),
    "hlas": ("hlas_figures",),
    "sjf-bco": ("sjf_bco_figures",),
}
"""Paper to the programs under ``experiments/`` whose parts are its figures."""
_TIMED: Final = ("decide_s", "wall_s")
"""Real times: another machine has others, so they are not compared."""
_EQUAL: Final = 1e-9
_SHOWN: Final = ("weighted_jct_s", "mean_jct_s", "makespan_s")

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A part of the results of a program."""

    program: str
    part: str
    rows: int


def reproduce_command(name: str | None, checkout: str, json_: bool) -> None:
    """Make one figure again and say whether it is the committed one; without a name, list them."""
    folder = _experiments(Path(checkout))
    figures = dict(_figures(folder))
    if name is None:
        _list(figures, json_)
        return
    if name not in figures:
        message = f"unknown figure {name!r}; {hint(name, figures)}`warren reproduce` lists them"
        raise SpecError(Problem(file="reproduce", message=message))
    figure = figures[name]
    say(f"{name}: {figure.rows} rows by experiments/{figure.program}.py, into a folder of its own")
    compared = _compared(_rows(folder / "results", figure), _made_again(folder, figure))
    _tell(name, compared, json_)


@answers_alone()
def _list(figures: Mapping[str, Figure], json_: bool) -> None:
    if json_:
        print_json({name: one.rows for name, one in figures.items()})
        return
    for name, one in figures.items():
        answer(f"{name:28} {one.rows:4} rows, experiments/{one.program}.py")


def _experiments(checkout: Path) -> Path:
    """The folder of the programs, of a checkout that contains the given folder.

    Raises
    ------
    SpecError
        If there is none.
    """
    for folder in (checkout.absolute(), *checkout.absolute().parents):
        if (folder / "experiments" / "_common.py").is_file():
            return folder / "experiments"
    message = "is in no checkout of Warren, whose experiments/ are needed; give --checkout DIR"
    raise SpecError(Problem(file=str(checkout), message=message))


def _figures(folder: Path) -> Iterator[tuple[str, Figure]]:
    for paper, programs in PROGRAMS.items():
        for program in programs:
            path = folder / "results" / f"{program}.json"
            parts = json.loads(path.read_text())["parts"] if path.is_file() else {}
            for part in sorted(parts, key=lambda part: (not part.isdigit(), part.rjust(9))):
                name = f"{paper}-{part.replace(' ', '-')}"
                yield name, Figure(program=program, part=part, rows=len(parts[part]["rows"]))


def _rows(results: Path, figure: Figure) -> list[Row]:
    content = json.loads((results / f"{figure.program}.json").read_text())
    rows: list[Row] = content["parts"][figure.part]["rows"]
    return rows


def _made_again(folder: Path, figure: Figure) -> list[Row]:
    """The rows by the program as it is; nothing in the checkout changes."""
    results = Path(tempfile.mkdtemp(prefix="warren-reproduce-"))
    try:
        shutil.copy(folder / "results" / f"{figure.program}.json", results)
        command = [sys.executable, str(folder / f"{figure.program}.py"), "--part", figure.part]
        own = {"WARREN_RESULTS": str(results), "TMPDIR": str(results)}
        # In a group of its own: an interrupt is passed on once, and ends it without a traceback.
        with subprocess.Popen(
            command,
            env={**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=2,
            start_new_session=True,
        ) as program:
            _await(program)
        rows = _rows(results, figure)
    finally:
        shutil.rmtree(results, ignore_errors=True)
    if program.returncode:
        say(f"experiments/{figure.program}.py ended with {program.returncode}")
    return rows


def _await(program: subprocess.Popen[bytes]) -> None:
    """Wait for its end; whatever interrupts that ends all that it has started."""
    try:
        program.wait()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        raise


def _compared(committed: list[Row], made: list[Row]) -> list[Row]:
    """One entry a row: both values of its main figure, and the figures that differ."""
    old, new = (dict(map(_read, rows)) for rows in (committed, made))
    entries = []
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
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=_EQUAL, abs_tol=_EQUAL)


def _read(row: Row) -> tuple[Key, dict[str, float]]:
    """What tells a row from others, and its numbers by name."""
    texts = {name: one for name, one in row.items() if isinstance(one, str)}
    key = tuple(one for name, one in texts.items() if name != "commit")
    return key, {name: one for name, one in _numbers("", row) if name not in _TIMED}


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for part, one in items:
            yield from _numbers(f"{name}.{part}".removeprefix("."), one)
    elif isinstance(value, int | float):
        yield name, float(value)


@answers_alone()
def _tell(name: str, compared: list[Row], json_: bool) -> None:
    agree = sum(one["agree"] for one in compared)
    if json_:
        print_json({"name": name, "rows": compared, "agree": agree == len(compared)})
    else:
        for one in compared:
            values = " | ".join(_text(one[which]) for which in ("committed", "made"))
            verdict = "agree" if one["agree"] else f"differ in {', '.join(one['differ'][:3])}"
            answer(f"{', '.join(one['row'])}: {one['figure']} {values}: {verdict}")
        answer(f"{name}: {agree} of {len(compared)} rows agree (committed | made again)")
    if agree < len(compared):
        raise typer.Exit(1)


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:,.6g}"


app: Final = one_command()
EXAMPLES: Final = examples("warren reproduce", "warren reproduce hare-4")


@app.command(epilog=EXAMPLES)
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="FIGURE", help="Which one; without it they are listed."),
    ] = None,
    checkout: Annotated[
        str,
        typer.Option("--checkout", metavar="DIR", help="Warren's checkout, or a folder in it."),
    ] = ".",
    json_: Json = False,
) -> None:
    """Make a figure of a paper again and compare it.

    The program under experiments/ runs as it is, its rows stand beside the committed ones, and
    nothing in the checkout changes. Exit code 1 if a row differs; real times are not compared.
    """
    reproduce_command(name, checkout, json_)
