"""``warren compare``: run files under several policies, or folders of runs, side by side."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.options import Json, Set, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.progress import simulation_view
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.report.record import Record
from warren.runs.compose import PreparedRun
from warren.runs.grain_advice import size_note
from warren.runs.inputs import named_after, run_of
from warren.runs.results import load_record
from warren.runs.simulate_many import simulated
from warren.store.files import read_dir, refused, write_atomic

_RUN: Final = "examples/quickstart/run.yaml"
app: Final = one_command()


@app.command(
    epilog=examples(
        f"warren compare {_RUN} --place gavel-fifo,srtf,hare --out compare.html",
        f"warren compare {_RUN} --place srtf,hare --seeds 9 --set truth.task_cv=0.2 --against srtf",
        f"warren compare {_RUN} --place srtf,hare --sweep truth.task_cv=0.1,0.3 --csv t.csv",
        "warren compare sim-hare live-hare",
    )
)
def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN.yaml|DIR...", help="Run files to simulate, or DIRs.")
    ],
    place: Annotated[
        str | None,
        typer.Option(
            "--place", metavar="A,B", help="Simulate each run file under these place policies."
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Simulate with seeds 1 to N.")
    ] = 1,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="KEY=A,B,C", help="Simulate with each value; repeatable."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, help="Simulate in so many processes.")
    ] = 1,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="PLACE", help="Set policies against this, by seed."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="PAGE.html", help="Write a page (an old one goes)."),
    ] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write a row a run.")
    ] = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Put runs side by side.

    A run file is simulated now, under each policy and seed; a folder is read. Where a live
    folder and a simulation have the same jobs and policy, each job's JCT error is given too.
    With --seeds each policy has a row of means, with 95 % intervals by Student's t.
    --json prints a list of summaries in the order given; that of a folder has "dir", that of a
    live run "jct_errors": one entry a simulation of it, with every job's error, and
    "same_params": one entry another live run of the same jobs, and which have the same bits.
    """

    asked = CompareOptions(
        place=place,
        seeds=seeds,
        sweeps=sweep or [],
        overrides=set_ or [],
        processes=jobs,
        against=against,
        out=out,
        csv=csv,
        json=json_,
    )
    compare_command(what, asked)


_CHOSEN: Final = ("policy.", "scheduler.", "grain")
"""Keys of --sweep whose values are ways to schedule one problem; others make it another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One run to compare; ``folder`` is None when it was simulated just now.

    ``swept``: what --sweep gave it, by key.
    """

    record: Record
    folder: str | None
    swept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """One run to simulate, of the file at ``path``."""

    path: str
    prepared: PreparedRun
    swept: Mapping[str, str]

    @property
    def run(self) -> Run:
        """What is simulated."""
        return self.prepared.run


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What each run file is simulated with, how, and where the comparison goes.

    ``sweeps``: KEY=a,b,c each; ``against``: a policy that the others are set against, by seed.
    """

    place: str | None
    seeds: int
    sweeps: Sequence[str]
    overrides: Sequence[str]
    processes: int
    against: str | None
    out: str | None
    csv: str | None
    json: bool


@answers_alone()
def compare_command(what: Sequence[str], asked: CompareOptions) -> None:
    """Simulate or load each thing named, then print one row a run."""
    _check_page(asked.out)
    if asked.csv is not None and not Path(asked.csv).absolute().parent.is_dir():
        raise refused(Path(asked.csv).parent, "no such folder; make it first")
    if asked.against is not None and asked.seeds < 2:
        message = "sets policies against one seed by seed; it needs --seeds of 2 or more"
        raise SpecError(Problem(file="--against", message=message))
    entries = _all(what, asked)
    if asked.out is not None:
        _write_page(asked.out, entries, asked.against)
    if asked.csv is not None:
        _write_csv(asked.csv, entries)
    if asked.json:
        print_json(_summaries(entries))
    else:
        _print(entries, asked.against)


def _all(what: Sequence[str], asked: CompareOptions) -> list[_Entry]:
    """Everything is read and checked before the first simulation, which may take long."""
    found: list[_Planned | _Entry] = []
    for one in what:
        if Path(one).is_dir():
            found.append(_Entry(record=load_record(one, read_dir(one)), folder=one))
        else:
            found += _runs(one, asked)
    runs = [one for one in found if isinstance(one, _Planned)]
    _check_use(asked, runs)
    places = sorted({one.run.scheduler.place for one in runs})
    if asked.against is not None and asked.against not in places:
        message = f"{asked.against!r} is not simulated; allowed: {', '.join(places) or 'none'}"
        raise SpecError(Problem(file="--against", message=message))
    for note in dict.fromkeys(size_note(one.prepared) for one in runs):
        if note:
            say(note)
    records = iter(
        simulated([(one.path, one.prepared) for one in runs], asked.processes, simulation_view)
    )
    return [
        one
        if isinstance(one, _Entry)
        else _Entry(record=next(records), folder=None, swept=one.swept)
        for one in found
    ]


def _check_use(asked: CompareOptions, runs: Sequence[_Planned]) -> None:
    """Refuse options of simulations where only folders of runs are compared."""
    given = {
        "--place": asked.place is not None,
        "--seeds": asked.seeds > 1,
        "--sweep": bool(asked.sweeps),
        "--set": bool(asked.overrides),
    }
    if not runs and (unused := [option for option, is_given in given.items() if is_given]):
        message = "is for run files that are simulated; only folders of runs are given"
        raise SpecError(Problem(file=unused[0], message=message))


def _runs(path: str, asked: CompareOptions) -> Iterator[_Planned]:
    names = [None] if asked.place is None else [name.strip() for name in asked.place.split(",")]
    if "" in names:
        message = f"{asked.place!r} has an empty name; give policies with commas between"
        raise SpecError(Problem(file="--place", message=message))
    for sets, name, seed in product(_swept(asked.sweeps), names, range(1, asked.seeds + 1)):
        chosen = [*asked.overrides, *sets]
        chosen += [f"seed={seed}", f"truth.seed={seed}"] if asked.seeds > 1 else []
        run = run_of(path, name, chosen)
        said = [run.name, *sets, *([f"seed {seed}"] if asked.seeds > 1 else [])]
        prepared = PreparedRun(run=replace(run, name=" ".join(said)))
        with named_after(path, prepared.run):
            prepared.check_policy()
        swept = dict(one.split("=", 1) for one in sets)
        yield _Planned(path=path, prepared=prepared, swept=swept)


def _swept(sweeps: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every combination of what --sweep gives, as KEY=value each; without any, one of none."""
    axes = []
    for one in sweeps:
        key, equals, values = one.partition("=")
        if not equals or not key.strip() or not all(map(str.strip, values.split(","))):
            message = f"{one!r} is not KEY=A,B,C, for example workload.jobs=100,200"
            raise SpecError(Problem(file="--sweep", message=message))
        axes.append([f"{key.strip()}={value.strip()}" for value in values.split(",")])
    return product(*axes)


