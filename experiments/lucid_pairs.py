"""Lucid's measured pairs of jobs on one GPU, predicted from figures of single jobs.

For each rule: the error of a job's speed, the rank correlation of the pairs' total speeds, and what
is lost if jobs are paired by the rule's predictions and then run at measured speeds. Jobs of a
pairing are each in one pair; predicted totals that are equal are put in a drawn order, and losses
are means over draws. The fitted model is drawn, fitted and tested apart (see ``_lucid``).

The data may be read, not shipped: no pair is saved.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import _common
import numpy as np
from _lucid import RULES, Pairs, Singles, best_pairing, fitted, random_pairing, read
from scipy.stats import spearmanr

FOLDER: Final = _common.DATA / "profiles" / "lucid"
SEED: Final = 57
DRAWS: Final = 20
"""Draws of halves, and of the order of equal pairs."""
TIE: Final = 1e-6
"""Most by which a drawn order changes a predicted total."""


def main() -> None:
    """Predict, pair, save."""
    if not FOLDER.is_dir():
        print(f"skipped: profiles/{FOLDER.name} of the shared data is not here")
        return
    singles, pairs = read(FOLDER)
    content = {
        "jobs": len(np.unique(pairs.jobs)),
        "pairs": len(pairs.jobs),
        "mean_speed": float(pairs.speed.mean()),
        "draws": DRAWS,
        **paired(singles, pairs),
        "unseen": unseen(singles, pairs),
    }
    for row in [*content["rows"], *content["unseen"]]:
        print({key: _common.short(cell) for key, cell in row.items()})
    _common.save("lucid_pairs", SEED, content)


def paired(singles: Singles, pairs: Pairs) -> dict[str, Any]:
    """One row a rule, with the best pairing and drawn ones for comparison."""
    rng = np.random.default_rng(SEED)
    two = pairs.where(pairs.jobs[:, 0] != pairs.jobs[:, 1])  # not two runs of one job
    total = two.speed.sum(axis=1)
    best = float(total[best_pairing(two.jobs, total)].sum())
    drawn = [float(total[random_pairing(two.jobs, rng)].sum()) for _ in range(DRAWS)]
    rows = []
    for name, rule in RULES.items():
        speed = rule(singles, pairs.jobs)
        sure = rule(singles, two.jobs).sum(axis=1) + 10  # above 0: as many pairs as can be
        chosen = [
            float(total[best_pairing(two.jobs, sure + TIE * rng.random(len(sure)))].sum())
            for _ in range(DRAWS)
        ]
        rows.append({
            "rule": name, **errors(speed, pairs, predicts=speed.min() > 0),
            "lost_pct": 100 * (1 - float(np.mean(chosen)) / best),
            "most_lost_pct": 100 * (1 - min(chosen) / best),
        })  # fmt: skip
    return {
        "rows": rows,
        "best_total": best,
        "drawn_lost_pct": 100 * (1 - float(np.mean(drawn)) / best),
    }


def errors(speed: np.ndarray, pairs: Pairs, *, predicts: bool = True) -> dict[str, float | None]:
    """The mean error of a job's speed, in percent of its speed alone, and the rank correlation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a constant prediction: no correlation
        rank = spearmanr(speed.sum(axis=1), pairs.speed.sum(axis=1)).statistic
    error = 100 * float(np.abs(speed - pairs.speed).mean())
    return {"error_pct": error if predicts else None, "rank": float(rank)}


def unseen(singles: Singles, pairs: Pairs) -> list[dict[str, Any]]:
    """The fitted model and the rules on pairs of network types outside of a drawn half."""
    rng = np.random.default_rng(SEED)
    types = np.unique(singles.network_J[pairs.jobs])
    found: dict[str, list[dict[str, float | None]]] = {}
    for _ in range(DRAWS):
        half = rng.permutation(types)[: len(types) // 2]
        seen = np.isin(singles.network_J[pairs.jobs], half)
        train, test = pairs.where(seen.all(axis=1)), pairs.where(~seen.any(axis=1))
        tried = {name: rule(singles, test.jobs) for name, rule in RULES.items()}
        tried["fitted"] = fitted(singles, train, test.jobs)
        tried["the mean speed of the half"] = np.full(test.speed.shape, train.speed.mean())
        for name, speed in tried.items():
            found.setdefault(name, []).append(errors(speed, test, predicts=speed.min() > 0))
    return [
        {"rule": name, **{key: _mean([one[key] for one in each]) for key in ("error_pct", "rank")}}
        for name, each in found.items()
    ]


def _mean(values: list[float | None]) -> float | None:
    known = [one for one in values if one is not None and not np.isnan(one)]
    return float(np.mean(known)) if len(known) == len(values) else None


if __name__ == "__main__":
    main()
