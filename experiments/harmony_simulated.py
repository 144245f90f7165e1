"""Harmony's evaluation in virtual time, by its own model of an iteration: 80 jobs, 100 machines.

*Workload*: Table 4.1's applications and data, ten hyper-parameters each, all there at time 0. What
the paper shows in pictures only is ours: COMM of an iteration goes with the model times 0.5 to 1.5,
so that one job of each kind together have 44.3 s of it, as in the group of 4.4.8; COMP over COMM at
DoP 16 is log-normal around 1, sigma 0.8; jobs have 20 to 200 iterations (log-uniform). A job alone
needs machines that hold ``MEMORY`` times its input and its model once: 3.3 was chosen on seeds 0 to
2 so that the isolated baseline uses 57 % of CPU, as the paper's does by its figures (93.2 / 1.65);
2 and 5 beside it were not. Jobs in groups reload their input, so that memory does not bind.
Profiles are there when a job comes, at no cost. A job that goes to other machines, or runs again
after it has waited, loses 10 s; longer pauses stand beside it.

*Baselines*: ``isolated`` in the order of arrival, of fewest machines, and shortest first.
*Algorithms*: ``harmony-published``, Algorithm 1 as printed with the regrouping of 4.3.2; ``all
jobs``, Algorithm 1 that tries every number of jobs; ``busiest``, our grouping of all jobs for the
largest U; ``weighed speed``, ours, as ``harmony`` with many jobs: all jobs grouped anew for the
largest weighed speed (``solve/job_groups/worth.py``). It and ``isolated, shortest first`` know how
many iterations are left, Harmony does not.

*Variants*: the 60 jobs with most COMP for their COMM, and with least (Fig. 4.13); Poisson arrivals
(Fig. 4.15); profiles that are wrong by a factor e to the normal power (Fig. 4.16a); pauses.

*Breakdown* (Fig. 4.12), one thing after the other: jobs share machines in drawn groups, but by
(4.1), so one COMP and one COMM at a time (``subtasks``); groups are chosen; their data are read
again, so that memory does not bind. Before that groups hold the data of all of their jobs, as much
as jobs alone hold. The step before, jobs that contend, is not in the model. A drawn choice: 1 to 5
groups (of more, the largest job fits into none) and an order of the jobs.

*Fair*: what the gain consists of. ``isolated`` may read data again at no cost, as groups may, so
that memory does not bind it either; ``weighed speed, no lengths`` does not know how many iterations
are left; Algorithm 1 takes J in each order that needs no more than what is profiled, and U as two
numbers. On the workloads of above; on ``FRESH``, drawn when this part was written and not looked
at; and on ``NEAR``, whose COMP, COMM and memory are nearer to the numbers of jobs and groups that
the paper prints: mu -0.5, sigma 0.5, memory 2, chosen by a review on seeds 200 to 202.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any, Final

import _common
import numpy as np
from _harmony_groups import (
    MACHINE_GB,
    Jobs,
    Rule,
    alone_by_weighed_speed,
    busiest,
    harmony,
    isolated,
    naive,
    simulate,
    weighed,
    weighed_without_lengths,
)

from warren.solve.job_groups.published import INTENSITIES

SEEDS: Final = range(30, 35)
"""None of these was looked at before; 0 to 2 and 20 to 24 were."""
JOBS: Final = 80
MACHINES: Final = 100
INPUT_GB: Final = np.array([45.6, 91.2, 4.3, 0.6, 78.4, 155.0, 78.4, 155.0])
MODEL_GB: Final = np.array([1.0, 5.0, 2.1, 1.1, 12.0, 24.0, 12.0, 24.0])
TOGETHER_S: Final = 44.3
MEMORY: Final = 3.3
PAUSE_S: Final = 10.0
RULES: Final[Mapping[str, Rule]] = {
    "isolated": isolated(),
    "isolated, fewest machines": isolated("fewest"),
    "isolated, shortest first": isolated("shortest"),
    "harmony-published": harmony(),
    "harmony-published, all jobs": harmony(JOBS),
    "busiest (ours)": busiest,
    "weighed speed (ours)": weighed,
}


READINGS: Final[Mapping[str, Rule]] = {
    f"patience {patience}, by {by}, {'waiting' if first else 'running'} first": harmony(
        patience, by, waiting_first=first
    )
    for patience in (1, 8)
    for by in INTENSITIES
    for first in (True, False)
}
"""Of what the paper leaves open."""
OFTEN: Final = {name: rule for name, rule in RULES.items() if name != "harmony-published, all jobs"}
"""Rules that do not take long."""
NAIVE: Final = [(groups, order) for groups in range(1, 6) for order in range(8)]
"""Choices of groups: how many, and a seed of the order of the jobs."""
BY_GROUPING: Final = {
    name: rule
    for name, rule in RULES.items()
    if name == "isolated" or not name.startswith("isolated")
}
PARTS: Final = ("variants", "breakdown", "fair")
FRESH: Final = range(110, 115)
NEAR: Final = range(210, 215)
BY_ORDER: Final[Mapping[str, Rule]] = {
    "Alg. 1, waiting first": harmony(),
    "Alg. 1, running first": harmony(waiting_first=False),
    "Alg. 1, by arrival": harmony(order="arrival"),
    "Alg. 1, shortest iteration first": harmony(order="shortest"),
    "Alg. 1, longest iteration first": harmony(order="longest"),
}
"""Algorithm 1 and the regrouping as printed, by the order of J."""
FAIR: Final[Mapping[str, Rule]] = {
    "isolated": isolated(),
    "isolated, shortest first": isolated("shortest"),
    "isolated, data read again": isolated(reloads=True),
    "isolated, by weighed speed, data read again": alone_by_weighed_speed,
    **BY_ORDER,
    "Alg. 1, shortest iteration first, U two numbers": harmony(
        order="shortest", compared="either part"
    ),
    "weighed speed, no lengths (ours)": weighed_without_lengths,
    "weighed speed (ours)": weighed,
}


def main() -> None:
    """Make a part, or all that are not there yet, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS)
    parts, asked = _common.earlier("harmony_simulated"), parser.parse_args()
    for part in asked.part or [one for one in PARTS if one not in parts]:
        rows = {"variants": variants, "breakdown": breakdown, "fair": fair}[part]()
        parts |= {part: {"made_by": _common.made_by(), "seeds": list(SEEDS), "rows": rows}}
        _common.save("harmony_simulated", SEEDS[0], {"parts": parts})


