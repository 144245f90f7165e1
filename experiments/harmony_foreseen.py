"""Harmony with groupings compared by when all jobs would end, beside the best weighed speed alone.

Eight jobs on four hosts in virtual time, 32 draws of COMP, model bytes and rounds, which were not
looked at while the rule was made (it was with draws 100 to 131, 200 to 215 and 300 to 331, and with
the six jobs of ``harmony_live.py`` and those of its seed 7, in virtual time). ``harmony`` with
``foreseen: 8``, its default, beside ``foreseen: 0``; with ``least: 1``, and with ``least: 2``: the
data of a job fill two of the four hosts, and jobs that share hosts need the sum.
"""

from __future__ import annotations

from statistics import fmean
from typing import Final

import _common
from _harmony_drawn import SEED, simulated, times_of

DRAWS: Final = range(400, 432)
SPREAD: Final = 0.5
"""Of the logarithms of rounds."""


def main() -> None:
    """Run, print and save."""
    rows = []
    for least in (1, 2):
        times = []
        for draw in DRAWS:
            ahead, now = (
                simulated(draw, {"foreseen": most, "least": least}, spread=SPREAD)
                for most in (8, 0)
            )
            times.append(times_of(now, ahead))
        row = {
            name: {key: what(one[key] for one in times) for key in ("jct", "makespan")}
            for name, what in (("mean", fmean), ("worst", min))
        }
        rows.append({"least": least, **row, "draws": times})
        print(f"least {least}: {row}")
    _common.save("harmony_foreseen", SEED, {"rows": rows})


if __name__ == "__main__":
    main()
