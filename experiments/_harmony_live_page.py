"""What the page of Harmony says of jobs on a testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from textwrap import wrap
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
a link of 20 Mbit each; all are there at time 0. *least 2* and *naive, all* were run {turns} times,
in turns: medians, and in brackets least and most; the rest once.

- *least 2*: a job has two of the three hosts or more, as if its data needed that memory. In these
  rows groups hold no data: four jobs share three hosts, and their data would need eight. So reading
  data again costs groups nothing, and jobs alone may not do it. Since then `least` is a sum over
  the jobs of a group; with that no two of these jobs could share three hosts.
- *isolated*: the same relief for jobs alone: a job may have one host, and sends nothing then.
  *isolated, shortest* also lets the job with the least left go first, as *harmony* may.
- *harmony*: ours, with `flow: turns` (the job that began to send first goes first: the paper's
  primary and secondary COMM). It knows how many rounds are left.
- *harmony-published*: Algorithm 1 as printed, 4.3.2's regrouping, turns.
- *naive*: each job computes beside others on a device of its own; three of many choices, drawn but
  for the first, which alone gives each job two hosts.

*CPU*, *links*: parts of the hosts' processors and of what their links can send in the last makespan
of a run. Policies know of each job what a run of it alone on the three hosts showed: COMP of a
task, and what a round took beyond COMP and links ({late}), which its profile states as `step`.
All rows are from before that change of `least`; *isolated, shortest* was simulated alone.

Earlier runs of *harmony, least 2*, none of which is kept, over *isolated, least 2*:

{earlier}

{rows}

Over *isolated, least 2*, which is the paper's comparison (its isolated jobs need machines that hold
their data), *harmony, least 2* has {jct_2:.2f} times the JCT and {makespan_2:.2f} times the
makespan (paper, at 100 machines: 2.11 and 1.60). *isolated*, which has the same relief of memory,
has {free_jct:.2f} and {free_makespan:.2f}, more than either: jobs alone on a host send nothing.
*harmony* with one host or more has {jct:.2f} and {makespan:.2f}.
*naive, all*, the naive choice with two hosts a job, has {fair_jct:.2f} and {fair_makespan:.2f}: of
the two, *harmony, least 2* has {over_jct:.2f} times its JCT and {over_makespan:.2f} times its
makespan. The best of all three has {naive_jct:.2f} and {naive_makespan:.2f}, all in the mean
{naive_mean_jct:.2f} and {naive_mean_makespan:.2f}, the worst {naive_worst_jct:.2f} and
{naive_worst_makespan:.2f}. Each job ended with the same parameters, by SHA-256, in {same} of {runs}
runs.

### Simulated against live

Simulations of the same files, which have the same times. They have no work of a host for its links
and servers, which here shares half a core with COMP. In parts of the live time, all rows that were
run:

{worlds}

So a simulation flatters sharing: a row whose jobs share hosts has {shared_jct:.0f} % of its live
JCT and {shared_makespan:.0f} % of its live makespan in the mean, *isolated* rows {alone_jct:.0f} %
and {alone_makespan:.0f} %. Every simulated gain of sharing is to be read with that.
"""
EARLIER: Final = (
    ("half as much to compute a task, 20 Mbit", "40222c49", "1.08", "1.16"),
    ("the same, 40 Mbit", "87ea4b0f", "0.99", "1.14"),
    ("tasks of now, no `step`, lda's model stated too small", "4c6f818f", "1.16", "1.33"),
    ("both right", "e7a737b0", "1.12", "1.35"),
    ("time beyond the model learned as COMM", "d04ccf65", "0.91", "1.15"),
    ("processes wake up less often", "5e09529b", "1.11", "1.32"),
    ("no task is computed again", "8a5ae91b", "1.18", "1.40"),
    ("`foreseen`, no step on one host", "087c78be", "1.20", "1.39"),
    ("links stated by payload, four frames at once", "c2e79f2d", "1.16", "1.36"),
    ("broken off after a turn, one frame", "4447f7a2", "1.16", "1.34"),
    ("broken off after a turn, four frames", "62f6fa64", "1.15", "1.36"),
    ("three times the rounds, broken off after a turn", "d45f086d", "1.19", "1.37"),
)
"""What was another in an earlier run, its commit, and its JCT and makespan, times."""
DRAWN: Final = """### Jobs that were drawn

`experiments/harmony_live.py --part drawn`: six jobs of mlr, nmf, lda, lasso and nets, whose COMP,
models and rounds were drawn, one run of each policy. The jobs of seed 7 were run before `foreseen`
(8a5ae91b860d: *harmony, least 2* 1.07 and 1.30, *harmony* 1.94 and 1.75, *isolated* 1.99 and 2.20)
and looked at in virtual time while it was made; those of seed 8 were not looked at. Before Reno,
*harmony, least 2* had 1.06 and 1.20 with seed 7, 1.51 and 1.39 with seed 8 (087c78be, 7ec0f68c).
"""
EQUAL: Final = """### Equal freedom for all, sets that were not looked at

`experiments/harmony_live.py --part equal`: as above, but every policy may give a job one host,
jobs alone may go by their lengths, and each run was made {turns} times, in turns; medians. The
seeds were named in the program before any of them was run or simulated.
"""
EQUAL_SET: Final = """Seed {draw}, commit {commit}:

{rows}

Each job ended with the same parameters in {same} of {runs} runs.
"""
DRAWN_SET: Final = """Seed {draw}, commit {commit}, links stated as {payload:.1f} Mbit:

{rows}

Over *isolated, least 2*, *harmony, least 2* has {jct_2:.2f} times the JCT and {makespan_2:.2f}
times the makespan, *harmony* {jct:.2f} and {makespan:.2f}, *isolated* {free_jct:.2f} and
{free_makespan:.2f}. Each job ended with the same parameters in {same} of {runs} runs. Simulated, in
parts of live:

{worlds}
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


def freedom(parts: Mapping[str, Any]) -> str:
    """Say first what groups gain over jobs alone that have the same freedom, set by set."""
    if "equal" in parts:
        sets = [one["rows"] for one in parts["equal"]["sets"]]
        which = "sets of drawn jobs that nothing had been tried with"
    else:
        sets = [parts["policies"]["rows"], *(one["rows"] for one in parts["drawn"]["sets"])]
        which = "live sets"
    pairs = [
        [next(row for row in rows if row["policy"] == name) for name in ("harmony", "isolated")]
        for rows in sets
    ]
    later = [group["makespan_s"] / alone["makespan_s"] - 1 for group, alone in pairs]
    sooner = [alone["jct_s"] / group["jct_s"] for group, alone in pairs]
    count = sum(one > 0 for one in later)
    text = (
        f"With equal freedom for all `harmony` ends later than `isolated` in {count} of "
        f"{len(later)} {which} (makespan "
        f"{', '.join(f'{100 * one:+.0f} %' for one in later)}); `isolated` has "
        f"{', '.join(f'{one:.2f}' for one in sooner)} times its mean JCT, in order of arrival, "
        "where `harmony` knows all lengths."
    )
    by_length = _against_shortest(parts, sets)
    return "\n".join(wrap(f"{text} {by_length}".strip(), width=100))


def _against_shortest(parts: Mapping[str, Any], sets: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """The same against jobs alone that go by their lengths, too: live, else in virtual time."""
    live = [{row["policy"]: row for row in rows} for rows in sets]
    if all("isolated, shortest" in rows for rows in live):
        where, keys = "", ("jct_s", "makespan_s")
        pairs = [(rows["isolated, shortest"], rows["harmony"]) for rows in live]
    elif "shortest" in parts:
        where, keys = " in virtual time", ("simulated_jct_s", "simulated_s")
        alone = parts["shortest"]["rows"]
        pairs = [(one, rows["harmony"]) for one, rows in zip(alone, live, strict=True)]
    else:
        return ""
    times = [" and ".join(f"{one[key] / alone[key]:.2f}" for key in keys) for alone, one in pairs]
    return (
        "Beside `isolated, shortest`, which knows all lengths as well, `harmony` needs"
        f"{where} {', '.join(times)} times its JCT and makespan."
    )


def live_text(parts: Mapping[str, Any]) -> str:
    """The sections of what was run live."""
    found = _policies(parts["policies"], _virtual(parts, "policies"))
    if "equal" in parts:
        found += "\n" + _equal(parts["equal"])
    if "drawn" in parts:
        found += "\n" + _drawn(parts)
    return found + ("\n" + _groups(parts["groups"]) if "groups" in parts else "")


def _virtual(parts: Mapping[str, Any], which: str) -> list[Mapping[str, Any]]:
    """Rows of a set that were made in virtual time alone."""
    rows = parts.get("shortest", {"rows": []})["rows"]
    return [row for row in rows if row["set"] == which]


def _policies(part: Mapping[str, Any], virtual: Sequence[Mapping[str, Any]]) -> str:
    every = part["rows"]
    times = _times_over(every)
    found = _figures(times)
    jct, makespan = (
        sorted(one)
        for one in zip(*(of for name, of in times.items() if name in NAIVE), strict=True)
    )
    return POLICIES.format(
        machine=part["made_by"]["processor"], commit=part["made_by"]["commit"],
        turns=len(every[0]["samples"]), earlier=table(
            ["what was another", "commit", "JCT, times", "makespan, times"],
            [list(row) for row in EARLIER],
        ),
        rows=table(COLUMNS, _lines(every, virtual)),
        **found, naive_jct=jct[-1], naive_makespan=makespan[-1], naive_mean_jct=fmean(jct),
        naive_mean_makespan=fmean(makespan), naive_worst_jct=jct[0],
        naive_worst_makespan=makespan[0], fair_jct=times[FAIR][0], fair_makespan=times[FAIR][1],
        over_jct=found["jct_2"] / times[FAIR][0],
        over_makespan=found["makespan_2"] / times[FAIR][1],
        **_same(every), **_worlds(every),
        late=", ".join(
            f"{name} {late_s:.2f} s" for name, late_s in part["profile"]["late_s"].items()
        ),
    )  # fmt: skip


def _worlds(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All ratios of simulated to live, and their means where jobs share hosts and do not."""
    found: dict[str, Any] = {}
    for name, some in (
        ("alone", [row for row in rows if row["policy"].startswith("isolated")]),
        ("shared", [row for row in rows if not row["policy"].startswith("isolated")]),
    ):
        found |= {
            f"{name}_jct": 100 * fmean(row["simulated_jct_s"] / row["jct_s"] for row in some),
            f"{name}_makespan": 100 * fmean(row["simulated_s"] / row["makespan_s"] for row in some),
        }
    return found | {"worlds": table(["policy", "JCT", "makespan"], list(map(_ratio, rows)))}


