"""Sections of docs/background/evidence.md about the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _evidence_live import table


def cancel(result: Mapping[str, Any]) -> str:
    """What is left of cancelled commands that are hard to end."""
    rows = [
        [one["cgroups"], one["cancelled"], one["gone_in_time"], f"{one['median_s']:.2f} s",
         f"{one['slowest_s']:.2f} s"]
        for one in result["rows"]
    ]  # fmt: skip
    return (
        "## Cancelled commands that are hard to end\n\n"
        "Each command ignores SIGTERM, holds a port, and has a process that was forked twice and "
        f"left its session. It is cancelled with a grace of {result['grace_s']} s. It counts as "
        "gone in time if no process of it is left, and its port is free, within the grace and a "
        "second.\n\n" + table(["cgroups", "cancelled", "gone in time", "median", "slowest"], rows)
    )


def kills(result: Mapping[str, Any]) -> str:
    """What happened to jobs while daemon and agents were killed."""
    return (
        "## A service whose processes are killed\n\n"
        "Each run is a service of its own. Clients submit and cancel jobs. Meanwhile processes of "
        f"the service get SIGKILL, or stand still, at drawn moments. {result['runs']} runs, "
        f"{result['jobs']} jobs; struck: {_struck(result)}. *Lost* are jobs that were answered and "
        "are unknown or do not end. *Twice* are those that started again without a failure, "
        "*harmed* those with another exit code than their command's. *At once* are moments with "
        "more jobs than devices, *left* are processes after the end.\n\n" + _counts(result)
    )


def full_disk(result: Mapping[str, Any]) -> str:
    """What happened to jobs while the disk of the service was full now and then, too."""
    return (
        "## A service whose disk is full\n\n"
        "The same, and the folder of the service is a small file system that is full for a while, "
        f"now and then. {result['runs']} runs, {result['jobs']} jobs; struck: {_struck(result)}."
        "\n\n" + _counts(result)
    )


def _counts(result: Mapping[str, Any]) -> str:
    names = ("lost", "twice", "harmed", "at_once", "left")
    return table(["", "count"], [[name, result[name]] for name in names])


def apps(result: Mapping[str, Any]) -> str:
    """The bits of apps that a service trains under kills."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(result["states"].items()))
    return (
        "## Apps in a service\n\n"
        f"{result['jobs']} jobs each train a small app on a device of a service: five kinds, each "
        "job of a kind with a seed of its own. As many short commands run beside them, and half of "
        "these are cancelled. Meanwhile processes get SIGKILL: the daemon, its agent, a job's "
        f"runner, and the run itself ({_struck(result)}). Jobs that were hit start again. All jobs "
        f"at the end: {states}. {result['same']} of {result['jobs']} have the parameters of "
        f"`engine: plain`. {result.get('remark', '')}".rstrip()
    )


def preemption(result: Mapping[str, Any]) -> str:
    """Mean times of commands with preemption by policy, and without."""
    rows = [
        [one["rule"], f"{one['finished']:,} of {one['of']:,}", f"{one['mean_jct_s'] / 60:.0f} min",
         f"{one['mean_worst_jct_s'] / 3600:.1f} h", f"{one['preemptions_a_day']:.1f}",
         one["most_preemptions_of_a_job"]]
        for one in result["rows"]
    ]  # fmt: skip
    head = ["rule", "finished", "mean JCT", "longest JCT", "preemptions a day", "most of a job"]
    return (
        "## Preemption in a service\n\n"
        "30 commands a day of six kinds, from a minute to hours, with a heavy tail, on two hosts "
        f"of four devices. {result['rows'][0]['days']} drawn days are played by the service's own "
        "daemon over hosts without processes; the day before each is the history. All commands "
        "can come back; saving takes 20 s and loading 40 s. The JCT is the time from submission "
        "to end, the "
        "longest JCT the mean over days.\n\n" + table(head, rows)
    )


def _struck(result: Mapping[str, Any]) -> str:
    """How often each kind of process was struck."""
    return ", ".join(f"{what} {count}" for what, count in sorted(result["kills"].items()))
