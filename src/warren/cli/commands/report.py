"""``warren report``: write a run's files again from its journal, or check them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from warren.cli.options import Json, Since, examples, one_command, service_record
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.runs.results import load_record, result_files
from warren.store.files import read_dir, write_atomic
from warren.store.signals import held

if TYPE_CHECKING:
    from warren.runs.comparison.observed import ObservedRun

app: Final = one_command()


@app.command(
    epilog=examples(
        "warren report sim-hare",
        "warren report live-hare --check",
        "warren report ~/.warren/serve --since 7d --out week",
    )
)
@answers_alone()
def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR|SERVICE", help="Folder of a run, or the home of a service."),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Verify the folder from its files, and change nothing.")
    ] = False,
    since: Since = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Of a service: a new folder for tables and page."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Write the tables and the page of a run again, from its journal.

    This works for a run that was cut off, too. Its journal holds all finished tasks.

    Of a service, print what its jobs and users got, and with --out write the same files as of a
    run.
    """
    recorded = service_record(folder, since, ends_count=False)
    if recorded is not None:
        if check:
            raise SpecError(Problem(file="--check", message="is for the folder of a run"))
        _of_service(recorded, out, json_)
        if not json_:
            from warren.serve.replay.read_service import load_week

            for line in load_week(folder, since):
                answer(line)
        return
    if out is not None:
        message = "is for a service; the files of a run are written into its own folder"
        raise SpecError(Problem(file="--out", message=message))
    files = read_dir(folder)
    if check:
        _check(folder, files, json_)
        return
    record = load_record(folder, files)
    written = result_files(record)
    # All files or none are of this journal: Ctrl-C waits until they are written.
    with held():
        for name, content in written.items():
            write_atomic(Path(folder) / name, content)
    if json_:
        from warren.report.metrics import summary

        print_json(summary(record))
    else:
        answer(f"{folder}: wrote {', '.join(written)}")
        say(f"report: {folder}/report.html")


def _of_service(recorded: ObservedRun, out: str | None, json_: bool) -> None:
    """Print what a service recorded, and write the folder of a run if one is asked for."""
    from warren.cli.views.summary_text import summary_lines
    from warren.report.metrics import summary
    from warren.runs.comparison.users_compared import user_lines, user_rows

    record = recorded.record
    if out is not None:
        recorded.keep(out)
        say(f"report: {out}/report.html")
    if json_:
        print_json(summary(record))
        return
    for line in summary_lines(summary(record), record.run.workload.notes):
        answer(line)
    for line in user_lines(user_rows([record])):
        answer(line)


def _check(folder: str, files: dict[str, bytes], json_: bool) -> None:
    """Print the faults of a folder; exit code 1 if it has any."""
    from warren.report.checks.check import check

    faults = [str(fault) for fault in check(files)]
    if json_:
        print_json({"dir": folder, "faults": faults})
    else:
        for fault in faults:
            answer(f"{folder}: {fault}")
        answer(f"{folder}: {_count(faults)}")
    if faults:
        raise typer.Exit(1)


def _count(faults: list[str]) -> str:
    """Return the number of faults, in words."""
    if not faults:
        return "every check holds"
    return "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
