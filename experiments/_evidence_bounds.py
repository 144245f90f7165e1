"""The sections of the evidence page on bounds and on tiny instances."""

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
        + "\n\n"
        + _medium(result["medium"])
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


def _medium(found: Mapping[str, Mapping[str, float]]) -> str:
    """Instances too large to be solved, against the bound and the best that is known."""
    rows = [
        [name, f"{one['mean_of_bound']:.3f}", f"{one['worst_of_bound']:.3f}",
         f"{one['mean_of_best']:.3f}", f"{one['worst_of_best']:.3f}"]
        for name, one in found.items()
        if name != "instances"
    ]  # fmt: skip
    head = ["policy", "over the bound, mean", "worst", "over the best known, mean", "worst"]
    return (
        f"{found['instances']['count']} instances of 2 to 6 GPUs, 3 to 8 jobs and 25 to 60 tasks. "
        "Their optimum is not known: it lies between the bound and the best that is known, which "
        "`hare` finds with thirty times its budget.\n\n" + table(head, rows)
    )


def bounds(result: Mapping[str, Any]) -> str:
    """What the bound by prices adds, and how loose it can be."""
    rows = [
        [_load(one["load"]), one["seed"], one["tasks"], f"{one['before_s']:.0f}",
         f"{one['prices_s']:.0f}", f"{one['gain_pct']:.1f} %", f"{one['divided_s']:.0f}",
         f"{one['divided_pct']:.1f} %"]
        for one in result["rows"]
    ]  # fmt: skip
    means = [
        [_load(one["load"]), "mean", "", "", "", f"{one['gain_pct']:.1f} %", "",
         f"{one['divided_pct']:.1f} %"]
        for one in result["means"]
    ]  # fmt: skip
    head = ["load", "seed", "tasks", "paths and busy time, s", "prices, s", "more", "divided, s",
            "above prices"]  # fmt: skip
    return (
        "## The bound by prices\n\nhare-mix, 200 jobs, 160 devices of four types. A divided "
        "schedule divides devices in time freely; no task is whole. The best one lies between "
        "the bound and the one here, so the bound is looser than the last column only by what "
        "whole tasks and barriers cost at least.\n\n" + table(head, [*rows, *means])
    )


def _load(load: float | None) -> str:
    return "all at 0" if load is None else f"{load:g}"
