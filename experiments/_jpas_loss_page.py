"""Fig. 19 on the page of JPAS: the section and the picture, from ``results/jpas_loss.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import _common
from _evidence_live import table
from _pictures import pyplot, save

CLAIM: Final = "Fig. 19: the total loss reduction under MAIF is above those of the three others"
TEXT: Final = """
## Fig. 19: loss

The same runs; a simulated job shows an accuracy alone, and its loss is taken as -ln of that
(`experiments/jpas_loss.py`, commit {commit}). *Reduction*: the part of the way from a job's first
loss to its last, added up over all jobs; its mean over {hours:.0f} h, against TCP's, with the least
and the most favorable of {seeds} seeds.

| claim | here |
| --- | --- |
| {claim} | {verdict} |

{rows}

![Total loss reduction over time, against TCP](jpas-19.svg)

The paper prints its figure as a curve without numbers. {besides}

"""


def section() -> str:
    """The section, and the picture that it shows; empty if nothing was simulated."""
    path = _common.RESULTS / "jpas_loss.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text())
    rows = {row["flow"]: row for row in found["rows"]}
    draw(found, rows)
    changes = {flow: changes_of(rows, flow) for flow in rows if flow != "fair"}
    lines = [
        [flow, f"{100 * (rows[flow]['mean'] / rows['fair']['mean'] - 1):+.1f} %",
         f"{min(one):+.1f} to {max(one):+.1f} %"]
        for flow, one in changes.items()
    ]  # fmt: skip
    return TEXT.format(
        commit=found["made_by"]["commit"], hours=found["at_s"][-1] / 3600,
        seeds=len(found["seeds"]), claim=CLAIM, verdict=verdict(rows),
        rows=table(["flow", "reduction against TCP", "by seed"], lines), besides=besides(rows),
    )  # fmt: skip


def row() -> list[str]:
    """A row of a table of claims: the claim, and what came out here."""
    path = _common.RESULTS / "jpas_loss.json"
    if not path.exists():
        return [CLAIM, "not made"]
    return [CLAIM, verdict({row["flow"]: row for row in json.loads(path.read_text())["rows"]})]


def changes_of(rows: Mapping[str, Any], flow: str) -> list[float]:
    """The change against TCP in each seed, in percent."""
    pairs = zip(rows[flow]["by_seed"], rows["fair"]["by_seed"], strict=True)
    return [100 * (one / other - 1) for one, other in pairs]


def verdict(rows: Mapping[str, Any]) -> str:
    """Whether MAIF is ahead of each other policy in the mean, and in how many seeds of TCP."""
    means = {flow: row["mean"] for flow, row in rows.items()}
    others = [means[flow] for flow in ("fair", "baraat", "sincronia")]
    ahead = sum(one > 0 for one in changes_of(rows, "maif"))
    best = means["maif"] > max(others)
    text = "holds" if best and ahead == len(rows["maif"]["by_seed"]) else "does not hold"
    change = 100 * (means["maif"] / means["fair"] - 1)
    return (
        f"{change:+.1f} % against TCP, ahead in {ahead} of {len(rows['maif']['by_seed'])} seeds: "
        f"{text}"
    )


def besides(rows: Mapping[str, Any]) -> str:
    """Say how far the curves of MAIF and TCP are apart at any time."""
    pairs = zip(rows["maif"]["total"], rows["fair"]["total"], strict=True)
    ratios = [one / base for one, base in pairs if base > 0]
    return (
        "A job that has ended\ncounts as 1 under each policy, which brings means over all of that "
        f"time near each other. At\nsingle times MAIF has {min(ratios):.2f} to "
        f"{max(ratios):.2f} times the reduction of TCP, in the mean of the seeds."
    )


def draw(found: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
    """The picture: total reduction over TCP's, over time."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8), layout="constrained")
    hours = [at / 3600 for at in found["at_s"]]
    for flow, row in rows.items():
        ratio = [
            one / max(base, 1e-9) for one, base in zip(row["total"], rows["fair"]["total"],
            strict=True)
        ]  # fmt: skip
        axes.plot(hours, ratio, label="TCP" if flow == "fair" else flow, linewidth=1.2)
    axes.set_xlabel("time, h")
    axes.set_ylabel("total loss reduction, TCP = 1")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    save(figure, "jpas-19")
