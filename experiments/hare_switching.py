"""Does what switching costs change which policy is best? Hare's simulations under its schemes.

``hare/mix.yaml`` (200 jobs on 160 GPUs) with switching free, and by the three schemes of the Hare
paper's Table 3; five seeds, each of which draws other jobs. The paper charges nothing, since its
own scheme costs at most 6 ms a switch. ``hare-published`` is its Algorithm 1 as printed, which
knows no switching; ``hare`` is ours, and ``hare-blind`` ours planned as if switching were free.

Stops with an error where hare's or PipeSwitch's costs change the order of the policies, or hare
does not have the least weighted JCT under some scheme.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

import _common
from _evidence_live import table
from _hare_rows import named

RUN: Final = Path(__file__).parent / "hare" / "mix.yaml"
KNOWN: Final = ("hare-published", "hare", "srtf", "sched-allox", "sched-homo", "gavel-fifo")
BLIND: Final = "hare-blind"
PLACES: Final = dict(zip(KNOWN, KNOWN, strict=True)) | {
    BLIND: f"{Path(__file__).parent / 'hare' / 'hare_blind.py'}:HareBlind"
}
_NEGLIGIBLE_PCT: Final = 1.0
CELLS: Final = ("free", "hare", "pipeswitch", "default")
SMALL: Final = CELLS[1:3]
"""Schemes under which nothing should change."""
SEEDS: Final = 5
GPUS: Final = 160

Row = Mapping[str, Any]


def main() -> None:
    """Make all cells, save, and stop with an error where a claim does not hold."""
    rows = [row for cell in CELLS for row in made(cell)]
    _common.save("hare_switching", 1, {"seeds": SEEDS, "rows": rows})
    if missed := list(faults(rows)):
        sys.exit("\n".join(missed))


def made(cell: str) -> Iterator[Row]:
    """One row a policy: weighted JCT of each seed, and what switching took."""
    scheme = [] if cell == "free" else ["--set", f"cluster.switching.scheme={cell}"]
    places = {name: place for name, place in PLACES.items() if (cell, name) != ("free", BLIND)}
    found = _common.warren_json(
        "compare", str(RUN), "--place", ",".join(places.values()), "--seeds", str(SEEDS), *scheme
    )
    for name, place in places.items():
        runs = [one for one in found if one["scheduler"]["place"] == place]
        row = {
            "cell": cell,
            "place": name,
            "weighted_jct_s": mean(one["weighted_jct_s"] for one in runs),
            "by_seed_s": [one["weighted_jct_s"] for one in runs],
            "gap_mean": mean(one["gap"]["weighted_jct"] for one in runs),
            "switches_a_task": mean(one.get("switches", 0) / one["tasks"] for one in runs),
            "switching_share": mean(
                one.get("switching_s", 0.0) / (GPUS * one["makespan_s"]) for one in runs
            ),
        }
        print(f"{cell}: {name}: weighted JCT {row['weighted_jct_s']:,.0f} s", flush=True)
        yield row


def of_cell(rows: Sequence[Row], cell: str) -> dict[str, Row]:
    """The rows of a cell by policy."""
    return {row["place"]: row for row in rows if row["cell"] == cell}


def order(rows: Sequence[Row], cell: str, seed: int | None = None) -> list[str]:
    """The policies by weighted JCT, of one seed or in the mean; ``hare-blind`` left out."""
    found = {name: row for name, row in of_cell(rows, cell).items() if name != BLIND}
    if seed is None:
        return sorted(found, key=lambda name: found[name]["weighted_jct_s"])
    return sorted(found, key=lambda name: found[name]["by_seed_s"][seed])


def faults(rows: Sequence[Row]) -> Iterator[str]:
    """Where the order changes though switching is cheap, and where hare is not the first."""
    for cell in CELLS:
        for seed in range(SEEDS):
            found, free = order(rows, cell, seed), order(rows, "free", seed)
            if cell in SMALL and found != free:
                yield f"{cell}, seed {seed}: {', '.join(found)}; free: {', '.join(free)}"
            if found[0] != "hare":
                yield f"{cell}, seed {seed}: {found[0]} is better than hare"


def section() -> list[str]:
    """The part of the page about switching; nothing without results."""
    path = _common.RESULTS / "hare_switching.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    rows = found["rows"]
    lines = []
    for cell in CELLS:
        values = of_cell(rows, cell)
        jct = [f"{row['weighted_jct_s']:,.0f} s" for row in values.values()]
        hare = values["hare"]
        took = f"{hare['switches_a_task']:.2f} a task, {100 * hare['switching_share']:.1f} %"
        lines.append([cell, *jct, *[""] * (len(PLACES) - len(jct)), took if cell != "free" else ""])
    head = ["scheme", *map(named, PLACES), "switches of ours, and their part of device time"]
    text = (
        "Hare leaves switching between jobs out of its problem, as less than 5 % of training time "
        "(5.1). Charged by the schemes of its Table 3 (closed forms fitted to it: how well is in "
        "`src/warren/cost/switching.py`), on 200 jobs and 160 GPUs, means over "
        f"{found['seeds']} seeds. {_negligible(rows)} {_verdict(rows)} `hare-blind` is "
        "ours planned as if switching were free. `default` starts a process for each switch: "
        "the paper's section 2.2.4 warns of it."
    )
    by = found["made_by"]
    made_by = f"`.venv/bin/python experiments/hare_switching.py`, commit {by['commit']}."
    return ["### Table 3: what switching between jobs costs", "", text, "", table(head, lines), "",
            made_by, ""]  # fmt: skip


def _negligible(rows: Sequence[Row]) -> str:
    """What each scheme adds to the Hares; the published one does not plan for switches."""
    told = {place: ", ".join(_added(rows, place)) for place in ("hare-published", "hare")}
    jct = {cell: of_cell(rows, cell)["hare-published"]["weighted_jct_s"] for cell in CELLS}
    holds = 100 * (jct["hare"] / jct["free"] - 1) < _NEGLIGIBLE_PCT
    return (
        f"That its own is negligible (less than {_NEGLIGIBLE_PCT:g} % here): "
        f"{'so it is' if holds else 'it is not'}; `hare-published` has {told['hare-published']}; "
        f"`hare (ours)` {told['hare']}. By JCT"
    )


def _added(rows: Sequence[Row], place: str) -> list[str]:
    jct = {cell: of_cell(rows, cell)[place]["weighted_jct_s"] for cell in CELLS}
    return [f"{100 * (jct[cell] / jct['free'] - 1):+,.1f} % under `{cell}`" for cell in CELLS[1:]]


def _verdict(rows: Sequence[Row]) -> str:
    same = [cell for cell in CELLS[1:] if order(rows, cell) == order(rows, "free")]
    parts = [f"the order of the policies stays as it is under {' and '.join(same)}"] if same else []
    parts += [
        f"under {cell} it is {', '.join(order(rows, cell))}"
        for cell in CELLS[1:]
        if cell not in same
    ]
    return "; ".join(parts) + "."


if __name__ == "__main__":
    main()
