"""Harmony on a testbed: six jobs alone or in groups, and what a group's iteration takes.

Three hosts with half a core each and links of 20 Mbit, real computation: mlr, nmf, lda and nets, a
large and a small one of some, six tasks a round. Quotas, links, tasks and blocks of the models were
chosen while looking at rounds of mlr, nmf, lda and a net, alone and together, and at two runs of
the policies with half the computation a task: there ``harmony, least 2`` had 1.08 times the JCT and
1.16 times the makespan of ``isolated, least 2`` (links of 20 Mbit), and 0.99 and 1.14 (40 Mbit).

Part ``policies``: each policy has the six jobs from time 0. ``least 2``: as if a job's data needed
the memory of two of the three hosts, the most, and stayed there. ``naive``: each job computes on
its own, beside others: all on all hosts; a drawn choice of a pair a host, and one of three jobs on
two hosts and three on one.

Part ``groups``: eight drawn pairs and four triples, on the three hosts. What the model says of them
comes from the jobs alone: COMP of a task, and COMM by formula plus what a round took beyond it
(T_cpu and T_net of the paper's profile), of the first policy's run.

Needs the rights of a testbed and cgroups with a quota.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any, Final

import _common
import _harmony_live as live
from _harmony_live import HOSTS, JOBS, Used, described, groups_of, predicted, settled_round_s
from _rights import cannot, no_quota
from _testbeds import played

from warren.core.journal_reader import History
from warren.model.units import NS_PER_S
from warren.solve.job_groups.iteration import Limit

SEED: Final = 1
GUESS: Final = {
    "mlr": 0.9, "mlr-small": 0.15, "nmf": 1.1, "lda": 0.35, "net": 0.8, "net-small": 0.14,
}  # fmt: skip
"""Of a task's time, until one was measured."""
NAMES: Final = tuple(JOBS)
SHARED: Final = {"joint": "harmony", "flow": "turns"}
POLICIES: Final[tuple[tuple[str, dict[str, str], dict[str, Any]], ...]] = (
    ("isolated, least 2", {"joint": "isolated"}, {"least": 2}),
    ("isolated", {"joint": "isolated"}, {}),
    ("harmony-published", {"joint": "harmony-published", "flow": "turns"}, {}),
    ("harmony, least 2", SHARED, {"least": 2}),
    ("harmony", SHARED, {}),
)
NAIVE: Final = {"place": "naive", "group": "fixed", "shape": "fixed"}
"""Jobs state where their servers are: on the hosts of their group."""
LIMITS: Final[dict[Limit, str]] = {"cpu": "CPU", "network": "network", "job": "job"}
PARTS: Final = ("policies", "naive", "groups")
ROUNDS: Final = 8
"""Of jobs in part ``groups``."""
PAIRS: Final = 8
TRIPLES: Final = 4


def main() -> None:
    """Make a part, or all that are not there yet, and save."""
    if why := cannot("ip") or no_quota():
        print(f"skipped: {why}")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS)
    parts, asked = _common.earlier("harmony_live"), parser.parse_args()
    for part in asked.part or [one for one in PARTS if one not in parts]:
        profile = parts.get("policies", {}).get("profile", {})
        made = {"policies": _policies, "naive": _naive, "groups": _groups}[part](profile)
        parts |= {part: {"made_by": _common.made_by(), "seed": SEED, **made}}
        _common.save("harmony_live", SEED, {"parts": parts})


def _policies(_: Mapping[str, Any]) -> dict[str, Any]:
    """A row a policy; and the profile of each job alone."""
    rows: list[dict[str, Any]] = []
    task_s: Mapping[str, float] = GUESS
    profile: dict[str, Any] = {}
    with live.testbed() as share:
        for name, scheduler, options in POLICIES:
            history, row = _row(name, described(scheduler, options, task_s, share), share)
            rows.append(row)
            if not profile:
                profile = _profile(history, share)
                task_s = profile["task_s"]
    return {"rows": rows, "profile": profile, "share": share}


