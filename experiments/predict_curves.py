"""Real learning curves: our prediction of the last value against simpler and heavier ones.

Part `simple` repeats the last value and fits single families; `plain` samples JPAS's full model with
emcee (64 walkers x 1,500 steps); `ours` is `warren.predict`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import _jpas
import numpy as np
from _curves import OBSERVED, Real, real_curves
from _parts import ask, make_parts

from warren.predict.curve import Curve

SEED: Final = 1
Predict: TypeAlias = Callable[[Real, Curve, float], Mapping[str, float]]
"""A curve, what is seen of it and where to predict: ``mean``, and ``low`` and ``high`` if known."""


def main() -> None:
    """Make the parts asked for."""
    asked = ask(__doc__, list(MAKE))
    make_parts("predict_curves", asked, MAKE, seed=SEED, stated={"observed": OBSERVED})


def _rows(predict: Predict) -> Iterator[dict[str, Any]]:
    """One row a curve and share observed, with the seconds that a prediction took."""
    for real in real_curves():
        for share in OBSERVED:
            seen = real.seen(share)
            started = time.perf_counter()
            told = predict(real, seen, float(real.curve.steps[-1]))
            took = time.perf_counter() - started
            row = {"dataset": real.dataset, "curve": real.name, "what": real.what}
            yield {
                **row,
                "observed": share,
                "points": len(seen),
                "end": real.end,
                "range": float(np.ptp(real.curve.values)),
                "unit": real.unit,
                **told,
                "seconds": round(took, 4),
            }


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


def _part(predict: Predict) -> Callable[[Path], Mapping[str, Any]]:
    def make(scratch: Path) -> Mapping[str, Any]:
        return {"rows": list(_rows(predict))}

    return make


MAKE: Final = {"last": _part(_last), "single": _part(_single), "plain": _part(_plain)}

if __name__ == "__main__":
    main()
