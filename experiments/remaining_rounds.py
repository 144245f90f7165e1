"""Real curves: how many rounds a job has left until its metric is at a target.

`sure` are rounds that the job runs almost surely (`warren.predict.remaining_rounds`), with the
constants as shipped, which `chosen` finds on a random half of the files; `by_task` with those
chosen without any curve of the same task. `optimus` is the published loss fit. `seconds` times
predictions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import _common
import numpy as np
from _curves import FOLDER, TASKS, Real, real_curves
from _parts import ask, make_parts
from _remaining import CHOSEN_LIMIT, LIMIT, REACHED, SEEN, Case, cases, chooser
from numpy.typing import NDArray

from warren.model.view import Progress
from warren.predict.remaining_rounds import CAUTION, Cautiousness, optimus_rounds, sure_rounds

SEED: Final = 1
POINTS: Final = (10, 100, 1000, 100_000)
REPEATS: Final = 200


def main() -> None:
    """Make the parts asked for."""
    asked = ask(__doc__, list(MAKE))
    stated = {"seen": SEEN, "reached": REACHED, "limit": LIMIT, "chosen_limit": CHOSEN_LIMIT}
    make_parts("remaining_rounds", asked, MAKE, seed=SEED, stated=stated, cannot=_cannot)


def _cannot(part: str) -> str:
    if part == "seconds" or FOLDER.is_dir():
        return ""
    return "the public curves are not here; WARREN_DATA names them"


@cache
def _known() -> tuple[Sequence[Real], Sequence[Case]]:
    curves = list(real_curves())
    return curves, cases(curves)


def _tuned() -> NDArray[np.bool_]:
    """Whether a curve is of the half of files that constants are chosen on."""
    curves, _ = _known()
    files = sorted({(real.dataset, real.name) for real in curves})
    drawn = np.random.default_rng(SEED).permutation(len(files))[: len(files) // 2]
    chosen = {files[one] for one in drawn}
    return np.array([(real.dataset, real.name) in chosen for real in curves])


def _cases(scratch: Path) -> Mapping[str, Any]:
    """What the cases are; other parts have columns in this order."""
    curves, every = _known()
    tuned = _tuned()
    return {
        "curves": len(curves),
        "files": len({real.name for real in curves}),
        "tasks": sorted({TASKS[real.dataset] for real in curves}),
        "curve": [case.curve for case in every],
        "seen": [case.seen for case in every],
        "reached": [case.reached for case in every],
        "left": [case.left for case in every],
        "tuned": [bool(tuned[case.curve]) for case in every],
    }


def _chosen(scratch: Path) -> Mapping[str, Any]:
    """Constants: of the tuned half, without each task, of all."""
    curves, every = _known()
    choose, tuned = chooser(every), _tuned()
    task = np.array([TASKS[curves[case.curve].dataset] for case in every])
    half = np.array([tuned[case.curve] for case in every])
    return {
        "half": _told(*choose(half)),
        "all": _told(*choose(np.ones(len(every), dtype=bool))),
        "without_task": {str(one): _told(*choose(task != one)) for one in np.unique(task)},
    }


def _told(caution: Cautiousness, worth: float) -> dict[str, Any]:
    return {"caution": asdict(caution), "worth": round(worth, 4)}


def _predicted(how: Callable[[Case], float]) -> dict[str, list[float | None]]:
    found = (how(case) for case in _known()[1])
    return {"rounds": [round(one, 2) if np.isfinite(one) else None for one in found]}


def _shipped(scratch: Path) -> Mapping[str, Any]:
    told = _predicted(lambda case: sure_rounds(case.progress, case.target))
    return {**told, "caution": asdict(CAUTION)}


def _by_task(scratch: Path) -> Mapping[str, Any]:
    """With the constants chosen without the curve's task."""
    made = _common.earlier("remaining_rounds")["chosen"]["without_task"]
    of = {task: Cautiousness(**one["caution"]) for task, one in made.items()}
    tasks = [TASKS[real.dataset] for real in _known()[0]]
    return _predicted(lambda case: sure_rounds(case.progress, case.target, of[tasks[case.curve]]))


def _optimus(scratch: Path) -> Mapping[str, Any]:
    return _predicted(lambda case: optimus_rounds(case.progress, case.target))


def _seconds(scratch: Path) -> Mapping[str, Any]:
    """Milliseconds of one core, for curves of so many points: mean and most."""
    ways = {"sure": sure_rounds, "optimus": optimus_rounds}
    return {"points": POINTS, **{name: [_ms(one, n) for n in POINTS] for name, one in ways.items()}}


def _ms(way: Callable[[Progress, float], float], points: int) -> list[float]:
    k = np.arange(1, points + 1)
    noisy = 1 + 5 / (1 + k / points) + 0.05 * np.random.default_rng(SEED).normal(size=points)
    progress, took = Progress(k, noisy), []
    way(progress, 0.5)
    for _ in range(REPEATS):
        started = time.process_time()
        way(progress, 0.5)
        took.append(1e3 * (time.process_time() - started))
    return [round(float(np.mean(took)), 3), round(max(took), 3)]


MAKE: Final = {
    "cases": _cases, "chosen": _chosen, "shipped": _shipped, "by_task": _by_task,
    "optimus": _optimus, "seconds": _seconds,
}  # fmt: skip

if __name__ == "__main__":
    main()
