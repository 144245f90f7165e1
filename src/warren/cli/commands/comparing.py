"""``warren compare``: run files under several policies, or folders of runs, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from warren.cli.commands.inputs import print_json, run_of, say
from warren.cli.compose import simulate
from warren.cli.export import load_record
from warren.cli.files import read_dir, write_atomic
from warren.model.errors import Problem, SpecError
from warren.report.record import Record


def compare_command(
    what: Sequence[str],
    place: str | None,
    seeds: int,
    out: str | None,
    overrides: Sequence[str],
    json_: bool,
) -> None:
    """Simulate or load each thing named, then print one row a run."""
    records: list[Record] = []
    for one in what:
        if Path(one).is_dir():
            records.append(load_record(one, read_dir(one)))
        else:
            records += _simulated(one, place, seeds, overrides)
    _print(records, out, json_)


def _simulated(path: str, place: str | None, seeds: int, overrides: Sequence[str]) -> list[Record]:
    names = place.split(",") if place else [None]
    if any(name == "" for name in names):
        message = f"{place!r} has an empty name; give policies with commas between"
        raise SpecError(Problem(file="--place", message=message))
    records = []
    for name in names:
        for seed in range(1, seeds + 1):
            chosen = [*overrides, f"seed={seed}", f"truth.seed={seed}"] if seeds > 1 else overrides
            run = run_of(path, name, chosen)
            if seeds > 1:
                run = replace(run, name=f"{run.name} seed {seed}")
            say(f"simulating {run.name} under {run.scheduler.place}")
            records.append(simulate(run))
    return records


def _print(records: list[Record], out: str | None, json_: bool) -> None:
    from warren.report.compare import compare, comparison_lines, jct_errors
    from warren.report.metrics import summary
    from warren.report.page.page import page

    rows = compare(records)
    errors = jct_errors(records)
    if out is not None:
        write_atomic(Path(out), page(records))
        say(f"page: {out}")
    if json_:
        values: list[dict[str, Any]] = [summary(record) for record in records]
        print_json([*values, *errors])
        return
    for line in comparison_lines(rows, errors):
        print(line)
