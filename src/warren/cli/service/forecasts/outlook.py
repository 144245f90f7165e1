"""``warren why`` and ``warren what-if``: what keeps a job, and what would change that."""

from __future__ import annotations

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command
from warren.cli.service.text import clean, table, width
from warren.serve.client import values
from warren.serve.client.address import refused
from warren.serve.client.client import Client, quoted
from warren.serve.client.shown import span

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Any, Final

PRIORITIES: Final = {"high": 1_000, "low": -1_000}
"""Names of the largest and the smallest priority."""
_SAME_S: Final = 1.0
"""Difference of two starts below which they count as the same, in seconds."""
_DAY_S: Final = 86_400
LOOK_S: Final = 120.0
"""Longest wait for an answer in seconds: the first question about a policy loads it."""


@command(
    Argument("job", "ID", "Id of a job, or the name of one of yours."),
    SERVER,
    JSON,
    examples=("warren why 12", "warren why 12 --json"),
)
def why(*, job: str, server: str | None, json_: bool) -> None:
    """Say why a job waits, and what can be done.

    The service takes the cause away in a copy of its queue. If the job then starts at once, the
    cause is confirmed. With --json: cause, evidence, next, confirmed, and also (further causes).
    """
    with Client(server) as service:
        text = service.ask_text("GET", f"/v1/jobs/{quoted(job)}/why")
    if json_:
        print(text.decode(), flush=True)
        return
    import json

    for line in why_lines(json.loads(text)):
        print(line)


def why_lines(found: dict[str, Any]) -> list[str]:
    """Return why a job waits as lines."""
    cause, evidence = found["cause"], clean(found["evidence"])
    if not cause:
        return [f"it does not wait: {evidence}"]
    lines = [f"{cause}: {evidence}"]
    if found["next"]:
        lines.append(f"next: {clean(found['next'])}")
    if found["also"]:
        lines.append(f"no single cause is enough; also: {', '.join(found['also'])}")
    elif found["confirmed"] and cause not in ("starting", "never"):
        lines.append("confirmed: without this cause the job would start now")
    return lines


def _with_number(text: str, example: str) -> tuple[str, str]:
    name, equals, number = text.partition("=")
    if not equals or not name or not number:
        raise ValueError(f"{text[:60]!r} is no change; write it like {example}")
    return name, number


def new_priority(text: str) -> dict[str, Any]:
    """Return the job and the priority of ``12=5`` or ``12=high``.

    Raises
    ------
    ValueError
        If it is no such change.
    """
    job, number = _with_number(text, "12=5 or 12=high")
    named = PRIORITIES.get(number)
    return {"job": job, "priority": values.whole(number) if named is None else named}


def new_devices(text: str) -> dict[str, Any]:
    """Return the job and the number of devices of ``12=2``.

    Raises
    ------
    ValueError
        If it is no such change.
    """
    job, number = _with_number(text, "12=2")
    return {"job": job, "devices": values.positive(number)}


def new_quota(text: str) -> dict[str, Any]:
    """Return the quota of ``ana:gpu=4`` or ``group:vision:H100=8``.

    Raises
    ------
    ValueError
        If it is no quota.
    """
    name, number = _with_number(text, "ana:gpu=4")
    subject, _, kind = name.rpartition(":")
    if not subject or not kind:
        raise ValueError(f"{text[:60]!r} is no quota; write it like ana:gpu=4")
    if subject != "each" and ":" not in subject:
        subject = f"user:{subject}"
    return {"subject": subject, "type": kind, "devices": values.counted(number)}


def added(text: str) -> dict[str, Any]:
    """Return the number and the type of ``4xH100``.

    Raises
    ------
    ValueError
        If it is no number of devices.
    """
    number, x, kind = text.partition("x")
    if not x or not kind:
        raise ValueError(f"{text[:60]!r} is no host; write its devices like 4xH100")
    return {"devices": values.positive(number), "type": kind}


def later(text: str) -> tuple[str, float]:
    """Return ``("at", seconds of the day)`` of ``18:00``, or ``("in", seconds)`` of ``2h``.

    Raises
    ------
    ValueError
        If it is neither.
    """
    hours, colon, minutes = text.partition(":")
    if not colon:
        return "in", values.seconds(text)
    if not (hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2):
        raise ValueError(f"{text[:60]!r} is no time; write it like 18:00 or 2h")
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError(f"{text[:60]!r} is no time of a day; write it like 18:00")
    return "at", 3_600.0 * int(hours) + 60.0 * int(minutes)


def order_name(text: str) -> str:
    """Return the name of an order.

    Raises
    ------
    ValueError
        If there is no such order.
    """
    if text not in ("strict", "backfill"):
        raise ValueError(f"unknown order {text[:60]!r}; allowed: strict, backfill")
    return text


