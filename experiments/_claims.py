"""What each figure of the Hare paper claims, what comes out here, and whether that is so.

``hare-published`` is the paper's algorithm as it is printed, and the verdict is about it; ``hare``
is ours, and stands beside it. Every sentence with a number, and every verdict, is read off the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Final, TypeAlias

from _hare_rows import (
    BASELINES,
    CLOSE,
    Part,
    Parts,
    Row,
    at_least,
    by_cell,
    by_fastest,
    change,
    each,
    less,
    named,
    not_least,
    of,
    others,
    saved,
    than,
    times,
)
from hare_figures import FASTEST, HARES, OURS, PLACES, PUBLISHED, READINGS

PAPER_FALL: Final = 0.312
"""Fig. 18's fall of Hare's weighted JCT."""
FIFO: Final = "gavel-fifo"
EQUAL: Final = "low"
"""The cell of Fig. 16 in which all GPUs are of one type."""


def _testbed(parts: Parts, hare: str) -> str:
    return each(others(parts["12"]), hare)


def _testbed_why(parts: Parts) -> str:
    text = at_least(parts["12"], 47.6)
    rows = {row["place"]: row for row in of_cell(parts, "readings", "testbed")}
    if rows:
        gangs = [rows["srtf-gangs"], rows["srtf-blind"]]
        text += (
            f". By two readings of SRTF as gangs the "
            f"published one has {each(gangs, PUBLISHED)}, ours {each(gangs, OURS)}"
        )
    text += f". {by_fastest(parts, 'testbed')}"
    return text + ". The paper prints no number of jobs; here there are 40"


def _done(parts: Parts, hare: str) -> str:
    done = {row["place"]: row["done"][hare] for row in parts["12"]["rows"]}
    shares = [f"{place} {_range(done[place])}" for place in BASELINES]
    return f"when it has done {_range(done[hare])}: {', '.join(shares)}"


def _range(shares: Sequence[float]) -> str:
    """The mean over seeds, and from which to which it goes."""
    least, most = 100 * min(shares), 100 * max(shares)
    return f"{100 * mean(shares):.1f} %" + (f" ({least:.1f} to {most:.1f})" if most > least else "")


def _done_why(parts: Parts) -> str:
    done = {row["place"]: mean(row["done"][PUBLISHED]) for row in parts["12"]["rows"]}
    same = done[PUBLISHED] > done["sched-allox"] > done["sched-homo"]
    return f"{'the order, yes' if same else 'no'}; 40 jobs a seed, in brackets from seed to seed"


def _fifo_most(part: Part) -> tuple[bool, list[str]]:
    """Whether it has the most of the baselines everywhere; where the published Hare has more."""
    by = {cell: {row["place"]: _jct(row) for row in rows} for cell, rows in by_cell(part).items()}
    most = all(max(BASELINES, key=jct.__getitem__) == FIFO for jct in by.values())
    return most, [cell for cell, jct in by.items() if jct[PUBLISHED] > jct[FIFO]]


def _jct(row: Row) -> float:
    return float(row["weighted_jct_s"])


def _gpus(parts: Parts, hare: str) -> str:
    part = parts["14"]
    return f"{less(others(part), hare)}; {times(part, 'sched-allox', hare)}"


def _gpus_why(parts: Parts) -> str:
    part = parts["14"]
    fifo, above = _fifo_most(part)
    most = f"gavel-fifo has {'' if fifo else 'not '}the most of the baselines in every cell"
    if above:
        most += f" (hare-published more at {' and '.join(above)})"
    falls = all(_ratio(part, place, -1) < 1 for place in (PUBLISHED, *BASELINES))
    return (
        f"{not_least(part) or 'yes'}; {most}; {_allox(parts)}; with more GPUs "
        f"{'all take less, as it says' if falls else 'not all take less'}. "
        f"{by_fastest(parts, '80 GPUs', '160 GPUs', '240 GPUs')}"
    )


def _allox(parts: Parts) -> str:
    """Whether sched-allox has the least of the baselines, and by other readings of SRTF."""
    cells = [{row["place"]: _jct(row) for row in rows} for rows in by_cell(parts["14"]).values()]
    over = sorted(jct["sched-allox"] / jct["srtf"] for jct in cells)
    gangs = {row["place"]: _jct(row) for row in of_cell(parts, "readings", "160 GPUs")}
    slower = all(gangs[place] > cells[2]["sched-allox"] for place in READINGS)
    return (
        f"sched-allox has {over[0]:.2f} to {over[-1]:.2f} times the JCT of srtf"
        f"{', and less than SRTF as gangs (160 GPUs)' if slower else ''}"
    )


def _jobs(parts: Parts, hare: str) -> str:
    cells = list(by_cell(parts["15"]).values())
    return "; ".join(
        f"{jobs} jobs: {each([row for row in rows if row['place'] in BASELINES], hare)}"
        for jobs, rows in ((300, cells[-1]), (100, cells[0]))
    )


def _jobs_why(parts: Parts) -> str:
    first, *_, last = by_cell(parts["15"]).values()
    before = {row["place"]: saved(row, PUBLISHED) for row in first}
    moved = [
        f"{than(before[row['place']])} to {than(saved(row, PUBLISHED))} than {row['place']}"
        for row in last
        if row["place"] in BASELINES
    ]
    text = f"{at_least(parts['15'], 54.6)}. {by_fastest(parts, '300 jobs')}"
    text += f". From 100 to 300 jobs: {', '.join(moved)}"
    if rows := [row for row in of_cell(parts, "readings", "160 GPUs") if row["place"] not in HARES]:
        text += (
            f". By reading of SRTF (200 jobs) the published one has {each(rows, PUBLISHED)}, "
            f"ours {each(rows, OURS)}"
        )
    return text


def _heterogeneity(parts: Parts, hare: str) -> str:
    part = parts["16"]
    homo = [f"{row['cell']} {than(saved(row, hare))}" for row in of(part, "sched-homo")]
    return f"than sched-homo: {', '.join(homo)}; {times(part, 'sched-allox', hare)}"


def _heterogeneity_why(parts: Parts) -> str:
    part = parts["16"]
    equal = [row for row in others(part) if row["cell"] == EQUAL]
    text = not_least(part) or "yes"
    if text != "yes":
        text += f". On equal GPUs ({EQUAL}) it has {each(equal, PUBLISHED)}"
    homo = next(row for row in equal if row["place"] == "sched-homo")
    text += (
        f". Close at low: {than(saved(homo, PUBLISHED))}; our sched-homo was read so that it is "
        f"close (its docstring), so that is no check. {by_fastest(parts, 'low heterogeneity')}"
    )
    gaps = [saved(row, PUBLISHED) for row in of(part, "sched-homo")]
    grows = gaps == sorted(gaps) and gaps[-1] > 0
    told = ", ".join(f"{place} {change(part, place)}" for place in (PUBLISHED, *BASELINES))
    return (
        f"{text}. The gap to sched-homo {'grows' if grows else 'does not grow'}. From low to high "
        f"heterogeneity: {told}; how many GPUs of each type there are is ours"
    )


def _shares(parts: Parts, hare: str) -> str:
    part = parts["17"]
    cells = [row["cell"] for row in of(part, hare)]
    told = [
        f"{cell.split()[0]} doubled (40 % of the jobs): {change(part, hare, 0, at)}"
        for at, cell in enumerate(cells)
        if cell.split()[0] in ("nlp", "rec")
    ]
    return "; ".join(told)


def _shares_why(parts: Parts) -> str:
    part = parts["17"]
    cells = [row["cell"] for row in of(part, PUBLISHED)]
    places = [PUBLISHED, *BASELINES]
    nlp, rec = (
        [_ratio(part, place, cells.index(cell)) for place in places]
        for cell in ("nlp 50", "rec 50")
    )
    moves = "all take longer and less as it says" if min(nlp) > 1 > max(rec) else "not all do"
    told = [f"{place} {change(part, place, 0, cells.index('nlp 50'))}" for place in BASELINES]
    return f"{not_least(part) or 'yes'}; {moves} (more NLP: {', '.join(told)})"


def _ratio(part: Part, place: str, at: int) -> float:
    rows = of(part, place)
    return _jct(rows[at]) / _jct(rows[0])


def _bandwidth(parts: Parts, hare: str) -> str:
    return change(parts["18"], hare)


def _bandwidth_why(parts: Parts) -> str:
    fall = 1 - _ratio(parts["18"], PUBLISHED, len(of(parts["18"], PUBLISHED)) - 1)
    less_so = "partly: it falls by less" if fall > 0 else "no: it rises"
    text = "yes" if abs(fall - PAPER_FALL) < CLOSE else less_so
    if "bytes" in parts:
        moves = [f"{named(hare)} {change(parts['bytes'], hare)}" for hare in HARES]
        text += (
            f". Were all models twice as large (their T^s at 10 and 25 Gbps is then that at 5 and "
            f"12.5 here): {', '.join(moves)}"
        )
    fast = {row["cell"]: _jct(row) for row in of(parts["line 12"], FASTEST)}
    text += (
        ". With the fastest of the idle GPUs (line 12, added after) "
        f"{100 * (fast['160 GPUs'] / fast['10 Gbps'] - 1):+.1f} %"
    )
    told = ", ".join(f"{place} {change(parts['18'], place)}" for place in BASELINES)
    return f"{text}. The paper prints no sizes of models. Others from 10 to 25 Gbps: {told}"


def _batch(parts: Parts, hare: str) -> str:
    return f"{change(parts['19'], hare)} from half to double"


def _batch_why(parts: Parts) -> str:
    told = ", ".join(f"{place} {change(parts['19'], place)}" for place in BASELINES)
    moves = {place: abs(_ratio(parts["19"], place, -1) - 1) for place in (PUBLISHED, *BASELINES)}
    most, least = max(moves, key=moves.__getitem__), min(moves, key=moves.__getitem__)
    text = (
        f"{'yes' if most == 'sched-homo' else 'no'}: most moves {most}, least {least} "
        f"({PUBLISHED} {change(parts['19'], PUBLISHED)}, {told})"
    )
    if "batch" not in parts:
        return text
    part = parts["batch"]
    cells = [row["cell"] for row in of(part, OURS)]

    def moved(first: str, last: str) -> str:
        at = cells.index(first), cells.index(last)
        return ", ".join(f"{named(place)} {change(part, place, *at)}" for place in PLACES)

    return (
        f"{text}. The paper does not say how rounds follow the batch: here twice the batch is half "
        f"the rounds. Without T^s: {moved('0.5, no T^s', '2, no T^s')}. Twice the batch with as "
        f"many rounds as before: {moved('1', '2, rounds kept')}"
    )


Why: TypeAlias = Callable[[Parts], str]


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure: its part, what the paper says, what came out of a Hare, whether it holds."""

    part: str
    paper: str
    here: Callable[[Parts, str], str]
    why: Why


