"""Harmony on a testbed: six jobs alone or in groups, and what a group's iteration takes.

Three hosts with half a core each and links of 20 Mbit, real computation: mlr, nmf, lda and nets, a
large and a small one of some, six tasks a round. Quotas, links, tasks and blocks of the models were
chosen while looking at rounds of mlr, nmf, lda and a net, alone and together, and at two runs of
the policies with half the computation a task: there ``harmony, least 2`` had 1.08 times the JCT and
1.16 times the makespan of ``isolated, least 2`` (links of 20 Mbit), and 0.99 and 1.14 (40 Mbit).

Part ``policies``: each policy has the six jobs from time 0. Each knows of each job what a run of it
alone on the three hosts showed: COMP of a task, and what a round took beyond COMP and links, as
T_cpu and T_net of the paper's profile; the latter is the ``step`` of its profile row. ``least 2``:
as if a job's data needed the memory of two of the three hosts, the most, and stayed there; in the
rows that are kept that bound jobs alone and no group. With
``naive`` each job computes on its own, beside others: all on all hosts; a drawn choice of a pair a
host, and one of three jobs on two hosts and three on one. Of these only the first gives each job
the two hosts that ``least 2`` asks for. It and the policies with ``least 2`` are run three times,
in turns, and have the medians: the machine's pace varies.

Part ``drawn``: the policies for two sets of six jobs whose sizes were drawn, once each.

Part ``equal``: equal freedom for all. Every policy may give a job one host, every run is made three
times in turns, and jobs alone go by their lengths, too, as ``harmony`` does. Its sets of jobs are
drawn by ``EQUAL_DRAWS``, seeds that were named here before any of them was run or simulated.

Part ``shortest``: ``isolated, shortest`` in virtual time, by the profiles of the runs of the other
parts; this part needs no rights.

Part ``groups``: all 15 pairs of the six jobs and six drawn triples, on the three hosts, beside what
the model says of them by the profile of each job alone, which is measured before.

Needs the rights of a testbed and cgroups with a quota.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random
from statistics import median
from typing import Any, Final, TypeAlias

import _common
import _harmony_live as live
from _harmony_live import (
    HOSTS,
    JOBS,
    LiveJob,
    Profile,
    Used,
    described,
    drawn_jobs,
    groups_of,
    predicted,
    settled_round_s,
)
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
Policy: TypeAlias = tuple[str, dict[str, str], dict[str, Any]]
Policies: TypeAlias = Sequence[Policy]
SHORTEST: Final[Policy] = (
    "isolated, shortest", {"joint": "isolated"}, {"order": "shortest"},
)  # fmt: skip
POLICIES: Final[Policies] = (
    ("isolated, least 2", {"joint": "isolated"}, {"least": 2}),
    ("isolated", {"joint": "isolated"}, {}),
    SHORTEST,
    ("harmony-published", {"joint": "harmony-published", "flow": "turns"}, {}),
    ("harmony, least 2", SHARED, {"least": 2}),
    ("harmony", SHARED, {}),
)
NAIVE: Final = {"place": "naive", "group": "fixed", "shape": "fixed"}
"""Jobs state where their servers are: on the hosts of their group."""
LIMITS: Final[dict[Limit, str]] = {"cpu": "CPU", "network": "network", "job": "job"}
PARTS: Final = ("policies", "drawn", "groups", "equal", "shortest")
EQUAL_DRAWS: Final = (61, 62, 63)
"""The seeds of the jobs of part ``equal``, none of which was looked at before."""
ROUNDS: Final = 8
"""Of jobs in part ``groups``."""
TRIPLES: Final = 6
TURNS: Final = 3
"""So often each of these rows of part ``policies`` is run."""
REPEATED: Final = ("isolated, least 2", "harmony, least 2", "naive, all")
MEDIANS: Final = ("jct_s", "makespan_s", "cpu_used", "link_used")
DRAWS: Final = (7, 8)
"""The seeds of the jobs of part ``drawn``; those of 7 were looked at in virtual time."""
SETS: Final[Mapping[str, Sequence[int]]] = {"drawn": DRAWS, "equal": EQUAL_DRAWS}


def main() -> None:
    """Make a part, or all that are not there yet, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument(
        "--draw", action="append", type=int, choices=(*DRAWS, *EQUAL_DRAWS),
        help="of parts drawn and equal; other sets stay",
    )  # fmt: skip
    parts, asked = _common.earlier("harmony_live"), parser.parse_args()
    why = cannot("ip") or no_quota()
    for part in asked.part or [one for one in PARTS if one not in parts]:
        if part == "shortest":
            parts[part] = {"made_by": _common.made_by(), "rows": _shortest(parts)}
            _common.save("harmony_live", SEED, {"parts": parts})
            continue
        if why:
            print(f"part {part} skipped: {why}")
            continue
        told = parts.get("policies", {}).get("profile", {"task_s": GUESS, "late_s": {}})
        profile = Profile(told["task_s"], told["late_s"])
        with live.testbed() as share:
            if part in SETS:
                sets = {one["draw"]: one for one in parts.get(part, {"sets": []})["sets"]}
                for draw in [one for one in asked.draw or SETS[part] if one in SETS[part]]:
                    sets[draw] = {"draw": draw, **_made(share), **_drawn(draw, part, share)}
                    parts[part] = {"sets": [sets[one] for one in sorted(sets)]}
                    _common.save("harmony_live", SEED, {"parts": parts})
            else:
                made = {"policies": _policies, "groups": _groups}[part](profile, share)
                parts[part] = _made(share) | made
        _common.save("harmony_live", SEED, {"parts": parts})


