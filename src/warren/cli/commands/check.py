"""``warren check``: is the app deterministic, and does a command come back exactly?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer
from msgspec import to_builtins

from warren.cli import resume_check as resuming
from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json
from warren.model.errors import Problem, SpecError
from warren.runs.studies.app_determinism import checked_apps, costs_of_apps

app: Final = one_command()


@app.command(
    epilog=examples(
        "warren check examples/quickstart/jobs.yaml --job digits-mlp",
        "warren check examples/quickstart/run.yaml",
        "warren check examples/quickstart/run.yaml --cost",
        "warren check --resume -- python train.py --lr 0.1",
    )
)
@answers_alone()
def check(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Job file or run file. With --resume: a command, behind --."
        ),
    ],
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Only this job of the file. Default: all jobs."),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Time a task with and without deterministic kernels instead."),
    ] = False,
    resume: resuming.Resume = False,
    signal: resuming.Signal = None,
    grace: resuming.Grace = None,
    stops: resuming.Stops = None,
    seed: resuming.Seed = None,
    keep: resuming.Keep = None,
    json_: Json = False,
) -> None:
    """Test whether an app is deterministic, or whether a command resumes exactly.

    The same tasks run twice, in two processes. If their results differ, the output names the
    tensor. If the app fails, it shows the traceback. Exit code 1 in both cases.

    With --cost a task is timed with deterministic kernels and without, on the device of the run
    file. The output lists the operators whose times differ most.

    With --resume a command runs whole, is stopped by a signal and by SIGKILL, and is resumed. It
    saves to the folder that WARREN_CHECKPOINT_DIR names. The level is exact, equal order, restarts
    or loses; exit code 1 unless it is exact.
    """
    if resume:
        _refuse("goes without --resume", {"--job": job is not None, "--cost": cost})
        resuming.check_resume(
            arguments,
            signal=signal,
            grace=grace,
            stops=stops,
            seed=seed,
            keep=keep,
            as_json=json_,
        )
        return
    given = {"--signal": signal, "--grace": grace, "--stops": stops, "--seed": seed, "--keep": keep}
    _refuse("goes with --resume", {name: value is not None for name, value in given.items()})
    _refuse("a command goes with --resume", {repr(one): True for one in arguments[1:]})
    if cost:
        _print_costs(arguments[0], job, json_)
        return
    reports = checked_apps(arguments[0], [] if job is None else [job])
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


def _print_costs(file: str, job: str | None, as_json: bool) -> None:
    """Print what deterministic kernels cost the apps of a file."""
    found = costs_of_apps(file, [] if job is None else [job])
    if as_json:
        print_json([to_builtins(one) for one in found])
    else:
        for line in (line for one in found for line in one.lines):
            answer(line)
    if any(one.cost.error for one in found):
        raise typer.Exit(1)


def _refuse(message: str, given: dict[str, bool]) -> None:
    """Refuse options that do not go with the kind of check."""
    for name, is_given in given.items():
        if is_given:
            raise SpecError(Problem(file="check", field=name, message=message))
