"""Rows of the Hare figures: how Algorithm 1 as printed, and ours, stand to the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from hare_figures import FASTEST, HARES, OURS, PLACES, PUBLISHED

from warren.profile.published import TABLE

Part: TypeAlias = Mapping[str, Any]
Parts: TypeAlias = Mapping[str, Part]
Row: TypeAlias = Mapping[str, Any]
CLOSE: Final = 0.05
"""How near to a figure of the paper, as a part of one, is the same."""
NAMES: Final = {OURS: "hare (ours)"}
BASELINES: Final = tuple(place for place in PLACES if place not in HARES)


def named(place: str) -> str:
    """A policy as the page calls it."""
    return NAMES.get(place, place)


def by_cell(part: Part) -> dict[str, list[Row]]:
    """The rows of each cell."""
    found: dict[str, list[Row]] = {}
    for row in part["rows"]:
        found.setdefault(row["cell"], []).append(row)
    return found


def of(part: Part, place: str) -> list[Row]:
    """The rows of a policy, cell by cell."""
    return [row for row in part["rows"] if row["place"] == place]


def others(part: Part) -> list[Row]:
    """The rows of the baselines."""
    return [row for row in part["rows"] if row["place"] not in HARES]


def saved(row: Row, hare: str) -> float:
    """What a Hare saves of another policy's weighted JCT, in percent; below 0: it takes more."""
    return float(row["saves_pct"][hare])


def less(rows: Sequence[Row], hare: str) -> str:
    """The range of what a Hare saves."""
    found = [saved(row, hare) for row in rows]
    if max(found) < 0:
        return f"{-max(found):.1f} to {-min(found):.1f} % more"
    if min(found) < 0:
        return f"from {-min(found):.1f} % more to {max(found):.1f} % less"
    return f"{min(found):.1f} to {max(found):.1f} % less"


def each(rows: Sequence[Row], hare: str) -> str:
    """How a Hare's JCT stands to that of each policy of one cell, its worst first."""
    ordered = sorted(rows, key=lambda row: saved(row, hare))
    return ", ".join(f"{than(saved(row, hare))} than {row['place']}" for row in ordered)


def than(saves_pct: float) -> str:
    """``12.3 % less``, or more."""
    return f"{abs(saves_pct):.1f} % {'less' if saves_pct >= 0 else 'more'}"


def times(part: Part, place: str, hare: str) -> str:
    """The range of another policy's weighted JCT over a Hare's."""
    found = [1 / (1 - saved(row, hare) / 100) for row in of(part, place)]
    return f"{place} has {min(found):.1f} to {max(found):.1f} times its JCT"


def change(part: Part, place: str, first: int = 0, last: int = -1) -> str:
    """How a policy's weighted JCT changes from one cell to another, in percent."""
    rows = of(part, place)
    ratio = rows[last]["weighted_jct_s"] / rows[first]["weighted_jct_s"]
    return f"{100 * (ratio - 1):+.1f} %"


def not_least(part: Part) -> str:
    """Where the published Hare is not the least of a cell; empty if it is everywhere.

    A cell in which seeds disagree is open.
    """
    cells = by_cell(part)
    told = [_where(cells, place, -1) for place in BASELINES]
    if not any(told):
        return ""
    text = f"no: less have {', '.join(filter(None, told))}"
    undecided = [_where(cells, place, 0) for place in BASELINES]
    if any(undecided):
        text += f"; open, as seeds disagree: {', '.join(filter(None, undecided))}"
    return text


def _where(cells: Mapping[str, Sequence[Row]], place: str, sign: int) -> str:
    """A policy and the cells in which the published Hare stands so to it; empty if in none."""
    found = [cell for cell, rows in cells.items() if stands(rows, PUBLISHED, place) == sign]
    if not found:
        return ""
    return place if len(cells) == 1 else f"{place} ({_named(found, len(cells))})"


def _named(found: Sequence[str], of_all: int) -> str:
    return "all" if len(found) == of_all else ", ".join(found)


def stands(rows: Sequence[Row], one: str, other: str) -> int:
    """1: a policy has less than another by every seed; -1: more; 0: seeds disagree."""
    of_place = {row["place"]: row["by_seed_s"] for row in rows if row["place"] in (one, other)}
    pairs = zip(of_place[one], of_place[other], strict=True)
    signs = {1 if mine < others else -1 for mine, others in pairs}
    return signs.pop() if len(signs) == 1 else 0


def by_fastest(parts: Parts, *cells: str) -> str:
    """How the published Hare stands with another reading of line 12, in these cells of the part."""
    told = []
    for cell in cells:
        rows = by_cell(parts["line 12"])[cell]
        jct = {row["place"]: row["weighted_jct_s"] for row in rows}
        if cell in by_cell(parts["readings"]):
            gangs = by_cell(parts["readings"])[cell]
            jct |= {row["place"]: row["weighted_jct_s"] for row in gangs}
        mine = jct.pop(FASTEST)
        others = [place for place in jct if place not in HARES]
        each = [f"{than(100 * (1 - mine / jct[place]))} than {place}" for place in others]
        told.append(f"{cell}: {', '.join(each)}")
    return f"With the fastest of the idle GPUs (line 12, added after) {'; '.join(told)}"


def longer_than_it_computes(gbps: float) -> int:
    """Of how many models T^s is longer than T^c, on a V100 behind such a network card."""
    rows = TABLE.values()
    return sum(16 * row.model_bytes / (1e9 * gbps) > row.comp_s["V100"] for row in rows)


def at_least(part: Part, least_pct: float) -> str:
    """Whether the published Hare is least everywhere, and by as much as the paper says."""
    if text := not_least(part):
        return text
    least = min(saved(row, PUBLISHED) for row in others(part))
    return "yes" if least > least_pct - 100 * CLOSE else f"partly: least, by {least:.1f} % and more"
