"""``warren user`` and ``warren quota``: who may use the service, and how much of it."""

from __future__ import annotations

import sys

from warren.cli.service.declare import JSON, SERVER, Argument, CommandGroup, Option, command
from warren.cli.service.text import clean, moment, table, width
from warren.serve.client import values
from warren.serve.client.address import refused
from warren.serve.client.client import Client, query, quoted

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

NAME: Final = Argument("name", "NAME", "Name of the user.")


def _weight(text: str) -> float:
    """Return a share of device time: more than 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise ValueError(f"expected a number above 0, got {text[:40]!r}")
    return found


def _shown(
    server: str | None,
    json_: bool,
    request: tuple[str, str, Any],
    lines: Callable[[Any], list[str]],
) -> None:
    """Ask, and print the answer as JSON or as lines."""
    with Client(server) as service:
        if json_:
            print(service.ask_text(*request).decode(), flush=True)
            return
        for line in lines(service.ask(*request)):
            print(line)


@command(
    NAME,
    Option(
        "--admin",
        "Let the user change jobs of others, users, quotas and machines. It can make tokens; where "
        "the service runs as root, for its own account alone.",
    ),
    Option("--group", "Group of the user, for quotas. Repeatable.", "GROUP", str, many=True),
    Option("--weight", "Share of device time beside other users. Default: 1.", "N", _weight),
    Option(
        "--account",
        "Account of the machine that runs the jobs of the user, where the service runs as root. "
        "Default: the one with the name of the user.",
        "NAME",
        str,
    ),
    Option("--new-token", "Replace the token; the old one ends."),
    SERVER,
    JSON,
    examples=(
        "warren user add ana",
        "warren user add ana --group vision --weight 2",
        "warren user add ana-laptop --account ana",
    ),
)
def add(
    *,
    name: str,
    admin: bool,
    group: tuple[str, ...],
    weight: float | None,
    account: str | None,
    new_token: bool,
    server: str | None,
    json_: bool,
) -> None:
    """Add or change a user, and print a token once.

    Accounts of the machine itself need no token: the socket knows them. For admins. Where the
    service runs as root, only root gives out an account of another user.
    """
    body: dict[str, Any] = {"new_token": new_token}
    if admin:
        body["role"] = "admin"
    if group:
        body["groups"] = [*group]
    if weight is not None:
        body["weight"] = weight
    if account is not None:
        body["account"] = account

    def lines(answer: dict[str, Any]) -> list[str]:
        if answer.get("token") is None:
            return [f"{name} is changed; the token stays"]
        print(f"token of {name}, shown this once; it goes into WARREN_TOKEN:", file=sys.stderr)
        return [str(answer["token"])]

    _shown(server, json_, ("PUT", f"/v1/users/{quoted(name)}", body), lines)


@command(
    Option("--notify", "URL of Apprise to which notices of your jobs go, such as "
           "mailto://USER:PASSWORD@HOST; off: none.", "URL", str),
    SERVER,
    JSON,
    examples=("warren user set --notify ntfys://my-topic", "warren user set --notify off"),
)  # fmt: skip
def set_own(*, notify: str | None, server: str | None, json_: bool) -> None:
    """Set where notices of your jobs go.

    A notice comes when a job ends, and when it does nothing and is to be ended. The URL is a
    secret: the service shows only its first word.
    """
    if notify is None:
        raise refused("user set: --notify is missing; write a URL, or off", "wrong")

    def lines(answer: dict[str, Any]) -> list[str]:
        return [f"notices go by {answer['notify']}" if answer["notify"] else "no notices are sent"]

    with Client(server) as service:
        name = service.ask("GET", "/v1/service")["caller"]["user"]
    body = {"url": "" if notify == "off" else notify}
    _shown(server, json_, ("PUT", f"/v1/users/{quoted(name)}/notify", body), lines)


@command(NAME, SERVER, JSON, examples=("warren user remove ana",))
def remove(*, name: str, server: str | None, json_: bool) -> None:
    """Take a user's token, role and quotas away; jobs stay.

    For admins.
    """
    _shown(server, json_, ("DELETE", f"/v1/users/{quoted(name)}", None), lambda _: [])


@command(SERVER, JSON, examples=("warren user list",))
def list_users(*, server: str | None, json_: bool) -> None:
    """List users, and what they use now."""

    def lines(rows: list[dict[str, Any]]) -> list[str]:
        cells: list[tuple[str, ...]] = [("USER", "ROLE", "GROUPS", "WEIGHT", "DEVICES", "JOBS")]
        for row in rows:
            jobs = ", ".join(f"{count} {state}" for state, count in row["jobs"].items())
            groups, weight = ", ".join(row["groups"]), f"{row['weight']:g}"
            texts = (row["name"], row["role"], groups, weight, row["devices"], jobs)
            cells.append(tuple(clean(one) for one in texts))
        return table(cells, width(), shrinks=(5, 2))

    _shown(server, json_, ("GET", "/v1/users", None), lines)


@command(
    Option("--user", "Only what this user did.", "USER", str),
    Option("--limit", "Most lines, the newest ones. Default: 100.", "N", values.positive),
    SERVER,
    JSON,
    examples=("warren user audit", "warren user audit --user ana --limit 20"),
)
def audit(*, user: str | None, limit: int | None, server: str | None, json_: bool) -> None:
    """List who did what, and what was refused.

    For admins.
    """

    def lines(rows: list[dict[str, Any]]) -> list[str]:
        cells: list[tuple[str, ...]] = [("TIME", "USER", "ACTION", "DETAILS")]
        for row in rows:
            details = ", ".join(f"{key} {value}" for key, value in row["details"].items())
            texts = (moment(row["time_s"]), row["user"], row["action"], details)
            cells.append(tuple(clean(one) for one in texts))
        return table(cells, width(), shrinks=(3,))

    path = f"/v1/audit{query({'user': user, 'limit': limit or 100})}"
    _shown(server, json_, ("GET", path, None), lines)


user: Final = CommandGroup(
    "Add, remove and list users of the service.",
    {"add": add, "set": set_own, "remove": remove, "list": list_users, "audit": audit},
    ("warren user add ana", "warren user list"),
)


def _subject(text: str) -> str:
    """Return what a quota is for: a bare name is a user."""
    return text if text == "each" or ":" in text else f"user:{text}"


SUBJECT: Final = Argument(
    "subject", "WHO", "A user, group:NAME, or each for every user by itself.", _subject
)
TYPE: Final = Argument("device_type", "TYPE", "Type of device such as H100, or gpu, cpu or any.")


def _quota_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return quotas as a table."""
    cells: list[tuple[str, ...]] = [("WHO", "TYPE", "DEVICES")]
    for row in rows:
        cells.append(tuple(clean(row[name]) for name in ("subject", "type", "devices")))
    return table(cells, width())


