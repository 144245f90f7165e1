"""The HLAS paper on the reproduction page: its claims on mean JCT, and every cell of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any, Final

import _common
import _pictures
from _claims import Part, by_cell
from _evidence_live import table

Parts = Mapping[str, Part]

HEAD: Final = """## HLAS (TCC'24), online

Nobody knows when jobs come or how long they run (decision 0018). Run files in `experiments/hlas/`
with what a figure varies; means of the mean JCT over the seeds. The paper states neither its rounds
nor the pace of its arrivals. `hlas` has a group for four GPUs, as in the paper's Fig. 25; `hlas of
single GPUs` as many groups as GPUs, which is Algorithm 1 to the letter.
"""
WHY: Final = (
    "a group of four mixes fast and slow GPUs, so that it is as fast as others; its slowest sets "
    "the pace of a round, and the others wait until the group is idle"
)
FITS: Final = (
    "the loss fit of hlas-l expects too many rounds of most jobs (see evidence.md), which puts "
    "short jobs into late queues"
)
TITLES: Final = {
    "load": "How fast the jobs come",
    "pace": "How fast jobs come of which something can be predicted",
    "philly": "Arrivals, GPUs and run times of the Philly trace (grain 6 h)",
}
SEEDS_ONCE: Final = 5
"""Of parts that do not state theirs."""


def section() -> list[str]:
    """Lines for the page; none without results."""
    path = _common.RESULTS / "hlas_figures.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    parts: Parts = found["parts"]
    rows = [
        [f"Fig. {name}", claim, ours(parts[name])]
        for name, (claim, ours) in CLAIMS.items()
        if name in parts
    ]
    text = [HEAD, table(["figure", "the paper", "here"], rows), ""]
    for name, part in parts.items():
        title = TITLES.get(name, f"Fig. {name}")
        text += [f"### {title}", "", *_drawn(name, part), _cells(name, part), ""]
    by = found["made_by"]
    text.append(
        f"`.venv/bin/python experiments/hlas_figures.py`, commit {_common.commits(parts)}, "
        f"{by['processor']}, {by['cores']} cores, Python {by['python']}. Each part can be made "
        "alone: `--part 22`.\n"
    )
    return text


def _against(other: str) -> Callable[[Part], str]:
    """How much better both forms of HLAS are than another, mean over the cells; and gittins."""

    def said(part: Part) -> str:
        by = _mean_jct(part)
        forms = [f"{by[other] / by[name]:.2f}x ({name})" for name in by if _is_hlas(name)]
        why = f"; worse as the paper's simulations have it: {WHY}" if by["hlas"] > by[other] else ""
        ours = f"; gittins {by[other] / by['gittins']:.2f}x" if "gittins" in by else ""
        return f"against {other}: {', '.join(forms)}{ours}{why}"

    return said


def _is_hlas(name: str) -> bool:
    return name.partition(" ")[0] == "hlas"


def _groups(part: Part) -> str:
    return ", ".join(
        f"{cell}: {rows[0]['mean_jct_s']:.0f} s" for cell, rows in by_cell(part).items()
    )


def _cost(part: Part) -> str:
    """How the cost of a task's decisions grows with the jobs."""
    said = []
    for name in _mean_jct(part):
        rows = [row for row in part["rows"] if row["place"] == name]
        each = [row["decide_s"] / row["tasks"] for row in rows]
        jobs = [float(row["cell"]) for row in rows]
        said.append(f"{jobs[-1] / jobs[0]:.0f} times the jobs, {each[-1] / each[0]:.2f} times "
                    f"the time a task ({name})")  # fmt: skip
    return "; ".join(said)


def _predicting(part: Part) -> str:
    """How much better predictions make HLAS, mean over the cells, in both forms; and gittins."""
    by, said = _mean_jct(part), []
    for name in ("hlas-p", "hlas-l"):
        for form in ("", " of single GPUs"):
            if name + form in by:
                said.append(f"{by['hlas' + form] / by[name + form]:.2f}x ({name}{form})")
    best = min((name for name in by if name.startswith("hlas-p")), key=by.__getitem__, default="")
    ours = ""
    if best and "gittins" in by:
        ratios = (
            f"{by[name] / by['gittins']:.2f}x better than {name}" for name in ("hlas-p", best)
        )
        ours = f"; gittins {', '.join(dict.fromkeys(ratios))}"
    return f"against hlas of the same groups: {', '.join(said)}{ours}; {FITS}"


CLAIMS: Final[Mapping[str, tuple[str, Callable[[Part], str]]]] = {
    "22": ("HLAS 2.04x better than 2D-LAS", _against("las-2d")),
    "23": ("1.69x and 1.1x better than others", _against("fifo")),
    "24": ("total JCT falls with more groups, average JCT rises", _groups),
    "25": ("the cost grows less than the number of jobs", _cost),
    "26": ("HLAS-P 1.42x better than HLAS, HLAS-L a little", _predicting),
    "27": ("the same by the number of jobs", _predicting),
}


def _mean_jct(part: Part) -> dict[str, float]:
    names = dict.fromkeys(row["place"] for row in part["rows"])
    return {
        name: mean(row["mean_jct_s"] for row in part["rows"] if row["place"] == name)
        for name in names
    }


def _drawn(name: str, part: Part) -> list[str]:
    """The picture of a part with as many cells as make a curve."""
    cells = list(by_cell(part))
    if len(cells) < 3:
        return []
    key, label = ("decide_s", "deciding, s") if name == "25" else ("mean_jct_s", "mean JCT, s")
    values: dict[str, dict[str, float]] = {}
    for row in part["rows"]:
        values.setdefault(row["place"], {})[row["cell"]] = row[key]
    _pictures.curves(f"hlas-{name}", part["varies"], label, values)
    return [f"![{name}](reproduction/hlas-{name}.svg)", ""]


def _cells(name: str, part: Part) -> str:
    names = list(dict.fromkeys(row["place"] for row in part["rows"]))
    rows: list[list[Any]] = []
    for cell, found in by_cell(part).items():
        by = {row["place"]: row for row in found}
        rows.append([cell, *(_text(name, by[one]) for one in names)])
    return table([f"{part['varies']}, {part.get('seeds', SEEDS_ONCE)} seeds", *names], rows)


def _text(name: str, row: Mapping[str, Any]) -> str:
    if name == "25":
        return f"{1e6 * row['decide_s'] / row['tasks']:.0f} us a task"
    return f"{row['mean_jct_s']:,.1f} s"
