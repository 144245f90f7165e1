"""The online simulations of the HLAS paper: mean JCT in the cells of its Figs. 22 to 27.

*Cells.* A run file with what a figure varies, several seeds each: another seed draws other jobs and
arrivals. The paper prints neither its rounds nor its pace of arrivals, so its seconds cannot be
compared; its ratios can. *22*: GPUs. *23*: jobs. *24*: the number of groups, of hlas-published.
*tail*, *tail jobs*: 22 and 23 with heavy-tailed rounds and bursty arrivals, which is what the
paper's IV-B asks for. *load*, *tail load*: how fast the jobs come, which the paper does not say.
*25*: what decisions cost when all jobs arrive at once. *26*, *27*: GPUs and jobs again, where jobs
show losses and resemble those of a history; *pace*: how fast such jobs come. *oracle*: hlas with
every length known, on the same groups, which is what predictions can gain at best. *gittins*: what
gittins gains by what it knows of ended jobs and by prices of types, each left out. *fresh*, *fresh
tail*: seeds that nobody had looked at when the rule for groups that are alike was chosen. *philly*:
GPUs, with the arrivals, GPUs and run times of the Philly trace; of the thousands that wait there
sched-allox-unit matches 16 at a time, as more take it many minutes.

*Forms.* ``hlas-published``: as in the paper, a group for four GPUs, tasks to the GPU that is
available first. ``hlas``: ours, all GPUs in one group, tasks to the GPU on which they complete
first. ``NAME published``: a predicting one in the first form. ``NAME without past``: with the
queues of a run without a history, as the paper's HLAS knows none. ``hlas per-gpu``: what an
earlier version took for the paper's.

``--part 22`` (or another) makes one part and keeps the results of the others; ``--place gittins``
makes the rows of one policy again and keeps those of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, Final

import _common
from _parts import Asked, Make, ask, make_parts

RUNS: Final = Path(__file__).parent / "hlas"
ORACLE: Final = f"{Path(__file__).parent / '_oracle.py'}:Oracle"
PUBLISHED: Final = ("policy.dispatch=available",)
FIXED: Final = (f"policy.thresholds={', '.join(f'{4**k} s' for k in range(15))}",)
"""The queues of a run that has no history."""
FORMS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "hlas per-gpu": ("hlas", ("policy.round=per-gpu",)),
    "hlas-published one queue": ("hlas-published", ("policy.thresholds=1000000 s",)),
    "las-2d fit first": ("las-2d", ("policy.fit_first=true",)),
    "hlas-published without past": ("hlas-published", FIXED),
    "las-2d without past": ("las-2d", FIXED),
    "hlas-p published": ("hlas-p", PUBLISHED),
    "hlas-l published": ("hlas-l", PUBLISHED),
    "oracle": (ORACLE, ()),
    "oracle published": (ORACLE, PUBLISHED),
    "gittins without past": ("gittins", ("policy.past=false",)),
    "gittins without prices": ("gittins", ("policy.prices=false",)),
    "gittins without both": ("gittins", ("policy.past=false", "policy.prices=false")),
}
"""Policies with options, by the name of their rows; all others are policies by their own names."""
BLIND: Final = (
    "hlas-published", "hlas-published one queue", "hlas", "hlas per-gpu", "las-2d",
    "las-2d fit first", "fifo", "gavel-fifo", "sched-homo-unit", "sched-allox-unit", "gittins",
)  # fmt: skip
PREDICTING: Final = (
    "hlas-published without past", "hlas-published", "hlas-p published", "hlas-l published",
    "oracle published", "hlas", "hlas-p", "hlas-l", "oracle", "las-2d without past", "las-2d",
    "fifo", "gavel-fifo", "gittins",
)  # fmt: skip
ABLATED: Final = (
    "gittins", "gittins without past", "gittins without prices", "gittins without both", "hlas-p",
    "hlas", "oracle",
)  # fmt: skip
CHOSEN: Final = (
    "hlas-published", "las-2d", "las-2d fit first", "fifo", "gavel-fifo", "sched-homo-unit",
    "sched-allox-unit",
)  # fmt: skip
PLACES: Final = tuple(dict.fromkeys((*BLIND, *PREDICTING, *ABLATED)))
HEAVY: Final = ("workload.tail=2", "workload.together=8")
GPUS_KEY: Final = "cluster.hosts.devices"
JOBS_KEY: Final = "workload.jobs"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """What varies: a key of the run file and its values; what else is set, and for whom."""

    varies: str
    key: str
    values: Sequence[object]
    run: str = "mix"
    places: Sequence[str] = BLIND
    sets: Sequence[str] = ()
    seeds: int = 5
    of_place: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What is set for one policy alone."""


