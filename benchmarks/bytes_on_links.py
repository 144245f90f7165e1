"""What it costs to have every byte on a link: 200 jobs on 160 devices, event by event.

Hare's mix, one job in three of more than one task a round a ring, at grain 1 under ``fifo``: the
same run under ``network: constant``, where T^s never waits, and under ``fluid``. Processor time;
the journal goes nowhere. Under ``fluid`` tasks of a round end apart, so the core has more steps to
take; the rest is rates, flows and transfers.
"""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import Any

from _ranges import median_s, report

from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.profile.cost_table import cost_table
from warren.profile.published import TABLE
from warren.sim.build import sim_port, simulated_costs
from warren.store.files import read
from warren.workload.run_file import run_from_dict


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    times_s = {}
    for model in ("constant", "fluid"):
        run, costs = world(model)
        times_s[model] = median_s(lambda run=run, costs=costs: simulate(run, costs), process_time)
        tasks = sum(job.scale * (job.rounds or 0) for job in run.workload.jobs)
        print(f"{model}: {tasks} tasks, {tasks / times_s[model]:.0f} a second")
    report({"fluid_over_constant": times_s["fluid"] / times_s["constant"]})


def world(model: str) -> tuple[Run, CostTable]:
    """200 jobs on four types; a tenth of Hare's rounds."""
    data: dict[str, Any] = {
        "cluster": {"hosts": {"generate": "hare", "devices": 160}, "network": {"model": model}},
        "workload": {"generate": "hare-mix", "jobs": 200, "load": 1, "rounds_factor": 0.1},
        "scheduler": {"place": "fifo"},
        "seed": 1,
    }
    run = run_from_dict(data, "bench", read, rows=TABLE)
    jobs = tuple(
        replace(job, sync="ring") if job.index % 3 == 0 and job.scale > 1 else job
        for job in run.workload.jobs
    )
    run = replace(run, workload=replace(run.workload, jobs=jobs))
    return run, simulated_costs(run, cost_table(run))


def simulate(run: Run, costs: CostTable) -> None:
    """One whole simulation."""
    policy, port = place_policy("fifo"), sim_port(run, costs)
    Core(run=run, costs=costs, policy=policy, port=port, sink=len, world="sim").execute()


if __name__ == "__main__":
    main()