@command(
    Option("--cancel", "Cancel this job. Repeatable.", "JOB", str, many=True),
    Option("--priority", "Give a job another priority: a number, high or low. Repeatable.",
           "JOB=N", new_priority, many=True),
    Option("--gpus", "Let a job ask for another number of devices. Repeatable.", "JOB=N",
           new_devices, many=True),
    Option("--quota", "Limit a user, each or group:NAME. Repeatable.", "WHO:TYPE=N", new_quota,
           many=True),
    Option("--drain", "Start no more jobs on a machine. Repeatable.", "HOST", str, many=True),
    Option("--from", "When it is drained, such as 18:00 or 2h. Default: now.", "TIME", later,
           name="from_"),
    Option("--undrain", "Start jobs there again. Repeatable.", "HOST", str, many=True),
    Option("--add", "Add a machine with these devices. Repeatable.", "NxTYPE", added, many=True),
    Option("--order", "Order of the queue: strict or backfill.", "ORDER", order_name),
    Option("--place", "Place policy in whose order jobs wait; fair stands for fair shares.",
           "POLICY", str),
    SERVER,
    JSON,
    examples=(
        "warren what-if --cancel 12",
        "warren what-if --priority 12=high --gpus 12=2",
        "warren what-if --drain gpu3 --from 18:00",
        "warren what-if --add 4xH100 --json",
        "warren what-if --quota ana:gpu=4 --order backfill",
        "warren what-if --place gittins",
    ),
)  # fmt: skip
def what_if(
    *,
    cancel: tuple[str, ...],
    priority: tuple[dict[str, Any], ...],
    gpus: tuple[dict[str, Any], ...],
    quota: tuple[dict[str, Any], ...],
    drain: tuple[str, ...],
    from_: tuple[str, float] | None,
    undrain: tuple[str, ...],
    add: tuple[dict[str, Any], ...],
    order: str | None,
    place: str | None,
    server: str | None,
    json_: bool,
) -> None:
    """Try a change: which jobs would start earlier or later.

    The service plays a copy of its queue with the change and without it. Nothing is changed. Jobs
    are expected to run as long as ended jobs like them. With --json: id, start_before_s and
    start_after_s of each waiting job, in seconds from now; null where the start is not known.
    """
    if from_ is not None and not drain:
        raise refused("what-if: --from says when a machine is drained; add --drain HOST", "wrong")
    from_s = None if from_ is None else _moment_s(*from_)
    changes = {
        "cancel": cancel,
        "priority": priority,
        "devices": gpus,
        "quota": quota,
        "undrain": undrain,
        "drain": [{"host": host, "from_s": from_s} for host in drain],
        "add": add,
    }
    if not any(changes.values()) and order is None and place is None:
        raise refused("what-if: name a change, such as --cancel 12 or --add 4xH100", "wrong")
    body = {**changes, "order": order, "place": place}
    with Client(server) as service:
        text = service.ask_text("POST", "/v1/what-if", body, timeout_s=LOOK_S)
    if json_:
        print(text.decode(), flush=True)
        return
    import json

    for line in what_if_lines(json.loads(text), width()):
        print(line)


def _moment_s(how: str, seconds: float) -> float:
    """Return a later moment in seconds since 1970: the next one with this time of day."""
    import time

    now_s = time.time()
    if how == "in":
        return now_s + seconds
    here = time.localtime(now_s)
    passed_s = 3_600 * here.tm_hour + 60 * here.tm_min + here.tm_sec
    return now_s + (seconds - passed_s) % _DAY_S


def what_if_lines(rows: list[dict[str, Any]], room: int | None) -> list[str]:
    """Return the jobs that start at another time as a table, and how many do."""
    cells: list[tuple[str, ...]] = [("ID", "START", "THEN", "CHANGE")]
    counts = {"earlier": 0, "later": 0, "never": 0}
    for row in rows:
        before, after = row["start_before_s"], row["start_after_s"]
        kind, text = _change(before, after)
        if kind:
            counts[kind] += 1
            cells.append((clean(row["id"]), _start(before), _start(after), text))
    same = len(rows) - sum(counts.values())
    found = [f"{count} {kind}" for kind, count in counts.items() if count]
    jobs = "job" if len(rows) == 1 else "jobs"
    summary = f"of {len(rows)} waiting {jobs}: {', '.join([*found, f'{same} as before'])}"
    return [*table(cells, room), summary] if len(cells) > 1 else [summary]


def _change(before: float | None, after: float | None) -> tuple[str, str]:
    """Return what becomes of a start, in a word and in full; empty if it is the same."""
    if before is None and after is None:
        return "", ""
    if after is None:
        return "never", "no start is known"
    if before is None:
        return "earlier", "a start is known"
    if abs(after - before) < _SAME_S:
        return "", ""
    kind = "earlier" if after < before else "later"
    return kind, f"{span(abs(after - before))} {kind}"


def _start(start_s: float | None) -> str:
    if start_s is None:
        return "not known"
    return "now" if start_s < _SAME_S else f"in {span(start_s)}"
