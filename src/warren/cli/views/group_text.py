"""The groups of a run: as lines for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warren.report.number_text import NOTHING, aligned, count, percent, seconds
from warren.runs.studies.job_groups import GroupedJob, GroupPrediction, RunGroups

_HEAD = ("job", "COMP", "COMM", "alone", "simulated", "difference")


def group_json(found: RunGroups) -> dict[str, Any]:
    """Return groups as ``--json`` prints them; ``difference`` is a part of the prediction."""
    return {
        "run": found.run,
        "policy": {found.question: found.policy},
        "at_s": found.at_s,
        "groups": [_group_json(group) for group in found.groups],
        "waiting": list(found.waiting),
        "ungrouped": list(found.ungrouped),
        "other_servers": list(found.other_servers),
        "cluster": {"cpu": found.use.cpu, "network": found.use.net},
    }


def _group_json(group: GroupPrediction) -> dict[str, Any]:
    """Return one group."""
    return {
        "hosts": list(group.hosts),
        "iteration_s": group.iteration_s,
        "limit": group.limit,
        "job": group.job,
        "cpu": group.use.cpu,
        "network": group.use.net,
        "stood_s": [group.begin_s, group.end_s],
        "jobs": [
            {
                "job": job.name,
                "comp_s": job.comp_s,
                "comm_s": job.comm_s,
                "alone_s": job.alone_s,
                "simulated_s": job.simulated_s,
                "difference": _difference(group, job),
            }
            for job in group.jobs
        ],
    }


def group_text(found: RunGroups) -> str:
    """Return groups as lines for people."""
    jobs = sum(len(group.jobs) for group in found.groups)
    there = jobs + len(found.waiting) + len(found.ungrouped)
    lines = [
        f"{found.run}: {found.policy} at {seconds(found.at_s)}: {count(len(found.groups), 'group')}"
        f" with {jobs} of {count(there, 'job')}"
    ]
    for number, group in enumerate(found.groups, start=1):
        lines += _group_lines(number, group, found.hosts)
    for names, what in (
        (found.waiting, "waiting"),
        (found.ungrouped, "running in no group"),
        (found.other_servers, "COMM is predicted for a server on each host, which these have not"),
    ):
        if names:
            lines.append(f"{what}: {', '.join(names)}")
    use = f"CPU {percent(found.use.cpu)}, links {percent(found.use.net)}"
    return "\n".join([*lines, f"all {count(len(found.hosts), 'host')}: {use}"])


def _group_lines(number: int, group: GroupPrediction, hosts: Sequence[str]) -> list[str]:
    """Return a line for a group, and a table of its jobs."""
    stood = f"stood from {seconds(group.begin_s)} to {seconds(group.end_s)}"
    rows = [
        (
            job.name,
            seconds(job.comp_s),
            seconds(job.comm_s),
            seconds(job.alone_s),
            seconds(job.simulated_s),
            _signed(_difference(group, job)),
        )
        for job in group.jobs
    ]
    return [
        f"{number}. {hosts_text(group.hosts, hosts)}: an iteration takes "
        f"{seconds(group.iteration_s)}, limited by {limit_text(group)}; "
        f"CPU {percent(group.use.cpu)}, links {percent(group.use.net)}; {stood}",
        *(f"   {line}" for line in aligned([_HEAD, *rows])),
    ]


def limit_text(group: GroupPrediction) -> str:
    """Say which resource or job limits a group."""
    names = {"cpu": "CPU", "network": "the network", "job": f"job {group.job}"}
    return names[group.limit]


def hosts_text(some: Sequence[str], hosts: Sequence[str]) -> str:
    """Name hosts of a cluster, three or more that stand together by the first and the last."""
    place = {name: at for at, name in enumerate(hosts)}
    stretches: list[list[str]] = []
    for name in some:
        if stretches and place[name] == place[stretches[-1][-1]] + 1:
            stretches[-1].append(name)
        else:
            stretches.append([name])
    return ", ".join(
        f"{names[0]} to {names[-1]}" if len(names) > 2 else ", ".join(names) for names in stretches
    )


def _difference(group: GroupPrediction, job: GroupedJob) -> float | None:
    """Return by which part a simulated round is longer than the predicted iteration."""
    return None if job.simulated_s is None else job.simulated_s / group.iteration_s - 1


def _signed(part: float | None) -> str:
    """Write a difference as per cent with its sign, none where it is nothing."""
    if part is None:
        return NOTHING
    # Adding 0 makes a negative zero a positive one.
    return f"{round(100 * part, 1) + 0.0:+.1f} %"
