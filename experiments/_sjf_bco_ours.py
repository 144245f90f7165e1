"""What our own policies for rings gain in the cells of the SJF-BCO paper, and over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any, Final

from _claims import Part, by_cell
from sjf_bco_figures import BOTH, ONLINE, OURS, OURS_JCT

BEST_OF: Final = ("5",)
"""Figures of which SJF-BCO's best cell counts, seed by seed: one cell is what a user gets."""


def rows(parts: Mapping[str, Part]) -> Iterator[tuple[str, str]]:
    """What, and what comes out."""
    if any(OURS in {row["place"] for row in part["rows"]} for part in parts.values()):
        yield "Figs. 4 to 7", _makespans(parts)
    if "4" in parts and "6" in parts:
        yield "Figs. 4 and 6", _both(parts)
    if "arrivals" in parts:
        yield "arrivals", _arrivals(parts["arrivals"])


def _makespans(parts: Mapping[str, Part]) -> str:
    saved, gaps, lost, told = [], [], 0, []
    for name, part in parts.items():
        if not name.isdigit():
            continue
        here = []
        for cell in _cells(name, part):
            for ours, bound, other in cell:
                here.append(100 * (1 - ours / other))
                gaps.append(100 * (ours / bound - 1))
        lost += sum(one < 0 for one in here)
        saved += here
        told.append(f"Fig. {name} {min(here):.1f} to {max(here):.1f} % (mean {fmean(here):.1f} %)")
    return (
        f"{OURS} has less makespan than the better reading of SJF-BCO, seed by seed, in Fig. 5 "
        f"with its best kappa: {'; '.join(told)}; it has more in {lost} of {len(saved)}. It is "
        f"{min(gaps):.1f} to {max(gaps):.1f} % above the lower bound (mean {fmean(gaps):.1f} %)"
    )


def _both(parts: Mapping[str, Part]) -> str:
    """The other objective, against SJF-BCO as printed, which has the less mean JCT of its forms."""
    saved: dict[str, list[float]] = {"mean_jct_s": [], "makespan_s": []}
    for name in ("4", "6"):
        for group in by_cell(parts[name]).values():
            by = {row["place"]: row for row in group}
            for key, found in saved.items():
                found.append(100 * (1 - by[OURS_JCT][key] / by[BOTH[0]][key]))
    jct, makespan = (f"{min(one):.1f} to {max(one):.1f} %" for one in saved.values())
    return (
        f"braid has the makespan for its objective; {OURS_JCT} has it second (`objective: "
        f"weighted-jct`): {jct} less mean JCT than {BOTH[0]}, and {makespan} less makespan"
    )


def _cells(name: str, part: Part) -> Iterator[list[tuple[float, float, float]]]:
    """Ours, its bound, and the best of SJF-BCO, seed by seed; seeds without a schedule left out."""
    found = list(by_cell(part).values())
    groups = [[row for cell in found for row in cell]] if name in BEST_OF else found
    for group in groups:
        ours = next(row for row in group if row["place"] == OURS)
        theirs = [row["by_seed_s"] for row in group if row["place"] in BOTH]
        best = [
            min((one for one in seed if one), default=None) for seed in zip(*theirs, strict=True)
        ]
        yield [
            (one, bound, other)
            for one, bound, other in zip(
                ours["by_seed_s"], ours["bound_by_seed_s"], best, strict=True
            )
            if other is not None
        ]


def _arrivals(part: Part) -> str:
    told = []
    for cell, group in by_cell(part).items():
        by = {row["place"]: row for row in group}
        told.append(f"load {cell}: " + ", ".join(
            f"{other} {_less(by, other, 'makespan_s')} and {_less(by, other, 'mean_jct_s')}"
            for other in by if other in ONLINE and other != "braid-online"
        ))  # fmt: skip
    return f"makespan and mean JCT of braid-online against {'; '.join(told)}"


def _less(by: Mapping[str, Mapping[str, Any]], other: str, key: str) -> str:
    return f"{100 * (by['braid-online'][key] / by[other][key] - 1):+.1f} %"
