"""What the page of Harmony says of the parts that its simulated gain consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from _evidence_live import table
from _harmony_claims import GROUPS, ISOLATED_CPU_PCT, JOBS, OURS, PRINTED, by_order, spread
from harmony_simulated import FRESH, NEAR

RELIEF: Final = "isolated, data read again"
BLIND: Final = "weighed speed, no lengths (ours)"
FAIR: Final = """### What the gain consists of

`experiments/harmony_simulated.py --part fair`, commit {commit}: the same kind of run. *data read
again*: at no cost, for jobs alone as for groups. *by weighed speed*: machines go where the weighed
speed of all gains most, and no two jobs share one; it knows all lengths, as *weighed speed* does.
*no lengths*: no job counts more for having less left. Algorithm 1 is as printed; the paper names no
order of J, and each of these orders needs no more than what is profiled. *all*: the workloads of
above; *fresh*: seeds {fresh}, not looked at before.

{rows}

By the order of J alone Algorithm 1 has {order_jct} times the JCT and {order_makespan} times the
makespan. Of the makespan that *weighed speed* gains ({ours_makespan:.2f}), *isolated* has
{relief_makespan:.2f} once it may read data again as well. By the model sharing itself gains, over
jobs alone with that relief (with lengths known the better of both such rows for each figure,
without them *isolated, data read again*):

- *all*: {all};
- *fresh*: {fresh_gains}.

### How far the workload is from the paper's

The paper prints four numbers of its run. Memory was chosen by the first alone. *near*: seeds
{near}, COMP over COMM log-normal with mu -0.5 and sigma 0.5, memory 2, chosen on other seeds to
have nearer numbers of jobs and groups.

{distance}

"""


def fair_text(parts: Mapping[str, Any]) -> str:
    """What the page says of the parts that a gain consists of."""
    part = parts["fair"]
    rows = part["rows"]
    of = {(row["variant"], row["rule"]): row for row in rows}
    ours, relief = of["all", OURS], of["all", RELIEF]
    ranges = by_order(rows)
    return FAIR.format(
        commit=part["made_by"]["commit"], fresh=f"{FRESH[0]} to {FRESH[-1]}",
        near=f"{NEAR[0]} to {NEAR[-1]}",
        rows=table(
            ["workload", "algorithm", "JCT, times", "least", "makespan, times", "least"],
            [
                [row["variant"], row["rule"], *(
                    f"{row[key]:.2f}"
                    for key in ("jct_times", "jct_least", "makespan_times", "makespan_least")
                )]
                for row in rows
            ],
        ),
        order_jct=spread(ranges, "jct_times"), order_makespan=spread(ranges, "makespan_times"),
        ours_makespan=ours["makespan_times"], relief_makespan=relief["makespan_times"],
        all=_shared(of, "all"), fresh_gains=_shared(of, "fresh"),
        distance=_distance(parts),
    )  # fmt: skip


def _shared(of: Mapping[tuple[str, str], Mapping[str, Any]], variant: str) -> str:
    """What sharing gains in a set of workloads over jobs alone with the same relief of memory."""
    keys = ("jct_times", "makespan_times")
    alone = [of[variant, name] for name in (RELIEF, "isolated, by weighed speed, data read again")]
    known = [of[variant, OURS][key] / max(row[key] for row in alone) for key in keys]
    blind = [of[variant, BLIND][key] / of[variant, RELIEF][key] for key in keys]
    told = [" and ".join(f"{one:.2f}" for one in pair) for pair in (known, blind)]
    return f"{told[0]} times JCT and makespan with lengths known, {told[1]} without"


def _distance(parts: Mapping[str, Any]) -> str:
    """The four published numbers of a run, beside those of workloads of ours."""
    lines = [[
        "paper", f"{ISOLATED_CPU_PCT:.1f} %", "93.2 %", "83.1 %", f"{JOBS}", f"{GROUPS}",
    ]]  # fmt: skip
    of = {(row["variant"], row["rule"]): row for row in parts["fair"]["rows"]}
    for variant in ("all", "near"):
        alone = of[variant, "isolated"]
        for rule in (PRINTED, "Alg. 1, shortest iteration first"):
            row = of[variant, rule]
            lines.append([
                f"{variant}, {rule}", f"{100 * alone['cpu']:.1f} %", f"{100 * row['cpu']:.1f} %",
                f"{100 * row['net']:.1f} %", f"{row['jobs']:.1f}", f"{row['groups']:.1f}",
            ])  # fmt: skip
    return table(["workload", "CPU, isolated", "CPU", "network", "jobs that run", "groups"], lines)
