"""The simulations of the Hare paper: every policy in every cell of its Figs. 12 to 19.

*Cells.* ``hare/mix.yaml`` with what a figure varies, five seeds each: another seed draws other
jobs. The paper does not print its rounds, weights and arrivals, so its seconds cannot be compared;
its ratios can. *Testbed* (Figs. 12 and 13): 15 GPUs, simulated; live runs on such a cluster are
held against the simulator by ``fidelity.py``. *Loads*: Hare alone, at full length, against the
bound; *length*: what a tenth of the rounds changes in the cell that all figures share; *arrivals*:
what arrivals change, which the paper has and does not print. *line 12*: another reading of which
idle GPU a task takes; *relaxation*: Algorithm 1 on (9) and on the stand-in, where both can be made.
Three parts say why we differ: *readings*, of SRTF (``hare/srtf_gangs.py``); *batch*, what a batch
size can move: without T^s, and where rounds stay as they are; *bytes*: the ends of Fig. 18 with
networks half as fast, Hare alone. All but Figs. 12 to 19 and *loads* were added after these had
been seen.

``hare-published`` is the paper's Algorithm 1 as it is printed, ``hare`` is ours. Stops with an
error where ``hare`` does not have the least weighted JCT of a cell.

``--part 14`` (or another) makes one part and keeps the results of the others; ``--place srtf``
makes the rows of one policy again and keeps those of the others.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, Final

import _common
import numpy as np
import numpy.typing as npt
from _parts import Asked, Make, ask, make_parts

RUN: Final = Path(__file__).parent / "hare" / "mix.yaml"
OURS: Final = "hare"
PUBLISHED: Final = "hare-published"
PLACES: Final = (PUBLISHED, OURS, "sched-allox", "sched-homo", "srtf", "gavel-fifo")
SEEDS: Final = 5
FEW_SEEDS: Final = 2
"""Of parts that explain others, and of the full length, where a policy takes minutes a seed."""
FULL: Final = "workload.rounds_factor=1"
GANGS: Final = Path(__file__).parent / "hare" / "srtf_gangs.py"
READINGS: Final = {"srtf-gangs": f"{GANGS}:SrtfGangs", "srtf-blind": f"{GANGS}:SrtfBlind"}
"""Other readings of SRTF, by the name of their rows."""
FASTEST: Final = "hare-published, fastest idle"
STAND_IN: Final = "hare-published, stand-in"
FORMS: Final = {FASTEST: ("policy.idle=fastest",), STAND_IN: ("policy.stand_in=true",)}
"""Forms of the published Hare, by the name of their rows: what is set."""
HARE_DONE: Final = 0.905
"""Fig. 13 is read where Hare has done this share of the jobs; in the paper after 25 minutes."""

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """What varies, and the cells: a label and what is set there."""

    varies: str
    cells: Mapping[str, tuple[str, ...]]


def _one(
    key: str, values: Sequence[object], usual: object, unit: str = ""
) -> dict[str, tuple[str, ...]]:
    """A cell a value; for what ``hare/mix.yaml`` says already nothing is set."""
    return {
        f"{value}{unit}": () if value == usual else (f"{key}={value}{unit}",) for value in values
    }


def _shares() -> dict[str, tuple[str, ...]]:
    """A domain's part is doubled while those of the others stay."""
    domains = ("cv", "nlp", "speech", "rec")
    return {"even": ()} | {f"{one} 50": (f"workload.shares.{one}=50",) for one in domains}


