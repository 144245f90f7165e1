"""Sections of docs/background/evidence.md about live runs that are disturbed, or predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_AT_WORK: Final = (
    " Emulated devices compute a small part of the time: a strike waits until what it takes down "
    "is at work. It met a task if one ran again, for a trainer or an executor; else by what the "
    "system says of the process, or of those that go down with it."
)
_NONE: Final[Mapping[str, Any]] = {"rows": []}


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Rows as a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def unknown_lengths(result: Mapping[str, Any]) -> str:
    """Jobs that end when they reach a target."""
    rows = [
        [one["place"], f"{one['finished']} of {one['jobs']}", one["same_bits"], one["rounds"],
         f"{one['overruns']:.0f} of {one['tasks']}", f"{one['mean_error_pct']:.2f} %",
         f"{one['max_error_pct']:.2f} %"]
        for one in result["rows"]
    ]  # fmt: skip
    head = ["policy", "finished", "with plain's bits", "rounds", "tasks that overran",
            "mean JCT error", "largest"]  # fmt: skip
    return (
        "## Jobs of which nobody knows how long they run\n\nThe 28 jobs of testbed15 without "
        "rounds, on its 15 emulated devices: each ends when what it is evaluated by reaches its "
        "target (`experiments/hare/testbed15-open.yaml`). Arrivals four times as slow, a grain of "
        "2 s and the seed were chosen so that small noise moves the simulated JCTs little "
        "(`make_testbed15_open.py --conditioning`). hlas has a group a device. The simulator "
        "is told the rounds that ran, its policies are not. Tasks are padded, so an error is one "
        "of decisions that came out otherwise, or of an overrun; limit: "
        f"{result['limit_pct']:g} %.\n\n" + table(head, rows)
    )


def faults(result: Mapping[str, Any]) -> str:
    """Killed processes, undisturbed schedules, and the planted app."""
    parts = result["parts"]
    rows = parts.get("faults", _NONE)["rows"]
    text = "## Same bits under faults\n\n"
    text += (
        "All example apps under hare on four devices; one process is killed with SIGKILL at a "
        "drawn moment, and the run resumed where it ended by that. A run has no fault when every "
        "job finished with the parameters of `engine: plain`, `warren report --check` agrees, no "
        "process is left, and no more tasks ran again than promised."
        + (_AT_WORK if any("met" in row for row in rows) else "")
        + "\n\n"
        + _disturbed(rows)
    )
    if "rings" in parts:
        text += (
            "\n\nThe same where four of six jobs are rings, under fifo at a grain of 10 rounds; a "
            "*rank* is a process of a ring.\n\n" + _disturbed(parts["rings"]["rows"])
        )
    schedules = parts.get("schedules", _NONE)["rows"]
    bad = [row for row in schedules if row["wrong"]]
    if schedules:
        text += (
            f"\n\nUndisturbed, {len(schedules)} runs (four policies, 1, 2 and 4 devices, with "
            f"look-ahead and without): {len(bad)} differ from `engine: plain`."
        )
    caught = [f"- {row['kind']}: `{row['line']}`" for row in parts.get("planted", _NONE)["rows"]]
    if caught:
        text += "\n\nA planted app that is not deterministic, after the loss of a process:\n\n"
    missing = [name for name in ("faults", "schedules", "planted") if name not in parts]
    left = f"\n\nNot made on this machine yet: {', '.join(missing)}." if missing else ""
    return text + "\n".join(caught) + left


def _disturbed(found: list[Mapping[str, Any]]) -> str:
    """Runs by what was killed in them."""
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in found:
        groups.setdefault((row["kind"], row.get("servers", 1)), []).append(row)
    rows = [
        [kind, servers, len(mine), _count(mine, "when", ("start", "resume")),
         _count(mine, "met", ("a task", "a barrier", "nothing")),
         sum(bool(row["wrong"]) for row in mine), _most(mine, "redone_tasks"),
         _most(mine, "allowed"), _most(mine, "rollbacks"), _most(mine, "resumed")]
        for (kind, servers), mine in groups.items()
    ]  # fmt: skip
    head = ["killed", "servers a job", "runs", "in the start, in a resume",
            "met a task, a barrier, nothing", "runs with a fault", "tasks run again, most",
            "allowed, most", "rollbacks, most", "resumed"]  # fmt: skip
    return table(head, rows)


OUTCOMES: Final = ("same", "refused", "silent")
"""What may become of a job whose server is lost."""


def _count(rows: list[Mapping[str, Any]], key: str, values: tuple[str, ...]) -> str:
    """How many rows have each of these values; a dash where none says."""
    if not any(key in row for row in rows):
        return "-"
    return ", ".join(str(sum(row.get(key) == value for row in rows)) for value in values)


def _most(rows: list[Mapping[str, Any]], key: str) -> object:
    return max((row[key] for row in rows if key in row), default="-")


def restored_state(result: Mapping[str, Any]) -> str:
    """What became of jobs that keep something where a checkpoint may not see it."""
    rows = []
    for name, part in result["parts"].items():
        of = part["outcomes"]
        kinds = len({row["app"] for row in part["rows"]})
        rows.append([name, len(part["rows"]), kinds, *(of.get(one, 0) for one in OUTCOMES)])
    return (
        "## What barriers keep goes on\n\nJobs whose optimizers, schedules and hooks keep "
        "something in attributes, closures, callables and averages, some of public packages. "
        "In a process, servers are restored and moved after drawn rounds; live, servers are "
        "killed with SIGKILL, or the command, and the run resumed. Parameters and metrics are "
        "those of the plain loop, or a line names what cannot be saved.\n\n"
        + table(["where", "jobs", "kinds", *OUTCOMES], rows)
    )


def start_kill(result: Mapping[str, Any]) -> str:
    """What runs that were struck have left."""
    rows = [[what, count] for what, count in result["struck"].items()]
    return (
        f"## Nothing is left\n\n{result['cycles']} runs, each struck at a drawn moment of its "
        "first seconds; one of its two jobs starts processes of its own and leaves folders about. "
        f"10 s later {len(result['left'])} had left a process, a socket or a temporary folder, and "
        f"{len(result['shared_memory'])} files were left in shared memory.\n\n"
        + table(["signal and who got it", "runs"], rows)
    )


def history_kill(result: Mapping[str, Any]) -> str:
    """What killed writers to the history had acknowledged, and what of it was lost."""
    return (
        "## What was acknowledged stays\n\n"
        f"{result['strikes']} times two processes append to one history database at once and are "
        "killed with SIGKILL at drawn moments of their first 80 ms, also while they make the file "
        f"({result['databases']} new ones). Each transaction is a run, three jobs and a changed "
        f"profile. {result['acknowledged']} were acknowledged. After each kill all of them so "
        "far were there, none by halves, and SQLite found the file whole."
        if not result["faults"]
        else f"## What was acknowledged stays\n\nIt does not: {len(result['faults'])} faults."
    )


def testbed_kill(result: Mapping[str, Any]) -> str:
    """What testbeds that were struck have left after `down`."""
    rows = [[what, count] for what, count in result["struck"].items()]
    return (
        f"## No testbed stays\n\n{result['cycles']} times what makes, measures or removes a "
        "testbed of four hosts is killed with SIGKILL at a drawn moment, every third time with "
        "all it started. `down` follows, every second time after a new `up`. Afterwards "
        f"{len(result['left'])} had left a namespace, a link, a hosts file, a cgroup, a record or "
        "a process.\n\n" + table(["struck while", "testbeds"], rows)
    )