FIGURES: Final[Mapping[str, Figure]] = {
    "22": Figure("GPUs", GPUS_KEY, (100, 120, 140, 160, 180)),
    "23": Figure("jobs", JOBS_KEY, (100, 150, 200, 250, 300)),
    "tail": Figure("GPUs", GPUS_KEY, (100, 120, 140, 160, 180), sets=HEAVY),
    "tail jobs": Figure("jobs", JOBS_KEY, (100, 150, 200, 250, 300), sets=HEAVY),
    "load": Figure("load", "workload.load", (0.5, 2)),
    "tail load": Figure("load", "workload.load", (2, 4), sets=HEAVY),
    "24": Figure("groups", "policy.groups", (10, 20, 40, 80, 160), places=("hlas-published",)),
    "25": Figure(
        "jobs", JOBS_KEY, (100, 200, 400, 800, 1600, 3200),
        places=("hlas-published", "hlas", "las-2d", "gittins"), sets=("workload.load=null",),
        seeds=1,
    ),
    "26": Figure("GPUs", GPUS_KEY, (100, 120, 140, 160, 180), run="predicted", places=PREDICTING),
    "27": Figure("jobs", JOBS_KEY, (100, 150, 200, 250, 300), run="predicted", places=PREDICTING),
    "pace": Figure("load", "workload.load", (0.5, 2, 4), run="predicted", places=PREDICTING),
    "fresh": Figure("seed", "seed", (6, 7, 8, 9, 10), places=CHOSEN, seeds=1),
    "fresh tail": Figure("seed", "seed", (6, 7, 8, 9, 10), places=CHOSEN, sets=HEAVY, seeds=1),
    "gittins": Figure("jobs", JOBS_KEY, (100, 200), run="predicted", places=ABLATED),
    "philly": Figure(
        "GPUs", GPUS_KEY, (256, 512, 1024), run="philly", places=PLACES, seeds=2,
        of_place={"sched-allox-unit": ("policy.window=16",)},
    ),
}  # fmt: skip


def main() -> None:
    """Make the parts asked for and save."""
    asked = ask(__doc__, list(FIGURES), PLACES)
    make_parts(
        "hlas_figures", asked, parts_of(asked), seed=1, stated={}, finish=saved,
        cannot=lambda part: cannot(part, asked),
    )  # fmt: skip


def cannot(part: str, asked: Asked) -> str:
    """Why a part cannot be made; empty if it can."""
    places = FIGURES[part].places
    if not set(places) & set(asked.places):
        return f"it has {', '.join(places)} alone"
    if part == "philly" and not _common.DATA.is_dir():
        return f"no traces at {_common.DATA} (set WARREN_DATA)"
    return ""


def parts_of(asked: Asked) -> dict[str, Make]:
    """How each part is made, with the policies asked for."""
    return {name: _part(figure, asked) for name, figure in FIGURES.items()}


def _part(figure: Figure, asked: Asked) -> Make:
    places = [place for place in figure.places if place in asked.places]
    return lambda scratch: {
        "varies": figure.varies,
        "seeds": figure.seeds,
        "rows": [row for value in figure.values for row in cell(figure, value, places)],
    }


def cell(figure: Figure, value: object, places: Sequence[str]) -> list[Row]:
    """One row a policy: means over the seeds, and the mean JCT of each seed."""
    sets = (f"{figure.key}={value}", *figure.sets)
    rows = []
    for name in places:
        place, form = FORMS.get(name, (name, ()))
        more = (*figure.of_place.get(name, ()), *form)
        overrides = [word for one in (*sets, *more) for word in ("--set", one)]
        found = _common.warren_json(
            "compare", str(RUNS / f"{figure.run}.yaml"), "--place", place,
            "--seeds", str(figure.seeds), *overrides,
        )  # fmt: skip
        row = {"cell": str(value), "place": name, **_means(found)}
        print(f"{figure.varies} {value}: {name}: mean JCT {row['mean_jct_s']:.1f} s", flush=True)
        rows.append(row)
    return rows


def _means(runs: Sequence[Mapping[str, Any]]) -> Row:
    keys = ("mean_jct_s", "p99_jct_s", "makespan_s", "utilization", "decide_s")
    return {key: mean(one[key] for one in runs) for key in keys} | {
        "by_seed_s": [one["mean_jct_s"] for one in runs],
        "finished": sum(one["finished"] for one in runs),
        "tasks": sum(one["tasks"] for one in runs),
    }


def saved(part: dict[str, Any]) -> dict[str, Any]:
    """A part with each mean JCT over that of hlas-published in its cell, if it is there."""
    rows: list[Row] = part["rows"]
    paper = {row["cell"]: row["mean_jct_s"] for row in rows if row["place"] == "hlas-published"}
    over = [
        row | {"over_published": row["mean_jct_s"] / paper[row["cell"]]}
        if row["cell"] in paper
        else row
        for row in rows
    ]
    return part | {"rows": over}


if __name__ == "__main__":
    main()