FIGURES: Final[Mapping[str, Figure]] = {
    "14": Figure("GPUs", _one("cluster.hosts.devices", (80, 120, 160, 200, 240), 160)),
    "15": Figure("jobs", _one("workload.jobs", (100, 150, 200, 250, 300), 200)),
    "16": Figure(
        "heterogeneity", _one("cluster.hosts.heterogeneity", ("low", "mid", "high"), "high")
    ),
    "17": Figure("shares of the domains", _shares()),
    "18": Figure("bandwidth", _one("cluster.hosts.nic", (10, 15, 20, 25), 25, " Gbps")),
    "19": Figure("batch size over its usual", _one("workload.batch_factor", (0.5, 1, 2), 1)),
}
TESTBED: Final = (
    "cluster.hosts.devices=15",
    "cluster.hosts.mix={V100: 8, T4: 4, K80: 1, M60: 2}",
    "workload.jobs=40",
)
INSTANT: Final = "cluster.hosts.nic=100 Tbps"
BATCHES: Final = {
    "0.5, no T^s": ("workload.batch_factor=0.5", INSTANT),
    "1, no T^s": (INSTANT,),
    "2, no T^s": ("workload.batch_factor=2", INSTANT),
    "1": (),
    "2, rounds kept": ("workload.batch_factor=2", "workload.rounds_factor=0.2"),
}
BYTES: Final = _one("cluster.hosts.nic", (5, 12.5), 25, " Gbps")
LENGTHS: Final = {"a tenth": (), "all": (FULL,)}
SHARED: Final = {"160 GPUs": (), "testbed": (*TESTBED, FULL)}
LINE_12: Final = {
    "160 GPUs": (),
    "80 GPUs": ("cluster.hosts.devices=80",),
    "240 GPUs": ("cluster.hosts.devices=240",),
    "300 jobs": ("workload.jobs=300",),
    "low heterogeneity": ("cluster.hosts.heterogeneity=low",),
    "10 Gbps": ("cluster.hosts.nic=10 Gbps",),
    "testbed": (*TESTBED, FULL),
}
SMALL: Final = ("cluster.hosts.devices=8", "workload.jobs=10")
RELAXED: Final = {
    f"{factor} of the rounds": (*SMALL, f"workload.rounds_factor={factor}")
    for factor in (0.005, 0.01)
}
ARRIVALS: Final = {load: (f"workload.load={load}",) for load in ("0.5", "1", "2")}
LOADS: Final = {load: (FULL, f"workload.load={load}") for load in ("0.5", "1", "2", "null")}
OTHERS: Final = (
    "12", "line 12", "relaxation", "arrivals", "loads", "length", "readings", "batch", "bytes",
)  # fmt: skip
HARES: Final = (PUBLISHED, OURS)
"""The paper's algorithm as it is printed, and what we made of it."""
HAVE: Final = {"loads": HARES, "bytes": HARES, "readings": (*HARES, "srtf")}
"""The policies of parts that do not have all."""


def main() -> None:
    """Make the parts asked for, save, and stop with an error where ours is not the best."""
    asked = ask(__doc__, [*FIGURES, *OTHERS], PLACES)
    made = make_parts(
        "hare_figures", asked, parts_of(asked), seed=1, stated={"seeds": SEEDS}, finish=saved,
        cannot=lambda part: (
            "" if set(HAVE.get(part, PLACES)) & set(asked.places) else "it has no such policy"
        ),
    )  # fmt: skip
    figures = {name: part for name, part in made.items() if name in (*FIGURES, "12")}
    if missed := [text for name, part in figures.items() for text in faults(name, part)]:
        sys.exit("\n".join(missed))


def parts_of(asked: Asked) -> dict[str, Make]:
    """How each part is made, with the policies asked for."""
    places = tuple(asked.places)
    both = tuple(place for place in places if place in HARES)
    readings = tuple(place for place in places if place in HAVE["readings"])
    readings += () if asked.some else tuple(READINGS)
    return {name: figure_part(one, places) for name, one in FIGURES.items()} | {
        "12": lambda scratch: testbed(scratch, PLACES),
        "loads": lambda scratch: several("load", LOADS, both, SEEDS),
        "bytes": lambda scratch: several("bandwidth", BYTES, both, SEEDS),
        "length": lambda scratch: several("rounds", LENGTHS, places, FEW_SEEDS),
        "batch": lambda scratch: several("batch", BATCHES, places, SEEDS),
        "line 12": lambda scratch: several("cell", LINE_12, (*places, FASTEST), SEEDS),
        "relaxation": lambda scratch: several("jobs with", RELAXED, (*places, STAND_IN), SEEDS),
        "arrivals": lambda scratch: several("load", ARRIVALS, places, SEEDS),
        "readings": lambda scratch: several("cluster", SHARED, readings, SEEDS),
    }


def saved(part: dict[str, Any]) -> dict[str, Any]:
    """A part with what each of ``HARES`` saves in each cell, in percent of the other's JCT."""
    known = {(row["place"], row["cell"]): row["weighted_jct_s"] for row in part["rows"]}
    rows = [
        row
        | {
            "saves_pct": {
                hare: 100 * (1 - known[hare, row["cell"]] / row["weighted_jct_s"])
                for hare in HARES
                if (hare, row["cell"]) in known
            }
        }
        for row in part["rows"]
    ]
    return part | {"rows": rows}


def figure_part(figure: Figure, places: tuple[str, ...]) -> Make:
    """All cells of a figure."""
    return lambda scratch: several(figure.varies, figure.cells, places, SEEDS)


