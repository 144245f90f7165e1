"""Sharing GPUs in turns on Muri's published traces: 64 GPUs, measured stage times.

*trace3* (992 jobs) is the one of which there are figures of Muri's own simulator: mean JCT
193,082 s under SRTF, 83,242 s with its interleaving, in 54 s. *trace1* (1,494 jobs) was not looked
at while the algorithm was written. ``shortest first`` is SRTF with jobs that fit passing those that
do not, by time or by time of GPUs; ``ours``: ``solve/job_groups/priced_groups.py``, with an
iteration of a group in stages, of up to three jobs as there are three resources, or in lanes, of up
to four.

Rules that differ from Muri's simulator: here it is decided at every arrival and end, there at
intervals; nothing is lost by a change, and GPUs are not of nodes.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import _common
from _muri import (
    GroupTime,
    Rule,
    Trace,
    in_lanes,
    in_stages,
    read,
    sharing,
    shortest_first,
    simulate,
)

GPUS: Final = 64
TRACES: Final = ("trace3", "trace1")
FOLDER: Final = _common.DATA / "traces" / "muri"


def main() -> None:
    """Run all and save."""
    if not FOLDER.exists():
        print(f"skipped: {FOLDER.name} of the shared data is not here")
        return
    rows = [row for name in TRACES for row in of_trace(name, read(FOLDER / f"{name}.csv"))]
    _common.save("muri_trace", 0, {"rows": rows})
    ours = [row for row in rows if row["trace"] == "trace3" and row["rule"].startswith("ours, in")]
    if any(row["jct_s"] > 83_242 or row["took_s"] > 10 for row in ours):
        sys.exit("above Muri's figure")


def of_trace(name: str, trace: Trace) -> list[dict[str, Any]]:
    """One row a rule."""
    stages, lanes = in_stages(trace), in_lanes(trace)
    rules: dict[str, tuple[Rule, GroupTime]] = {
        "shortest first": (shortest_first(GPUS), stages),
        "shortest first, by GPUs": (shortest_first(GPUS, by_gpus=True), stages),
        "ours, alone": (sharing(GPUS, 1, stages), stages),
        "ours, in stages": (sharing(GPUS, 3, stages), stages),
        "ours, in lanes": (sharing(GPUS, 4, lanes), lanes),
    }
    rows = []
    for rule, (choose, group_s) in rules.items():
        begin = time.perf_counter()
        end_s = simulate(trace, choose, group_s)
        rows.append({
            "trace": name, "jobs": len(end_s), "rule": rule,
            "jct_s": float((end_s - trace.submit_s).mean()),
            "makespan_s": float(end_s.max() - trace.submit_s.min()),
            "took_s": time.perf_counter() - begin,
        })  # fmt: skip
        print({key: _common.short(cell) for key, cell in rows[-1].items()}, flush=True)
    return rows


if __name__ == "__main__":
    main()
