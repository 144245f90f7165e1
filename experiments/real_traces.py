"""Real traces, and jobs drawn like them, under every policy at a stated grain; every job counted.

Beside each run its wall time and peak memory, and where there is one the best mean JCT that Gavel's
own simulator reached on jobs of the kind. Drawn jobs are not Gavel's very jobs: only those of the
trace ``gavel-t120`` are the same. *Grain*: what the grain itself changes, see ``_grain``.

``--part philly`` (or another) makes one part and keeps the results of the others; ``--place srtf``
makes the rows of one policy again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import _common
from _grain import Sampled, grain_rows
from _parts import Asked, Make, ask, make_parts

SPINE: Final = Path(__file__).parent / "spine"
PLACES: Final = ("gavel-fifo", "srtf", "sched-allox", "sched-homo", "hare")
BLIND: Final = ("hlas-published", "hlas", "gittins")
"""Of HLAS, and ours: who is not told how many rounds a job has."""
KEPT: Final = ("grain", "jobs", "finished", "tasks", "mean_jct_s", "p50_jct_s", "p99_jct_s",
               "makespan_s", "utilization", "decide_s", "wall_s")  # fmt: skip
NOT_TRAINING: Final = "workload.trace.leave_out=[11cb48]"


@dataclass(frozen=True, slots=True)
class Trace:
    """A run file, what is set there, the policies, and Gavel's best mean JCT."""

    name: str
    file: str
    sets: Sequence[str] = ()
    places: Sequence[str] = PLACES
    gavel_s: float | None = None


def _mix(jobs: int, devices: int, gap_s: int, gavel_s: float) -> Trace:
    sets = (f"workload.jobs={jobs}", f"cluster.hosts.devices={devices}", f"workload.gap={gap_s} s")
    places = (*PLACES, *BLIND)
    return Trace(f"gavel-mix, {jobs} jobs", "gavel-mix", sets, places, gavel_s)


TRACES: Final[Mapping[str, Sequence[Trace]]] = {
    "philly": (
        Trace("philly, 320 GPUs", "philly", places=("gavel-fifo", "srtf")),
        Trace("philly, 2,500 GPUs", "philly-2500"),
        Trace("philly without 11cb48, 2,500 GPUs", "philly-2500", (NOT_TRAINING,)),
    ),
    "gavel": (
        Trace("gavel-t120", "gavel-t120", places=(*PLACES, *BLIND), gavel_s=12_087.0),
        _mix(480, 108, 200, 9_887.0),
        _mix(2_000, 240, 95, 9_531.0),
        _mix(10_000, 900, 25, 9_549.0),
    ),
}


SAMPLES: Final = (
    Sampled(SPINE / "philly-2500.yaml", 25, PLACES),
    Sampled(SPINE / "philly.yaml", 4, ("gavel-fifo", "srtf")),
)
"""A hundredth of the GPUs. With this trace 2,500 are nearly idle, 320 nearly full."""


def main() -> None:
    """Simulate each trace under each policy."""
    asked = ask(__doc__, [*TRACES, "grain"], (*PLACES, *BLIND))
    made = make_parts(
        "real_traces",
        asked,
        {name: part(traces, asked) for name, traces in TRACES.items()} | {"grain": grain(asked)},
        seed=1,
        stated={},
        cannot=lambda name: (
            "" if _common.DATA.is_dir() else f"no traces at {_common.DATA} (set WARREN_DATA)"
        ),
    )
    rows = [row for one in made.values() for row in one["rows"]]
    if any(row["finished"] != row["jobs"] for row in rows):
        sys.exit("a job was not counted")


def part(traces: Sequence[Trace], asked: Asked) -> Make:
    """All runs of a part."""
    return lambda scratch: {
        "rows": [
            run(trace, place) for trace in traces for place in trace.places if place in asked.places
        ]
    }


def grain(asked: Asked) -> Make:
    """All samples."""
    samples = [
        replace(one, places=[place for place in one.places if place in asked.places])
        for one in SAMPLES
    ]
    return lambda scratch: {"rows": list(grain_rows(samples, scratch))}


def run(trace: Trace, place: str) -> dict[str, Any]:
    """One simulation: its summary, its real time from start to end and its peak memory."""
    words = [word for one in trace.sets for word in ("--set", one)]
    file = str(SPINE / f"{trace.file}.yaml")
    command = [sys.executable, "-m", "warren", "simulate", file, "--place", place, *words, "--json"]
    begin_s = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        printed = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed")
    values = json.loads(printed)
    row = {
        "trace": trace.name, "place": place, **{key: values[key] for key in KEPT},
        "command_s": time.monotonic() - begin_s, "peak_bytes": used.ru_maxrss * 1024,
        "gavel_mean_jct_s": trace.gavel_s,
    }  # fmt: skip
    print(
        f"{trace.name}, {place}: {row['finished']} of {row['jobs']} jobs, mean JCT "
        f"{row['mean_jct_s']:.0f} s (Gavel {trace.gavel_s}), {row['command_s']:.1f} s, "
        f"{row['peak_bytes'] / 1e6:.0f} MB",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
