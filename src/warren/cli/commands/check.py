"""``warren check``: is the app deterministic? Name the tensor if not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.runs.inputs import chosen, jobs_of, run_of
from warren.store.files import read

app: Final = one_command()


@app.command(
    epilog=examples(
        "warren check examples/quickstart/jobs.yaml --job digits-mlp",
        "warren check examples/quickstart/run.yaml",
    )
)
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Job file or run file.")],
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="One job of the file; else all.")
    ] = None,
    json_: Json = False,
) -> None:
    """Tell whether an app is deterministic.

    The same tasks run twice in two processes; if their results differ, the tensor is named. Where
    the app fails, its traceback is shown.
    """

    check_command(file, job, json_)


@answers_alone()
def check_command(file: str, name: str | None, json_: bool) -> None:
    """Run the first tasks of each job in two processes, in two orders; compare every tensor."""
    from warren.live.oracle.determinism_check import check_job

    jobs, base = _jobs(file, name)
    reports = []
    for job in jobs:
        say(f"checking {job.name}")
        reports.append(check_job(job, base))
    if json_:
        print_json([asdict(report) for report in reports])
    else:
        for report in reports:
            answer(report.sentence)
            if report.traceback:
                answer(report.traceback)
    if not all(report.same for report in reports):
        raise typer.Exit(1)


def _jobs(file: str, name: str | None) -> tuple[list[Job], str]:
    """Jobs of a file of jobs, or of a run file; and the folder to which their apps are relative.

    A run may have jobs without an app beside those with one: they are left out.
    """
    from warren.workload.run_file import describes_run

    names = [] if name is None else [name]
    if describes_run(file, read):
        run = run_of(file, None, [], history=False)
        jobs, base = chosen(run.workload.jobs, names, file), run.base
        with_app = [job for job in jobs if job.app is not None]
    else:
        jobs, base = jobs_of(file, names), str(Path(file).parent)
        with_app = jobs if all(job.app is not None for job in jobs) else []
    if not with_app:
        without = ", ".join(job.name for job in jobs if job.app is None)
        raise SpecError(Problem(file=file, field="app", message=f"no app to check in {without}"))
    return with_app, base