def variants() -> list[dict[str, Any]]:
    """The rows of all variants."""
    base = [drawn(seed, MEMORY) for seed in SEEDS]
    rows = variant("all", base, rules=RULES)
    rows += variant("readings", base, rules={"isolated": RULES["isolated"], **READINGS})
    for memory in (2.0, 5.0):
        rows += variant(f"memory {memory:g}", [drawn(seed, memory) for seed in SEEDS])
    rows += variant("60 with most COMP", [some(jobs, most=True) for jobs in base])
    rows += variant("60 with least COMP", [some(jobs, most=False) for jobs in base])
    for minutes in (4, 8):
        late = [arriving(jobs, seed, minutes) for seed, jobs in zip(SEEDS, base, strict=True)]
        rows += variant(f"one every {minutes} minutes", late)
    for error in (0.05, 0.1, 0.2):
        wrong = [mistaken(jobs, seed, error) for seed, jobs in zip(SEEDS, base, strict=True)]
        rows += variant(f"profiles wrong by {error:g}", wrong)
    for pause_s in (0.0, 60.0):
        rows += variant(f"pauses of {pause_s:g} s", base, pause_s)
    return rows


def breakdown() -> list[dict[str, Any]]:
    """A row a step of Fig. 4.12, of each algorithm that groups."""
    base = [drawn(seed, MEMORY) for seed in SEEDS]
    held = [drawn(seed, MEMORY, held=True) for seed in SEEDS]
    rows = chosen_at_random(held)
    rows += variant("grouping", held, rules=BY_GROUPING)
    return rows + variant("reloading", base, rules=BY_GROUPING)


def fair() -> list[dict[str, Any]]:
    """A row a rule of ``FAIR``, of each of three sets of workloads."""
    rows = variant("all", [drawn(seed, MEMORY) for seed in SEEDS], rules=FAIR)
    rows += variant("fresh", [drawn(seed, MEMORY) for seed in FRESH], rules=FAIR)
    near = [drawn(seed, 2.0, ratio=(-0.5, 0.5)) for seed in NEAR]
    return rows + variant("near", near, rules=FAIR)


