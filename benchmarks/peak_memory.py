"""Peak memory of planning and simulating ten million tasks, in a process of its own.

``hare`` plans jobs of scale 1 to 8 on 160 devices at grain 1; the plan is checked, run in compiled
code, written to the journal and read back for the summary, as ``warren simulate`` does.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Final

from _ranges import report

JOBS: Final = 200
DEVICES: Final = 160
ROUNDS: Final = 10_600
"""Of each job; with these jobs ten million tasks."""


def main() -> None:
    """Run the child, and stop with an error where its peak leaves the range."""
    child = subprocess.run(
        [sys.executable, __file__, "child"], stdout=subprocess.PIPE, check=True, text=True
    )
    found = json.loads(child.stdout)
    print(f"{found['tasks']:,} tasks, {found['cpu_s']:.0f} s of processor time")
    report({"ten_million_tasks_bytes": found["peak_bytes"]})


def child() -> None:
    """One whole simulation; what it took as JSON."""
    from simulator import world

    from warren.core.journal_reader import read_history
    from warren.core.loop import Core
    from warren.policy.registry import place_policy
    from warren.report.metrics import summary
    from warren.report.record import Record
    from warren.sim.port import SimPort

    run, costs = world(jobs=JOBS, devices=DEVICES, rounds=ROUNDS)
    journal = bytearray()
    core = Core(
        run=run,
        costs=costs,
        policy=place_policy("hare"),
        port=SimPort(run, costs),
        sink=journal.extend,
        world="sim",
    )
    core.execute()
    record = Record(run=run, history=read_history(memoryview(journal)), costs=costs)
    values = summary(record)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "tasks": values["tasks"],
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    child() if "child" in sys.argv else main()
