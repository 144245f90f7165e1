"""``warren calibrate``: the costs of this machine beside the tasks, and task times on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from warren.cli.options import Json, Set, examples, one_command
from warren.cli.streams import answers_alone
from warren.cli.views.yaml_answer import answer_yaml
from warren.model.errors import Problem, SpecError

_RUN: Final = "examples/quickstart/run.yaml"

app: Final = one_command()
EXAMPLES: Final = examples(
    "warren calibrate --local --out machine.yaml",
    f"warren calibrate --local --jobs {_RUN} --out rows.yaml",
    "warren calibrate --rings --testbed lab --out network.yaml --plot fit.svg",
)


@app.command(epilog=EXAMPLES)
@answers_alone()
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
    if rings:
        from warren.cli.rings.calibrate_rings import calibrate_rings_command

        _refuse({"--jobs": jobs, "--tasks": tasks, "--set": set_, "--pin": pin}, "does not go with")
        calibrate_rings_command(local, testbed, quick, plot, out, json_)
        return
    _refuse({"--testbed": testbed, "--quick": quick, "--plot": plot}, "needs")
    if not local:
        raise _wrong("--local", "is missing; allowed: --local, or --rings --testbed NAME")
    # 20 is no default of the option, since --rings must see whether it was given.
    answer_yaml(_measured(jobs, tasks or 20, set_ or [], pin), out, json_)


def _measured(jobs: str | None, tasks: int, overrides: Sequence[str], pin: bool) -> str:
    """Measure this machine, or the jobs of a run on it; return the file's text."""
    # Without a run there is no field to set.
    if jobs is None and overrides:
        raise _wrong("--set", "needs --jobs RUN.yaml")
    # Imported here: help on the command needs no measuring code.
    from warren.runs.calibration.machine_files import overheads_text, profile_rows_text

    if jobs is None:
        return overheads_text(pin=pin)
    return profile_rows_text(jobs, tasks, overrides, pin=pin)


def _refuse(given: Mapping[str, object], why: str) -> None:
    """Refuse options that were given and belong to other calibrations, with or without --rings."""
    for option, value in given.items():
        if value:
            raise _wrong(option, f"{why} --rings")


def _wrong(option: str, message: str) -> SpecError:
    return SpecError(Problem(file="calibrate", field=option, message=message))
