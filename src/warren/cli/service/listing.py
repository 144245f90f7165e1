"""``warren queue`` and ``warren show``: jobs as the service lists them."""

from __future__ import annotations

import sys

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command
from warren.cli.service.text import clean, fields, moment, span, table, width
from warren.serve.client import values
from warren.serve.client.client import Client, query, quoted

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
    Option("--all -a", "Also jobs that have ended.", name="ended"),
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

    Lists queued, held and running jobs of all users. The reason of a queued job says what it waits
    for.
    """
    import time

    with Client(server) as service:
        if mine:
            user = service.ask("GET", "/v1/service")["caller"]["user"]
        states = state or (() if ended else _LIVE)
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
    """Return jobs as a table: one line a job, the reason last."""
    if not rows:
        return []
    cells: list[tuple[str, ...]] = [("ID", "NAME", "USER", "STATE", "FOR", "REASON")]
    for row in rows:
        since = row.get("ended_s") or row.get("started_s") or row["submitted_s"]
        past = row["state"] not in _LIVE
        time = f"{span(now_s - since)} ago" if past else span(now_s - since)
        texts = (row["id"], row["name"], row["user"], row["state"], time, row["reason"] or "")
        cells.append(tuple(clean(one) for one in texts))
    return table(cells, room, shrinks=(5, 1))


@command(
    Argument("job", "ID", "Id of a job, or the name of a job of yours."),
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


_TIMES: Final = ("submitted_s", "started_s", "ended_s")


def show_lines(job: dict[str, Any]) -> list[str]:
    """Return all about a job as lines of a name and a value."""
    import shlex

    shown = dict(job)
    shown.pop("environment", None)
    attempts = shown.pop("attempts", None) or []
    for name in _TIMES:
        shown[name.removesuffix("_s")] = moment(shown.pop(name, None))
    for name in [one for one in shown if one.endswith("_s")]:
        shown[name.removesuffix("_s").replace("_", " ")] = span(shown.pop(name))
    if isinstance(shown.get("command"), list):
        shown["command"] = shlex.join(shown["command"])
    texts = {name.replace("_", " "): _text(value) for name, value in shown.items()}
    lines = fields(texts)
    if len(attempts) > 1:
        lines += ["", "attempts", *_attempts(attempts)]
    return lines


def _text(value: Any) -> str:
    """Return a value of an answer as text."""
    if value is None or value is False:
        return ""
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items() if one)
    return str(value)


def _attempts(attempts: list[dict[str, Any]]) -> list[str]:
    """Return the attempts of a job as a table."""
    cells: list[tuple[str, ...]] = [("", "HOST", "STARTED", "EXIT", "REASON")]
    for at, one in enumerate(attempts, 1):
        code = one.get("exit_code")
        texts = (
            one.get("number", at),
            one.get("host", ""),
            moment(one.get("started_s")),
            "" if code is None else code,
            one.get("reason") or "",
        )
        cells.append(tuple(clean(text) for text in texts))
    return table(cells, width(), shrinks=(4,))
