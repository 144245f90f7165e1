"""The online simulations of the HLAS paper: mean JCT in the cells of its Figs. 22 to 24.

*Cells.* ``hlas/mix.yaml`` with what a figure varies, five seeds each: another seed draws other
jobs and arrivals. The paper prints neither its rounds nor its pace of arrivals, so its seconds
cannot be compared; its ratios can. *22*: GPUs. *23*: jobs. *24*: the number of groups, of hlas
alone; as many groups as GPUs is Algorithm 1 to the letter, which loops over GPUs. *load*: how fast
the jobs come, which the paper does not say.

``--part 22`` (or another) makes one part and keeps the results of the others; ``--place gittins``
makes the rows of one policy again and keeps those of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Final

import _common
from _parts import Asked, Make, ask, make_parts

RUN: Final = Path(__file__).parent / "hlas" / "mix.yaml"
SEEDS: Final = 5
SINGLE: Final = "hlas of single GPUs"
"""HLAS with as many groups as GPUs."""
PLACES: Final = (
    "hlas", SINGLE, "las-2d", "fifo", "sched-homo-unit", "sched-allox-unit", "gittins",
)  # fmt: skip
GPUS: Final = 160

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """What varies: a key of the run file and its values."""

    varies: str
    key: str
    values: Sequence[object]


FIGURES: Final[Mapping[str, Figure]] = {
    "22": Figure("GPUs", "cluster.hosts.devices", (100, 120, 140, 160, 180)),
    "23": Figure("jobs", "workload.jobs", (100, 150, 200, 250, 300)),
    "load": Figure("load", "workload.load", (0.5, 2)),
    "24": Figure("groups", "policy.groups", (10, 20, 40, 80, 160)),
}


def main() -> None:
    """Make the parts asked for and save."""
    asked = ask(__doc__, list(FIGURES), PLACES)
    make_parts(
        "hlas_figures", asked, parts_of(asked), seed=1, stated={"seeds": SEEDS}, finish=saved,
        cannot=lambda part: (
            "it has hlas alone" if part == "24" and "hlas" not in asked.places else ""
        ),
    )  # fmt: skip


def parts_of(asked: Asked) -> dict[str, Make]:
    """How each part is made, with the policies asked for."""
    return {
        name: _part(figure, ("hlas",) if name == "24" else tuple(asked.places))
        for name, figure in FIGURES.items()
    }


def _part(figure: Figure, places: tuple[str, ...]) -> Make:
    return lambda scratch: {
        "varies": figure.varies,
        "rows": [row for value in figure.values for row in cell(figure, value, places)],
    }


def cell(figure: Figure, value: object, places: tuple[str, ...]) -> list[Row]:
    """One row a policy: means over the seeds."""
    sets = (f"{figure.key}={value}",)
    gpus = value if figure.key == "cluster.hosts.devices" else GPUS
    rows = []
    for place in places:
        name, more = ("hlas", (f"policy.groups={gpus}",)) if place == SINGLE else (place, ())
        overrides = [word for one in (*sets, *more) for word in ("--set", one)]
        found = _common.warren_json(
            "compare", str(RUN), "--place", name, "--seeds", str(SEEDS), *overrides
        )
        row = {"cell": str(value), "place": place, **_means(found)}
        print(f"{figure.varies} {value}: {place}: mean JCT {row['mean_jct_s']:.1f} s", flush=True)
        rows.append(row)
    return rows


def _means(runs: Sequence[Mapping[str, Any]]) -> Row:
    keys = ("mean_jct_s", "p99_jct_s", "makespan_s", "utilization", "decide_s")
    return {key: mean(one[key] for one in runs) for key in keys} | {
        "finished": sum(one["finished"] for one in runs),
        "tasks": sum(one["tasks"] for one in runs),
    }


def saved(part: dict[str, Any]) -> dict[str, Any]:
    """A part with each policy's mean JCT over that of hlas in its cell."""
    hlas = {row["cell"]: row["mean_jct_s"] for row in part["rows"] if row["place"] == "hlas"}
    rows = [row | {"over_hlas": row["mean_jct_s"] / hlas[row["cell"]]} for row in part["rows"]]
    return part | {"rows": rows}


if __name__ == "__main__":
    main()
