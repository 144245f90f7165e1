"""What the page of Harmony says of jobs on a testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from _evidence_live import table
from _harmony_live import LINK_BPS

BASE: Final = "isolated, least 2"
FAIR: Final = "naive, all"
NAIVE: Final = (FAIR, "naive, pairs", "naive, threes")
COLUMNS: Final = [
    "policy", "JCT", "makespan", "CPU", "links", "simulated JCT", "makespan", "groups",
]  # fmt: skip
POLICIES: Final = """## Six jobs on a testbed

`experiments/harmony_live.py --part policies`, {machine}, commit {commit}: mlr, nmf, lda and nets of
about 1 MB, a large and a small mlr and net, six tasks a round, on three hosts with half a core and
a link of 20 Mbit each; all are there at time 0. What is compared below, *least 2* and *naive, all*,
was run {turns} times, in turns: medians, and in brackets least and most; the rest once. *least 2*:
as if a job's data needed the memory of two of the three hosts and stayed in memory, so jobs that do
not share are alone. *isolated*: as if data did not bind: a job may have a host alone, and sends
nothing then. *harmony*: ours, with `flow: turns` (who began to send first goes first, which is the
paper's primary and secondary COMM). *harmony-published*: Algorithm 1 as printed, 4.3.2's
regrouping, turns. *naive*: each job computes beside others on a device of its own; three of many
choices, drawn but for the first, which alone gives each job two hosts. *CPU*, *links*: parts of the
hosts' processors and of what their links can send in the last makespan of a run. Policies know of
each job what a run of it alone on the three hosts showed: COMP of a task, and what a round took
beyond COMP and links ({late}), which its profile states as `step`.

How much a task computes was chosen after two runs with half of it: there *harmony, least 2* had
1.08 and 1.16 times the JCT and makespan of *isolated, least 2* (links of 20 Mbit, the experiment as
it was at commit 40222c49), and 0.99 and 1.14 (40 Mbit, 87ea4b0f). With the tasks of now it had 1.16
and 1.33 (4c6f818fcbcc), where policies knew no `step` and lda's model was stated as 1.15 MB, which
is 2.8. With both right it had 1.12 and 1.35 (e7a737b0), and 0.91 and 1.15 where what a group's
iteration took beyond the model was learned as COMM (d04ccf65); mlr was let into the first group
then. Where executors and servers no longer woke up for every 3 kB that came, it had 1.11 and 1.32
(commit 5e09529b). In all of these the first two tasks of each job on a device were computed again,
which holds the device. In those below none is (`verify: 0`). With that it had 1.18 and 1.40
(8a5ae91b860d); then a job's step was left out where it has one host, and groups were compared by
when all jobs would end (`foreseen`): 1.20 and 1.39 (087c78be). All of these were told that links
carry 20 Mbit; of payload it is {payload:.1f} where all send and receive (headers and
acknowledgements), which those below are told; hosts hand their links four frames at once, and not
one: 1.16 and 1.36 as medians of three turns, and 0.92 times the makespan of *naive, all*
(c2e79f2d). Two such runs were broken off after a first turn: 1.16 and 1.34 with one frame
(4447f7a2), 1.15 and 1.36 with four (62f6fa64). None of these runs is kept. Later one with three
times the rounds a job (part `longer` of commit d45f086d) was broken off after its first turn of 15
minutes: there *harmony, least 2* had 1.19 and 1.37, and 1.15 and 0.86 times JCT and
makespan of *naive, all*. All of these used the congestion control of the machine, which was BBR
where it was looked at; since 86125ab1 hosts of a testbed use Reno
([0022](../decisions/0022-testbeds-of-namespaces.md)), as those below.

{rows}

Over *isolated, least 2*, which is the paper's comparison (its isolated jobs need machines that hold
their data), *harmony, least 2* has {jct_2:.2f} times the JCT and {makespan_2:.2f} times the
makespan (paper, at 100 machines: 2.11 and 1.60). *harmony*, whose groups may be of one host as if
data that do not fit were read from disk at no cost, has {jct:.2f} and {makespan:.2f}; *isolated*
with the same freedom {free_jct:.2f} and {free_makespan:.2f}: jobs alone on a host send nothing.
*naive, all*, the naive choice with two hosts a job, has {fair_jct:.2f} and {fair_makespan:.2f}: of
the two, *harmony, least 2* has {over_jct:.2f} times its JCT and {over_makespan:.2f} times its
makespan. The best of all three has {naive_jct:.2f} and {naive_makespan:.2f}, all in the mean
{naive_mean_jct:.2f} and {naive_mean_makespan:.2f}, the worst {naive_worst_jct:.2f} and
{naive_worst_makespan:.2f}. Each job ended with the same parameters, by SHA-256, in {same} of {runs}
runs.