def _naive(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A row a naive choice."""
    rows = []
    with live.testbed() as share:
        for name, groups in naive_choices().items():
            run = described(
                NAIVE, {"group": {"groups": groups}}, profile["task_s"], share, len(NAMES)
            )
            _serve_where_they_work(run, groups)
            rows.append(_row(name, run, share)[1])
    return {"rows": rows, "share": share}


def _serve_where_they_work(
    run: dict[str, Any], groups: Sequence[Mapping[str, Sequence[str]]]
) -> None:
    """Let each job have a server on each host of its group."""
    hosts = {job: list(group["hosts"]) for group in groups for job in group["jobs"]}
    for job in run["workload"]["jobs"]:
        job["servers"] = {"hosts": hosts[job["name"]]}


def naive_choices() -> dict[str, list[dict[str, list[str]]]]:
    """Which jobs share which hosts without anybody arranging their steps."""
    found = {"naive, all": [{"jobs": list(NAMES), "hosts": list(HOSTS)}]}
    order = Random(1).sample(NAMES, len(NAMES))
    found["naive, pairs"] = [
        {"jobs": order[2 * at : 2 * at + 2], "hosts": [host]} for at, host in enumerate(HOSTS)
    ]
    order = Random(3).sample(NAMES, len(NAMES))
    found["naive, threes"] = [
        {"jobs": order[:3], "hosts": list(HOSTS[:2])},
        {"jobs": order[3:], "hosts": list(HOSTS[2:])},
    ]
    return found


def _row(name: str, run: dict[str, Any], share: float) -> tuple[History, dict[str, Any]]:
    """What a run took, live and in virtual time."""
    used = Used()
    history, summary = played(run, during=used)
    row: dict[str, Any] = {
        "policy": name, "jct_s": summary["mean_jct_s"], "makespan_s": summary["makespan_s"],
        **used.over(summary["makespan_s"]),
        "sha256": [history.saved[job].sha256 for job in range(len(NAMES))],
        "groups": [
            {
                "jobs": [NAMES[job] for job in one.group.jobs], "hosts": len(one.group.hosts),
                "begin_s": one.begin_ns / NS_PER_S, "end_s": one.end_ns / NS_PER_S,
            }
            for one in groups_of(history).answered()
        ],
    }  # fmt: skip
    _, guessed = played(run, live=False)
    row |= {"simulated_jct_s": guessed["mean_jct_s"], "simulated_s": guessed["makespan_s"]}
    print({key: cell for key, cell in row.items() if key not in ("sha256", "groups")}, flush=True)
    return history, row


def _profile(history: History, share: float) -> dict[str, Any]:
    """COMP of a task of each job alone, and what its round took beyond the model."""
    task_s, told = live.tasks_s(history, NAMES), groups_of(history)
    late_s, round_s = {}, {}
    for one in told.answered():
        (job,) = one.group.jobs
        round_s[NAMES[job]] = settled_round_s(told, job, one.begin_ns, one.end_ns)
        model_s = predicted([NAMES[job]], len(one.group.hosts), task_s, share).iteration_s
        late_s[NAMES[job]] = max(0.0, round_s[NAMES[job]] - model_s)
    return {"task_s": task_s, "late_s": late_s, "round_s": round_s}


def _groups(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A row a group: what an iteration took, and what was said of it."""
    pairs = Random(4).sample(list(combinations(NAMES, 2)), PAIRS)
    triples = Random(4).sample(list(combinations(NAMES, 3)), TRIPLES)
    rows = []
    with live.testbed() as share:
        for names in (*pairs, *triples):
            rows.append(_group(names, profile, share))
            print(rows[-1], flush=True)
    return {"rows": rows, "share": share}


def _group(names: Sequence[str], profile: Mapping[str, Any], share: float) -> dict[str, Any]:
    run = described(SHARED, {"least": len(HOSTS)}, profile["task_s"], share, jobs=names)
    groups = [{"jobs": list(names), "hosts": list(HOSTS)}]
    run |= {"scheduler": {**NAIVE, "flow": "turns"}, "policy": {"group": {"groups": groups}}}
    _serve_where_they_work(run, groups)
    for job in run["workload"]["jobs"]:
        job["rounds"] = ROUNDS
    history, _ = played(run)
    found = groups_of(history)
    first = found.answered()[0]
    # While all are there.
    end_ns = int(history.finish_ns_J.min())
    took_s = [settled_round_s(found, job, first.begin_ns, end_ns) for job in first.group.jobs]
    one = predicted(names, len(HOSTS), profile["task_s"], share, profile["late_s"])
    formula = predicted(names, len(HOSTS), profile["task_s"], share)
    task_s = live.tasks_s(history, names)
    told = predicted(names, len(HOSTS), task_s, share, profile["late_s"])
    return {
        "jobs": list(names), "measured_s": max(took_s), "rounds_s": took_s,
        "predicted_s": one.iteration_s, "limit": LIMITS[one.limit],
        "formula_s": formula.iteration_s, "told_s": told.iteration_s, "task_s": task_s,
    }  # fmt: skip


if __name__ == "__main__":
    main()
