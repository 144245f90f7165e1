"""A thousand drawn worlds of servers and rings on links, each played by two simulations.

The simulator's events are compared with those of a second simulation, which shares no code with it
(``tests/sim/fluid_steps.py``): when tasks start, end their COMP and end, when barriers pass, and
which bytes were on which link when. In each, bytes are conserved, no link is above its rate,
classes are strict or share by weight, and rates are max-min fair within one. Exits with an error
where one of these does not hold.

In a *sensitive* world times are further apart than by rounding, but so they are in the second
simulation alone if it rounds otherwise. More than ``SENSITIVE`` of all are an error, too.

``--worlds N``: so many. ``--first SEED``: of which the first; the others follow.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

import _common

sys.path.insert(0, str(_common.ROOT / "tests" / "sim"))
from fluid_compare import compared
from fluid_draws import drawn_world

WORLDS: Final = 1000
SENSITIVE: Final = 0.02
SHOWN: Final = 10
"""Of what is broken, so many lines are kept."""


def main() -> None:
    """Play all worlds, save what was found, and stop with an error where anything is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    started_s, broken, kinds = time.perf_counter(), list[str](), dict[str, int]()
    times = intervals = worlds_broken = sensitive = 0
    largest_ns = 0.0
    for seed in range(asked.first, asked.first + asked.worlds):
        world = drawn_world(seed)
        found = compared(world)
        times, intervals = times + found.times, intervals + found.intervals
        largest_ns = max(largest_ns, found.largest_ns)
        worlds_broken += bool(found.broken)
        sensitive += found.sensitive
        broken += [f"seed {seed}: {line}" for line in found.broken[:1]]
        for kind in world.kinds:
            kinds[kind] = kinds.get(kind, 0) + 1
    result: dict[str, Any] = {
        "worlds": asked.worlds,
        "worlds_with": dict(sorted(kinds.items())),
        "times_compared": times,
        "largest_difference_ns": largest_ns,
        "intervals_checked": intervals,
        "worlds_sensitive": sensitive,
        "worlds_broken": worlds_broken,
        "broken": broken[:SHOWN],
        "wall_s": round(time.perf_counter() - started_s, 1),
    }
    for key, value in result.items():
        print(f"{key}: {value}")
    _common.save("fluid_worlds", asked.first, result)
    if broken:
        sys.exit(f"{worlds_broken} worlds are broken")
    if sensitive > SENSITIVE * asked.worlds:
        sys.exit(f"a nanosecond moves much in {sensitive} worlds")


if __name__ == "__main__":
    main()