def chosen_at_random(workloads: list[Jobs]) -> list[dict[str, Any]]:
    """Rows of the best of the drawn choices, of their mean, and of the worst, by workload."""
    base = [simulate(jobs, isolated(), PAUSE_S).of(jobs) for jobs in workloads]
    found = [
        [simulate(jobs, naive(*choice), PAUSE_S).of(jobs) for choice in NAIVE] for jobs in workloads
    ]
    rows = []
    for name, of in (("best", max), ("mean", mean), ("worst", min)):
        row: dict[str, Any] = {"variant": "subtasks", "rule": f"{name} of {len(NAIVE)}"}
        for key in ("jct_s", "makespan_s"):
            times = [
                of(alone[key] / one[key] for one in some)
                for alone, some in zip(base, found, strict=True)
            ]
            row |= {f"{key[:-2]}_times": mean(times), f"{key[:-2]}_least": min(times)}
        if name == "mean":
            every = [one for some in found for one in some]
            row |= {key: float(mean(one[key] for one in every)) for key in every[0]}
        rows.append(row)
        print({key: _common.short(cell) for key, cell in row.items()}, flush=True)
    return rows


def variant(
    name: str,
    workloads: list[Jobs],
    pause_s: float = PAUSE_S,
    rules: Mapping[str, Rule] = OFTEN,
) -> list[dict[str, Any]]:
    """One row a rule: means over workloads, and speedups over ``isolated`` of the same."""
    rows, base = [], list[dict[str, float]]()
    for rule, choose in rules.items():
        found = [simulate(jobs, choose, pause_s).of(jobs) for jobs in workloads]
        base = base or found
        row: dict[str, Any] = {"variant": name, "rule": rule}
        for key in ("jct_s", "makespan_s"):
            times = [one[key] / other[key] for one, other in zip(base, found, strict=True)]
            row |= {f"{key[:-2]}_times": mean(times), f"{key[:-2]}_least": min(times)}
        row |= {key: float(mean(one[key] for one in found)) for key in found[0]}
        rows.append(row)
        print({key: _common.short(cell) for key, cell in row.items()}, flush=True)
    return rows


def drawn(
    seed: int, memory: float, *, held: bool = False, ratio: tuple[float, float] = (0.0, 0.8)
) -> Jobs:
    """The workload of a seed.

    ``held``: groups have to hold the data of all of their jobs. ``ratio``: mean and deviation of
    the logarithm of COMP over COMM.
    """
    random = np.random.default_rng(seed)
    kind = random.permutation(np.arange(JOBS) % len(MODEL_GB))
    net_s = TOGETHER_S * MODEL_GB[kind] / MODEL_GB.sum() * random.uniform(0.5, 1.5, JOBS)
    comp_over_net = np.exp(random.normal(*ratio, JOBS))
    iterations = np.exp(random.uniform(np.log(20), np.log(200), JOBS)).round()
    filled = (memory * INPUT_GB[kind] + MODEL_GB[kind]) / MACHINE_GB
    return Jobs(
        comp_machine_s=16 * comp_over_net * net_s,
        net_s=net_s,
        iterations=iterations,
        arrival_s=np.zeros(JOBS),
        least_machines=np.ceil(filled).astype(np.int64),
        machines=MACHINES,
        profile=np.ones((2, JOBS)),
        filled_machines=filled if held else None,
    )


def some(jobs: Jobs, *, most: bool) -> Jobs:
    """The 60 jobs with most COMP for their COMM, or with least."""
    order = np.argsort(jobs.comp_machine_s / jobs.net_s, kind="stable")
    keep = np.sort(order[-60:] if most else order[:60])
    return replace(
        jobs,
        comp_machine_s=jobs.comp_machine_s[keep],
        net_s=jobs.net_s[keep],
        iterations=jobs.iterations[keep],
        arrival_s=jobs.arrival_s[keep],
        least_machines=jobs.least_machines[keep],
        profile=jobs.profile[:, keep],
    )


def arriving(jobs: Jobs, seed: int, minutes: float) -> Jobs:
    """The same jobs, one every so many minutes in the mean."""
    gaps = np.random.default_rng([seed, 1]).exponential(60 * minutes, len(jobs.net_s))
    return replace(jobs, arrival_s=np.cumsum(gaps) - gaps[0])


def mistaken(jobs: Jobs, seed: int, error: float) -> Jobs:
    """The same jobs, with profiles that are wrong."""
    drawn_ = np.random.default_rng([seed, 2]).normal(0, error, (2, len(jobs.net_s)))
    return replace(jobs, profile=np.exp(drawn_))


if __name__ == "__main__":
    main()
