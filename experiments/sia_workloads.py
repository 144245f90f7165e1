"""Pollux's and Sia's workloads with rigid jobs, under policies of the package; every job counted.

Pollux: 160 jobs on 64 T4. Sia: ``philly`` and ``saturn`` of 160 jobs, ``newtrace`` of 960, on 24
T4, 16 A100 and 24 RTX 2080 Ti. Here, and in the rows of theirs that keep each job's batch and GPUs,
a policy only decides who runs where. Pollux and Sia change batch and GPUs of jobs while these run,
and so what is computed: their figures stand apart.

``--part philly`` makes one part and keeps the results of the others; ``--place srtf`` makes the
rows of one policy again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import _common
from _parts import Asked, Make, ask, make_parts
from _sia import read_rows, run_of

import warren

PLACES: Final = (
    "gavel-fifo", "hlas", "gittins", "srtf", "gangs: gavel-fifo", "gangs: braid-online",
)  # fmt: skip
"""``gangs``: the job is a ring, whose GPUs start together and are held."""
GANGS: Final = "gangs: "
MIXED: Final[Mapping[str, int]] = {"T4": 6, "A100": 2, "2080Ti": 3}
"""Nodes of Sia's cluster by type."""


@dataclass(frozen=True, slots=True)
class Set:
    """A set of workloads: its folder, nodes by type, and figures of others for it, in seconds."""

    folder: str
    nodes: Mapping[str, int]
    rigid_s: Mapping[str, float]
    changed_s: Mapping[str, float]


SETS: Final[Mapping[str, Set]] = {
    "pollux": Set(
        "pollux", {"T4": 16}, {"Tiresias": 4_038.0}, {"Optimus": 5_682.0, "Pollux": 2_751.0}
    ),
    "philly": Set("sia/philly", MIXED, {"Gavel": 1.9 * 3600}, {"Sia": 0.6 * 3600}),
    "saturn": Set("sia/saturn", MIXED, {"Gavel": 2.5 * 3600}, {"Sia": 0.7 * 3600}),
    "newtrace": Set("sia/newtrace", MIXED, {"Gavel": 11.3 * 3600}, {"Sia": 0.7 * 3600}),
}
"""Figures of others are mean JCTs that their authors print; ``changed_s``: of systems that change
what a job computes."""


def main() -> None:
    """Simulate each set under each policy."""
    asked = ask(__doc__, [*SETS], PLACES)
    made = make_parts(
        "sia_workloads",
        asked,
        {name: part(one, asked) for name, one in SETS.items()},
        seed=1,
        stated={},
        cannot=lambda name: (
            "" if _common.DATA.is_dir() else f"no traces at {_common.DATA} (set WARREN_DATA)"
        ),
    )
    rows = [row for one in made.values() for row in one["rows"]]
    if any(row["finished"] != row["jobs"] for row in rows):
        sys.exit("a job was not counted")


def part(one: Set, asked: Asked) -> Make:
    """All runs of a set."""

    def make(scratch: Path) -> dict[str, Any]:
        paths = sorted((_common.DATA / "traces" / one.folder).glob("workload-*.csv"))
        return {
            "rigid_s": one.rigid_s,
            "changed_s": one.changed_s,
            "rows": [row_of(one, path, place) for path in paths for place in asked.places],
        }

    return make


def row_of(one: Set, path: Path, place: str) -> dict[str, Any]:
    """One simulation."""
    begin_s = time.monotonic()
    run = run_of(read_rows(path), one.nodes, _common.DATA, rings=place.startswith(GANGS))
    found = warren.simulate(run, place=place.removeprefix(GANGS)).summary
    row = {
        "trace": f"{one.folder}/{path.stem}", "place": place,
        "jobs": found["jobs"], "finished": found["finished"],
        "mean_jct_s": found["mean_jct_s"], "p99_jct_s": found["p99_jct_s"],
        "makespan_s": found["makespan_s"], "utilization": found["utilization"],
        "took_s": time.monotonic() - begin_s,
    }  # fmt: skip
    print({key: _common.short(cell) for key, cell in row.items()}, flush=True)
    return row


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean over workloads of a policy's mean JCT, s."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(row["mean_jct_s"])
    return {place: sum(values) / len(values) for place, values in found.items()}


if __name__ == "__main__":
    main()
