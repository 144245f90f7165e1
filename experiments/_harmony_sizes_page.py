"""Fig. 4.14 and the arrivals of Google's cluster on the page of Harmony."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import _common
from _evidence_live import table
from _pictures import pyplot, save

CLAIMS: Final = (
    "Fig. 4.14: larger DoPs for jobs with most COMP, smaller ones for those with least",
    "Fig. 4.14: the number of jobs in a group changes little with that",
)
TEXT: Final = """
## Fig. 4.14: machines and jobs of a group

`experiments/harmony_sizes.py`, commit {commit}: the workloads above, and every group that a
decision leaves, of all decisions of a run and all {seeds} seeds. *Machines* of a group are its DoP.

{claims}

{rows}

![Machines of a group and jobs in a group](harmony-sizes.svg)

Lines go from the 10 % to the 90 % quantile; the box is from 25 to 75 %, the dot is the median.

**Google's arrivals** (4.4.5; 2.02 times the JCT, 1.57 times the makespan): not made. The paper
replays arrivals of the cluster that Google published in 2011, of which no copy is among the public
data that the experiments read. *One every 4 minutes* and *8 minutes* above are Poisson
arrivals in their place, as in Fig. 4.15.
"""
MOST, LEAST = "60 with most COMP", "60 with least COMP"
SAME: Final = 0.15
"""Largest part by which means may differ that count as little changed."""


def section() -> str:
    """The section, and the picture that it shows; empty if nothing was simulated."""
    path = _common.RESULTS / "harmony_sizes.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text())
    rows = {(row["variant"], row["rule"]): row for row in found["rows"]}
    rules = list(dict.fromkeys(row["rule"] for row in found["rows"]))
    draw(found["rows"])
    claims = [
        [text, *(verdict(rows, rule, what) for rule in rules)]
        for text, what in zip(CLAIMS, ("machines", "jobs"), strict=True)
    ]
    lines = [
        [row["variant"], row["rule"], *(text_of(row[what]) for what in ("machines", "jobs"))]
        for row in found["rows"]
    ]
    return TEXT.format(
        commit=found["made_by"]["commit"], seeds=len(found["seeds"]),
        claims=table(["claim", *rules], claims),
        rows=table(["workload", "rule", "machines: mean (10, 50, 90 %)", "jobs: the same"], lines),
    )  # fmt: skip


def rows() -> list[list[str]]:
    """Rows of a table of claims: the claim, what came out as printed, and the verdict."""
    path = _common.RESULTS / "harmony_sizes.json"
    if not path.exists():
        return []
    found = {(row["variant"], row["rule"]): row for row in json.loads(path.read_text())["rows"]}
    both = (
        verdict(found, "harmony-published", what).rsplit(": ", 1) for what in ("machines", "jobs")
    )
    return [[text, *one] for text, one in zip(CLAIMS, both, strict=True)]


def text_of(spread: Mapping[str, float]) -> str:
    """Mean and quantiles of a distribution."""
    return f"{spread['mean']:.1f} ({spread['10']:.0f}, {spread['50']:.0f}, {spread['90']:.0f})"


def verdict(rows: Mapping[tuple[str, str], Any], rule: str, what: str) -> str:
    """Whether the means of a rule are as the paper says."""
    most, least = (rows[variant, rule][what]["mean"] for variant in (MOST, LEAST))
    change = most / least - 1
    holds = change > 0 if what == "machines" else abs(change) <= SAME
    text = "holds" if holds else "does not hold"
    return f"{most:.1f} against {least:.1f}: {text}"


def draw(rows: list[dict[str, Any]]) -> None:
    """The picture: both distributions, a line a workload and rule."""
    figure, panels = pyplot.subplots(1, 2, figsize=(7, 2.6), layout="constrained", sharey=True)
    names = [f"{row['variant']}, {row['rule']}" for row in rows]
    for axes, what in zip(panels, ("machines", "jobs"), strict=True):
        for place, row in enumerate(rows):
            one = row[what]
            colour = "#882255" if row["rule"] == "harmony-published" else "#0b5394"
            axes.plot([one["10"], one["90"]], [place, place], color=colour, linewidth=1)
            axes.plot([one["25"], one["75"]], [place, place], color=colour, linewidth=6, alpha=0.4)
            axes.plot(one["50"], place, "o", color=colour, markersize=4)
        axes.set_xlabel(f"{what} of a group")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(names)), names, fontsize=7)
    panels[0].invert_yaxis()
    save(figure, "harmony-sizes")