def _ratio(row: Mapping[str, Any]) -> list[str]:
    pairs = (("simulated_jct_s", "jct_s"), ("simulated_s", "makespan_s"))
    return [row["policy"], *(f"{100 * row[one] / row[other]:.0f} %" for one, other in pairs)]


def _drawn(parts: Mapping[str, Any]) -> str:
    found = [DRAWN]
    for one in parts["drawn"]["sets"]:
        found.append(
            DRAWN_SET.format(
                draw=one["draw"], commit=one["made_by"]["commit"],
                payload=LINK_BPS * one["share"] / 1e6,
                rows=table(COLUMNS, _lines(one["rows"], _virtual(parts, str(one["draw"])))),
                worlds=table(["policy", "JCT", "makespan"], list(map(_ratio, one["rows"]))),
                **_figures(_times_over(one["rows"])), **_same(one["rows"]),
            )
        )  # fmt: skip
    return "\n".join(found)


def _equal(part: Mapping[str, Any]) -> str:
    turns = len(part["sets"][0]["rows"][0]["samples"])
    found = [EQUAL.format(turns=turns)]
    for one in part["sets"]:
        found.append(
            EQUAL_SET.format(
                draw=one["draw"], commit=one["made_by"]["commit"],
                rows=table(COLUMNS, [_row(row) for row in one["rows"]]), **_same(one["rows"]),
            )
        )  # fmt: skip
    return "\n".join(found)


def _lines(
    rows: Sequence[Mapping[str, Any]], virtual: Sequence[Mapping[str, Any]]
) -> list[list[Any]]:
    """The rows that were run; those of virtual time behind *isolated*."""
    lines: list[list[Any]] = []
    for row in rows:
        lines.append(list(_row(row)))
        if row["policy"] == "isolated":
            lines += [
                [one["policy"], "not run", "not run", "", "", f"{one['simulated_jct_s']:.1f} s",
                 f"{one['simulated_s']:.1f} s", ""]
                for one in virtual
            ]  # fmt: skip
    return lines


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


def _figures(times: Mapping[str, tuple[float, float]]) -> dict[str, float]:
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
    return [
        row["policy"], _spread(row, "jct_s"), _spread(row, "makespan_s"),
        f"{100 * row['cpu_used']:.0f} %", f"{100 * row['link_used']:.0f} %",
        f"{row['simulated_jct_s']:.1f} s", f"{row['simulated_s']:.1f} s",
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
