"""``warren compare``: run files under several policies, or folders of runs, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warren.cli.commands.inputs import answer, answers_alone, named_after, print_json, run_of, say
from warren.cli.compose import Options, simulate
from warren.cli.export import load_record
from warren.cli.files import read_dir, refused, write_atomic
from warren.cli.lines import simulation_view
from warren.cli.size import size_note
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.report.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One run to compare; ``folder`` is None when it was simulated just now."""

    record: Record
    folder: str | None


@answers_alone()
def compare_command(
    what: Sequence[str],
    place: str | None,
    seeds: int,
    out: str | None,
    overrides: Sequence[str],
    json_: bool,
) -> None:
    """Simulate or load each thing named, then print one row a run."""
    _check_page(out)
    entries = _all(what, place, seeds, overrides)
    if out is not None:
        _write_page(out, entries)
    if json_:
        print_json(_summaries(entries))
    else:
        _print(entries)


def _all(
    what: Sequence[str], place: str | None, seeds: int, overrides: Sequence[str]
) -> list[_Entry]:
    """Everything is read and checked before the first simulation, which may take long."""
    found: list[tuple[str, Run] | _Entry] = []
    for one in what:
        if Path(one).is_dir():
            found.append(_Entry(record=load_record(one, read_dir(one)), folder=one))
        else:
            found += [(one, run) for run in _runs(one, place, seeds, overrides)]
    runs = [one[1] for one in found if not isinstance(one, _Entry)]
    for note in dict.fromkeys(map(size_note, runs)):
        if note:
            say(note)
    return [one if isinstance(one, _Entry) else _simulated(*one) for one in found]


def _runs(path: str, place: str | None, seeds: int, overrides: Sequence[str]) -> Iterator[Run]:
    from warren.cli.policies import choose

    names = [None] if place is None else [name.strip() for name in place.split(",")]
    if "" in names:
        message = f"{place!r} has an empty name; give policies with commas between"
        raise SpecError(Problem(file="--place", message=message))
    for name in names:
        for seed in range(1, seeds + 1):
            chosen = [*overrides, f"seed={seed}", f"truth.seed={seed}"] if seeds > 1 else overrides
            run = run_of(path, name, chosen)
            with named_after(path, run):
                choose(run)
            yield run if seeds == 1 else replace(run, name=f"{run.name} seed {seed}")


def _simulated(path: str, run: Run) -> _Entry:
    say(f"simulating {run.name} under {run.scheduler.place}")
    options = Options(attend=simulation_view(run))
    with named_after(path, run):
        return _Entry(record=simulate(run, None, options), folder=None)


def _summaries(entries: Sequence[_Entry]) -> list[dict[str, Any]]:
    """Summaries in the order given; a live one carries how well each simulation predicted it.

    And whether the other live runs of its jobs ended with the same parameters.
    """
    from warren.report.agree import same_params
    from warren.report.compare import jct_errors
    from warren.report.metrics import summary

    found = []
    for entry in entries:
        values = summary(entry.record)
        if entry.folder is not None:
            values["dir"] = entry.folder
        if entry.record.live:
            others = [_named(e) for e in entries if not e.record.live]
            values["jct_errors"] = jct_errors([_named(entry), *others])
            own = [_named(entry), *(_named(e) for e in entries if e.record.live and e is not entry)]
            values["same_params"] = [
                one for one in same_params(own) if one["live"] == own[0].run.name
            ]
        found.append(values)
    return found


def _named(entry: _Entry) -> Record:
    """The record under its folder's name, which tells more than its run file's."""
    if entry.folder is None:
        return entry.record
    return replace(entry.record, run=replace(entry.record.run, name=entry.folder))


def _labelled(entries: Sequence[_Entry]) -> list[Record]:
    """Records as a person tells them apart."""
    count = Counter(entry.record.run.name for entry in entries)
    clear = all(number == 1 for number in count.values())
    return [entry.record if clear else _named(entry) for entry in entries]


def _print(entries: Sequence[_Entry]) -> None:
    from warren.report.agree import agreement_line, same_params
    from warren.report.compare import compare, comparison_lines, jct_errors

    records = _labelled(entries)
    for line in comparison_lines(compare(records), jct_errors(records)):
        answer(line)
    for found in same_params(records):
        answer(agreement_line(found))


def _check_page(out: str | None) -> None:
    if out is not None and Path(out).is_dir():
        raise refused(Path(out), "is a folder; --out names the page to write, such as compare.html")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise refused(Path(out).parent, "no such folder; make it first")
    if out is not None and Path(out).exists() and Path(out).suffix not in (".html", ".htm"):
        raise refused(Path(out), "exists already and is no page; --out names an .html file")


def _write_page(out: str, entries: Sequence[_Entry]) -> None:
    from warren.report.page.page import page

    write_atomic(Path(out), page(_labelled(entries)))
    say(f"page: {out}")
