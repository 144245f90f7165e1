"""The simulations of the SJF-BCO paper: makespan and mean JCT in the cells of its Figs. 4 to 7.

*Cells.* ``sjf-bco/mix.yaml`` with what a figure varies, five seeds each: another seed draws other
jobs and other servers. *4*: policies. *5*: kappa, of SJF-BCO alone, in both readings of Algorithm
2; only sizes of rings part them differently. *6*: servers. *7*: lambda, our ``room``, at kappa = 1.
T is the paper's, 1200 slots of a second, in Fig. 6 1500, but none in Fig. 5: with hosts in use and
a large kappa the search finds no schedule that ends within 1200 s. A seed without a schedule
within T is counted and has no part in the means. *theorem*: Theorem 5 claims that rings of one
GPU, which all take a known time, end as early as they can; on how many small instances they do not.

*Ours.* ``braid`` stands in every cell, also where kappa or lambda vary, which it does not have,
with a lower bound beside it; in some with its other objective. *arrivals*: 320 rings that come over
time, so much work for each GPU; online policies know those that have come only, ``braid`` knows
all. ``gavel-fifo``, to which equal GPUs go by their number, is First-Fit in order of arrival.
*lambda*: Fig. 7's lambdas, where SJF-BCO searches kappa as it does everywhere else. *contention*:
what sharing links costs the plans of Fig. 6's cells (``_without_contention.py``). *by size*: the
baselines with SJF-BCO's own order of jobs, in Fig. 4's cell by other seeds.

``--part 4`` (or another) makes one part and keeps the results of the others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import _without_contention
import numpy as np
from _parts import Make, ask, make_parts

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.cost.run_rings import with_rings
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.profile.cost_table import cost_table
from warren.runs.bound_of_run import lower_bound
from warren.runs.choose_policy import TimedPolicy, choose
from warren.runs.inputs import run_of
from warren.sim.build import sim_port
from warren.workload.run_file import run_from_dict

RUN: Final = Path(__file__).parent / "sjf-bco" / "mix.yaml"
SEEDS: Final = 5
PACKED: Final = "sjf-bco of used servers"
"""Algorithm 2 as the text around it says; ``sjf-bco`` is its line 4 as printed."""
BOTH: Final = ("sjf-bco", PACKED)
OURS: Final = "braid"
OURS_JCT: Final = "braid of least JCT"
BASELINES: Final = ("first-fit", "list-scheduling", "random")
BY_SIZE: Final = tuple(f"{name} of size order" for name in BASELINES)
"""The baselines with the order that SJF-BCO has: the paper states none for them."""
SETS: Final[Mapping[str, Sequence[str]]] = {
    PACKED: ("policy.packing=used-servers",), OURS_JCT: ("policy.objective=weighted-jct",),
    **dict.fromkeys(BY_SIZE, ("policy.order=size",)),
}  # fmt: skip
PLANNED: Final = (*BOTH, *BASELINES, *BY_SIZE)
"""Who keeps to T."""
ONLINE: Final = ("fifo", "gavel-fifo", "braid-online")
INSTANCES: Final = 500
FRESH: Final = range(21, 26)
"""Seeds of part *by size*, which no other part has."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """What varies: a key of the run file and its values; who, and T in seconds."""

    varies: str
    key: str
    values: Sequence[object]
    places: Sequence[str] = (*BOTH, OURS)
    sets: Sequence[str] = ()
    horizon: int = 1200
    seeds: range = range(1, SEEDS + 1)


FIGURES: Final[Mapping[str, Figure]] = {
    "4": Figure("servers", "cluster.hosts.servers", (20,), (*PLANNED, "fifo", OURS, OURS_JCT)),
    "5": Figure("kappa", "policy.kappa", (1, 2, 4, 8, 16, 32), horizon=0),
    "6": Figure(
        "servers", "cluster.hosts.servers", (10, 12, 14, 16, 18, 20), (*PLANNED, OURS, OURS_JCT),
        horizon=1500,
    ),
    "7": Figure("lambda", "policy.room", (1, 2, 4, 8), sets=("policy.kappa=1",)),
    "lambda": Figure("lambda", "policy.room", (1, 2, 4, 8)),
    "by size": Figure(
        "servers", "cluster.hosts.servers", (20,), ("sjf-bco", *BASELINES, *BY_SIZE),
        seeds=FRESH,
    ),
    "arrivals": Figure(
        "load", "workload.load", (0.5, 0.7, 0.9, 1.0, 1.2), (*ONLINE, OURS, OURS_JCT),
        sets=("workload.jobs=320",),
    ),
}  # fmt: skip


def main() -> None:
    """Make the parts asked for and save."""
    parts: dict[str, Make] = {name: _part(figure) for name, figure in FIGURES.items()}
    parts["theorem"] = lambda scratch: {"varies": "GPUs", "rows": theorem()}
    parts["contention"] = lambda scratch: {"varies": "servers", "rows": contention()}
    make_parts("sjf_bco_figures", ask(__doc__, list(parts)), parts, seed=1, stated={"seeds": SEEDS})


def _part(figure: Figure) -> Make:
    return lambda scratch: {
        "varies": figure.varies,
        "horizon": figure.horizon,
        "rows": [cell(figure, value, place) for value in figure.values for place in figure.places],
    }


def cell(figure: Figure, value: object, place: str) -> Row:
    """Means over the seeds that have a schedule."""
    horizon = (f"policy.horizon={figure.horizon}",) if place in PLANNED else ()
    sets = (f"{figure.key}={value}", *figure.sets)
    if place not in PLANNED:  # it has no kappa and no lambda
        sets = tuple(one for one in sets if not one.startswith("policy."))
    sets = (*sets, *SETS.get(place, ()), *horizon)
    found = by_seed(place, sets, figure.seeds)
    done = [one for one in found if one is not None]
    means = {
        key: fmean(one[key] for one in done) if done else None
        for key in (
            "makespan_s", "mean_jct_s", "decide_s", "added_pct", "added_most_pct", "bound_s"
        )
    }  # fmt: skip
    row = {
        "cell": str(value), "place": place, **means, "without": len(found) - len(done),
        "by_seed_s": [one and one["makespan_s"] for one in found],
        "bound_by_seed_s": [one and one["bound_s"] for one in found],
        "kappa": [one and one["kappa"] for one in found],
        "theta_s": [one and one["theta_s"] for one in found],
    }  # fmt: skip
    print(f"{figure.varies} {value}: {place}: makespan {row['makespan_s']} s", flush=True)
    return row


@cache
def by_seed(place: str, sets: tuple[str, ...], seeds: range) -> list[Row | None]:
    """One run a seed; the same cells of several figures are made once."""
    return [
        simulated(run_of(
            str(RUN), place.partition(" of ")[0], _seeded(sets, seed),
        ))
        for seed in seeds
    ]  # fmt: skip


def _seeded(sets: tuple[str, ...], seed: int) -> tuple[str, ...]:
    return (*sets, f"seed={seed}", f"cluster.hosts.seed={seed}")


def simulated(run: Run) -> Row | None:
    """One run; None: its policy finds no schedule within T.

    ``bound_s``: on the makespan. ``added_pct``: of the time of the rings of several GPUs, what
    contention and hosts have added to rounds at their best; ``added_most_pct``: of the ring with
    most of it.
    """
    costs, policy, journal = with_rings(run, cost_table(run)), TimedPolicy(choose(run)), bytearray()
    core = Core(
        run=run, costs=costs, policy=policy, port=sim_port(run, costs), sink=journal.extend,
        world="sim",
    )  # fmt: skip
    try:
        core.execute()
    except SpecError as error:
        print(error)
        return None
    history = read_history(bytes(journal))
    end_ns_J, timeline = history.finish_ns_J, history.timeline
    start_ns_J = np.full(len(end_ns_J), np.iinfo(np.int64).max)
    np.minimum.at(start_ns_J, timeline.job_R, timeline.start_ns_R)
    jobs = run.workload.jobs
    arrival_ns_J = np.array([job.arrival_ns for job in jobs])
    least_ns_J = (costs.comp_ns_JT + costs.sync_ns_JT)[:, 0] * [job.rounds or 0 for job in jobs]
    many_J = np.array([job.scale > 1 for job in jobs])
    took_ns_J = (end_ns_J - start_ns_J)[many_J]
    added_ns_J = took_ns_J - least_ns_J[many_J]
    return {
        "makespan_s": float(end_ns_J.max() - arrival_ns_J.min()) / 1e9,
        "mean_jct_s": float((end_ns_J - arrival_ns_J).mean()) / 1e9,
        "bound_s": lower_bound(run, costs, history).makespan_s,
        "decide_s": policy.decide_s,
        "added_pct": 100 * float(added_ns_J.sum() / max(1, took_ns_J.sum())),
        "added_most_pct": 100 * float((added_ns_J / took_ns_J).max(initial=0)),
        "kappa": getattr(core.memory, "kappa", None),
        "theta_s": getattr(core.memory, "theta", None),
    }


def contention() -> list[Row]:
    """The cells of Fig. 6, planned with contention or without, in a world with it and without."""
    figure = FIGURES["6"]
    rows = []
    for value in figure.values:
        for place in (*BOTH, OURS, _without_contention.BLIND):
            horizon = (f"policy.horizon={figure.horizon}",) if place in PLANNED else ()
            sets = (f"{figure.key}={value}", *SETS.get(place, ()), *horizon)
            seeds = [_seeded(sets, seed) for seed in range(1, SEEDS + 1)]
            rows.append(_without_contention.cell(str(RUN), place, value, seeds))
    return rows


def theorem() -> list[Row]:
    """Rings of one GPU and whole seconds: Theorem 5 says that the last ends as early as it can."""
    rows = []
    for gpus in (2, 3):
        for place in BOTH:
            draw = random.Random(gpus)
            ratios = []
            for _ in range(INSTANCES):
                lengths = [draw.randint(1, 9) for _ in range(draw.randint(3, 7))]
                found = simulated(tiny(gpus, lengths, place))
                assert found is not None
                ratios.append(found["makespan_s"] / least(gpus, lengths))
            rows.append({
                "cell": str(gpus), "place": place, "instances": INSTANCES,
                "violated": sum(ratio > 1 + 1e-9 for ratio in ratios), "worst": max(ratios),
            })  # fmt: skip
    return rows


def tiny(gpus: int, lengths: Sequence[int], place: str) -> Run:
    """Rings of one GPU on hosts of one, a round a second."""
    jobs = [
        {"name": f"j{at}", "model": "m", "scale": 1, "rounds": rounds, "sync": "ring"}
        for at, rounds in enumerate(lengths)
    ]
    data = {
        "cluster": {"hosts": [{"name": "h", "count": gpus, "devices": {"A": 1}}]},
        "profiles": {"m": {"model": "1 MB", "comp": {"A": "1 s"}, "sync": {"A": "0 s"}}},
        "workload": {"jobs": jobs},
        "scheduler": {"place": "sjf-bco"},
        "policy": {"packing": "used-servers" if place == PACKED else "least-busy"},
    }
    return run_from_dict(data, ".", lambda path: b"")


def least(gpus: int, lengths: Sequence[int]) -> int:
    """The optimum, by trying all places."""
    return min(
        max(sum(length for length, on in zip(lengths, places, strict=True) if on == one)
            for one in range(gpus))
        for places in product(range(gpus), repeat=len(lengths))
    )  # fmt: skip


if __name__ == "__main__":
    main()
