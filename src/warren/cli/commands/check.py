"""``warren check``: is the app deterministic? Name the tensor if not; and what that costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer
from msgspec import to_builtins

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json
from warren.runs.studies.app_determinism import checked_apps, costs_of_apps

app: Final = one_command()


@app.command(
    epilog=examples(
        "warren check examples/quickstart/jobs.yaml --job digits-mlp",
        "warren check examples/quickstart/run.yaml",
        "warren check examples/quickstart/run.yaml --cost",
    )
)
@answers_alone()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Job file or run file.")],
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Only this job of the file. Default: all jobs."),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Time a task with and without deterministic kernels instead."),
    ] = False,
    json_: Json = False,
) -> None:
    """Test whether an app is deterministic.

    The same tasks run twice, in two processes. If their results differ, the output names the
    tensor. If the app fails, it shows the traceback. Exit code 1 in both cases.

    With --cost a task is timed with deterministic kernels and without, on the device of the run
    file. The output lists the operators whose times differ most.
    """
    if cost:
        found = costs_of_apps(file, [] if job is None else [job])
        if json_:
            print_json([to_builtins(one) for one in found])
        else:
            for line in (line for one in found for line in one.lines):
                answer(line)
        if any(one.cost.error for one in found):
            raise typer.Exit(1)
        return
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
