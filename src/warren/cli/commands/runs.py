"""``warren simulate`` and ``warren run``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import typer

from warren.cli.commands.inputs import print_json, run_of, say
from warren.cli.compose import Options, run_live, simulate
from warren.cli.files import OutputDir, free_dir
from warren.model.run import Run
from warren.report.record import Record


def simulate_command(
    run_file: str,
    place: str | None,
    out: str | None,
    overrides: Sequence[str],
    dry_run: bool,
    events: bool,
    check: bool,
    json_: bool,
) -> None:
    """Simulate one run file."""
    from warren.cli.screen import progress

    run = run_of(run_file, place, overrides)
    if dry_run:
        return _show_resolved(run, json_)
    attend = progress(run) if sys.stderr.isatty() else None
    options = Options(compiled=not events, check=check, attend=attend)
    with OutputDir(out) if out else nullcontext(None) as folder:
        record = simulate(run, folder, options)
    _finish(record, out, json_)
    return None


def run_command(
    run_file: str,
    place: str | None,
    out: str | None,
    overrides: Sequence[str],
    dry_run: bool,
    check: bool,
    json_: bool,
) -> None:
    """Train one run file for real."""
    from warren.cli.screen import live_view

    run = run_of(run_file, place, overrides)
    _refuse_untrainable(run)
    if dry_run:
        return _show_resolved(run, json_)
    path = out or free_dir(f"out/{run.name}-{run.scheduler.place.partition(':')[0]}")
    with OutputDir(path) as folder:
        record = run_live(run, folder, Options(check=check, attend=live_view(run)))
    _finish(record, path, json_)
    return None


def _refuse_untrainable(run: Run) -> None:
    from warren.model.errors import Problem, SpecError

    without = [job.name for job in run.workload.jobs if job.app is None]
    if without:
        message = f"no app to train in {', '.join(without[:5])}; such jobs can only be simulated"
        raise SpecError(Problem(file=run.name, field="workload.jobs", message=message))


def _show_resolved(run: Run, json_: bool) -> None:
    """Check costs and policy too, then print the run as it would be written to the folder."""
    import yaml

    from warren.cli.policies import choose
    from warren.profile.costs import cost_table, missing
    from warren.workload.dump import dump_run

    choose(run)
    if not missing(run):
        cost_table(run)
    text = dump_run(run)
    if json_:
        print_json(yaml.safe_load(text))
    else:
        print(text, end="")


def _finish(record: Record, out: str | None, json_: bool) -> None:
    from warren.report.metrics import summary

    values = summary(record)
    if json_:
        print_json(values)
    else:
        from warren.cli.screen import summary_lines

        for line in summary_lines(values, record.run.workload.notes):
            say(line)
    if out:
        say(f"report: {out}/report.html")
    failed = _not_finished(values)
    if failed:
        say(f"{failed} of {values['jobs']} jobs did not finish; see {out or 'the summary'}")
        raise typer.Exit(1)


def _not_finished(values: dict[str, Any]) -> int:
    return int(values["jobs"]) - int(values["finished"])