The simulation of the same file, which is told the same times, has {worlds} of the live makespan. It
has no work of a host for its links and servers, which here shares half a core with COMP.
"""
DRAWN: Final = """### Jobs that were drawn

`experiments/harmony_live.py --part drawn`: six jobs of mlr, nmf, lda, lasso and nets, whose COMP,
models and rounds were drawn, one run of each policy. The jobs of seed 7 were run before `foreseen`
(8a5ae91b860d: *harmony, least 2* 1.07 and 1.30, *harmony* 1.94 and 1.75, *isolated* 1.99 and 2.20)
and looked at in virtual time while it was made; those of seed 8 were not looked at. Before Reno,
*harmony, least 2* had 1.06 and 1.20 with seed 7, 1.51 and 1.39 with seed 8 (087c78be, 7ec0f68c).
"""
DRAWN_SET: Final = """Seed {draw}, commit {commit}, told that links carry {payload:.1f} Mbit:

{rows}

Over *isolated, least 2*, *harmony, least 2* has {jct_2:.2f} times the JCT and {makespan_2:.2f}
times the makespan, *harmony* {jct:.2f} and {makespan:.2f}, *isolated* {free_jct:.2f} and
{free_makespan:.2f}. Each job ended with the same parameters in {same} of {runs} runs.
"""
GROUPS: Final = """## What a group's iteration takes

`experiments/harmony_live.py --part groups`, commit {commit}: all pairs and six triples of the six
jobs, on the same three hosts, with turns. *Measured*: the longest mean round of the jobs
while all are there, the first rounds left out. *Model*: (4.1) for rounds of tasks, with each job's
COMP from its run alone, and for COMM the formula plus what its round alone took longer than that;
so T_cpu and T_net are profiled, the groups are not looked at. *By formula*: without what rounds
alone took longer.
*Told*: the model with the COMP that tasks had in the group itself, as the paper's moving averages
have it once a group runs.

{rows}

