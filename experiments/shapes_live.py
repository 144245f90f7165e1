"""Shapes of jobs on a testbed: a grid over who works and who serves, and policies that choose.

Six hosts with a fifth of a core each, links of 100 Mbit, real computation. A part an app (``--part
mlr``, ``nmf``, ``lda``, ``net``): one run goes through five numbers of workers and the shape in
which every host does both; from what the first of them shows alone, our cost model says what the
others take. Then each policy has the job from the first shape on, which is bad. Part ``kinds``:
four slow hosts and two fast ones, and each number of either that serves; part ``unequal``: what
policies make of a bad start on them. Part ``coming``: four of the six equal hosts come and go every
minute. Part ``speed``: one of them becomes twice as fast while a job trains. Quotas, links and
models were chosen, and the way of predicting was settled, while looking at ``mlr``; the others were
not looked at before. Needs the rights of a testbed and cgroups with a quota.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import _common
import numpy as np
from _common import ROOT
from _host_speed import During, Quicker, quota_cgroup
from _rights import cannot, no_quota
from _shape_sweep import hosts_of
from _shapes_live import (
    APPS,
    EQUAL,
    MODEL_BYTES,
    NAME,
    TASKS,
    UNEQUAL,
    BedKind,
    by_shape,
    described,
    moves_of,
    names,
    predicted,
    round_s,
    rounds_s,
    testbed,
    turns_s,
)
from _testbeds import played

from warren.solve.shapes.kinds import kinds_of
from warren.solve.shapes.shape_search import Epoch, best_shape

SEED: Final = 1
SWEEP: Final = f"{ROOT / 'experiments/_shape_sweep.py'}:Sweep"
GRID: Final = ("01234:5", "0123:45", "012:345", "01:2345", "0:12345", "012345:012345")
CHOICES: Final = (
    "01245:3", "0145:23", "045:123", "45:0123", "01234:5", "0123:45", "0124:35", "014:235",
    "012:345", "01:2345", "012345:012345",
)  # fmt: skip
"""Of the four slow hosts (0 to 3) and the two fast ones (4, 5): how many of either serve."""
ROUNDS: Final = 6
"""Of each visit to a shape of a grid."""
VISITS: Final = 3
"""A run goes through a grid so many times, so that slow minutes of the machine meet all shapes."""
LONG: Final = 40
PARTS: Final = (*APPS, "kinds", "unequal", "coming", "speed")
START: Final = "01234:5", "0124:35"
"""Where jobs begin on equal hosts, and on unequal ones: there a fast host and a slow one serve."""
AWAY: Final = {"away": "a-2 a-3 a-4 a-5: 0-60 120-180 240-"}
ENDS_S: Final = 240
FASTER: Final = 0
SPEED_START: Final = "0123:45"
"""The best shape on equal hosts in which none does both; the host that becomes faster works."""
SPEED_S: Final = 60.0
SPEED_ROUNDS: Final = 100
SPEED_POLICIES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("fixed", {}), ("all", {}), ("cruise", {}), ("cruise-published", {"reading": "nic"}),
)  # fmt: skip
READINGS: Final = ("nic", "server", "published")
POLICIES: Final[dict[str, dict[str, Any]]] = {
    "fixed": {}, "all": {}, "cruise": {}, "cruise-published": {}, "optimus": {},
}  # fmt: skip


def main() -> None:
    """Make a part, or all that are not there yet, and save."""
    if why := cannot() or no_quota():
        print(f"skipped: {why}")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--grid", action="store_true", help="of apps: make the grid, not policies")
    parts, asked = _common.earlier("shapes_live"), parser.parse_args()
    others = {"kinds": _kinds, "unequal": _unequal, "coming": _coming, "speed": _speed}
    for part in asked.part or [one for one in PARTS if one not in parts]:
        made = {"made_by": _common.made_by(), "seed": SEED}
        if part in others:
            made |= others[part]()
        else:
            made |= _grid_of(part)
            kept = _common.earlier("shapes_live").get(part, {})
            made |= _policies_of(part) if not asked.grid or not kept else _kept(kept)
        parts = _common.earlier("shapes_live") | {part: made}
        _common.save("shapes_live", SEED, {"parts": parts})


def _grid_of(app: str) -> dict[str, Any]:
    """The grid of one app on equal hosts."""
    with testbed(EQUAL) as share:
        return {"rows": _grid(app, EQUAL, GRID, share), "share": share}


def _policies_of(app: str) -> dict[str, Any]:
    """What policies make of one app on equal hosts."""
    with testbed(EQUAL):
        rows = [_policy(app, EQUAL, name, POLICIES[name], START[0]) for name in POLICIES]
    return {"policies": rows}


def _kept(part: dict[str, Any]) -> dict[str, Any]:
    """What policies made of an app before, and who made that."""
    return {
        "policies": part["policies"],
        "policies_made_by": part.get("policies_made_by", part["made_by"]),
    }


def _kinds() -> dict[str, Any]:
    """The grid over which hosts of two kinds serve."""
    with testbed(UNEQUAL) as share:
        return {"rows": _grid("mlr", UNEQUAL, CHOICES, share), "share": share}


def _unequal() -> dict[str, Any]:
    """What policies make of a bad start on hosts of two kinds."""
    with testbed(UNEQUAL):
        chosen = (("fixed", {}), ("all", {}), ("cruise", {}), ("cruise-published", {}))
        by_nic = ("cruise-published", {"reading": "nic"})
        rows = [_policy("mlr", UNEQUAL, *one, START[1]) for one in (*chosen, by_nic)]
    return {"rows": rows}


def _coming() -> dict[str, Any]:
    """Hosts that come and go, used and not used: so many rounds until the last time they go."""
    with testbed(EQUAL):
        rows = [
            _policy("mlr", EQUAL, "cruise", AWAY, "", rounds=180),
            # As if the four were never there; so many rounds that they last as long.
            _policy("mlr", EQUAL, "cruise", {"away": "a-2 a-3 a-4 a-5: 0-"}, "", rounds=115),
        ]
    for row in rows:
        # The first round is not among them.
        row["rounds_by_the_end"] = 1 + sum(end_s < ENDS_S for end_s, _ in row["rounds_s"])
    return {"rows": rows}


def _speed() -> dict[str, Any]:
    """A host that works becomes twice as fast: what policies make of that, from a fair start."""
    rows = []
    with testbed(EQUAL):
        host = names(EQUAL)[FASTER][0]
        for name, options in SPEED_POLICIES:
            quicker = Quicker(quota_cgroup(NAME, host), SPEED_S)
            row = _policy("mlr", EQUAL, name, options, SPEED_START, SPEED_ROUNDS, quicker)
            assert quicker.done_s, f"{name}: the run was over before"
            before = [took_s for end_s, took_s in row["rounds_s"] if end_s <= quicker.done_s[0]]
            rows.append(row | {"faster_s": quicker.done_s[0], "before_s": median(before[-10:])})
    return {"rows": rows, "host": host, "times": 2}


def _grid(
    app: str, kinds: Sequence[BedKind], shapes: Sequence[str], share: float
) -> list[dict[str, Any]]:
    """A row a shape: what rounds take, and what is said of them from the first shape alone."""
    visits = VISITS * len(shapes)
    options = {"shapes": " ".join(VISITS * tuple(shapes)), "rounds": ROUNDS}
    history, _ = played(described(app, kinds, SWEEP, options, (ROUNDS + 4) * visits))
    times, by_visit = round_s(history), by_shape(history, visits)
    rounds = [
        [one for visit in by_visit[place :: len(shapes)] for one in visit]
        for place in range(len(shapes))
    ]
    size = float(MODEL_BYTES[app])
    first_s = turns_s(history, kinds, rounds[0])
    rows = []
    for text, at in zip(shapes, rounds, strict=True):
        own_s = turns_s(history, kinds, at)
        row: dict[str, Any] = {
            "shape": text, "rounds": len(at), "measured_s": median(times[one] for one in at),
            "quartiles_s": np.quantile([times[one] for one in at], [0.25, 0.75]).tolist(),
            "task_s": own_s,
            "own_s": predicted(kinds, own_s, text, size, share).round_s,
        }  # fmt: skip
        row |= {f"{one}_s": published_s(kinds, first_s, text, size, share, one) for one in READINGS}
        rows.append(row)
        print({key: value for key, value in row.items() if key != "task_s"}, flush=True)
    for row, move in zip(rows[1:], history.moves[: len(rows) - 1], strict=True):
        row |= {"moved_bytes": move.far_bytes, "moved_s": move.took_ns / 1e9}
    return rows


def published_s(
    kinds: Sequence[BedKind], task_s: Sequence[float], text: str, model_bytes: float, share: float,
    reading: str,
) -> float:  # fmt: skip
    """(3.4) as printed for a round of as many mini-batches, who works and who serves being given.

    A host that does both counts for two, each with the whole link.
    """
    works, serves = hosts_of(text)
    both = [*works, *serves]
    rate_N = np.array([kind.bps / 8 * share for _, kind in names(kinds)])[both]
    task_s_N = np.array([*(task_s[host] for host in works), *[np.inf] * len(serves)])
    found, kind_N = kinds_of(task_s_N, rate_N, np.ones(len(both), dtype=np.int64))
    servers_K = np.bincount(kind_N[len(works) :], minlength=len(found.count_K))
    many = 1000
    epoch = Epoch(
        items=many * TASKS, model_bytes=model_bytes, batch=1, round_items=None, ways=1,
        reading=reading,
    )  # fmt: skip
    return best_shape(found, epoch, servers_K=servers_K).epoch_s / many


def _policy(
    app: str,
    kinds: Sequence[BedKind],
    name: str,
    options: dict[str, Any],
    start: str,
    rounds: int = LONG,
    during: During | None = None,
) -> dict[str, Any]:
    """What a policy makes of a job that begins in a shape, if it lets it."""
    start = start if name not in ("all", "optimus") else ""
    history, summary = played(described(app, kinds, name, options, rounds, start), during)
    times = round_s(history)
    job = history.saved[0]
    row = {
        "policy": name, "options": options, "jct_s": summary["mean_jct_s"],
        "first_s": median(times[2:6]), "last_s": median(times[-11:-1]),
        "sha256": job.sha256, "rounds_s": rounds_s(history),
        "moves": moves_of(history),
    }  # fmt: skip
    print({key: value for key, value in row.items() if key != "rounds_s"}, flush=True)
    return row


if __name__ == "__main__":
    main()
