"""Random histories of jobs on hosts with leases: promises 1 to 3, whatever messages and hosts do.

1,000 times: two jobs on real servers, executors and a real controller, in one thread, with a
virtual network, clock and processes (``tests/live/leased_world.py``). Between controller and agents
messages are lost, late, repeated and reordered; hosts are cut off for up to three leases; agents
are killed; controllers are killed or hang, and another one goes on. States, losses, metrics and
parameters have to be those of the plain loop, each barrier and each task has to count once, a
device has one executor and one task at a time, nothing runs when a lease begins, a job goes back
one checkpoint interval at most, and none fails but one whose own code ends its process.

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
from history_modules import virtual_modules
from history_world import Violation
from leased_history import play

HISTORIES: Final = 1_000
TELLS: Final = 100
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
        _common.save("leased_histories", asked.seed, content)
    if broken:
        sys.exit(f"broken: {sorted(broken)}")


if __name__ == "__main__":
    main()
