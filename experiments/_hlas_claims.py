"""The claims of the HLAS paper on mean JCT, what came out here, and whether that is so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any, Final, TypeAlias

from _hare_rows import Part, by_cell, stands
from hlas_figures import PLACES

Parts: TypeAlias = Mapping[str, Part]
PAPER: Final = "hlas-published"
BLIND: Final = "hlas-published without past"
"""The paper's HLAS where there is a history: it knows none."""
OTHERS: Final = (
    "las-2d", "las-2d fit first", "fifo", "gavel-fifo", "sched-homo-unit", "sched-allox-unit",
)  # fmt: skip
ONE_QUEUE: Final = "hlas-published one queue"


Said: TypeAlias = tuple[str, str]
"""What came out, and the verdict."""
EARLIER: Final = "Made with earlier forms of HLAS, before it took whole rounds."
NOT_MADE: Final[Said] = ("not yet made again with whole rounds", "-")


def is_made(part: Part) -> bool:
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


NOTHING: Final = 0.02
"""A gain that is no larger is none."""


def _against(of: str, tailed: str, claims: Mapping[str, float]) -> Callable[[Parts], Said]:
    """How HLAS stands to others, on even rounds and on those with a tail."""

    def said(parts: Parts) -> Said:
        text, verdicts = [], []
        for what, name in (("even", of), ("tail", tailed)):
            if name not in parts or not is_made(parts[name]):
                continue
            found = {other: _better(parts[name], PAPER, other) for other in OTHERS}
            told = [f"{other} {_told(one)}" for other, one in found.items()]
            ours = _told(_better(parts[name], "hlas", "las-2d"))
            text.append(f"{what}: {', '.join(told)}; ours: las-2d {ours}")
            cells = [_cells_better(parts[name], other) for other in OTHERS]
            verdicts.append(f"{what}: {', '.join(cells)}")
        for other, claim in claims.items():
            even, tail = (mean(_better(parts[name], PAPER, other)) for name in (of, tailed))
            held = "yes" if min(even, tail) >= claim else "less"
            verdicts.append(f"{claim}x of {other}: {held}, {even:.2f}x even, {tail:.2f}x with tail")
        verdicts += [text for text in (_by_order(parts, of, tailed),) if text]
        return "; ".join(text), "; ".join(verdicts)

    return said


def _by_order(parts: Parts, *names: str) -> str:
    """How much of it comes of the order of jobs; empty where that was not tried."""
    found = [_better(parts[name], PAPER, ONE_QUEUE) for name in names]
    told = [_told(one) for one in found if one]
    if not told:
        return ""
    return f"of attained service comes, against all jobs in one queue: {' even, '.join(told)} tail"


def _elsewhere(parts: Parts) -> Said:
    """Which policies are better than HLAS at other paces and on seeds nobody had looked at."""
    text, verdicts = [], []
    for name, what in (("load", "load"), ("tail load", "with a tail at load")):
        for cell, rows in by_cell(parts[name]).items():
            ratios = {other: _of(rows, other) / _of(rows, PAPER) for other in OTHERS}
            told = [f"{other} {ratio:.2f}x" for other, ratio in ratios.items()]
            text.append(f"{what} {cell}: {', '.join(told)}")
            stand = {other: stands(rows, PAPER, other) for other in OTHERS}
            verdicts.append(f"{what} {cell}: {_sides(stand)}")
    for name, what in (("fresh", "seeds 6 to 10"), ("fresh tail", "the same with a tail")):
        found = {other: _better(parts[name], PAPER, other) for other in OTHERS}
        text.append(f"{what}: {', '.join(f'{other} {_told(one)}' for other, one in found.items())}")
        verdicts.append(f"{what}: {_sides({other: _sign(one) for other, one in found.items()})}")
    return "; ".join(text), "; ".join(verdicts)


def _philly(parts: Parts) -> Said:
    """On a real trace, where jobs differ in length by orders of magnitude."""
    part = parts["philly"]
    found = {other: _better(part, PAPER, other) for other in (*OTHERS, ONE_QUEUE)}
    told = [f"{other} {_told(one)}" for other, one in found.items() if one]
    ours = {name: _better(part, name, PAPER) for name in ("hlas", "gittins")}
    told += [
        f"ours, against hlas-published: {name} {_told(one)}" for name, one in ours.items() if one
    ]
    every = len(by_cell(part))
    cells = [_cells_better(part, other) for other in OTHERS if len(found[other]) == every]
    return ", ".join(told), "; ".join(cells)


def _of(rows: Sequence[Mapping[str, Any]], place: str) -> float:
    return next(float(row["mean_jct_s"]) for row in rows if row["place"] == place)


def _sign(ratios: list[float]) -> int:
    return 1 if min(ratios) > 1 else -1 if max(ratios) < 1 else 0


def _sides(stand: Mapping[str, int]) -> str:
    """Than whom it is better by every seed, worse, and where seeds disagree."""
    told = []
    for sign, what in ((1, "better than"), (-1, "worse than"), (0, "open:")):
        if named := [other for other, one in stand.items() if one == sign]:
            told.append(f"{what} {', '.join(named)}")
    return ", ".join(told)


