"""Harmony where tasks take other times than was said: does it gain by grouping anew at once?

Eight jobs on four hosts in virtual time, twice eight draws of COMP and model bytes; each task's
time is that of its profile times a hidden factor a job, with a coefficient of variation of 0.25,
0.5 or 1.
``harmony`` with ``surprise: 0.2``, its default, beside ``surprise: 1e9``: then groups change only
when a job comes or ends, by what was measured until then.
"""

from __future__ import annotations

from itertools import product
from statistics import fmean
from typing import Final

import _common
from _harmony_drawn import SEED, simulated, times_of

CVS: Final = (0.25, 0.5, 1.0)
DRAWS: Final = {"looked at": range(8), "others": range(8, 16)}
"""The rule was made on the first; the others were not looked at."""


def main() -> None:
    """Run, print and save."""
    rows = []
    for (name, draws), cv in product(DRAWS.items(), CVS):
        times = []
        for draw in draws:
            follows, waits = (simulated(draw, {"surprise": one}, cv=cv) for one in (0.2, 1e9))
            times.append(times_of(waits, follows))
        mean = {key: fmean(one[key] for one in times) for key in ("jct", "makespan")}
        rows.append({"set": name, "cv": cv, "mean": mean, "draws": times})
        print(
            f"{name}, cv {cv}: {mean['jct']:.3f} times the JCT, {mean['makespan']:.3f} the makespan"
        )
    _common.save("harmony_surprise", SEED, {"rows": rows})


if __name__ == "__main__":
    main()
