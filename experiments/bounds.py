"""How much the bound by prices adds, and how loose it can be at most before tasks and barriers.

The workload is ``hare-mix``: 200 jobs on 160 devices of four types, at load 0.5, 1, 2 and with all
jobs at time 0. Beside the bounds stands a *divided* schedule: devices may be divided in time
freely, no task is whole, but every job has one schedule of its own. It starts from the prices:
jobs are taken in the order of how long they answer to wait by weight, and each takes the devices
and the end that are cheapest for it (w C + price, a linear program for each end) among what is
left. The relaxation's optimum lies between the bound and this schedule's weighted JCT; what a
schedule of tasks has above it is not the bound's.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import _common
import numpy as np
import numpy.typing as npt
import yaml
from scipy.optimize import linprog
from scipy.sparse import coo_array

from warren.model.errors import SpecError
from warren.profile.cost_table import cost_table
from warren.profile.published import TABLE
from warren.runs.bound_of_run import columns_of
from warren.solve.bounds.columns import BoundJobs, bound_jobs
from warren.solve.bounds.lagrangian import CERTIFIED, LagrangianBound, new_scratch, respond
from warren.solve.bounds.machine_load import area_speeds
from warren.solve.bounds.mean_busy_time import busy_time_bound
from warren.solve.bounds.subgradient import DevicePrices, best_prices
from warren.workload.run_file import load_run

Floats = npt.NDArray[np.float64]
LOADS: Final = (0.5, 1.0, 2.0, None)
SEEDS: Final = (1, 2, 3, 4, 5)
FINER: Final = 2
"""Parts of an interval of the prices in the divided schedule."""
LATER: Final = 12
"""Ends that are tried after the first possible one before a job takes the best."""
LINPROG: Final[Any] = linprog
"""Without its stubs, which know no sparse matrices."""


def main() -> None:
    """Measure every load and seed."""
    try:
        rows = [measured(load, seed) for load in LOADS for seed in SEEDS]
    except SpecError as error:
        sys.exit(str(error))
    _common.table(
        [list(rows[0]), *([_common.short(cell) for cell in row.values()] for row in rows)]
    )
    means = []
    for load in LOADS:
        of_load = [row for row in rows if row["load"] == load]
        means.append({
            "load": load,
            "gain_pct": float(np.mean([row["gain_pct"] for row in of_load])),
            "divided_pct": float(np.mean([row["divided_pct"] for row in of_load])),
        })  # fmt: skip
    _common.save("bounds", SEEDS[0], {"rows": rows, "means": means})


def measured(load: float | None, seed: int) -> dict[str, Any]:
    """The bounds of one workload, and its divided schedule, in seconds (weighted)."""
    jobs = drawn(load, seed)
    before_s, by = busy_time_bound(jobs, area_speeds(jobs))
    prices = best_prices(jobs)
    assert prices is not None
    divided_s = divided(jobs, prices)
    print(f"load {load}, seed {seed}", flush=True)
    return {
        "load": load,
        "seed": seed,
        "tasks": int(jobs.rounds_J @ jobs.scale_J),
        "before_s": before_s,
        "before_by": by,
        "prices_s": prices.bound_s,
        "gain_pct": 100 * (prices.bound_s / before_s - 1),
        "divided_s": divided_s,
        "divided_pct": 100 * (divided_s / prices.bound_s - 1),
    }


def drawn(load: float | None, seed: int) -> BoundJobs:
    """The jobs of ``hare-mix`` as bounds see them."""
    content = {
        "cluster": {"hosts": {"generate": "hare", "devices": 160, "heterogeneity": "high"}},
        "workload": {"generate": "hare-mix", "jobs": 200, "load": load, "seed": seed},
    }
    text = yaml.safe_dump(content).encode()
    run = load_run("run.yaml", lambda _: text, rows=TABLE)
    rounds_J = np.array([job.rounds for job in run.workload.jobs])
    found = bound_jobs(**columns_of(run, cost_table(run), rounds_J))
    assert found is not None
    return found


def divided(jobs: BoundJobs, prices: DevicePrices) -> float:
    """The weighted JCT of the divided schedule."""
    step_s = float(prices.grid_s_E[1]) / FINER
    priced = prices.price_TI.shape[1] * FINER
    price_TK = np.pad(np.repeat(prices.price_TI, FINER, axis=1), ((0, 0), (0, 3 * priced)))
    left_s_TK = np.repeat(jobs.devices_T[:, None] * step_s, price_TK.shape[1], axis=1)
    total_s = 0.0
    for job in np.argsort(waits_s(jobs, prices) / jobs.weight_J, kind="stable"):
        jct_s, used_s_TK = cheapest(jobs, int(job), step_s, price_TK, left_s_TK)
        left_s_TK -= used_s_TK
        total_s += float(jobs.weight_J[job]) * jct_s
    return total_s


def waits_s(jobs: BoundJobs, prices: DevicePrices) -> Floats:
    """How long each job's own answer to the prices takes, to the interval."""
    result = np.zeros(len(jobs.weight_J))
    for j in range(len(result)):
        one = slice(j, j + 1)
        problem = LagrangianBound(
            weight_J=jobs.weight_J[one],
            arrival_s_J=jobs.arrival_s_J[one],
            path_s_JT=jobs.path_s_JT[one],
            work_s_JT=jobs.work_s_JT[one],
            longest_s_J=np.zeros(1),
            devices_T=jobs.devices_T.astype(float),
            grid_s_E=prices.grid_s_E,
        )
        scratch = new_scratch(problem)
        respond(problem, prices.price_TI, scratch)
        end = float(prices.grid_s_E[int(np.argmin(scratch.bracket_BI[CERTIFIED]))])
        result[j] = max(end - jobs.arrival_s_J[j], jobs.path_s_J[j])
    return result


