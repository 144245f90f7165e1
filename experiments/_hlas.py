"""The HLAS paper on the reproduction page: its claims on mean JCT, and every cell of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import mean
from typing import Any, Final

import _common
from _claims import Part, by_cell
from _evidence_live import table

HEAD: Final = """## HLAS (TCC'24), online

Nobody knows when jobs come or how long they run (decision 0018). Run file
`experiments/hlas/mix.yaml` with what a figure varies; means of the mean JCT over {seeds} seeds.
The paper states neither its rounds nor the pace of its arrivals. `hlas` has a group for four GPUs,
as in the paper's Fig. 25; `hlas of single GPUs` as many groups as GPUs, which is Algorithm 1 to the
letter.
"""
WHY: Final = (
    "a group of four mixes fast and slow GPUs, so that it is as fast as others; its slowest sets "
    "the pace of a round, and the others wait until the group is idle"
)


def section() -> list[str]:
    """Lines for the page; none without results."""
    path = _common.RESULTS / "hlas_figures.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    parts: Mapping[str, Part] = found["parts"]
    text = [HEAD.format(seeds=found["seeds"]), table(*_claims(parts)), ""]
    for name, part in parts.items():
        title = f"Fig. {name}" if name.isdigit() else "How fast the jobs come"
        text += [f"### {title}", "", _cells(part), ""]
    by = found["made_by"]
    commits = _common.commits(parts)
    text.append(
        f"`.venv/bin/python experiments/hlas_figures.py`, commit {commits}, {by['processor']}, "
        f"{by['cores']} cores, Python {by['python']}. Each part can be made alone: `--part 22`.\n"
    )
    return text


def _claims(parts: Mapping[str, Part]) -> tuple[list[str], list[list[str]]]:
    rows = []
    if "22" in parts:
        rows.append(["Fig. 22", "HLAS 2.04x better than 2D-LAS", _against(parts["22"], "las-2d")])
    if "23" in parts:
        rows.append(["Fig. 23", "1.69x and 1.1x better than others", _against(parts["23"], "fifo")])
    if "24" in parts:
        cells = by_cell(parts["24"])
        said = ", ".join(f"{cell}: {rows[0]['mean_jct_s']:.0f} s" for cell, rows in cells.items())
        rows.append(["Fig. 24", "total JCT falls with more groups, average JCT rises", said])
    return ["figure", "the paper", "here"], rows


def _against(part: Part, other: str) -> str:
    """How much better both forms of HLAS are than another, mean over the cells; and gittins."""
    by = _mean_jct(part)
    forms = [f"{by[other] / by[name]:.2f}x ({name})" for name in by if name.startswith("hlas")]
    worse = by["hlas"] > by[other]
    why = f"; worse as the paper's simulations have it: {WHY}" if worse else ""
    ours = f"; gittins {by[other] / by['gittins']:.2f}x" if "gittins" in by else ""
    return f"against {other}: {', '.join(forms)}{ours}{why}"


def _mean_jct(part: Part) -> dict[str, float]:
    names = dict.fromkeys(row["place"] for row in part["rows"])
    return {
        name: mean(row["mean_jct_s"] for row in part["rows"] if row["place"] == name)
        for name in names
    }


def _cells(part: Part) -> str:
    names = list(dict.fromkeys(row["place"] for row in part["rows"]))
    rows: list[list[Any]] = []
    for cell, found in by_cell(part).items():
        jct = {row["place"]: row["mean_jct_s"] for row in found}
        rows.append([cell, *(f"{jct[name]:.1f} s" for name in names)])
    return table([part["varies"], *names], rows)