def _made(share: float) -> dict[str, Any]:
    return {"made_by": _common.made_by(), "seed": SEED, "share": share}


def _policies(_: Profile, share: float) -> dict[str, Any]:
    profile = _alone(JOBS, GUESS, share)
    runs = _described(JOBS, POLICIES, profile, share) | _naive(profile, share)
    return _told(profile, _rows(runs, REPEATED))


def _drawn(draw: int, part: str, share: float) -> dict[str, Any]:
    if part == "equal":
        some = [one for one in POLICIES if "least" not in one[2]]
    else:
        some = [one for one in POLICIES if one[0] != "harmony-published"]
    jobs = drawn_jobs(draw)
    told = {name: {"batch": job.batch, "rounds": job.rounds, "model_bytes": job.model_bytes}
            for name, job in jobs.items()}  # fmt: skip
    profile = _alone(jobs, dict.fromkeys(jobs, 0.5), share)
    repeated = [name for name, *_ in some] if part == "equal" else []
    return {"jobs": told, **_told(profile, _rows(_described(jobs, some, profile, share), repeated))}


def _shortest(parts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row a set of jobs that was run: *isolated, shortest* in virtual time."""
    name, scheduler, options = SHORTEST
    sets = [("policies", JOBS, parts["policies"])]
    sets += [(str(one["draw"]), drawn_jobs(one["draw"]), one) for one in parts["drawn"]["sets"]]
    rows = []
    for which, jobs, part in sets:
        profile = Profile(part["profile"]["task_s"], part["profile"]["late_s"])
        _, told = played(described(scheduler, options, profile, part["share"], jobs), live=False)
        rows.append({
            "set": which, "policy": name, "simulated_jct_s": told["mean_jct_s"],
            "simulated_s": told["makespan_s"],
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def _alone(jobs: Mapping[str, LiveJob], guess: Mapping[str, float], share: float) -> Profile:
    """What a run of each job alone on all hosts shows."""
    run = described({"joint": "isolated"}, {"least": len(HOSTS)}, Profile(guess), share, jobs)
    profile = _profile(played(run)[0], jobs, share)
    print(profile, flush=True)
    return profile


def _described(
    jobs: Mapping[str, LiveJob], policies: Policies, profile: Profile, share: float
) -> dict[str, dict[str, Any]]:
    """A run a policy."""
    return {
        name: described(scheduler, options, profile, share, jobs)
        for name, scheduler, options in policies
    }


def _naive(profile: Profile, share: float) -> dict[str, dict[str, Any]]:
    """A run a naive choice."""
    runs = {}
    for name, groups in naive_choices().items():
        run = described(NAIVE, {"group": {"groups": groups}}, profile, share, JOBS, len(JOBS))
        _serve_where_they_work(run, groups)
        runs[name] = run
    return runs


def _told(profile: Profile, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {"task_s": profile.task_s, "late_s": profile.late_s}
    return {"profile": found, "rows": list(rows)}


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


def _rows(runs: Mapping[str, dict[str, Any]], repeated: Sequence[str]) -> list[dict[str, Any]]:
    """What runs took: live, some of them in turns, and in virtual time; a row a run."""
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for turn in range(TURNS):
        for name in repeated if turn else runs:
            samples[name].append(_sample(runs[name]))
            told = {key: cell for key, cell in samples[name][-1].items() if key in MEDIANS}
            print(name, told, flush=True)
    rows = []
    for name, run in runs.items():
        _, guessed = played(run, live=False)
        middle = {key: median(one[key] for one in samples[name]) for key in MEDIANS}
        virtual = {"simulated_jct_s": guessed["mean_jct_s"], "simulated_s": guessed["makespan_s"]}
        rows.append({"policy": name, **middle, **virtual, "samples": samples[name]})
    return rows


def _sample(run: dict[str, Any]) -> dict[str, Any]:
    """What a run took live."""
    used, names = Used(), [job["name"] for job in run["workload"]["jobs"]]
    history, summary = played(run, during=used)
    return {
        "jct_s": summary["mean_jct_s"], "makespan_s": summary["makespan_s"],
        **used.over(summary["makespan_s"]),
        "sha256": [history.saved[job].sha256 for job in range(len(names))],
        "groups": [
            {
                "jobs": [names[job] for job in one.group.jobs], "hosts": len(one.group.hosts),
                "begin_s": one.begin_ns / NS_PER_S, "end_s": one.end_ns / NS_PER_S,
            }
            for one in groups_of(history).answered()
        ],
    }  # fmt: skip


def _profile(history: History, jobs: Mapping[str, LiveJob], share: float) -> Profile:
    """COMP of a task of each job alone, and what its round took beyond the model."""
    names, told = list(jobs), groups_of(history)
    task_s, late_s = live.tasks_s(history, names), {}
    for one in told.answered():
        (job,) = one.group.jobs
        name, hosts = names[job], len(one.group.hosts)
        round_s = settled_round_s(told, job, one.begin_ns, one.end_ns)
        model = predicted({name: jobs[name]}, hosts, Profile(task_s), share)
        late_s[name] = max(0.0, round_s - model.iteration_s)
    return Profile(task_s, late_s)


def _groups(profile: Profile, share: float) -> dict[str, Any]:
    """A row a group: what an iteration took, and what was said of it."""
    profile = _alone(JOBS, profile.task_s, share)
    pairs = list(combinations(JOBS, 2))
    triples = Random(4).sample(list(combinations(JOBS, 3)), TRIPLES)
    rows = []
    for names in (*pairs, *triples):
        rows.append(_group({name: JOBS[name] for name in names}, profile, share))
        print(rows[-1], flush=True)
    return _told(profile, rows)


def _group(jobs: Mapping[str, LiveJob], profile: Profile, share: float) -> dict[str, Any]:
    run = described(SHARED, {"least": len(HOSTS)}, profile, share, jobs)
    groups = [{"jobs": list(jobs), "hosts": list(HOSTS)}]
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
    task_s = live.tasks_s(history, list(jobs))
    one, formula, told = (
        predicted(jobs, len(HOSTS), known, share)
        for known in (profile, Profile(profile.task_s), Profile(task_s, profile.late_s))
    )
    return {
        "jobs": list(jobs), "measured_s": max(took_s), "rounds_s": took_s,
        "predicted_s": one.iteration_s, "limit": LIMITS[one.limit],
        "formula_s": formula.iteration_s, "told_s": told.iteration_s, "task_s": task_s,
    }  # fmt: skip


if __name__ == "__main__":
    main()