def cheapest(
    jobs: BoundJobs, j: int, step_s: float, price_TK: Floats, left_s_TK: Floats
) -> tuple[float, Floats]:
    """JCT and device seconds of the job's cheapest schedule in what is left."""
    types, steps = price_TK.shape
    weight, arrival = float(jobs.weight_J[j]), float(jobs.arrival_s_J[j])
    work_T, path_T = jobs.work_s_JT[j], jobs.path_s_JT[j]
    best, found, tried = np.inf, (np.inf, np.zeros_like(price_TK)), 0
    for last in range(int((arrival + jobs.path_s_J[j]) / step_s), steps):
        before_s = max(last * step_s - arrival, 0.0)
        if weight * before_s >= best or tried > LATER:
            break
        edges_s = np.maximum(np.arange(last + 2) * step_s, arrival)
        room_s_K = np.diff(edges_s)
        cost = (price_TK[:, : last + 1] * work_T[:, None]).ravel()
        # In the last step time itself costs: the job ends when it has had what it needs there.
        late = np.zeros((types, last + 1))
        late[:, last] = weight * path_T
        cells = np.arange(types * (last + 1))
        rates = coo_array((np.repeat(path_T, last + 1), (cells % (last + 1), cells)))
        most = np.minimum(left_s_TK[:, : last + 1] / work_T[:, None], 1.0)
        answer = LINPROG(
            cost + late.ravel(), rates, room_s_K, np.ones((1, len(cells))), [1.0],
            bounds=np.stack([np.zeros(len(cells)), most.ravel().clip(0)], axis=1), method="highs",
        )  # fmt: skip
        if answer.status != 0:
            continue
        tried += 1
        x_TK = answer.x.reshape(types, last + 1)
        if weight * before_s + answer.fun < best:
            best = weight * before_s + answer.fun
            used_s_TK = np.zeros_like(price_TK)
            used_s_TK[:, : last + 1] = x_TK * work_T[:, None]
            found = (before_s + float(path_T @ x_TK[:, last]), used_s_TK)
    return found


if __name__ == "__main__":
    main()
