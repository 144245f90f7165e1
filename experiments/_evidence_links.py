"""The section of docs/background/evidence.md about servers and rings on the links of a testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, TypeAlias

from _evidence_live import table
from _link_mixes import FRESH, LOOKED_AT

_HEAD: Final = [
    "mix",
    "flow",
    "jobs with servers, rings",
    "with plain's bits",
    "tasks that overran",
    "mean error of a round",
    "largest",
    "mean JCT error",
    "largest",
    "bias",
]
Row: TypeAlias = Mapping[str, Any]


def link_mixes(result: Mapping[str, Any]) -> str:
    """The mixes with a queue for each flow, then those with one queue for all of a class."""
    parts = result["parts"]
    text = (
        "## Servers and rings on the same links\n\nMixes of three to five jobs, some with "
        "parameter servers and some rings, trained on the four hosts of a testbed behind links of "
        "200 Mbit. COMP is padded, bytes really pass the links; all jobs find devices when they "
        "arrive, so that what they wait for are links. Simulated under `network: {model: "
        "fluid}`, where `outer` is the goodput that `warren testbed up` measured of the links just "
        "before each mix, and `inner` is of `warren calibrate --rings` "
        "(`experiments/rings/network.yaml`). Under "
        "flow `fair` all bytes are of one class; under `fixed` each job has a class from 1 to 3 "
        "that was drawn for it, 1 before 2 before 3.\n\n"
        f"*Drawn by the seeds {FRESH[0]} to {FRESH[-1]}*, looked at by nobody before: program and "
        "model were settled then. Limits: 5 % in the mean of all, of rounds and of JCTs.\n\n"
    )
    fair = [f"mix-{seed}" for seed in FRESH if f"mix-{seed}" in parts]
    text += _rows(parts, fair) + _verdict(parts, fair, len(FRESH))
    before = [f"mix-{seed}" for seed in LOOKED_AT if f"mix-{seed}" in parts]
    if before:
        rates = sorted({parts[name].get("outer", "187.3 Mbit") for name in before})
        text += (
            f"\n\n*Drawn by the seeds {LOOKED_AT[0]} to {LOOKED_AT[-1]}*: what had been looked at "
            "when `outer`, until then what rings that wait for each other have together (187.3 "
            f"Mbit), became that of the links; here it is {' to '.join(rates)}.\n\n"
        )
        text += _rows(parts, before) + _verdict(parts, before, len(LOOKED_AT))
    fifo = [f"fifo-{seed}" for seed in FRESH if f"fifo-{seed}" in parts]
    if fifo:
        text += (
            "\n\n*With one queue for all flows of a class before each link* (`queue: fifo`), where "
            "TCP alone shares between them:\n\n"
        ) + _rows(parts, fifo)
        text += _queue_alone(parts, fifo)
    return text


def link_priority(result: Mapping[str, Any]) -> str:
    """The share of a link that the first of two jobs has, by queue and order."""
    head = ["queue", "first", "90 % after", "its share from 1 s on", "simulated", "Mbit/s"]
    rows = [
        [
            queue,
            f"job {row['first']}",
            f"{row['reached_s']} s",
            f"{100 * row['share']:.1f} %",
            f"{100 * row['share_simulated']:.1f} %",
            f"{row['mbit']:.0f}",
        ]
        for queue, part in result["parts"].items()
        for row in part["rows"]
    ]
    return (
        "## Who has a link when classes change\n\nTwo jobs push updates of 1 MB over one link of "
        "200 Mbit, from one host of a testbed to another. Their classes are equal at first, then "
        "job a is before b for 5 s, then behind it for 5 s. What leaves the port is counted by the "
        "kernel, by class, every 0.2 s; the rest of the link is for what the other job sends while "
        "the first one pulls and waits for its barrier. Limits: 90 % within 1 s, and from then on; "
        "simulated the same to 5 %. All parameters are those of the plain engine. These figures "
        "are of a machine that did nothing else. On one that was busy (load 9 to 13) one of two "
        "runs with `fair` missed the second limit, with 91.7 % live for 97.3 % simulated.\n\n"
    ) + table(head, rows)


def _rows(parts: Mapping[str, Any], names: Sequence[str]) -> str:
    return table(_HEAD, [_cells(name, row) for name in names for row in parts[name]["rows"]])


def _queue_alone(parts: Mapping[str, Any], names: Sequence[str]) -> str:
    """What the queue alone changes: the same mixes, simulated the same, with a queue a flow."""
    means = [
        fmean(row["mean_round_pct"] for name in group for row in parts[name]["rows"])
        for group in (names, [name.replace("fifo", "mix") for name in names])
    ]
    return (
        f"\n\nRounds of these mixes are off by {means[0]:.2f} % in the mean with one queue, and by "
        f"{means[1]:.2f} % with a queue for each flow. Jobs, hosts, rates and simulation are the "
        "same: what is off beyond that is due to how flows share one queue. Why TCP gives one more "
        "than another was not looked into."
    )


def _cells(name: str, row: Row) -> list[object]:
    servers = sum(job["sync"] == "ps" for job in row["each"])
    return [
        name,
        row["flow"],
        f"{servers}, {len(row['each']) - servers}",
        f"{row['same_bits']} of {row['jobs']}",
        f"{row['overruns']:.0f}",
        f"{row['mean_round_pct']:.2f} %",
        f"{row['max_round_pct']:.2f} %",
        f"{row['mean_jct_pct']:.2f} %",
        f"{row['max_jct_pct']:.2f} %",
        f"{row['bias_pct']:+.2f} %",
    ]


def _verdict(parts: Mapping[str, Any], names: Sequence[str], all_: int) -> str:
    rows = [row for name in names for row in parts[name]["rows"]]
    if not rows:
        return "Not yet made."
    means = {what: fmean(row[f"mean_{what}_pct"] for row in rows) for what in ("round", "jct")}
    most = {what: max(row[f"max_{what}_pct"] for row in rows) for what in means}
    kept = "within" if max(means.values()) <= 5 else "not within"
    every = [job for row in rows for job in row["each"]]
    short, jobs = sum(job["jct_pct"] < 0 for job in every), len(every)
    kinds = {
        kind: [job["round_pct"] for job in every if job["sync"] == sync]
        for kind, sync in (("jobs with servers", "ps"), ("rings", "ring"))
    }
    split = "; ".join(
        f"{kind} {fmean(map(abs, errors)):.2f} % in the mean, with a bias of {fmean(errors):+.2f} %"
        for kind, errors in kinds.items()
    )
    missing = (
        "" if len(names) == all_ else f" Of {all_} mixes {all_ - len(names)} are not made yet."
    )
    return (
        f"\n\nOf all: rounds {means['round']:.2f} % in the mean, {most['round']:.2f} % at most; "
        f"JCTs {means['jct']:.2f} %, {most['jct']:.2f} %: {kept} the limits. {short} of {jobs} are "
        f"simulated too short. By kind, of rounds: {split}.{missing}"
    )
