"""``warren queue`` and ``warren show``: jobs as the service lists them."""

from __future__ import annotations

import sys

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command
from warren.cli.service.text import clean, fields, moment, table, width
from warren.serve.client import values
from warren.serve.client.client import Client, query, quoted
from warren.serve.client.shown import size, span

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Any, Final

MOST_LINES: Final = 500
"""Number of jobs that a table shows unless --limit names another."""
_LIVE: Final = ("queued", "held", "running")


def state(text: str) -> str:
    """Return the name of a state.

    Raises
    ------
    ValueError
        If there is no such state.
    """
    allowed = (*_LIVE, "finished", "failed", "cancelled")
    if text not in allowed:
        raise ValueError(f"unknown state {text!r}; allowed: {', '.join(allowed)}")
    return text


@command(
    Option("--mine -m", "Only jobs of this account."),
    Option("--user", "Only jobs of this user.", "USER", str),
    Option("--state", "Only jobs in this state. Repeatable.", "STATE", state, many=True),
    Option("--array", "Only jobs of this array or sweep.", "ID", str),
    Option("--all -a", "Also jobs that have ended, as with --json.", name="ended"),
    Option("--limit", f"Most jobs, the newest ones. Default: {MOST_LINES}; with --json all.", "N",
           values.positive),
    SERVER,
    JSON,
    examples=("warren queue", "warren queue --mine --all", "warren queue --state running --json"),
)  # fmt: skip
def queue(
    *,
    mine: bool,
    user: str | None,
    state: tuple[str, ...],
    array: str | None,
    ended: bool,
    limit: int | None,
    server: str | None,
    json_: bool,
) -> None:
    """List the jobs of the service, and why each one waits.

    Lists queued, held and running jobs of all users; with --json also those that have ended. The
    reason of a queued job says what it waits for.
    """
    import time

    with Client(server) as service:
        if mine:
            user = service.ask("GET", "/v1/service")["caller"]["user"]
        # Scripts look up the state of a job, which may have ended meanwhile.
        states = state or (() if ended or json_ else _LIVE)
        chosen: dict[str, Any] = {"user": user, "array": array}
        asked = [query(chosen)[1:], *(f"state={one}" for one in states)]
        most = limit or (None if json_ else MOST_LINES)
        if most is not None:
            # One more tells whether there are more.
            asked.append(f"limit={most + (not json_)}")
        path = f"/v1/jobs?{'&'.join(filter(None, asked))}"
        if json_:
            # As it came: to read and write it again takes long for many jobs.
            print(service.ask_text("GET", path).decode(), flush=True)
            return
        rows = service.ask("GET", path)
    for line in queue_lines(rows[-(most or 0) :], time.time(), width()):
        print(line)
    if not rows:
        print("no jobs" if ended else "no jobs; --all lists those that have ended", file=sys.stderr)
    elif most is not None and len(rows) > most:
        print(f"the newest {most} jobs; --limit N lists more", file=sys.stderr)


def queue_lines(rows: list[dict[str, Any]], now_s: float, room: int | None) -> list[str]:
    """Return jobs as a table, the reason last; neighbors of an array share a line.

    Starts by time limits have a column if there are any.
    """
    if not rows:
        return []
    expects = any(row["expected_s"] is not None for row in rows)
    head = ("ID", "NAME", "USER", "STATE", "DEVICES", "FOR", *(["START"] if expects else []))
    cells: list[tuple[str, ...]] = [(*head, "REASON")]
    for alike in _alike(rows, now_s):
        row, last = alike[0], alike[-1]
        name = row["id"] if len(alike) == 1 else f"{row['id']}..{last['id'].rpartition('_')[2]}"
        devices = " ".join(filter(None, (str(row["devices_wanted"]), row["device_type"])))
        where = f"on {row['host']}" if row["state"] == "running" and not row["reason"] else ""
        texts = [name, row["name"], row["user"], row["state"], devices, _since(row, now_s)]
        if expects:
            texts.append(_until(row["expected_s"], now_s))
        cells.append(tuple(clean(one) for one in (*texts, row["reason"] or where)))
    return table(cells, room, shrinks=(1, len(head)))


def _alike(rows: list[dict[str, Any]], now_s: float) -> list[list[dict[str, Any]]]:
    """Return runs of neighbors of which nothing but the id differs."""
    runs: list[list[dict[str, Any]]] = []
    seen = None
    for row in rows:
        same = (row["array"], row["state"], row["reason"], row["host"], _since(row, now_s))
        if row["array"] is not None and same == seen:
            runs[-1].append(row)
        else:
            runs.append([row])
        seen = same
    return runs