@command(
    SUBJECT,
    TYPE,
    Argument("devices", "N", "Most devices of this type at once.", values.counted),
    SERVER,
    JSON,
    examples=("warren quota set ana gpu 2", "warren quota set each H100 4"),
)
def set_quota(
    *, subject: str, device_type: str, devices: int, server: str | None, json_: bool
) -> None:
    """Limit how many devices of a type a user or a group holds at once.

    Jobs that run go on. For admins.
    """
    body = {"subject": subject, "type": device_type, "devices": devices}
    _shown(server, json_, ("PUT", "/v1/quotas", body), _quota_lines)


@command(SUBJECT, TYPE, SERVER, JSON, examples=("warren quota remove ana gpu",))
def remove_quota(*, subject: str, device_type: str, server: str | None, json_: bool) -> None:
    """Take a limit away.

    For admins.
    """
    body = {"subject": subject, "type": device_type, "devices": -1}
    _shown(server, json_, ("PUT", "/v1/quotas", body), _quota_lines)


@command(SERVER, JSON, examples=("warren quota list",))
def list_quotas(*, server: str | None, json_: bool) -> None:
    """List all limits."""
    _shown(server, json_, ("GET", "/v1/quotas", None), _quota_lines)


quota: Final = CommandGroup(
    "Limit how many devices a user or a group holds at once.",
    {"set": set_quota, "remove": remove_quota, "list": list_quotas},
    ("warren quota set ana gpu 2", "warren quota list"),
)