def testbed(scratch: Path, places: tuple[str, ...]) -> Mapping[str, Any]:
    """Fig. 12, weighted JCT; Fig. 13, the share of the jobs done when each Hare has done most.

    It is read off the Hares' curves, so it is made for all policies at once.
    """
    jct_s = {
        place: [completions_s(place, seed, scratch / place) for seed in range(1, SEEDS + 1)]
        for place in places
    }
    at_s = {hare: [float(np.quantile(one, HARE_DONE)) for one in jct_s[hare]] for hare in HARES}
    rows = []
    for row in compared((*TESTBED, FULL), places):
        done = {hare: shares(jct_s[row["place"]], when) for hare, when in at_s.items()}
        rows.append(show("testbed", "15", row | {"done": done}))
    return {"varies": "testbed", "rows": rows, "done_at_s": at_s}


def shares(jct_s: Sequence[Floats], when_s: Sequence[float]) -> list[float]:
    """Of each seed the share of the jobs that are done by its time."""
    pairs = zip(jct_s, when_s, strict=True)
    return [float((one <= when).mean()) for one, when in pairs]


def completions_s(place: str, seed: int, folder: Path) -> Floats:
    """Every job's completion time, of one seed."""
    out = folder / str(seed)
    seeds = (f"seed={seed}", f"truth.seed={seed}")
    overrides = [word for one in (*TESTBED, FULL, *seeds) for word in ("--set", one)]
    _common.warren_json("simulate", str(RUN), "--place", place, "--out", str(out), *overrides)
    with open(out / "jobs.csv") as file:
        return np.array([float(row["jct_s"]) for row in csv.DictReader(file)])


def several(
    varies: str, cells: Mapping[str, tuple[str, ...]], places: tuple[str, ...], seeds: int
) -> Mapping[str, Any]:
    """All cells of a part."""
    rows = [
        show(varies, cell, row)
        for cell, sets in cells.items()
        for row in compared(sets, places, seeds)
    ]
    return {"varies": varies, "rows": rows, "seeds": seeds}


@cache
def compared(sets: tuple[str, ...], places: tuple[str, ...], seeds: int = SEEDS) -> list[Row]:
    """One row a policy: means over the seeds."""
    overrides = [word for one in sets for word in ("--set", one)]
    specs = {name: READINGS.get(name, name) for name in places if name not in FORMS}
    asked = ("compare", str(RUN), "--seeds", str(seeds), *overrides, "--place")
    found = _common.warren_json(*asked, ",".join(specs.values()))
    rows = [
        _row(name, [one for one in found if one["scheduler"]["place"] == spec])
        for name, spec in specs.items()
    ]
    for form in (name for name in places if name in FORMS):
        options = [word for one in FORMS[form] for word in ("--set", one)]
        rows.append(_row(form, _common.warren_json(*asked, PUBLISHED, *options)))
    return rows


def _row(place: str, runs: Sequence[Mapping[str, Any]]) -> Row:
    gaps = [one["gap"]["weighted_jct"] for one in runs]
    return {
        "place": place,
        "weighted_jct_s": mean(one["weighted_jct_s"] for one in runs),
        "by_seed_s": [round(one["weighted_jct_s"], 1) for one in runs],
        "mean_jct_s": mean(one["mean_jct_s"] for one in runs),
        "makespan_s": mean(one["makespan_s"] for one in runs),
        "utilization": mean(one["utilization"] for one in runs),
        "gap_mean": mean(gaps),
        "gap_max": max(gaps),
        "finished": sum(one["finished"] for one in runs),
        "tasks": sum(one["tasks"] for one in runs),
        "decide_s": mean(one["decide_s"] for one in runs),
    }


def show(varies: str, cell: str, row: Row) -> Row:
    """Print one line; the row with its cell."""
    print(
        f"{varies} {cell}: {row['place']}: weighted JCT {row['weighted_jct_s']:.0f} s, above the "
        f"bound {100 * row['gap_mean']:.1f} %",
        flush=True,
    )
    return {"cell": cell, **row}


def faults(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Cells in which another policy is better than ours."""
    for row in part["rows"]:
        if row.get("saves_pct", {}).get(OURS, 0.0) < 0:
            by = f"{row['place']} is better by {-row['saves_pct'][OURS]:.2f} %"
            yield f"Fig. {name}, {row['cell']}: {by}"


if __name__ == "__main__":
    main()
