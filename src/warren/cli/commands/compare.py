"""``warren compare``: run files under several policies, or folders of runs, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from warren.cli.options import Json, Set, Since, examples, one_command, service_record
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.progress import simulation_view
from warren.model.errors import Problem, SpecError
from warren.report.record import Record
from warren.runs.comparison.compared import Comparison, compared
from warren.runs.comparison.variations import Variations, places_of
from warren.serve.replay.found import is_service
from warren.store.files import refused, write_atomic

_RUN: Final = "examples/quickstart/run.yaml"
app: Final = one_command()


Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep", metavar="KEY=A,B,C", help="Simulate with each value of a field. Repeatable."
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against", metavar="PLACE", help="Compare each policy with this one, seed by seed."
    ),
]
Csv = Annotated[
    str | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Write a table with a row for each run; columns hold means over seeds.",
    ),
]
Jobs = Annotated[
    int,
    typer.Option("--jobs", metavar="N", min=1, help="Number of processes that simulate at once."),
]


@app.command(
    epilog=examples(
        f"warren compare {_RUN} --place gavel-fifo,srtf,hare --out compare.html",
        f"warren compare {_RUN} --place srtf,hare --seeds 9 --set truth.task_cv=0.2 --against srtf",
        f"warren compare {_RUN} --place srtf,hare --sweep truth.task_cv=0.1,0.3 --csv t.csv",
        "warren compare sim-hare live-hare",
        "warren compare ~/.warren/serve --place fifo,gavel-fifo --since 7d",
    )
)
@answers_alone()
def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN.yaml|DIR|SERVICE...",
            help="Run files to simulate, folders of runs, or homes of services.",
        ),
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
    sweep: Sweep = None,
    jobs: Jobs = 1,
    against: Against = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="PAGE.html", help="Write a page; it replaces an old one."
        ),
    ] = None,
    csv: Csv = None,
    since: Since = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Compare runs and policies side by side.

    A run file is simulated now, under each policy and seed. A folder is read. If a live folder and
    a simulation have the same jobs and policy, the table also has each job's JCT error. Of a
    service the table has what it recorded, and what each policy of --place would have made of it.

    With --seeds each policy has a row of means, with 95 % intervals by Student's t. With --against
    it also has its weighted JCT over the other's, minus one, seed by seed.

    --csv writes means and half intervals as columns KEY_mean and KEY_ci95, equal in all rows of a
    policy. The columns of --against are against_mean and against_ci95.

    --json prints a list of summaries in the order given. The summary of a folder has "dir". A live
    run has "jct_errors", with an entry for each simulation of it and every job's error. It also has
    "same_params", with an entry for each other live run of the same jobs, which names the jobs with
    the same bits. With several seeds there is "over_seeds": "seeds", "mean" and "ci95" by key, and
    "against".
    """
    # Before simulations, which may take long: files that could not be written are reported first.
    _check_page(out)
    if csv is not None and not Path(csv).absolute().parent.is_dir():
        raise refused(Path(csv).parent, "no such folder; make it first")
    if against is not None and seeds < 2:
        message = "sets policies against one seed by seed; it needs --seeds of 2 or more"
        raise SpecError(Problem(file="--against", message=message))
    places = [] if place is None else places_of(place)
    wanted = Variations(places=places, seeds=seeds, sweeps=sweep or [], overrides=set_ or [])
    recorded = _recorded(what, since)
    found = compared(
        what, wanted, processes=jobs, against=against, attend=simulation_view, recorded=recorded
    )
    if out is not None:
        _write_page(out, found, against)
    if csv is not None:
        write_atomic(Path(csv), found.csv_text())
        say(f"table: {csv}")
    if json_:
        print_json(found.summaries())
    elif len(recorded) == len(what) == 1:
        from warren.cli.views.replay_text import replay_lines

        for line in replay_lines(found):
            answer(line)
    else:
        _print(found, against)


def _recorded(what: list[str], since: str | None) -> dict[str, Record]:
    """Return what services recorded, by their paths among ``what``."""
    services = [one for one in dict.fromkeys(what) if is_service(one)]
    if since is not None and not services:
        service_record(what[0], since)  # which refuses it
    found = {one: service_record(one, since) for one in services}
    return {one: service.record for one, service in found.items() if service is not None}


def _print(found: Comparison, against: str | None) -> None:
    """Print a row a run, the errors of simulations of live runs, and the runs with equal bits."""
    from warren.report.compare import comparison_lines, jct_errors, means
    from warren.report.same_params import agreement_line, same_params
    from warren.report.seeds import seeds_note

    records, rows = found.records(), found.rows()
    for line in comparison_lines(rows, jct_errors(records), against):
        answer(line)
    if note := seeds_note(means(rows)):
        answer(note)
    for one in same_params(records):
        answer(agreement_line(one))


def _check_page(out: str | None) -> None:
    """Refuse a page that could not be written, or that would replace another kind of file."""
    if out is not None and Path(out).is_dir():
        raise refused(Path(out), "is a folder; --out names the page to write, such as compare.html")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise refused(Path(out).parent, "no such folder; make it first")
    # ``--out`` names a folder in other commands, and a run file is easily typed there.
    if out is not None and Path(out).exists() and not _is_page(out):
        raise refused(Path(out), "exists already and is no page; --out names an .html file")


def _is_page(out: str) -> bool:
    """Tell whether a file may be replaced by a page, by its name."""
    return Path(out).suffix in (".html", ".htm")


def _write_page(out: str, found: Comparison, against: str | None) -> None:
    """Write the comparison as an HTML page."""
    from warren.report.page.page import page

    # Another file may have come there while simulations ran.
    text = page(found.records(), found.rows(), against)
    write_atomic(Path(out), text, replace=_is_page(out))
    say(f"page: {out}")
