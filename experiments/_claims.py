"""What each figure of the Hare paper claims, what comes out here, and whether that is so.

``hare-published`` is the paper's algorithm as it is printed, and the verdict is about it; ``hare``
is ours, and stands beside it. Every sentence with a number, and every verdict, is read off the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hare_figures import HARE_DONE, HARES, OURS, PLACES, PUBLISHED

Part: TypeAlias = Mapping[str, Any]
Parts: TypeAlias = Mapping[str, Part]
Row: TypeAlias = Mapping[str, Any]
PAPER_FALL: Final = 0.312
CLOSE: Final = 0.05
"""Fig. 18's fall of Hare's weighted JCT, and how close to it is the same."""
NAMES: Final = {OURS: "hare (ours)"}
BASELINES: Final = tuple(place for place in PLACES if place not in HARES)
EQUAL: Final = "low"
"""The cell of Fig. 16 in which all GPUs are of one type."""


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
    """What a Hare saves against each policy of one cell, least first."""
    ordered = sorted(rows, key=lambda row: saved(row, hare))
    return ", ".join(f"{row['place']} {saved(row, hare):.1f} %" for row in ordered)


def times(part: Part, place: str, hare: str) -> str:
    """The range of another policy's weighted JCT over a Hare's."""
    found = [1 / (1 - saved(row, hare) / 100) for row in of(part, place)]
    return f"{place} {min(found):.1f} to {max(found):.1f} times it"


def change(part: Part, place: str, first: int = 0, last: int = -1) -> str:
    """How a policy's weighted JCT changes from one cell to another, in percent."""
    rows = of(part, place)
    ratio = rows[last]["weighted_jct_s"] / rows[first]["weighted_jct_s"]
    return f"{100 * (ratio - 1):+.1f} %"


def not_least(part: Part) -> str:
    """Where the published Hare is not the least of a cell; empty if it is everywhere."""
    cells = by_cell(part)
    beaten = {
        place: [cell for cell, rows in cells.items() if _loses(rows, place)] for place in BASELINES
    }
    told = [
        f"{place} ({'all' if len(found) == len(cells) else ', '.join(found)})"
        for place, found in beaten.items()
        if found
    ]
    return f"no: less have {', '.join(told)}" if told else ""


def _loses(rows: Sequence[Row], place: str) -> bool:
    return any(row["place"] == place and saved(row, PUBLISHED) < 0 for row in rows)


def _testbed(parts: Parts, hare: str) -> str:
    return f"less by: {each(others(parts['12']), hare)}"


def _testbed_why(parts: Parts) -> str:
    text = not_least(parts["12"]) or "yes"
    rows = {row["place"]: row for row in of_cell(parts, "readings", "testbed")}
    if rows:
        gangs = [rows["srtf-gangs"], rows["srtf-blind"]]
        text += (
            f". Our srtf runs the tasks of a round apart; against gangs the published one saves "
            f"{each(gangs, PUBLISHED)}, ours {each(gangs, OURS)}"
        )
    return text + ". The paper prints no number of jobs; here there are 40"


def _done(parts: Parts, hare: str) -> str:
    shares = [f"{row['place']} {100 * row['done'][hare]:.1f} %" for row in others(parts["12"])]
    return f"when it has done {100 * HARE_DONE:.1f} %: {', '.join(shares)}"


def _done_why(parts: Parts) -> str:
    done = {row["place"]: row["done"][PUBLISHED] for row in parts["12"]["rows"]}
    same = done[PUBLISHED] > done["sched-allox"] > done["sched-homo"]
    return "the order, yes" if same else "no"


def _fifo_most(part: Part) -> bool:
    """Of the baselines and the published Hare."""
    return all(
        max(_without(rows, OURS), key=_jct)["place"] == "gavel-fifo"
        for rows in by_cell(part).values()
    )


def _without(rows: Sequence[Row], place: str) -> list[Row]:
    return [row for row in rows if row["place"] != place]


def _jct(row: Row) -> float:
    return float(row["weighted_jct_s"])


def _gpus(parts: Parts, hare: str) -> str:
    part = parts["14"]
    return f"{less(others(part), hare)}; {times(part, 'sched-allox', hare)}"


def _gpus_why(parts: Parts) -> str:
    part = parts["14"]
    most = "the most in every cell" if _fifo_most(part) else "not the most in every cell"
    return f"{not_least(part) or 'yes'}; gavel-fifo has {most}"


