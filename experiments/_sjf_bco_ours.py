"""What our own policies for rings gain in the cells of the SJF-BCO paper, and over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from _hare_rows import Part, by_cell
from _without_contention import BLIND
from sjf_bco_figures import BOTH, ONLINE, OURS, OURS_JCT

OWN_KAPPA: Final = {"4": "Fig. 4", "5": "Fig. 5", "6": "Fig. 6", "lambda": "Fig. 7's lambdas"}
"""Parts in which SJF-BCO searches kappa, or all of its kappas are there."""
BEST_OF: Final = ("5",)
"""Figures of which SJF-BCO's best cell counts, seed by seed: one cell is what a user gets."""


def rows(parts: Mapping[str, Part]) -> Iterator[tuple[str, str]]:
    """What, and what comes out."""
    if any(OURS in {row["place"] for row in part["rows"]} for part in parts.values()):
        yield "Figs. 4 to 7", _makespans(parts)
    if "4" in parts and "6" in parts:
        yield "Figs. 4 and 6", _price(parts)
        yield "Figs. 4 and 6", _both(parts)
    if "contention" in parts:
        yield "Fig. 6", _from_order(parts["contention"])
    if "arrivals" in parts:
        yield "arrivals", _arrivals(parts["arrivals"])


def _makespans(parts: Mapping[str, Part]) -> str:
    """Against SJF-BCO as its Algorithm 1 says, which searches kappa, and with kappa held at 1."""
    told, lost = [], 0
    for name, part in parts.items():
        if name in OWN_KAPPA:
            saved, more = _saved(name, part)
            told.append(f"{OWN_KAPPA[name]} {saved}")
            lost += more
    gaps = [
        100 * (ours / bound - 1)
        for name in OWN_KAPPA if name in parts
        for cell in _cells(name, parts[name])
        for ours, bound, _ in cell
    ]  # fmt: skip
    text = (
        f"{OURS} has less makespan than the better reading of SJF-BCO, seed by seed, where SJF-BCO "
        f"searches kappa as its Algorithm 1 does (in Fig. 5: its best kappa): {'; '.join(told)}; "
        f"more in {lost} runs. It is {min(gaps):.1f} to {max(gaps):.1f} % above the lower bound "
        f"(mean {fmean(gaps):.1f} %)"
    )
    if "7" in parts:
        held, _ = _saved("7", parts["7"])
        text += f". Fig. 7 itself holds kappa at 1; against that {held}"
    return text


def _saved(name: str, part: Part) -> tuple[str, int]:
    """By how much ours is less, seed by seed, and in how many it is more."""
    here = [100 * (1 - ours / other) for cell in _cells(name, part) for ours, _, other in cell]
    told = f"{min(here):.1f} to {max(here):.1f} % (mean {fmean(here):.1f} %)"
    return told, sum(one < 0 for one in here)


def _price(parts: Mapping[str, Part]) -> str:
    """Mean JCT of ours over that of both forms of SJF-BCO."""
    told = []
    for name in ("4", "6"):
        for other in BOTH:
            more = []
            for group in by_cell(parts[name]).values():
                by = {row["place"]: row for row in group}
                more.append(100 * (by[OURS]["mean_jct_s"] / by[other]["mean_jct_s"] - 1))
            told.append(f"Fig. {name} {_range(more)} against {other}")
    return (
        f"{OURS} looks at the makespan alone, and pays for it in mean JCT: {', '.join(told)}. "
        f"`{OURS_JCT}` (`objective: weighted-jct`) does not"
    )


def _range(values: Sequence[float]) -> str:
    least, most = f"{min(values):+.0f}", f"{max(values):+.0f}"
    return f"{most} %" if least == most else f"{least} to {most} %"


def _from_order(part: Part) -> str:
    """What contention takes of each policy's makespan, and what knowing of it gives ours."""
    costs: dict[str, list[float]] = {}
    saved: dict[str, list[float]] = {"with": [], "without": [], "blind": []}
    for group in by_cell(part).values():
        by = {row["place"]: row for row in group}
        for place, row in by.items():
            costs.setdefault(place, []).extend(row["sharing_pct"])
        for key, column in (("with", "by_seed_s"), ("without", "without_by_seed_s")):
            saved[key] += _less_than_best(by, OURS, column)
        saved["blind"] += _less_than_best(by, BLIND, "by_seed_s")
    told = ", ".join(f"{place} {min(one):.1f} to {max(one):.1f} %" for place, one in costs.items())
    return (
        "the gain comes from order and dispatch, not from contention. Sharing links makes the "
        f"makespan of a plan longer by: {told}. {OURS} has {fmean(saved['with']):.1f} % less "
        f"makespan than the better reading of SJF-BCO in the mean of Fig. 6's cells, "
        f"{fmean(saved['without']):.1f} % if the same plans meet no contention, and "
        f"{fmean(saved['blind']):.1f} % if {OURS} plans as if there were none"
    )


def _less_than_best(by: Mapping[str, Mapping[str, Any]], ours: str, column: str) -> list[float]:
    seeds = zip(by[ours][column], *(by[form][column] for form in BOTH), strict=True)
    return [100 * (1 - own / min(theirs)) for own, *theirs in seeds]


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
