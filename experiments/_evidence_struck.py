"""Sections of the page of evidence about strikes on runs without emulation, and bad neighbors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from _evidence_live import table


def struck(result: Mapping[str, Any]) -> str:
    """Runs that are struck again and again, and what became of them."""
    runs = result["rows"]
    made = [strike for row in runs for strike in row["strikes"]]
    counts = Counter(
        (one["kind"], one["signal"], when) for one in made for when in ("all", one["when"])
    )
    rows = [
        [kind, signal, *(counts[kind, signal, when] for when in ("all", "start", "resume"))]
        for kind, signal in sorted({(one["kind"], one["signal"]) for one in made})
    ]
    bad = sum(bool(row["wrong"]) for row in runs)
    places = len({row["place"] for row in runs})
    head = ["who", "signal", "strikes", "in a start", "in a resume"]
    return (
        f"## Struck again and again\n\n{len(runs)} runs of three small jobs that train on two "
        "devices, not emulated, with one server a job or two, most with a ring, under "
        f"{places} policies; {len(made)} strikes at drawn moments, one to six planned a run, some "
        "after its end. SIGSTOP is followed by SIGCONT within a second. A run that ended by a "
        f"strike is resumed ({sum(row['resumed'] for row in runs)} times). "
        f"{sum(row['redone_tasks'] for row in runs)} tasks ran again, jobs went back to a "
        f"checkpoint {sum(row['rollbacks'] for row in runs)} times. Runs in which a job has other "
        "parameters than `engine: plain` gives or did not finish, `warren report --check` finds "
        f"something wrong or a process or a file is left: {bad}. New files in shared memory: "
        f"{len(result['shared_memory'])}. No more than two SIGKILLs go to trainers, nor to "
        "servers, nor to ranks of a run: a job that loses three processes at one place fails, by "
        "rule.\n\n" + table(head, rows)
    )


def neighbours(result: Mapping[str, Any]) -> str:
    """Which neighbors changed the bits of correct jobs, or failed them."""
    names = list(result["rows"][0]["correct"]) if result["rows"] else []
    rows = [
        [row["neighbour"], *(row["correct"][name] for name in names),
         sum(row["tasks_after"].values()), row["neighbour_ended"]]
        for row in result["rows"]
    ]  # fmt: skip
    head = ["neighbor", *names, "tasks after its first", "it"]
    return (
        "## Neighbors\n\nEight kinds of apps that change the process they run in, or end it (by "
        "a timer, and by their limit of memory), each beside five correct jobs of the same user "
        "on two devices, not emulated. Jobs take turns, so correct ones have tasks on the "
        "devices where the neighbor has had its first. Parameters are compared with those of "
        f"`engine: plain`: {result['held']} of {result['pairs']} pairs hold.\n\n"
        + table(head, rows)
    )