Over {count} groups the model is {error:.1f} % off in the mean, at most {worst:.1f} %; by formula
{formula:.1f} %; told {told:.1f} %, at most {told_worst:.1f} %. The paper has below 5 %. Before
Reno it was 10.3 % off in the mean and 31.8 % at most (8e34708c): there jobs of a group lost turns.
A first run of this part the same day, while other work was on the machine, had 5.6 %, told 3.7 %.
"""


def live_text(parts: Mapping[str, Any]) -> str:
    """The sections of what was run live."""
    found = _policies(parts["policies"])
    if "drawn" in parts:
        found += "\n" + _drawn(parts["drawn"])
    return found + ("\n" + _groups(parts["groups"]) if "groups" in parts else "")


def _policies(part: Mapping[str, Any]) -> str:
    every = part["rows"]
    times = _times_over(every)
    told = _told(times)
    jct, makespan = (
        sorted(one)
        for one in zip(*(of for name, of in times.items() if name in NAIVE), strict=True)
    )
    worlds = [row["simulated_s"] / row["makespan_s"] for row in every if row["policy"] not in NAIVE]
    return POLICIES.format(
        machine=part["made_by"]["processor"], commit=part["made_by"]["commit"],
        turns=len(every[0]["samples"]),
        payload=LINK_BPS * part["share"] / 1e6, rows=table(COLUMNS, [_row(row) for row in every]),
        **told, naive_jct=jct[-1], naive_makespan=makespan[-1], naive_mean_jct=fmean(jct),
        naive_mean_makespan=fmean(makespan), naive_worst_jct=jct[0],
        naive_worst_makespan=makespan[0], fair_jct=times[FAIR][0], fair_makespan=times[FAIR][1],
        over_jct=told["jct_2"] / times[FAIR][0],
        over_makespan=told["makespan_2"] / times[FAIR][1],
        **_same(every), worlds=f"{100 * min(worlds):.0f} to {100 * max(worlds):.0f} %",
        late=", ".join(
            f"{name} {late_s:.2f} s" for name, late_s in part["profile"]["late_s"].items()
        ),
    )  # fmt: skip


def _drawn(part: Mapping[str, Any]) -> str:
    found = [DRAWN]
    for one in part["sets"]:
        told = _told(_times_over(one["rows"])) | _same(one["rows"])
        found.append(
            DRAWN_SET.format(
                draw=one["draw"], commit=one["made_by"]["commit"],
                payload=LINK_BPS * one["share"] / 1e6,
                rows=table(COLUMNS, [_row(row) for row in one["rows"]]), **told,
            )
        )  # fmt: skip
    return "\n".join(found)


def _times_over(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """How many times the JCT and makespan of ``BASE`` a policy has, from medians."""
    base = next(row for row in rows if row["policy"] == BASE)
    return {
        row["policy"]: (
            base["jct_s"] / row["jct_s"],
            base["makespan_s"] / row["makespan_s"],
        )
        for row in rows
    }


def _told(times: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The figures of our policies and of *isolated*, by the names of the texts."""
    policies = {"_2": "harmony, least 2", "": "harmony"}
    found = {}
    for name, policy in policies.items():
        found |= {f"jct{name}": times[policy][0], f"makespan{name}": times[policy][1]}
    return found | {"free_jct": times["isolated"][0], "free_makespan": times["isolated"][1]}


def _same(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many runs ended with the parameters of the first."""
    samples = [one for row in rows for one in row["samples"]]
    same = sum(one["sha256"] == samples[0]["sha256"] for one in samples)
    return {"same": same, "runs": len(samples)}


def _row(row: Mapping[str, Any]) -> Sequence[str]:
    groups = row["samples"][0]["groups"]
    first = [one for one in groups if one["begin_s"] == groups[0]["begin_s"]]
    naive = row["policy"] in NAIVE
    return [
        row["policy"], _spread(row, "jct_s"), _spread(row, "makespan_s"),
        f"{100 * row['cpu_used']:.0f} %", f"{100 * row['link_used']:.0f} %",
        "" if naive else f"{row['simulated_jct_s']:.1f} s",
        "" if naive else f"{row['simulated_s']:.1f} s",
        f"{len(groups)}, first "
        + "; ".join(f"{len(one['jobs'])} on {one['hosts']}" for one in first),
    ]  # fmt: skip


def _spread(row: Mapping[str, Any], key: str) -> str:
    """The median, and least and most if there were several runs."""
    seen = [one[key] for one in row["samples"]]
    rest = f" ({min(seen):.1f}-{max(seen):.1f})" if len(seen) > 1 else ""
    return f"{row[key]:.1f} s{rest}"


def _groups(part: Mapping[str, Any]) -> str:
    rows = part["rows"]

    def off(key: str) -> list[float]:
        return [100 * abs(row[key] / row["measured_s"] - 1) for row in rows]

    return GROUPS.format(
        commit=part["made_by"]["commit"], count=len(rows), error=fmean(off("predicted_s")),
        worst=max(off("predicted_s")), formula=fmean(off("formula_s")),
        told=fmean(off("told_s")), told_worst=max(off("told_s")),
        rows=table(
            ["group", "measured", "model", "error", "limit", "by formula", "told"],
            [
                [
                    ", ".join(row["jobs"]), f"{row['measured_s']:.2f} s",
                    f"{row['predicted_s']:.2f} s",
                    f"{100 * (row['predicted_s'] / row['measured_s'] - 1):+.1f} %", row["limit"],
                    f"{row['formula_s']:.2f} s", f"{row['told_s']:.2f} s",
                ]
                for row in rows
            ],
        ),
    )  # fmt: skip
