"""Random histories of jobs whose servers migrate: nothing may be lost, whatever happens when.

10,000 times: a job on real servers, executors and a real controller, in one thread, with a virtual
network, clock and processes (``tests/live/history_world.py``). Each is drawn by its seed: shapes
that come at any time, delayed rounds, tasks that run twice, servers and executors that are lost at
any moment, links and processes that are slow. All states, losses, metrics and parameters have to be
those of the plain loop, each barrier and each task has to count once, servers have to end where the
last shape has them, and nothing may wait for ever.

``--histories N`` plays fewer, ``--seed S`` others; only all of them from seed 0 on are saved. A
history that breaks a promise is told by its seed, with what came last.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from typing import Final

import _common

sys.path.insert(0, str(_common.ROOT / "tests" / "live"))
from history_core import play
from history_modules import virtual_modules
from history_world import Violation

HISTORIES: Final = 10_000
TELLS: Final = 500
"""Progress is told each so many histories."""


def main() -> None:
    """Play, save, and stop with an error where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=HISTORIES)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    # What is loaded stays: to look for garbage among it would take most of the time.
    gc.freeze()
    counts: Counter[str] = Counter()
    broken: dict[int, str] = {}
    begin_s = time.perf_counter()
    with virtual_modules():
        for at, seed in enumerate(range(asked.seed, asked.seed + asked.histories), start=1):
            try:
                counts += play(seed).counts
            except Violation as error:
                broken[seed] = str(error).splitlines()[0]
                print(error, flush=True)
            if at % TELLS == 0:
                print(f"{at} histories, {len(broken)} broken", flush=True)
    took_s = time.perf_counter() - begin_s
    _common.table(sorted(counts.items()))
    print(f"{asked.histories} histories in {took_s:.0f} s, {len(broken)} broken")
    if (asked.histories, asked.seed) == (HISTORIES, 0):
        found = {"histories": asked.histories, "violations": list(broken.values())}
        content = {**found, "counts": dict(sorted(counts.items())), "took_s": round(took_s, 1)}
        _common.save("histories", asked.seed, content)
    if broken:
        sys.exit(f"broken: {sorted(broken)}")


if __name__ == "__main__":
    main()
