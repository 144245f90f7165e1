"""The SJF-BCO paper on the reproduction page: its claims, and every cell of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

import _common
import _pictures
import _sjf_bco_ours
from _evidence_live import table
from _hare_rows import Part, by_cell, of
from sjf_bco_figures import BASELINES, BOTH, BY_SIZE, OURS, OURS_JCT, SEEDS

HEAD: Final = """## SJF-BCO (MobiHoc'22), rings

Rings that slow each other down on the links they share. Run file `experiments/sjf-bco/mix.yaml`
with what a figure varies; means over {seeds} seeds, each of which draws other jobs and other
servers. The paper states neither bandwidths nor sizes of models nor xi1 and alpha, only that
contention and overhead take at most 15 % of the time; here the worst case takes that, so seconds
cannot be compared. `sjf-bco` is Algorithm 2 as printed; `sjf-bco of used servers` packs
small rings onto hosts in use, as the paper's text says. The paper states no order of jobs for its
baselines, which take them here in order of arrival; *of size order*: in SJF-BCO's own, the smallest
ring first, on seeds that no other part has; `fifo` knows neither jobs to come nor their
lengths. Where makespans are long it is not for contention: hosts in use are filled up to theta, and
a ring waits until all of its GPUs, each at the end of a line of its own, are free. `braid` and
`braid-online` are ours ([0023](decisions/0023-rings.md)); cells give the makespan, and the mean JCT
in brackets.
"""


def section() -> list[str]:
    """Lines for the page; none without results."""
    path = _common.RESULTS / "sjf_bco_figures.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    parts: Mapping[str, Part] = found["parts"]
    rows = [
        [what, claim, ours(parts[name])]
        for name, (what, claim, ours) in CLAIMS.items()
        if name in parts
    ]
    rows += [[what, "ours", told] for what, told in _sjf_bco_ours.rows(parts)]
    text = [HEAD.format(seeds=SEEDS), table(["what", "the paper", "here"], rows), ""]
    for name, part in parts.items():
        title = TITLES.get(name, f"SJF-BCO, Fig. {name}")
        text += [f"### {title}", "", *_drawn(name, part), _cells(name, part), ""]
    by = found["made_by"]
    text.append(
        f"`.venv/bin/python experiments/sjf_bco_figures.py`, commit {_common.commits(parts)}, "
        f"{by['processor']}, {by['cores']} cores, Python {by['python']}. Each part can be made "
        "alone: `--part 4`.\n"
    )
    return text


def _policies(part: Part) -> str:
    """Makespan and mean JCT of each over those of both forms of ours."""
    by = {row["place"]: row for row in part["rows"]}
    told = []
    for other in by:
        if other not in (*BOTH, OURS, OURS_JCT):
            own, letter = (
                " and ".join(
                    _times(by[other], by[form], key) for key in ("makespan_s", "mean_jct_s")
                )
                for form in BOTH
            )
            told.append(f"{other} {own} ({letter})")
    beaten = [
        f"{form}: {'yes' if _best(by, form) else 'not against ' + ', '.join(_better(by, form))}"
        for form in BOTH
    ]
    published = [row for row in part["rows"] if row["place"] not in (OURS, OURS_JCT)]
    added = max(row["added_pct"] for row in published)
    most = max(row["added_most_pct"] for row in published)
    return (
        f"{'; '.join(beaten)}. Makespan and mean JCT over those of {BOTH[0]} ({BOTH[1]}): "
        f"{', '.join(told)}. Contention and hosts add at most {added:.1f} % to a policy's rings, "
        f"{most:.1f} % to one"
    )


NOTHING: Final = 0.01
"""A part of a makespan below which one policy gains nothing over another."""


def _by_size(part: Part) -> str:
    """Whether SJF-BCO's gain is its order: each baseline by arrival, and with that order."""
    by = {row["place"]: row for row in part["rows"]}
    told, gains = [], {}
    for name, sized in zip(BASELINES, BY_SIZE, strict=True):
        arrival, gains[name] = (
            {key: 1 - by["sjf-bco"][key] / by[one][key] for key in ("makespan_s", "mean_jct_s")}
            for one in (name, sized)
        )
        told.append(f"than {name} {_less(arrival)} (arrival) and {_less(gains[name])} (size)")
    return f"{_order_verdict(gains)}. SJF-BCO has less makespan and mean JCT {'; '.join(told)}"


def _order_verdict(gains: Mapping[str, Mapping[str, float]]) -> str:
    """What SJF-BCO's choice of GPUs gains, by its gains over baselines that have its order."""
    lost = [name for name, gain in gains.items() if min(gain.values()) < -NOTHING]
    if lost:
        return f"no: with its order {' and '.join(lost)} is ahead of it"
    alike = [name for name, gain in gains.items() if max(gain.values()) < NOTHING]
    if not alike:
        return "yes, and not by its order alone"
    return f"yes, by its order; its choice of GPUs gains nothing over {' and '.join(alike)}"


def _less(gain: Mapping[str, float]) -> str:
    return " and ".join(f"{100 * gain[key]:.1f} %" for key in ("makespan_s", "mean_jct_s"))


