"""``warren group``: which jobs of a run share hosts, how long their rounds are, and why."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, Set, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.group_text import group_json, group_text
from warren.cli.views.pictures import picture_path
from warren.cli.views.progress import simulation_view
from warren.runs.inputs import named_after, run_of
from warren.runs.studies.job_groups import groups_of_run

app: Final = one_command()
_RUN: Final = "examples/groups/run.yaml"


@app.command(
    epilog=examples(
        f"warren group {_RUN}",
        f"warren group {_RUN} --at 300 --joint isolated --json",
        f"warren group {_RUN} --out groups.svg",
    )
)
@answers_alone()
def group(
    run_file: Annotated[
        str, typer.Argument(metavar="RUN.yaml", help="Run file.", show_default=False)
    ],
    at: Annotated[
        float | None,
        typer.Option(
            "--at",
            metavar="SECONDS",
            help="Time in the simulation, in seconds. Default: the first time with most jobs.",
        ),
    ] = None,
    joint: Annotated[
        str | None,
        typer.Option(
            "--joint",
            metavar="NAME",
            help=(
                "Joint policy. Default: the run's, or harmony if the run has none that groups jobs."
            ),
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Draw the groups as .png, .svg or .pdf."),
    ] = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Show which jobs of a run share hosts, and their bottleneck.

    The run is simulated, and no folder is written. For each group at a time the output has COMP and
    COMM of a round of each job, the iteration by Harmony's model, the use of CPU and links, and the
    bottleneck: CPU, the network or one job. Beside them is the mean round of each job in the
    simulation of the group.
    """
    # Before the simulation, which may take long: a picture that cannot be written is reported
    # first.
    picture = None if out is None else picture_path(out)
    run = run_of(run_file, None, set_ or [])
    with named_after(run_file, run):
        found = groups_of_run(run, joint=joint, at_s=at, attend=simulation_view)
    if picture:
        # Imported here, since matplotlib takes long to load.
        from warren.cli.views.group_plot import draw_groups

        draw_groups(picture, found)
        say(f"picture: {picture}")
    if json_:
        print_json(group_json(found))
    else:
        answer(group_text(found))
