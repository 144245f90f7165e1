"""``warren shape``: how many hosts should work on a job, and how many serve."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.pictures import picture_path
from warren.cli.views.shape_text import shape_json, shape_text
from warren.model.errors import Problem, SpecError
from warren.runs.studies.job_shape import BatchForm, Reading, advised_shapes
from warren.runs.studies.shape_change import block_counts

app: Final = one_command()
_JOBS: Final = "examples/shapes/jobs.yaml --cluster examples/shapes/cluster.yaml"
_Form = Annotated[
    BatchForm,
    typer.Option(
        "--form",
        help=("fixed-round: all workers share a mini-batch; per-worker: each worker has its own."),
    ),
]
_Reading = Annotated[
    Reading,
    typer.Option(
        "--reading",
        help=(
            "Rate of a link between two hosts. nic is the rate of real links; the others "
            "are readings of the paper."
        ),
    ),
]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="W,S",
        help=(
            "Also plan the change from W working and S serving hosts; W+W,S+S for two kinds "
            "of host."
        ),
    ),
]
_Blocks = Annotated[
    str | None,
    typer.Option(
        "--blocks",
        metavar="DATA,MODEL",
        help="With --from: number of blocks of data and of the model. Default: 200,128.",
    ),
]


@app.command(
    epilog=examples(
        f"warren shape {_JOBS}",
        f"warren shape {_JOBS} --job nmf --form per-worker --plot shape.png",
        f"warren shape {_JOBS} --job nmf --form per-worker --from 25+2,3+2",
    )
)
@answers_alone()
def shape(
    jobs: Annotated[
        str, typer.Argument(metavar="JOBS", help="Job file. Each job states cost: {items: ...}.")
    ],
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="FILE", help="Cluster file whose hosts are used.")
    ],
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Only this job of the file. Default: all jobs."),
    ] = None,
    form: _Form = "fixed-round",
    reading: _Reading = "nic",
    ways: Annotated[
        int,
        typer.Option(
            "--ways",
            min=1,
            max=2,
            help="Number of times that a mini-batch moves the model; 1 is the paper's.",
        ),
    ] = 2,
    from_: _From = None,
    blocks: _Blocks = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw epoch times by workers as .png, .svg or .pdf."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Compute how many hosts should work on a job, and how many serve.

    Workers compute, and servers hold parts of the model. The answer is the shape with the shortest
    epoch by Cruise's cost model, of all shapes on the hosts of a cluster, and the parts of each
    host. With --from it also has a plan of the change from the present shape. Nothing is run.
    """
    if blocks is not None and from_ is None:
        raise SpecError(Problem(file="--blocks", message="goes with --from W,S"))
    picture = None if plot is None else picture_path(plot)
    found = advised_shapes(
        jobs,
        cluster,
        names=() if job is None else (job,),
        form=form,
        reading=reading,
        ways=ways,
        curve=picture is not None,
        stated=from_,
        blocks=block_counts(blocks),
    )
    if picture:
        from warren.cli.views.shape_plot import draw_shapes

        draw_shapes(picture, found)
        say(f"written: {picture}")
    if json_:
        shown = [shape_json(one) for one in found]
        print_json(shown if job is None else shown[0])
    else:
        for one in found:
            answer(shape_text(one))
