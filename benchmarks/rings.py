"""How long rings take to plan: SJF-BCO's own simulations, and a cluster 25 times as large.

160 rings on 20 servers of 4, 8, 16 or 32 GPUs, and 2,000 on 500, drawn as for the figures;
Algorithm 1 in both readings of Algorithm 2, our ``braid``, and the paper's baselines, each schedule
that is tried timed to its last round. Kernels are compiled before.
"""

from __future__ import annotations

from typing import Any, Final

from _ranges import report

from warren.core.loop import Core
from warren.cost.run_rings import with_rings
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.profile.cost_table import cost_table
from warren.runs.choose_policy import TimedPolicy
from warren.sim.build import sim_port
from warren.workload.run_file import run_from_dict

SIZES: Final = ((160, 20), (2000, 500))
PLACES: Final[tuple[tuple[str, str, dict[str, object]], ...]] = (
    ("sjf_bco", "sjf-bco", {}),
    ("sjf_bco_used_servers", "sjf-bco", {"packing": "used-servers"}),
    ("braid", "braid", {}),
    ("first_fit", "first-fit", {}),
    ("list_scheduling", "list-scheduling", {}),
)


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    for _, place, options in PLACES:
        planned_s(drawn(10, 2), place, options)
    figures = {}
    for jobs, servers in SIZES:
        run = drawn(jobs, servers)
        for name, place, options in PLACES:
            figures[f"{name}_{jobs}_rings_s"] = planned_s(run, place, options)
    report(figures)


def planned_s(run: Run, place: str, options: dict[str, object]) -> float:
    """Seconds that the plan takes."""
    costs, policy = with_rings(run, cost_table(run)), TimedPolicy(place_policy(place, options))
    port, sink = sim_port(run, costs), bytearray()
    Core(run=run, costs=costs, policy=policy, port=port, sink=sink.extend, world="sim").begin()
    return policy.decide_s


def drawn(jobs: int, servers: int) -> Run:
    """A run of the paper's mix."""
    data: dict[str, Any] = {
        "cluster": {
            "hosts": {"generate": "sjf-bco", "servers": servers, "seed": 1},
            "network": {"model": "contention", "xi1": 0.2, "xi2": "15 us", "alpha": 0.2},
        },
        "workload": {"generate": "sjf-bco", "jobs": jobs},
        "seed": 1,
    }
    return run_from_dict(data, ".", lambda path: b"")


if __name__ == "__main__":
    main()
