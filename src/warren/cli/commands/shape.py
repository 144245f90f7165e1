"""``warren shape``: how many hosts should work on a job, and how many serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.pictures import picture_path
from warren.runs.studies.job_shape import BatchForm, Reading, ShapeAdvice, advised_shapes

app: Final = one_command()
_JOBS: Final = "examples/shapes/jobs.yaml --cluster examples/shapes/cluster.yaml"


@app.command(
    epilog=examples(
        f"warren shape {_JOBS}",
        f"warren shape {_JOBS} --job nmf --form per-worker --plot shape.png",
    )
)
@answers_alone()
def shape(
    jobs: Annotated[
        str, typer.Argument(metavar="JOBS", help="Job file whose jobs state cost: {items: ...}.")
    ],
    cluster: Annotated[str, typer.Option("--cluster", metavar="FILE", help="Its hosts are used.")],
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="One job of the file; else all.")
    ] = None,
    form: Annotated[
        BatchForm,
        typer.Option(
            "--form",
            help="fixed-round: all workers share a mini-batch; per-worker: each has its own.",
        ),
    ] = "fixed-round",
    reading: Annotated[
        Reading,
        typer.Option(
            "--reading",
            help="What a link between two hosts carries; nic is what links do.",
        ),
    ] = "nic",
    ways: Annotated[
        int,
        typer.Option(
            "--ways", min=1, max=2, help="A mini-batch moves the model so often; 1 as printed."
        ),
    ] = 2,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw epochs by workers: .png, .svg or .pdf."),
    ] = None,
    json_: Json = False,
) -> None:
    """Tell how many hosts should work on a job and how many serve, and who has what.

    The shape with the shortest epoch by Cruise's cost model, of all that the hosts of a cluster can
    have: workers compute, servers hold parts of the model. Nothing is run.
    """
    picture = None if plot is None else picture_path(plot)
    found = advised_shapes(
        jobs,
        cluster,
        names=() if job is None else (job,),
        form=form,
        reading=reading,
        ways=ways,
        curve=picture is not None,
    )
    if picture:
        from warren.cli.views.shape_plot import draw_shapes

        draw_shapes(picture, found)
        say(f"written: {picture}")
    if json_:
        told = [_told(one) for one in found]
        print_json(told if job is None else told[0])
    else:
        for one in found:
            answer(_text(one))


def _told(one: ShapeAdvice) -> dict[str, Any]:
    """Return an advice as ``--json`` prints it."""
    return {
        "job": one.job,
        "workers": list(one.items),
        "servers": list(one.server_bytes),
        "data": dict(one.items),
        "model": dict(one.server_bytes),
        "epoch_s": one.epoch_s,
        "form": one.form,
        "reading": one.reading,
    }


def _text(one: ShapeAdvice) -> str:
    """Return an advice as lines for people."""
    working, serving = len(one.items), len(one.server_bytes)
    near = [count for count in (working - 1, working + 1) if count in one.epochs_s]
    others = ", ".join(f"{one.epochs_s[count]:.4g} s with {count}" for count in near)
    lines = [
        f"{one.job}: {working} hosts work and {serving} serve; an epoch takes {one.epoch_s:.4g} s"
        + (f" ({others})" if others else "")
    ]
    lines += _rows(one, one.items, "works on", "items")
    lines += _rows(one, one.server_bytes, "holds", "bytes")
    return "\n".join(lines)


def _rows(one: ShapeAdvice, parts: Mapping[str, int], verb: str, unit: str) -> list[str]:
    """Return a line for hosts next to each other that have the same, but for an item or byte."""
    groups: list[list[str]] = []
    last = ""
    for before, name in zip(("", *one.hosts), one.hosts, strict=False):
        if name not in parts:
            continue
        alike = groups and before == last and abs(parts[name] - parts[groups[-1][0]]) <= 1
        groups = [*groups[:-1], [*groups[-1], name]] if alike else [*groups, [name]]
        last = name
    lines = []
    for names in groups:
        low, high = (bound(parts[name] for name in names) for bound in (min, max))
        each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        several = f"{names[0]} to {names[-1]}, {len(names)} hosts, each"
        lines.append(f"  {names[0] if len(names) == 1 else several} {verb} {each} {unit}")
    return lines
