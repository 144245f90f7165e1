"""The HLAS paper on the reproduction page: its claims on mean JCT, and every cell of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any, Final, TypeAlias

import _common
import _pictures
from _evidence_live import table
from _hare_rows import Part, by_cell

Parts: TypeAlias = Mapping[str, Part]

HEAD: Final = """## HLAS (TCC'24), online

Nobody knows when jobs come or how long they run (decision 0018). Run files in `experiments/hlas/`
with what a figure varies; means of the mean JCT over the seeds. The paper states neither its rounds
nor the pace of its arrivals. `hlas-published` is the paper's: a group for four GPUs, as in its Fig.
25, and tasks to the GPU of the group that is available first, as in its Figs. 9 and 10. `hlas` is
ours: all GPUs in one group, tasks to the GPU on which they complete first. `hlas per-gpu` is what
an earlier version took for the paper's: one task a GPU, and a group waits until all its GPUs are
idle. `oracle` is told every length and takes the shortest remaining time first, on the same groups:
what predictions can gain at best. `las-2d` is a gang that keeps its GPUs to the barrier. Means of
five seeds have no interval here: a cell in which two policies differ by a few percent is open.

Rounds are drawn evenly within a domain, which has no heavy tail. The paper asks for one (IV-B): the
parts with a tail multiply a job's rounds by a lognormal factor (`tail: 2`), and jobs come eight at
a time in the mean (`together: 8`).
"""
TITLES: Final = {
    "tail": "Fig. 22 with a heavy tail and bursts",
    "tail jobs": "Fig. 23 with a heavy tail and bursts",
    "load": "How fast the jobs come",
    "pace": "How fast jobs come of which something can be predicted",
    "gittins": "What gittins gains by ended jobs (past) and by prices of device types",
    "philly": "Arrivals, GPUs and run times of the Philly trace (grain 6 h)",
}
SEEDS_ONCE: Final = 5
"""Of parts that do not state theirs."""
PAPER: Final = "hlas-published"


def section() -> list[str]:
    """Lines for the page; none without results."""
    path = _common.RESULTS / "hlas_figures.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    parts: Parts = found["parts"]
    rows = [
        [f"Fig. {name}", claim, *(ours(parts) if _is_made(parts[name]) else NOT_MADE)]
        for name, (claim, ours) in CLAIMS.items()
        if name in parts
    ]
    text = [HEAD, table(["figure", "the paper", "here", "verdict"], rows), ""]
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


Said: TypeAlias = tuple[str, str]
"""What came out, and the verdict."""
NOT_MADE: Final[Said] = ("not yet made again with whole rounds", "-")


def _is_made(part: Part) -> bool:
    """Whether a part has rows of the paper's form."""
    return any(row["place"] == PAPER for row in part["rows"])


def _better(part: Part, name: str, other: str) -> list[float]:
    """How many times the mean JCT of another policy is that of one, cell by cell."""
    by_cells = [
        {row["place"]: row["mean_jct_s"] for row in rows} for rows in by_cell(part).values()
    ]
    return [by[other] / by[name] for by in by_cells if {name, other} <= by.keys()]


def _told(ratios: list[float]) -> str:
    return f"{mean(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def _against(of: str, tailed: str, claims: Mapping[str, float]) -> Callable[[Parts], Said]:
    """How much better HLAS is than others, on even rounds and on those with a tail."""

    def said(parts: Parts) -> Said:
        text, verdicts = [], []
        for other, claim in claims.items():
            found = {
                what: _better(parts[name], PAPER, other)
                for what, name in (("even", of), ("tail", tailed))
                if name in parts and _is_made(parts[name])
            }
            text += [f"against {other}, {what}: {_told(one)}" for what, one in found.items()]
            every = [ratio for one in found.values() for ratio in one]
            held = max(mean(one) for one in found.values()) >= claim
            order = "better in every cell" if min(every) > 1 else "not better in every cell"
            verdicts.append(f"{other}: {order}, {'as much' if held else 'less than there'}")
        ours = _better(parts[of], "hlas", next(iter(claims)))
        return "; ".join([*text, f"ours, even: {_told(ours)}"]), "; ".join(verdicts)

    return said


def _groups(parts: Parts) -> Said:
    rows = [rows[0] for rows in by_cell(parts["24"]).values()]
    text = ", ".join(
        f"{row['cell']}: mean JCT {row['mean_jct_s']:.0f} s, makespan {row['makespan_s']:.0f} s"
        for row in rows
    )
    means = [row["mean_jct_s"] for row in rows]
    spans = [row["makespan_s"] for row in rows]
    trend = f"the mean JCT {_trend(means)}, the makespan {_trend(spans)}"
    return text, f"{trend}. A total and a mean of the same 200 jobs cannot move apart, as it says"


def _trend(values: list[float]) -> str:
    if values == sorted(values):
        return "rises with more groups"
    return "falls with more groups" if values == sorted(values)[::-1] else "does neither"


def _cost(parts: Parts) -> Said:
    """How the cost of a task's decisions grows with the jobs."""
    said, grows = [], []
    for name in _mean_jct(parts["25"]):
        rows = [row for row in parts["25"]["rows"] if row["place"] == name]
        each = [row["decide_s"] / row["tasks"] for row in rows]
        jobs = [float(row["cell"]) for row in rows]
        said.append(f"{jobs[-1] / jobs[0]:.0f} times the jobs, {each[-1] / each[0]:.2f} times "
                    f"the time a task ({name})")  # fmt: skip
        grows += [each[-1] / each[0]] * (name == PAPER)
    return "; ".join(said), "yes" if max(grows) < 1 else "no: a task costs more, the more jobs"


def _predicting(of: str) -> Callable[[Parts], Said]:
    """How much better predictions make HLAS, and what they could gain at best."""

    def said(parts: Parts) -> Said:
        part, text = parts[of], []
        for form in (" published", ""):
            base = PAPER if form else "hlas"
            gains = [
                f"{name} {_told(_better(part, name + form, base))}"
                for name in ("hlas-p", "hlas-l", "oracle")
            ]
            text.append(f"against {base}: {', '.join(gains)}")
        best = mean(_better(part, "oracle published", PAPER))
        found = _better(part, "hlas-p published", PAPER)
        held = "yes" if mean(found) >= 1.42 else f"less: all lengths known gain {best:.2f}x"
        least = "never worse" if min(found) >= 1 else "worse in some cells"
        return "; ".join(text), f"{held}; {least}"

    return said


CLAIMS: Final[Mapping[str, tuple[str, Callable[[Parts], Said]]]] = {
    "22": ("HLAS 2.04x better than 2D-LAS, which is better than FIFO; its introduction: about "
           "2.94x better than existing works",
           _against("22", "tail", {"las-2d": 2.04, "fifo": 2.94})),
    "23": ("1.69x and 1.1x better than others, always better than FIFO and 2D-LAS",
           _against("23", "tail jobs", {"las-2d": 1.1, "fifo": 1.69})),
    "24": ("total JCT falls with more groups, average JCT rises", _groups),
    "25": ("the cost grows less than the number of jobs", _cost),
    "26": ("HLAS-P 1.42x better than HLAS, HLAS-L a little", _predicting("26")),
    "27": ("the same by the number of jobs", _predicting("27")),
}  # fmt: skip


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
    picture = f"hlas-{name.replace(' ', '-')}"
    _pictures.curves(picture, part["varies"], label, values)
    return [f"![{name}](reproduction/{picture}.svg)", ""]


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
