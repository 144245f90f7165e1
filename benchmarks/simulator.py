"""Speed of the simulator: compiled path, event path, planning, and the command's start.

Prints the median of a few runs beside a floor, and checks it against ``ranges.json``, where the
origin of each range stands. Kernels are compiled before anything is timed.
"""

from __future__ import annotations

import subprocess
import sys
from time import process_time

import numpy as np
from _ranges import median_s, report

from warren.core.loop import Core
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import CostTable
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.sim.port import SimPort


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    run, costs = world(jobs=60, devices=32, rounds=250)
    tasks = sum(job.scale * (job.rounds or 0) for job in run.workload.jobs)
    plan = place_policy("hare", {"budget": 0})
    plan_s = median_s(lambda: simulate(run, costs, "hare"))
    state = Core(
        run=run, costs=costs, policy=plan, port=SimPort(run, costs), sink=len, world="sim"
    ).state.view()
    decision, _ = plan.decide(state, plan.initial(state))
    assert decision.plan is not None
    made = decision.plan
    compiled_s = median_s(lambda: SimPort(run, costs).run_plan(made))
    compiled_cpu_s = median_s(lambda: SimPort(run, costs).run_plan(made), process_time)
    copied_s = median_s(lambda: [np.sort(made.job_R) for _ in range(10)])
    events_s = median_s(lambda: simulate(run, costs, "srtf"))
    large, prices = world(jobs=200, devices=160, rounds=550)
    view = Core(
        run=large, costs=prices, policy=plan, port=SimPort(large, prices), sink=len, world="sim"
    ).state.view()
    first_s = median_s(lambda: plan.decide(view, plan.initial(view)))
    figures = {
        "first_plan_of_500k_tasks_s": first_s,
        "compiled_tasks_per_s": tasks / compiled_s,
        "compiled_tasks_per_cpu_s": tasks / compiled_cpu_s,
        "compiled_over_sorting_its_columns": compiled_s / copied_s,
        "plan_and_run_tasks_per_s": tasks / plan_s,
        "srtf_tasks_per_s": tasks / events_s,
        "help_s": median_s(warren_help),
    }
    report(figures)


def world(*, jobs: int, devices: int, rounds: int) -> tuple[Run, CostTable]:
    """Jobs of scale 1 to 8 on four types, T^c 10 to 200 ms, seed 1."""
    random = np.random.default_rng(1)
    names = [f"T{i % 4}" for i in range(devices)]
    cluster = Cluster(
        hosts=(Host(name="h", devices=tuple(f"h/{n}-{i}" for i, n in enumerate(names))),),
        devices=tuple(
            Device(index=i, name=f"h/{name}-{i}", type=name, host="h")
            for i, name in enumerate(names)
        ),
        types=tuple(DeviceType(name=f"T{i}") for i in range(4)),
    )
    made = [
        Job(
            index=i,
            name=f"j{i}",
            scale=int(random.integers(1, 9)),
            rounds=rounds,
            weight=float(random.integers(1, 5)),
        )
        for i in range(jobs)
    ]
    comp = random.integers(10_000_000, 200_000_000, size=(jobs, 4))
    costs = CostTable(
        comp_ns_JT=comp, sync_ns_JT=comp // 4, fits_JT=np.ones((jobs, 4), dtype=np.bool_)
    )
    return Run(name="bench", cluster=cluster, workload=Workload(jobs=tuple(made))), costs


def simulate(run: Run, costs: CostTable, place: str) -> None:
    """One whole simulation; the journal goes nowhere."""
    options = {"budget": 0} if place == "hare" else {}
    policy = place_policy(place, options)
    port = SimPort(run, costs)
    Core(run=run, costs=costs, policy=policy, port=port, sink=len, world="sim").execute()


def warren_help() -> None:
    """The command's start."""
    subprocess.run(
        [sys.executable, "-m", "warren", "--help"], stdout=subprocess.DEVNULL, check=True
    )


if __name__ == "__main__":
    main()
