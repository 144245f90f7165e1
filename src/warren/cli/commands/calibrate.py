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


Local = Annotated[
    bool,
    typer.Option("--local", help="Measure the engine on this machine; with --rings, its rings."),
]
Testbed = Annotated[
    str | None,
    typer.Option(
        "--testbed",
        metavar="NAME",
        help="With --rings: measure over the hosts of this testbed.",
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(
        "--plot", metavar="FILE", help="With --rings: draw the fit as .png, .svg or .pdf."
    ),
]
Jobs = Annotated[
    str | None,
    typer.Option(
        "--jobs",
        metavar="RUN.yaml",
        help="Measure the jobs of this run, and write rows for its `profiles`.",
    ),
]
Tasks = Annotated[
    int | None,
    typer.Option(
        "--tasks",
        metavar="N",
        min=3,
        max=1000,
        help="Number of tasks of each job. Default: 20.",
    ),
]


@app.command(epilog=EXAMPLES)
@answers_alone()
def calibrate(
    local: Local = False,
    rings: Annotated[
        bool, typer.Option("--rings", help="Measure how rings slow each other down.")
    ] = False,
    testbed: Testbed = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="With --rings: fewer rings and sizes, in under two minutes."),
    ] = False,
    plot: Plot = None,
    jobs: Jobs = None,
    tasks: Tasks = None,
    set_: Set = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Pin devices to cores, like `local: {pin: true}`.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write to this file; it replaces an old one. Default: standard output.",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Measure the costs of this machine, or how rings slow each other.

    Name the file in `overheads:` of a cluster. Simulations then predict runs without `emulate`, and
    the start of rings in all runs. With --jobs, the command measures tasks. Name that file in
    `profiles:` of the run.

    With --rings, 1 to 8 rings of several sizes exchange at once. The command fits xi1, xi2, alpha
    and the rates of SJF-BCO's (6)-(8). Name that file in `network:` of a cluster. This takes four
    to five minutes. Use the machine for nothing else meanwhile.
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