def _jobs(parts: Parts, hare: str) -> str:
    cells = list(by_cell(parts["15"]).values())
    return "; ".join(
        f"{jobs} jobs: {each([row for row in rows if row['place'] in BASELINES], hare)}"
        for jobs, rows in ((300, cells[-1]), (100, cells[0]))
    )


def _jobs_why(parts: Parts) -> str:
    first, *_, last = by_cell(parts["15"]).values()
    before = {row["place"]: saved(row, PUBLISHED) for row in first}
    grew = [
        row["place"]
        for row in last
        if row["place"] in BASELINES and saved(row, PUBLISHED) > before[row["place"]]
    ]
    text = not_least(parts["15"]) or "yes"
    text += f". From 100 to 300 jobs the gap in percent grows against {', '.join(grew) or 'none'}"
    if rows := [row for row in of_cell(parts, "readings", "160 GPUs") if row["place"] not in HARES]:
        text += (
            f". By reading of SRTF (200 jobs) the published one saves {each(rows, PUBLISHED)}, "
            f"ours {each(rows, OURS)}"
        )
    return text


def _heterogeneity(parts: Parts, hare: str) -> str:
    part = parts["16"]
    homo = [f"{row['cell']} {saved(row, hare):.1f} %" for row in of(part, "sched-homo")]
    return f"less than sched-homo: {', '.join(homo)}; {times(part, 'sched-allox', hare)}"


def _heterogeneity_why(parts: Parts) -> str:
    part = parts["16"]
    equal = [row for row in others(part) if row["cell"] == EQUAL]
    text = not_least(part) or "yes"
    if text != "yes":
        text += f". On equal GPUs ({EQUAL}) it saves {each(equal, PUBLISHED)}"
    return text


def _shares(parts: Parts, hare: str) -> str:
    part = parts["17"]
    cells = [row["cell"] for row in of(part, hare)]
    told = [
        f"{cell}: {change(part, hare, 0, at)}"
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
        text += f". From 5 to 12.5 Gbps, which is models of twice the bytes: {', '.join(moves)}"
    told = ", ".join(f"{place} {change(parts['18'], place)}" for place in BASELINES)
    return f"{text}. The paper prints no sizes of models. Others from 10 to 25 Gbps: {told}"


def _batch(parts: Parts, hare: str) -> str:
    return f"{change(parts['19'], hare)} from half to double"


def _batch_why(parts: Parts) -> str:
    told = ", ".join(f"{place} {change(parts['19'], place)}" for place in BASELINES)
    text = f"no: Sched_Homo moves as others do ({told})"
    if "batch" not in parts:
        return text
    part = parts["batch"]
    cells = [row["cell"] for row in of(part, OURS)]

    def moved(first: str, last: str) -> str:
        at = cells.index(first), cells.index(last)
        return ", ".join(f"{named(place)} {change(part, place, *at)}" for place in PLACES)

    return (
        f"{text}. Twice the batch is half the rounds: T^c in all stays, T^s in all halves. Without "
        f"T^s: {moved('0.5, no T^s', '2, no T^s')}. With as many rounds as before: "
        f"{moved('1', '2, rounds kept')}"
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
    "14": Claim("14", "Hare least in all cells, Sched_Allox about 2 times Hare, Gavel_FIFO most",
                _gpus, _gpus_why),
    "15": Claim("15", "300 jobs: 54.6 to 80.5 % less; the more jobs, the more", _jobs, _jobs_why),
    "16": Claim("16", "low heterogeneity: close to Sched_Homo; gaps grow; Sched_Allox 2 times "
                "Hare", _heterogeneity, _heterogeneity_why),
    "17": Claim("17", "more NLP: all take longer; more recommendation: all take less; Hare least",
                _shares, _shares_why),
    "18": Claim("18", "10 to 25 Gbps: Hare's falls by 31.2 %", _bandwidth, _bandwidth_why),
    "19": Claim("19", "batch size: no big influence except on Sched_Homo, which gets longer",
                _batch, _batch_why),
}  # fmt: skip


def of_cell(parts: Parts, name: str, cell: str) -> list[Mapping[str, Any]]:
    """The rows of a cell; none where the part was not made."""
    return by_cell(parts[name])[cell] if name in parts else []