def _until(expected_s: float | None, now_s: float) -> str:
    """Return how long it is to the start of a job by the time limits of those before it."""
    return "" if expected_s is None else f"within {span(expected_s - now_s)}"


def _since(row: dict[str, Any], now_s: float) -> str:
    """Return for how long a job has waited or run, or how long ago it ended."""
    if row["ended_s"] is not None:
        return f"{span(now_s - row['ended_s'])} ago"
    begun = row["started_s"] if row["state"] == "running" else None
    return span(now_s - (begun or row["submitted_s"]))


@command(
    Argument("job", "ID", "Id of a job, or the name of one of yours."),
    SERVER,
    JSON,
    examples=("warren show 12", "warren show 12 --json"),
)
def show(*, job: str, server: str | None, json_: bool) -> None:
    """Show all about a job.

    Only its owner and admins see its environment, with --json.
    """
    with Client(server) as service:
        text = service.ask_text("GET", f"/v1/jobs/{quoted(job)}")
    if json_:
        print(text.decode(), flush=True)
        return
    import json

    for line in show_lines(json.loads(text)):
        print(line)


_HIDDEN: Final = ("attempts", "environment")
_MOMENTS: Final = ("submitted_s", "started_s", "ended_s", "expected_s")
_EXPECTED: Final = ("expected_start_s", "expected_end_s")


def show_lines(job: dict[str, Any]) -> list[str]:
    """Return all about a job as lines of a name and a value."""
    import shlex

    shown = {name: value for name, value in job.items() if name not in _HIDDEN}
    attempts = job["attempts"]
    for name in (*_MOMENTS, *_EXPECTED):
        shown[name] = moment(shown.get(name))
    for name in _EXPECTED:
        between = shown.get(f"{name[:-2]}_80_s")
        shown[f"{name[:-2]}_80_s"] = " to ".join(moment(one) for one in between or ())
    shown["starts_held"] = _held(shown.get("starts_held"))
    for name in ("time_limit_s", "grace_s"):
        shown[name] = span(shown[name])
    shown["memory_bytes"] = size(shown["memory_bytes"])
    # Other users see neither command nor folder.
    shown["command"] = shlex.join(shown["command"] or ())
    shown["after"] = [f"{one['job']}:{one['when']}" for one in shown["after"]]
    shown["resume"] = _resume(shown.get("resume"))
    lines = fields({_label(name): _text(value) for name, value in shown.items()})
    has_table = len(attempts) > 1 or any(_saved(one) for one in attempts)
    return [*lines, "", *_attempts(attempts)] if has_table else lines


def _resume(resume: dict[str, Any] | None) -> str:
    """Say how a command comes back; empty if it does not."""
    if resume is None:
        return ""
    signal, grace = resume.get("signal", "TERM"), span(resume.get("grace_s", 60))
    words = resume.get("template", "")
    return f"after SIG{signal}, with {grace} to save" + (f"; then with {words}" if words else "")


def _held(held: list[int] | None) -> str:
    """Return how often the 80 % intervals of the last starts held."""
    return "" if held is None else f"{held[0]} of the last {held[1]} 80 % intervals"


def _label(name: str) -> str:
    """Return the name of a field as people write it; its value names the unit."""
    if name == "expected_s":
        return "start by limits"
    return name.removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def _text(value: Any) -> str:
    """Return a value of an answer as text."""
    if value is None or value is False:
        return ""
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return str(value)


def _saved(attempt: dict[str, Any]) -> str:
    """Say whether a preempted attempt has saved, behind why it ended."""
    if attempt.get("saved"):
        return f"; saved in {span(attempt['save_s'])}"
    lost_s = attempt.get("lost_s")
    return "" if lost_s is None else f"; not saved: {span(lost_s)} lost"


def _attempts(attempts: list[dict[str, Any]]) -> list[str]:
    """Return the attempts of a job as a table."""
    cells: list[tuple[str, ...]] = [("ATTEMPT", "HOST", "STARTED", "EXIT", "REASON")]
    for one in attempts:
        code, reason = one["exit_code"], f"{one['reason'] or one['cause']}{_saved(one)}"
        texts = (one["number"], one["host"], moment(one["started_s"]), code, reason)
        cells.append(tuple("" if text is None else clean(text) for text in texts))
    return table(cells, width(), shrinks=(4,))
