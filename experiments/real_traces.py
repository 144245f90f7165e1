"""Real traces under FIFO and SRTF at a stated grain, every job counted."""

from __future__ import annotations

import sys
from pathlib import Path

import _common

PLACES = ("gavel-fifo", "srtf")
RUNS = ("gavel-t120", "philly")
KEPT = ("grain", "jobs", "finished", "tasks", "mean_jct_s", "p50_jct_s", "p99_jct_s",
        "makespan_s", "utilization", "decide_s", "wall_s")  # fmt: skip


def main() -> None:
    """Simulate each trace under each policy."""
    if not _common.DATA.is_dir():
        print(f"skipped: no traces at {_common.DATA} (set WARREN_DATA)")
        return
    rows = []
    for name in RUNS:
        for place in PLACES:
            path = Path(__file__).parent / "spine" / f"{name}.yaml"
            values = _common.warren_json("simulate", str(path), "--place", place)
            rows.append({"trace": name, "place": place, **{key: values[key] for key in KEPT}})
            print(f"{name} {place}: {values['finished']}/{values['jobs']} jobs", flush=True)
    _common.table(
        [list(rows[0]), *([_common.short(cell) for cell in row.values()] for row in rows)]
    )
    _common.save("real_traces", 1, {"rows": rows})
    if any(row["finished"] != row["jobs"] for row in rows):
        sys.exit("a job was not counted")


if __name__ == "__main__":
    main()
