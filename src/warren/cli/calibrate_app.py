"""The command ``warren calibrate``: its options and help."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, Set, examples

_RUN: Final = "examples/quickstart/run.yaml"

EXAMPLES: Final = examples(
    "warren calibrate --local --out machine.yaml",
    f"warren calibrate --local --jobs {_RUN} --out rows.yaml",
    "warren calibrate --rings --testbed lab --out network.yaml --plot fit.svg",
)


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
    from warren.cli.commands.calibrate import calibrate_command, only_rings
    from warren.cli.commands.calibrate_rings import Asked, calibrate_rings_command

    if rings:
        others = {"--jobs": jobs, "--tasks": tasks, "--set": set_, "--pin": pin}
        given = [name for name, value in others.items() if value]
        asked = Asked(local, testbed, quick, plot, out, given)
        calibrate_rings_command(asked, json_)
        return
    only_rings({"--testbed": testbed, "--quick": quick, "--plot": plot})
    calibrate_command(local, jobs, tasks or 20, set_ or [], pin, out, json_)
