"""The Hare paper's reasons, Figs. 4 to 6, simulated: what gangs waste, what relaxed rounds gain.

*Fig. 4*: three GPUs are free at different times, and a job of three tasks a round comes. *Figs. 5
and 6*: a job alone on four GPUs of one type or of two, with how busy each type is. ``gavel-fifo``
waits for as many devices as a round has tasks (the paper's scale-fixed); ``hare-published``, the
paper's Algorithm 1, and ``hare``, ours, do not. Figs. 2, 3, 7 and 8 are measurements of GPUs, which
a scheduler cannot repeat.

Stops with an error where a claim does not hold. ``--part 4`` makes one part.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import _common
import pyarrow.parquet as parquet
from _parts import Make, ask, make_parts

HARE: Final = Path(__file__).parent / "hare"
PLACES: Final = ("gavel-fifo", "hare-published", "hare")
COMBINATIONS: Final[Sequence[Mapping[str, int]]] = (
    {"K80": 4},
    {"K80": 2, "T4": 2},
    {"K80": 2, "V100": 2},
    {"T4": 4},
    {"V100": 4},
)
"""Ours: the text says that faster GPUs were added to K80s, in five settings, not how many."""

Row = dict[str, Any]


def main() -> None:
    """Simulate the parts asked for, save, and judge."""
    make: dict[str, Make] = {"4": fig_4, "5": fig_5}
    parts = make_parts("hare_motivation", ask(__doc__, list(make)), make, seed=1, stated={})
    if wrong := [*_fig_4(parts["4"]["rows"]), *_fig_5(parts["5"]["rows"])]:
        sys.exit("\n".join(wrong))


def fig_4(scratch: Path) -> Mapping[str, Any]:
    """A row a policy."""
    return {"rows": [waiting(place, scratch / place) for place in PLACES]}


def fig_5(scratch: Path) -> Mapping[str, Any]:
    """A row a combination and policy; Fig. 6 is read off them too."""
    return {
        "rows": [
            mixed(devices, place, scratch / f"{number}-{place}")
            for number, devices in enumerate(COMBINATIONS)
            for place in PLACES
        ]
    }


def waiting(place: str, out: Path) -> Row:
    """Fig. 4: when the job ends, and who runs where."""
    simulate(HARE / "fig4.yaml", place, out)
    with open(out / "jobs.csv") as file:
        ends = {row["job"]: float(row["finish_s"]) for row in csv.DictReader(file)}
    keys = ("job", "device", "start_s", "comp_end_s")
    tasks = [{key: one[key] for key in keys} for one in timeline(out)]
    print(f"Fig. 4, {place}: the job ends at {ends['n']:.1f} s", flush=True)
    return {"place": place, "ends_s": ends["n"], "all_end_s": max(ends.values()), "tasks": tasks}


def mixed(devices: Mapping[str, int], place: str, out: Path) -> Row:
    """Figs. 5 and 6: the time of an epoch, and the share of it in which each type computes."""
    text = ", ".join(f"{kind}: {count}" for kind, count in devices.items())
    host = f"cluster.hosts=[{{name: h, devices: {{{text}}}, nic: 25 Gbps}}]"
    epoch_s = simulate(HARE / "fig5.yaml", place, out, host)["makespan_s"]
    busy_s = dict.fromkeys(devices, 0.0)
    for one in timeline(out):
        busy_s[one["device"].split("/")[1].split("-")[0]] += one["busy_s"]
    name = ", ".join(f"{count} {kind}" for kind, count in devices.items())
    used = {kind: busy_s[kind] / count / epoch_s for kind, count in devices.items()}
    told = ", ".join(f"{kind} {100 * share:.0f} % busy" for kind, share in used.items())
    print(f"Fig. 5, {name}, {place}: {epoch_s:.1f} s, {told}", flush=True)
    return {"cell": name, "place": place, "epoch_s": epoch_s, "busy": used}


def simulate(file: Path, place: str, out: Path, *sets: str) -> Mapping[str, Any]:
    """The summary of a simulation; its folder stays."""
    words = [word for one in sets for word in ("--set", one)]
    found: Mapping[str, Any] = _common.warren_json(
        "simulate", str(file), "--place", place, "--out", str(out), *words
    )
    return found


def timeline(out: Path) -> list[Row]:
    """The stretches of a run."""
    rows: list[Row] = parquet.read_table(out / "timeline.parquet").to_pylist()
    return rows


def _fig_4(rows: Sequence[Row]) -> list[str]:
    gang, *relaxed = rows
    return [
        f"Fig. 4: relaxed rounds bring nothing under {row['place']}"
        for row in relaxed
        if row["ends_s"] >= gang["ends_s"]
    ]


def _fig_5(rows: Sequence[Row]) -> list[str]:
    """Gangs gain nothing from faster GPUs beside K80s, and V100s wait; hare uses them.

    A T4 is twice as fast as a K80: two tasks there take as long as one on a K80, so hare gains
    nothing from T4s either.
    """
    by_cell = {(row["cell"], row["place"]): row for row in rows}
    slow_s = by_cell["4 K80", "gavel-fifo"]["epoch_s"]
    wrong = []
    for cell in ("2 K80, 2 T4", "2 K80, 2 V100"):
        gang, relaxed = by_cell[cell, "gavel-fifo"], by_cell[cell, "hare"]
        if gang["epoch_s"] < 0.99 * slow_s:
            wrong.append(f"Fig. 5: {cell}: a gang is faster than on K80s alone")
        if relaxed["epoch_s"] > (1.0 if "T4" in cell else 0.5) * gang["epoch_s"]:
            wrong.append(f"Fig. 5: {cell}: hare makes too little of them")
    busy = by_cell["2 K80, 2 V100", "gavel-fifo"]["busy"]
    if busy["V100"] > 0.5 or busy["K80"] < 0.8:
        wrong.append("Fig. 6: K80s are not busy, or V100s are")
    return wrong


if __name__ == "__main__":
    main()