def _highest(parts: Parts) -> Said:
    """By how much it is better at most, in any cell of Figs. 22 and 23."""
    names = {"22": "", "23": "", "tail": " with a tail", "tail jobs": " with a tail"}
    found = [
        (max(_better(parts[name], PAPER, other)), f"{other}{what}")
        for name, what in names.items()
        for other in OTHERS
    ]
    most, against = max(found)
    return f"{most:.2f}x at most, against {against}", "yes" if most >= 2.94 else "less"


def _cells_better(part: Part, other: str) -> str:
    """In how many cells HLAS is better than another policy by the mean, by every seed, and open."""
    by_mean = sum(ratio > 1 for ratio in _better(part, PAPER, other))
    found = [stands(rows, PAPER, other) for rows in by_cell(part).values()]
    if by_mean == found.count(1) == len(found):
        return f"better than {other} in all {by_mean} by every seed"
    more = [f"{found.count(sign)} {what}" for sign, what in ((-1, "worse"), (0, "open"))]
    told = [text for text in more if not text.startswith("0 ")]
    return (
        f"better than {other} in {by_mean} of {len(found)} by the mean, in {found.count(1)} by "
        f"every seed ({', '.join(told)})"
    )


def _groups(parts: Parts) -> Said:
    rows = [rows[0] for rows in by_cell(parts["24"]).values()]
    text = ", ".join(
        f"{row['cell']}: mean JCT {row['mean_jct_s']:.0f} s, makespan {row['makespan_s']:.0f} s"
        for row in rows
    )
    cells = [row["cell"] for row in rows]
    means = [row["mean_jct_s"] for row in rows]
    spans = [row["makespan_s"] for row in rows]
    return text, (
        f"the mean JCT {_trend(cells, means)}, the makespan {_trend(cells, spans)}. A total and a "
        "mean of the same 200 jobs cannot move apart, as it says; the makespan is our reading of "
        "its total. Its reason, that groups are not alike, is not what makes the mean rise up to "
        "40: 40 GPUs of each of four types can be cut into 10, 20 and 40 groups that are equal"
    )


def _trend(cells: list[str], values: list[float]) -> str:
    """Up to which number of groups it rises, and what it does then."""
    top = values.index(max(values))
    rises = values[: top + 1] == sorted(values[: top + 1])
    falls = values[top:] == sorted(values[top:])[::-1]
    if not (rises and falls):
        return "has no trend"
    if top == len(values) - 1:
        return "rises with more groups"
    return f"rises up to {cells[top]} groups and falls then" if top else "falls with more groups"


def _cost(parts: Parts) -> Said:
    """How the cost of a task's decisions grows with the jobs."""
    said, grows = [], []
    for name in places(parts["25"]):
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
        for base, form in ((BLIND, " published"), (PAPER, " published"), ("hlas", "")):
            gains = [
                f"{name} {_told(_better(part, name + form, base))}"
                for name in ("hlas-p", "hlas-l", "oracle")
            ]
            text.append(f"against {base}: {', '.join(gains)}")
        best = mean(_better(part, "oracle published", BLIND))
        found = mean(_better(part, "hlas-p published", BLIND))
        fifo = " and ".join(
            f"{other} {_told(_better(part, 'hlas-p published', other))}"
            for other in ("fifo", "gavel-fifo")
        )
        told = f"against {fifo}; against HLAS"
        if best < 1 + NOTHING:
            return "; ".join(text), (
                f"{told} it cannot be judged on these groups: even all lengths known gain "
                f"{best:.2f}x"
            )
        held = "yes" if found >= 1.42 else "less"
        return "; ".join(text), f"{told} {held}: {found:.2f}x where all lengths gain {best:.2f}x"

    return said


CLAIMS: Final[Mapping[str, tuple[str, str, Callable[[Parts], Said]]]] = {
    "headline": ("22", "a performance improvement of about 2.94x (abstract)", _highest),
    "22": ("22", "always better than FIFO, Sched_Homo, Sched_Allox and 2D-LAS; 2.04x better than "
           "2D-LAS", _against("22", "tail", {"las-2d": 2.04})),
    "23": ("23", "always better than others, 1.69x and 1.1x (it does not say than which)",
           _against("23", "tail jobs", {})),
    "22, 23 elsewhere": ("load", "always better than others", _elsewhere),
    "Philly": ("philly", "(another trace than the paper's)", _philly),
    "24": ("24", "total JCT falls with more groups, average JCT rises", _groups),
    "25": ("25", "the cost grows less than the number of jobs", _cost),
    "26": ("26", "HLAS-P always better than FIFO, HLAS and HLAS-L, 1.42x better than HLAS; HLAS-L "
           "a little", _predicting("26")),
    "27": ("27", "the same by the number of jobs", _predicting("27")),
}  # fmt: skip
"""By name: the part that it is read off first, what the paper says, what came out."""


def places(part: Part) -> list[str]:
    """The policies of a part, in one order for all parts."""
    there = {row["place"]: None for row in part["rows"]}
    return [place for place in PLACES if place in there] + [
        place for place in there if place not in PLACES
    ]
