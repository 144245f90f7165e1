"""``warren check``: is the app deterministic? Name the tensor if not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json
from warren.runs.studies.app_determinism import checked_apps

app: Final = one_command()


@app.command(
    epilog=examples(
        "warren check examples/quickstart/jobs.yaml --job digits-mlp",
        "warren check examples/quickstart/run.yaml",
    )
)
@answers_alone()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Job file or run file.")],
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Only this job of the file. Default: all jobs."),
    ] = None,
    json_: Json = False,
) -> None:
    """Test whether an app is deterministic.

    The same tasks run twice, in two processes. If their results differ, the output names the
    tensor. If the app fails, it shows the traceback. Exit code 1 in both cases.
    """
    reports = checked_apps(file, [] if job is None else [job])
    if json_:
        print_json([asdict(report) for report in reports])
    else:
        for report in reports:
            answer(report.sentence)
            if report.traceback:
                answer(report.traceback)
    # An app that fails is not the same twice either: ``same`` is False, and ``error`` says why.
    if not all(report.same for report in reports):
        raise typer.Exit(1)
