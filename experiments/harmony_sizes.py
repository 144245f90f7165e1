"""Fig. 4.14 of Harmony: machines of a group (its DoP) and jobs in a group, by what jobs compute.

The workloads and the model are those of ``harmony_simulated.py``: all 80 jobs, the 60 with most
COMP for their COMM, and the 60 with least. Each decision of a whole run counts, with every group
that it leaves: the paper's figure is of the grouping decisions, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from typing import Final

import _common
import numpy as np
from _harmony_groups import (
    EndedMember,
    Jobs,
    Rule,
    RunningGroups,
    State,
    harmony,
    simulate,
    weighed,
)
from harmony_simulated import MEMORY, PAUSE_S, SEEDS, drawn, some

RULES: Final[Mapping[str, Rule]] = {
    "harmony-published": harmony(),
    "weighed speed (ours)": weighed,
}
AT_ONCE: Final = 4
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)


def main() -> None:
    """Simulate each workload under each rule, and save."""
    base = [drawn(seed, MEMORY) for seed in SEEDS]
    workloads = {
        "all": base,
        "60 with most COMP": [some(jobs, most=True) for jobs in base],
        "60 with least COMP": [some(jobs, most=False) for jobs in base],
    }
    rows = []
    for rule in RULES:
        with ProcessPoolExecutor(AT_ONCE) as pool:
            every = [one for workload in workloads.values() for one in workload]
            found = iter(list(pool.map(groups_of, every, [rule] * len(every))))
        for name, workload in workloads.items():
            some_ = list(islice(found, len(workload)))
            machines, members = (list(chain(*(one[at] for one in some_))) for at in (0, 1))
            rows.append({
                "variant": name, "rule": rule, "groups": len(machines),
                "machines": spread(machines), "jobs": spread(members),
            })  # fmt: skip
            print(rows[-1], flush=True)
        _common.save("harmony_sizes", SEEDS[0], {"seeds": list(SEEDS), "rows": rows})


def groups_of(jobs: Jobs, rule: str) -> tuple[list[int], list[int]]:
    """Machines and jobs of all groups that the decisions of a run leave."""
    machines, members = list[int](), list[int]()
    simulate(jobs, noting(RULES[rule], machines, members), PAUSE_S)
    print(rule, len(machines), flush=True)
    return machines, members


def noting(choose: Rule, machines: list[int], jobs: list[int]) -> Rule:
    """The same rule, which notes the groups of each of its decisions."""

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        found = choose(state, came, ended)
        for group, count in enumerate(found.machine_G.tolist()):
            members = int((found.group_J == group).sum())
            if members:
                machines.append(count)
                jobs.append(members)
        return found

    return rule


def spread(values: list[int]) -> dict[str, float]:
    """Mean and quantiles of some numbers."""
    found = {f"{100 * at:.0f}": float(np.quantile(values, at)) for at in QUANTILES}
    return {"mean": float(np.mean(values)), **found}


if __name__ == "__main__":
    main()
