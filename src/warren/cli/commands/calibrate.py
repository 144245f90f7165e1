"""``warren calibrate``: what this machine takes beside the tasks, and what tasks take on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.options import Json, Set, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.runs.check_apps import check_apps
from warren.runs.inputs import named_after, run_of
from warren.store.files import write_atomic

_BUSY: Final = 0.2


@answers_alone()
def calibrate_command(
    local: bool,
    jobs: str | None,
    tasks: int,
    overrides: Sequence[str],
    pin: bool,
    out: str | None,
    json_: bool,
) -> None:
    """Measure this machine, or the jobs of a run on it, and write a file of it."""
    if not local:
        message = "is missing; allowed: --local, or --rings --testbed NAME"
        raise SpecError(Problem(file="calibrate", field="--local", message=message))
    if jobs is None and overrides:
        raise SpecError(Problem(file="calibrate", field="--set", message="needs --jobs RUN.yaml"))
    text = _constants(pin=pin) if jobs is None else _rows(jobs, tasks, overrides, pin=pin)
    if out is not None:
        write_atomic(Path(out), text)
        say(f"written: {out}")
    if json_:
        print_json(_plain(text))
    elif out is None:
        answer(text.rstrip("\n"))


def only_rings(given: Mapping[str, object]) -> None:
    """Refuse options that are of --rings alone."""
    for option, value in given.items():
        if value:
            message = "needs --rings"
            raise SpecError(Problem(file="calibrate", field=option, message=message))


def _constants(*, pin: bool) -> str:
    from warren.profile.overheads import overheads_yaml
    from warren.runs.calibration.engine_overheads import calibrate

    share = _busy_share()
    say("calibrating the live engine of this machine; other work on it spoils the figures")
    found = calibrate(pin=pin, progress=lambda at, of: say(f"repeat {at} of {of}"))
    facts = {**found.facts, "busy_before": round(share, 2)}
    return overheads_yaml(found.found, found.cores, facts)


def _rows(path: str, tasks: int, overrides: Sequence[str], *, pin: bool) -> str:
    from warren.live.measure.machine import processor
    from warren.runs.calibration.profile_rows import fresh_rows
    from warren.workload.specs.write import dump_profiles

    run = run_of(path, None, overrides)
    if pin:
        cluster = replace(run.cluster, local=replace(run.cluster.local, pin=True))
        run = replace(run, cluster=cluster)
    with named_after(path, run):
        chosen = _unpriced(run)
        busy = f"{100 * _busy_share():.0f} % busy with other work before"
        pinned = ", pinned" if run.cluster.local.pin else ""
        say(f"measuring {tasks} tasks of {', '.join(job.name for job in chosen)}")
        rows = fresh_rows(run, chosen, tasks, f"{processor()}{pinned}, {busy}")
    return dump_profiles(rows, "Made by `warren calibrate --local --jobs`, in cluster seconds.")


def _unpriced(run: Run) -> list[Job]:
    from warren.profile.cost_table import unpriced

    jobs = [job for job in run.workload.jobs if unpriced(job)]
    if not jobs:
        message = "nothing to measure: no job has an app without model and cost"
        raise SpecError(Problem(file=run.name, field="workload.jobs", message=message))
    check_apps(replace(run, workload=replace(run.workload, jobs=tuple(jobs))))
    return jobs


def _busy_share() -> float:
    """Share of the machine that other work takes; a remark where it is too much."""
    from warren.live.measure.machine import busy_share

    share = busy_share()
    if share > _BUSY:
        say(f"this machine is {100 * share:.0f} % busy with other work; times will come out long")
    return share


def _plain(text: str) -> Any:
    import yaml

    return yaml.safe_load(text)


_RUN: Final = "examples/quickstart/run.yaml"

app: Final = one_command()
EXAMPLES: Final = examples(
    "warren calibrate --local --out machine.yaml",
    f"warren calibrate --local --jobs {_RUN} --out rows.yaml",
    "warren calibrate --rings --testbed lab --out network.yaml --plot fit.svg",
)


@app.command(epilog=EXAMPLES)
def calibrate(
    local: Annotated[
        bool, typer.Option("--local", help="This machine: its engine, or with --rings its rings.")
    ] = False,
    rings: Annotated[
        bool, typer.Option("--rings", help="How rings slow each other down, instead.")
    ] = False,
    testbed: Annotated[
        str | None,
        typer.Option("--testbed", metavar="NAME", help="Rings over the hosts of this testbed."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rings and sizes: under two minutes.")
    ] = False,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw the rings' fit: .png, .svg or .pdf."),
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(
            "--jobs",
            metavar="RUN.yaml",
            help="Measure this run's jobs instead: rows for its `profiles`.",
        ),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", metavar="N", min=3, max=1000, help="Of each such job; else 20."),
    ] = None,
    set_: Set = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Pin devices to cores, as `local: {pin: true}` does.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write a file (an old one goes)."),
    ] = None,
    json_: Json = False,
) -> None:
    """Measure what this machine takes, or how rings slow each other.

    The file is what `overheads:` of a cluster names; a simulation of a run that emulates nothing
    then predicts it, and any simulation knows when rings have started. With --jobs, measure tasks:
    the file is what `profiles:` of the run names.

    With --rings, 1 to 8 rings of several sizes exchange at once, and xi1, xi2, alpha and the rates
    of SJF-BCO's (6)-(8) are fitted: the file is what `network:` of a cluster names. It takes
    four to five minutes; nothing else should use the machine meanwhile.
    """
    from warren.cli.commands.calibrate_rings import RingCalibrationOptions, calibrate_rings_command

    if rings:
        others = {"--jobs": jobs, "--tasks": tasks, "--set": set_, "--pin": pin}
        given = [name for name, value in others.items() if value]
        asked = RingCalibrationOptions(local, testbed, quick, plot, out, given)
        calibrate_rings_command(asked, json_)
        return
    only_rings({"--testbed": testbed, "--quick": quick, "--plot": plot})
    calibrate_command(local, jobs, tasks or 20, set_ or [], pin, out, json_)
