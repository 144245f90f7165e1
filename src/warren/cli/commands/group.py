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
            "--at", metavar="SECONDS", help="When; unless given, when most jobs are there first."
        ),
    ] = None,
    joint: Annotated[
        str | None,
        typer.Option(
            "--joint",
            metavar="NAME",
            help="The joint policy, in place of the run's; harmony if none of those groups.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    ] = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Tell which jobs of a run share hosts, and what limits them.

    The run is simulated, and no folder is written. Of each group that stands at a time: COMP and
    COMM of a round of each job, the iteration that Harmony's model predicts, how busy CPU and links
    are then, and whether CPU, the network or one job limits it; beside it the mean round of each
    job in the simulation while the group stood.
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
