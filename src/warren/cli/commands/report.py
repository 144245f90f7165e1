"""``warren report``: write a run's files again from its journal, or check them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.runs.results import load_record, result_files
from warren.store.files import read_dir, write_atomic
from warren.store.signals import held

app: Final = one_command()


@app.command(epilog=examples("warren report sim-hare", "warren report live-hare --check"))
@answers_alone()
def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a run.")],
    check: Annotated[
        bool, typer.Option("--check", help="Verify the folder from its files, and change nothing.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write the tables and the page of a run again, from its journal.

    This works for a run that was cut off, too. Its journal holds all finished tasks.
    """
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
