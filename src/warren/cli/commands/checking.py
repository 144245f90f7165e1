"""``warren check``: is the app deterministic? Name the tensor if not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from warren.cli.commands.inputs import answer, answers_alone, jobs_of, print_json, say
from warren.model.errors import Problem, SpecError
from warren.model.job import Job


@answers_alone()
def check_command(job_file: str, name: str | None, json_: bool) -> None:
    """Run the first tasks of each job in two processes, in two orders; compare every tensor."""
    from warren.live.check import check_job

    base = str(Path(job_file).parent)
    reports = []
    for job in _jobs(job_file, name):
        say(f"checking {job.name}")
        reports.append(check_job(job, base))
    if json_:
        print_json([asdict(report) for report in reports])
    else:
        for report in reports:
            answer(report.sentence)
    if not all(report.same for report in reports):
        raise typer.Exit(1)


def _jobs(job_file: str, name: str | None) -> list[Job]:
    jobs = jobs_of(job_file, [] if name is None else [name])
    without = [job.name for job in jobs if job.app is None]
    if without:
        message = f"no app to check in {', '.join(without)}"
        raise SpecError(Problem(file=job_file, field="app", message=message))
    return jobs