CLAIMS: Final[Mapping[str, Claim]] = {
    "12": Claim("12", "testbed: 47.6 to 75.3 % less than the others", _testbed, _testbed_why),
    "13": Claim("12", "when Hare has done 90.5 % of the jobs: Sched_Allox 66.7 %, Sched_Homo "
                "56.5 %", _done, _done_why),
    "14": Claim("14", "Hare least in all cells, Sched_Allox about 2 times Hare and still faster "
                "than the others, Gavel_FIFO most",
                _gpus, _gpus_why),
    "15": Claim("15", "300 jobs: 54.6 to 80.5 % less; the more jobs, the more", _jobs, _jobs_why),
    "16": Claim("16", "low heterogeneity: close to Sched_Homo; gaps grow; Sched_Allox 2 times "
                "Hare", _heterogeneity, _heterogeneity_why),
    "17": Claim("17", "more NLP: all take longer; more recommendation: all take less; Hare least",
                _shares, _shares_why),
    "18": Claim("18", "10 to 25 Gbps: Hare's falls by 31.2 %", _bandwidth, _bandwidth_why),
    "19": Claim("19", "batch size: no big influence on any but Sched_Homo",
                _batch, _batch_why),
}  # fmt: skip


def of_cell(parts: Parts, name: str, cell: str) -> list[Mapping[str, Any]]:
    """The rows of a cell; none where the part was not made."""
    return by_cell(parts[name])[cell] if name in parts else []