def _summaries(entries: Sequence[_Entry]) -> list[dict[str, Any]]:
    """Summaries in the order given; a live one carries how well each simulation predicted it.

    And whether the other live runs of its jobs ended with the same parameters.
    """
    from warren.report.compare import jct_errors
    from warren.report.metrics import summary
    from warren.report.same_params import same_params

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


def _print(entries: Sequence[_Entry], against: str | None) -> None:
    from warren.report.compare import compare, comparison_lines, jct_errors
    from warren.report.same_params import agreement_line, same_params

    records = _labelled(entries)
    rows = compare(records, _problems(entries))
    for line in comparison_lines(rows, jct_errors(records), against):
        answer(line)
    for found in same_params(records):
        answer(agreement_line(found))


def _problems(entries: Sequence[_Entry]) -> list[tuple[tuple[str, str], ...]]:
    """What --sweep makes of each run that is not for its policy to choose."""
    return [
        tuple(item for item in entry.swept.items() if not item[0].startswith(_CHOSEN))
        for entry in entries
    ]


def _check_page(out: str | None) -> None:
    if out is not None and Path(out).is_dir():
        raise refused(Path(out), "is a folder; --out names the page to write, such as compare.html")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise refused(Path(out).parent, "no such folder; make it first")
    if out is not None and Path(out).exists() and Path(out).suffix not in (".html", ".htm"):
        raise refused(Path(out), "exists already and is no page; --out names an .html file")


def _write_page(out: str, entries: Sequence[_Entry], against: str | None) -> None:
    from warren.report.compare import compare
    from warren.report.page.page import page

    records = _labelled(entries)
    rows = compare(records, _problems(entries))
    write_atomic(Path(out), page(records, rows, against))
    say(f"page: {out}")


def _write_csv(path: str, entries: Sequence[_Entry]) -> None:
    """One row a run, as in the comparison, by name of column, with a column a key of --sweep."""
    from warren.report.compare import compare

    text = io.StringIO()
    swept = dict.fromkeys((key for one in entries for key in one.swept), "")
    rows = [
        {"run": row["run"], "place": row["place"], **swept, **one.swept, **row}
        for row, one in zip(compare(_labelled(entries), _problems(entries)), entries, strict=True)
    ]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(Path(path), text.getvalue())
    say(f"table: {path}")
