"""The section of the evidence page on tiny instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _evidence_live import table


def tiny(result: Mapping[str, Any]) -> str:
    """Bounds, policies and Theorem 4 against the optimum."""
    rows = [
        [name, f"{one['mean']:.3f}", f"{one['mean_hard']:.3f}", f"{one['worst']:.2f}",
         one["optimal"]]
        for name, one in result["policies"].items()
    ]  # fmt: skip
    head = ["policy", "mean", "mean of the hard ones", "worst", "optimal"]
    weighted, makespan = result["bound"]["weighted_jct"], result["bound"]["makespan"]
    theorem, example = result["theorem_4"], result["counterexample"]
    fails = "; ".join(result["broken"]) or "nothing"
    return (
        "## Tiny instances: bound, optimum, policy\n\n"
        f"{result['instances']} random instances of up to 3 GPUs, 3 jobs and 8 tasks, "
        f"{result['hard']} of them hard: the best order of jobs, dispatched greedily, is at least "
        "5 % above the optimum, which an exhaustive search finds. Weighted JCT over the "
        "optimum's:\n\n"
        + table(head, rows)
        + f"\n\nThe bound on the weighted JCT is {weighted['mean']:.3f} of the optimum on average, "
        f"{weighted['least']:.3f} at least and never above it; on the makespan "
        f"{makespan['mean']:.3f} and {makespan['least']:.3f}.\n\n"
        "Theorem 4 of the Hare paper bounds the sum of w C by alpha (2 + alpha) times the optimum. "
        f"The counterexample for (9) as printed has alpha 1, so at most 3: the ratio is "
        f"{example['as printed']:.2f}; with (9) for every subset {example['every subset']:.2f}. "
        "The random instances come to at most "
        f"{theorem['as printed']['worst_of_theorem']:.2f} and "
        f"{theorem['every subset']['worst_of_theorem']:.2f} of what the theorem allows "
        f"(relaxation solved over all assignments in {theorem['as printed']['exhaustive']} and "
        f"{theorem['every subset']['exhaustive']} of them).\n\nOf what should hold, this does "
        f"not: {fails}."
    )
