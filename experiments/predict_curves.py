"""Learning curves: our prediction of the last value against simpler and heavier ones.

Of real curves: `last` repeats the last value seen, `one_constant` follows the rule of one constant
(also with that chosen without the task), `single` takes the family of the least squared error,
`plain` samples JPAS's full model with emcee (64 walkers x 1,500 steps), `published` is the mean of
our sampler of that model (12). `calibrated` chooses the settings of `warren.predict`; `shipped`
predicts with them, `unstated` knows neither metric nor schedule, `held_out` has settings chosen
without the curve's data set or task. `families` are curves drawn from the families themselves.
`seconds` times a prediction of each kind, in processor seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

import _common
import _jpas
import _late_rises
import numpy as np
from _curves import FOLDER, OBSERVED, TASKS, Real, real_curves
from _family_curves import NOISE, POINTS, Drawn, family_curves
from _jpas import Array
from _parts import ask, make_parts

from warren.predict.accuracy_gain import published_mean
from warren.predict.curve import Curve, direction_of, limit_of
from warren.predict.curve_kind import UNSTATED, CurveKind
from warren.predict.forecast import DEFAULT, Settings, forecast
from warren.predict.late_rise import ONE_CONSTANT, LateRise, one_constant

SEED: Final = 1
POWERS: Final = tuple(round(0.1 + 0.05 * step, 2) for step in range(11))
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
         "points": len(real.curve), "end": real.end, "range": float(np.ptp(real.curve.values)),
         "cuts": None if real.cuts is None else list(real.cuts)}
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


def _by_rule(
    real: Real, seen: Curve, at: float, power: float = ONE_CONSTANT
) -> Mapping[str, float]:
    direction = direction_of(seen)
    best = float(seen.values.max() if direction > 0 else seen.values.min())
    limit = limit_of(seen, direction)
    far = best + direction * float(np.ptp(seen.values)) if limit is None else limit
    return {"mean": one_constant(best, far, at / float(seen.steps[-1]), power)}


def _published(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    return {"mean": float(published_mean(seen, [at], SEED)[0])}


def _single(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    told = _jpas.AsAccuracy.of(seen, at, real.unit)
    return {"mean": told.back(_jpas.single(told.x, told.y, told.at, SEED))}


def _plain(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    told = _jpas.AsAccuracy.of(seen, at, real.unit)
    found = _jpas.plain(told.x, told.y, told.at, SEED)
    mean, one, other = (told.back(value) for value in found)
    return {"mean": mean, "low": min(one, other), "high": max(one, other)}


def _ours(
    seen: Curve, at: float, kind: CurveKind, settings: Settings = DEFAULT
) -> Mapping[str, float]:
    found = forecast(seen, [at], SEED, kind, settings)
    mean, low, high = (float(one[0]) for one in (found.mean, found.low, found.high))
    return {"mean": mean, "low": low, "high": high}


def _shipped(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    return _ours(seen, at, real.kind)


def _unstated(real: Real, seen: Curve, at: float) -> Mapping[str, float]:
    return _ours(seen, at, UNSTATED)


def _part(predict: Predict) -> Callable[[Path], Mapping[str, Any]]:
    def make(scratch: Path) -> Mapping[str, Any]:
        return _columns(_rows(predict, real_curves()))

    return make


def _calibrated(scratch: Path) -> Mapping[str, Any]:
    all_of, by_dataset, by_task = _late_rises.calibrated(SEED)
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
            lambda real, seen, at: _ours(seen, at, real.kind, settings[group(real.dataset)]),
            real_curves(),
        ))  # fmt: skip

    by_task = columns("without_task", TASKS.__getitem__)
    return {"by_dataset": columns("without_dataset", str), "by_task": by_task}


def _settings(found: Mapping[str, Any]) -> Settings:
    return Settings(found["rise"], LateRise(**found["late"]))


def _one_constant(scratch: Path) -> Mapping[str, Any]:
    """Rows of the rule; ``by_task`` with the constant of the least error on the other tasks."""
    curves = list(real_curves())
    spans = np.array([np.ptp(real.curve.values) for real in curves for _ in OBSERVED])
    ends = np.array([real.end for real in curves for _ in OBSERVED])
    tasks = np.array([TASKS[real.dataset] for real in curves for _ in OBSERVED])

    def told(power: float) -> Array:
        rows = _rows(lambda real, seen, at: _by_rule(real, seen, at, power), curves)
        return np.array([row["mean"] for row in rows])

    means = {power: told(power) for power in POWERS}
    by_task = np.zeros(len(ends))
    powers = {}
    for task in dict.fromkeys(tasks.tolist()):
        off = {one: (np.abs(mean - ends) / spans)[tasks != task] for one, mean in means.items()}
        powers[task] = min(POWERS, key=lambda one: off[one].mean())
        by_task[tasks == task] = means[powers[task]][tasks == task]
    rows = _columns(_rows(_by_rule, curves))
    found = [float(f"{one:.6g}") for one in by_task]
    return {**rows, "powers": powers, "by_task": {"mean": found}}


def _families(scratch: Path) -> Mapping[str, Any]:
    """Errors of each way on curves of the families, in their own unit, and whether held."""
    rows = [
        {"family": drawn.family, "falls": falls, "observed": share,
         **_of_drawn(drawn.falling() if falls else drawn, share)}
        for falls in (False, True) for drawn in family_curves(SEED) for share in OBSERVED
    ]  # fmt: skip
    return {"points": POINTS, "noise": NOISE, **_columns(rows)}


def _of_drawn(drawn: Drawn, share: float) -> Mapping[str, Any]:
    seen, at = drawn.seen(share), float(drawn.curve.steps[-1])
    real = Real("families", drawn.family, "", None, drawn.curve)
    ours = _ours(seen, at, UNSTATED)
    ways = {"last": _last, "one_constant": _by_rule, "single": _single, "published": _published}
    off = {name: abs(way(real, seen, at)["mean"] - drawn.end) for name, way in ways.items()}
    value = float(drawn.curve.values[-1])
    return {
        "range": float(np.ptp(drawn.curve.values)), **off, "ours": abs(ours["mean"] - drawn.end),
        "held": bool(ours["low"] <= value <= ours["high"]),
    }  # fmt: skip


def _seconds(scratch: Path) -> Mapping[str, Any]:
    """Processor seconds of a prediction, of every eighth curve."""
    some = list(real_curves())[::TIMED]
    _shipped(some[0], some[0].seen(0.5), float(some[0].curve.steps[-1]))  # imports, first use
    kinds = {"ours": _shipped, "published": _published, "single": _single, "plain": _plain}
    took = {name: [row["seconds"] for row in _rows(one, some)] for name, one in kinds.items()}
    return {"curves": len(some), "seconds": took}


MAKE: Final = {
    "curves": _curves, "last": _part(_last), "one_constant": _one_constant,
    "single": _part(_single), "plain": _part(_plain), "published": _part(_published),
    "calibrated": _calibrated, "shipped": _part(_shipped), "unstated": _part(_unstated),
    "held_out": _held_out, "families": _families, "seconds": _seconds,
}  # fmt: skip

if __name__ == "__main__":
    main()
