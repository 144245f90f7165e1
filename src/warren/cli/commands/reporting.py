"""``warren report``: write a run's files again from its journal, or check them."""

from __future__ import annotations

from pathlib import Path

import typer

from warren.cli.commands.inputs import print_json, say
from warren.cli.export import load_record, result_files
from warren.cli.files import read_dir, write_atomic


def report_command(folder: str, check: bool, json_: bool) -> None:
    """Check a folder from its files alone, or make its tables and page again."""
    files = read_dir(folder)
    if check:
        _check(folder, files, json_)
        return
    record = load_record(folder, files)
    written = result_files(record)
    for name, content in written.items():
        write_atomic(Path(folder) / name, content)
    if json_:
        from warren.report.metrics import summary

        print_json(summary(record))
    else:
        say(f"wrote {len(written)} files; report: {folder}/report.html")


def _check(folder: str, files: dict[str, bytes], json_: bool) -> None:
    from warren.report.check import check

    faults = [str(fault) for fault in check(files)]
    if json_:
        print_json({"dir": folder, "faults": faults})
    else:
        for fault in faults:
            say(f"{folder}: {fault}")
        say(f"{folder}: {len(faults)} faults" if faults else f"{folder}: every check holds")
    if faults:
        raise typer.Exit(1)
