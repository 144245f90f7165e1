"""Real learning curves: our prediction of the last value against simpler and heavier ones.

`last` repeats the last value seen, `single` takes the family of the least squared error, `plain`
samples JPAS's full model with emcee (64 walkers x 1,500 steps). `calibrated` chooses the settings
of `warren.predict`; `shipped` predicts with them, `held_out` with those chosen without the curve's
data set or task. `seconds` times a prediction of each kind, in processor seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

import _common
import _departures
import _jpas
import numpy as np
from _curves import FOLDER, OBSERVED, Real, real_curves
from _parts import ask, make_parts

from warren.predict.curve import Curve
from warren.predict.family_error import FamilyError
from warren.predict.forecast import DEFAULT, Settings, forecast

SEED: Final = 1
TIMED: Final = 8
"""Every so manieth curve is timed."""
Predict: TypeAlias = Callable[[Real, Curve, float], Mapping[str, float]]
"""A curve, what is seen of it and where to predict: ``mean``, and ``low`` and ``high`` if known."""


def main() -> None:
    """Make the parts asked for."""
    asked = ask(__doc__, list(MAKE))
    stated = {"observed": OBSERVED}
    make_parts("predict_curves", asked, MAKE, seed=SEED, stated=stated, cannot=_cannot)


def _cannot(part: str) -> str:
    return "" if FOLDER.is_dir() else "the public curves are not here; WARREN_DATA names them"


def _curves(scratch: Path) -> Mapping[str, Any]:
    """What the curves are: the other parts have columns in this order, share by share of each."""
    found = [
        {"dataset": real.dataset, "curve": real.name, "what": real.what, "unit": real.unit,
         "points": len(real.curve), "end": real.end, "range": float(np.ptp(real.curve.values))}
        for real in real_curves()
    ]  # fmt: skip
    return _columns(found)


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; figures in six digits."""
    listed = list(rows)
    return {
        name: [
            float(f"{row[name]:.6g}") if type(row[name]) is float else row[name] for row in listed
        ]
        for name in listed[0]
    }


def _rows(predict: Predict, curves: Iterable[Real]) -> Iterator[dict[str, float]]:
    """One row a curve and share observed; ``seconds`` of one core."""
    for real in curves:
        for share in OBSERVED:
            seen = real.seen(share)
            started = time.process_time()
            told = predict(real, seen, float(real.curve.steps[-1]))
            took = time.process_time() - started
            yield {**told, "seconds": round(took, 4)}


def _last(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    return {"mean": float(seen.values[-1])}


def _single(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    told = _jpas.AsAccuracy.of(seen, at, real.unit)
    return {"mean": told.back(_jpas.single(told.x, told.y, told.at, SEED))}


def _plain(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    told = _jpas.AsAccuracy.of(seen, at, real.unit)
    found = _jpas.plain(told.x, told.y, told.at, SEED)
    mean, one, other = (told.back(value) for value in found)
    return {"mean": mean, "low": min(one, other), "high": max(one, other)}


def _ours(seen: Curve, at: float, settings: Settings) -> Mapping[str, float]:
    found = forecast(seen, [at], SEED, settings)
    mean, low, high = (float(one[0]) for one in (found.mean, found.low, found.high))
    return {"mean": mean, "low": low, "high": high}


def _shipped(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    return _ours(seen, at, DEFAULT)


def _part(predict: Predict) -> Callable[[Path], Mapping[str, Any]]:
    def make(scratch: Path) -> Mapping[str, Any]:
        return _columns(_rows(predict, real_curves()))

    return make


def _calibrated(scratch: Path) -> Mapping[str, Any]:
    all_of, by_dataset, by_task = _departures.calibrated(SEED)
    return {
        "settings": asdict(all_of),
        "without_dataset": {name: asdict(one) for name, one in by_dataset.items()},
        "without_task": {name: asdict(one) for name, one in by_task.items()},
    }


def _held_out(scratch: Path) -> Mapping[str, Any]:
    """Rows with the settings chosen without the data set, and without the task."""
    made = _common.earlier("predict_curves")["calibrated"]

    def columns(name: str, group: Callable[[str], str]) -> dict[str, list[Any]]:
        settings = {key: _settings(one) for key, one in made[name].items()}
        return _columns(_rows(
            lambda real, seen, at: _ours(seen, at, settings[group(real.dataset)]), real_curves()
        ))  # fmt: skip

    by_task = columns("without_task", _departures.TASKS.__getitem__)
    return {"by_dataset": columns("without_dataset", str), "by_task": by_task}


def _settings(found: Mapping[str, Any]) -> Settings:
    return Settings(found["rise"], FamilyError(**found["departure"]))


def _seconds(scratch: Path) -> Mapping[str, Any]:
    """Processor seconds of a prediction, of every eighth curve."""
    some = list(real_curves())[::TIMED]
    _shipped(some[0], some[0].seen(0.5), float(some[0].curve.steps[-1]))  # imports, first use
    kinds = {"ours": _shipped, "single": _single, "plain": _plain}
    took = {name: [row["seconds"] for row in _rows(one, some)] for name, one in kinds.items()}
    return {"curves": len(some), "seconds": took}


MAKE: Final = {
    "curves": _curves, "last": _part(_last), "single": _part(_single), "plain": _part(_plain),
    "calibrated": _calibrated, "shipped": _part(_shipped), "held_out": _held_out,
    "seconds": _seconds,
}  # fmt: skip

if __name__ == "__main__":
    main()