def _times(row: Mapping[str, Any], than: Mapping[str, Any], key: str) -> str:
    return f"{row[key] / than[key]:.2f}x"


def _better(by: Mapping[str, Mapping[str, Any]], form: str) -> list[str]:
    """Who has a smaller makespan or mean JCT."""
    return [
        name
        for name, row in by.items()
        if name not in (*BOTH, OURS, OURS_JCT)
        and any(row[key] < by[form][key] for key in ("makespan_s", "mean_jct_s"))
    ]


def _best(by: Mapping[str, Mapping[str, Any]], form: str) -> bool:
    return not _better(by, form)


def _shape(part: Part) -> str:
    """How the makespan moves from cell to cell, in each form."""
    return "; ".join(f"{form}: {_moves(_values(part, form))}" for form in BOTH)


def _moves(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    steps = ["falls" if b < a else "rises" if b > a else "stays" for a, b in pairwise(known)]
    told = [step for at, step in enumerate(steps) if not at or step != steps[at - 1]]
    return f"{', '.join(told)} ({', '.join(_s(value) for value in values)})"


def _values(part: Part, place: str) -> list[float | None]:
    return [row["makespan_s"] for row in of(part, place)]


def _servers(part: Part) -> str:
    """What the makespan falls by from the fewest servers to the most."""
    falls = {}
    for place in dict.fromkeys(
        row["place"] for row in part["rows"] if row["place"] not in (OURS, OURS_JCT)
    ):
        first, *_, last = _values(part, place)
        if first is not None and last is not None:
            falls[place] = 1 - last / first
    most = max(falls, key=falls.__getitem__)
    told = ", ".join(f"{place} {100 * fall:.0f} %" for place, fall in falls.items())
    return f"from 10 to 20 servers it falls by: {told}; {most} gains most"


def _violated(part: Part) -> str:
    return "no: " + "; ".join(
        f"{row['place']}, {row['cell']} GPUs: {row['violated']} of {row['instances']} instances "
        f"end later than the optimum, by up to {row['worst']:.2f}x"
        for row in part["rows"]
    )


CLAIMS: Final[Mapping[str, tuple[str, str, Callable[[Part], str]]]] = {
    "4": ("Fig. 4", "SJF-BCO has the least makespan and mean JCT", _policies),
    "by size": ("Fig. 4, one order", "the same; it states no order for its baselines", _by_size),
    "5": ("Fig. 5", "as kappa grows the makespan falls, rises, and falls again", _shape),
    "6": ("Fig. 6", "more servers, less makespan; First-Fit gains most", _servers),
    "7": ("Fig. 7", "at kappa = 1 the makespan falls as lambda grows", _shape),
    "theorem": ("Theorem 5", "n_g phi u / l times the optimum at most, which is 1 time for jobs of "
                "one GPU and known length", _violated),
}  # fmt: skip


TITLES: Final[Mapping[str, str]] = {
    "by size": "SJF-BCO, Fig. 4 with one order for all, other seeds",
    "theorem": "SJF-BCO, Theorem 5 on small instances",
    "arrivals": "Rings that come over time",
    "lambda": "SJF-BCO, the lambdas of Fig. 7 with a kappa of its own",
    "contention": "SJF-BCO, what sharing links costs in Fig. 6's cells",
}


def _drawn(name: str, part: Part) -> list[str]:
    """The picture of a part with as many cells as make a curve; random is far above the others."""
    if len(by_cell(part)) < 3 or name == "contention":
        return []
    values: dict[str, dict[str, float]] = {}
    for row in part["rows"]:
        if row["place"] != "random" and row["makespan_s"] is not None:
            values.setdefault(row["place"], {})[row["cell"]] = row["makespan_s"]
    _pictures.curves(f"sjf-bco-{name}", part["varies"], "makespan, s", values)
    return [f"![{name}](reproduction/sjf-bco-{name}.svg)", ""]


def _cells(name: str, part: Part) -> str:
    if name == "theorem":
        rows = [
            [row["cell"], row["place"], row["instances"], row["violated"], f"{row['worst']:.2f}"]
            for row in part["rows"]
        ]
        return table(["GPUs", "policy", "instances", "above the optimum", "at most, times"], rows)
    if name == "contention":
        rows = [
            [row["cell"], row["place"], f"{fmean(row['by_seed_s']):,.0f} s",
             f"{fmean(row['without_by_seed_s']):,.0f} s",
             f"{min(row['sharing_pct']):.2f} to {max(row['sharing_pct']):.2f} %"]
            for row in part["rows"]
        ]  # fmt: skip
        return table(["servers", "policy", "makespan", "without contention", "longer by"], rows)
    names = list(dict.fromkeys(row["place"] for row in part["rows"]))
    head = [f"{part['varies']}, {SEEDS} seeds", *names]
    rows = [
        [cell, *(_text({row["place"]: row for row in found}[one]) for one in names)]
        for cell, found in by_cell(part).items()
    ]
    return table(head, rows)


def _text(row: Mapping[str, Any]) -> str:
    """Makespan and mean JCT; how many seeds have no schedule within T."""
    without = f", {row['without']} without" if row["without"] else ""
    return f"{_s(row['makespan_s'])} ({_s(row['mean_jct_s'])}){without}"


def _s(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f} s"
