"""``warren top``, ``drain`` and ``undrain``: machines and their devices."""

from __future__ import annotations

import sys

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command
from warren.cli.service.text import clean, table, width
from warren.serve.client.address import refused
from warren.serve.client.client import Client, quoted
from warren.serve.client.shown import size

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Any


@command(SERVER, JSON, examples=("warren top", "watch warren top"))
def top(*, server: str | None, json_: bool) -> None:
    """Show all machines, their devices and the jobs on them.

    Processors with the same use share a line. A GPU that programs outside the queue use is shown
    with them; no job starts there.
    """
    with Client(server) as service:
        if json_:
            print(service.ask_text("GET", "/v1/hosts").decode(), flush=True)
            return
        hosts = service.ask("GET", "/v1/hosts")
    for line in top_lines(hosts, width()):
        print(line)
    if not hosts:
        print("no machines; `warren agent` adds one", file=sys.stderr)


def top_lines(hosts: list[dict[str, Any]], room: int | None) -> list[str]:
    """Return machines as a table with a line a device, or a few processors."""
    if not hosts:
        return []
    rows: list[tuple[str, ...]] = [("HOST", "DEVICE", "TYPE", "MEMORY", "USE", "BY")]
    for host in hosts:
        name = clean(host["name"])
        if not host["connected"]:
            rows.append((name, "", "", "", "away", clean(host.get("reason") or "")))
            name = ""
        for devices in _alike(host["devices"]):
            rows.append((name, *_device(host, devices)))
            name = ""
    return table(rows, room, shrinks=(5,))


def _alike(devices: list[dict[str, Any]]) -> list[list[tuple[int, dict[str, Any]]]]:
    """Return devices with their index, processors of the same use together."""
    groups: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
    for index, one in enumerate(devices):
        jobs = tuple(job["id"] for job in one["jobs"])
        alike = (one["type"], one["use"], jobs, one.get("drained"), tuple(one["foreign"]))
        groups.setdefault(index if one["kind"] == "gpu" else alike, []).append((index, one))
    return [*groups.values()]


def _device(host: dict[str, Any], devices: list[tuple[int, dict[str, Any]]]) -> tuple[str, ...]:
    """Return the cells of a device, or of processors of the same use."""
    index, one = devices[0]
    jobs = ", ".join(
        " ".join(filter(None, (job["id"], job["name"], f"({job['user']})"))) for job in one["jobs"]
    )
    foreign = ", ".join(one["foreign"])
    drained = one.get("drained") if one.get("drained") is not None else host.get("drained")
    by = jobs or foreign or drained or one.get("fault") or ""
    label = str(index) if len(devices) == 1 else f"{len(devices)} of them"
    memory = ""
    if one["kind"] == "gpu":
        memory = f"{size(one['used_bytes']) or '0'} of {size(one['memory_bytes'])}"
    return tuple(clean(cell) for cell in (label, one["type"], memory, one["use"], by))


HOST = Argument("host", "HOST", "Name of the machine, as `warren top` shows it.")
DEVICE = Argument(
    "device", "DEVICE", "Number or id of one device. Default: the machine.", required=False
)


def _device_id(service: Client, host: str, device: str | None) -> str | None:
    """Return the id of a device that may be named by its number on the machine."""
    if device is None or not device.isdecimal():
        return device
    for one in service.ask("GET", "/v1/hosts"):
        if one["name"] == host:
            if int(device) < len(one["devices"]):
                return str(one["devices"][int(device)]["id"])
            raise refused(f"{host} has no device {device}; it has {len(one['devices'])}", "unknown")
    raise refused(f"there is no machine {host!r}; `warren top` lists all", "unknown")


@command(
    HOST,
    DEVICE,
    Option("--reason", "Why, for users who read it.", "TEXT", str),
    Option("--gone", "The machine never comes back: its jobs end, or start again elsewhere."),
    SERVER,
    JSON,
    examples=(
        "warren drain gpu1 --reason 'new driver'",
        "warren drain gpu1 3",
        "warren drain gpu1 --gone",
    ),
)
def drain(
    *,
    host: str,
    device: str | None,
    reason: str | None,
    gone: bool,
    server: str | None,
    json_: bool,
) -> None:
    """Start no more jobs on a machine or a device.

    What runs there goes on. For admins.
    """
    if gone and (device is not None or reason is not None):
        raise refused("drain: --gone takes a machine alone", "wrong")
    with Client(server) as service:
        if gone:
            text = service.ask_text("DELETE", f"/v1/hosts/{quoted(host)}")
        else:
            body = {"device": _device_id(service, host, device), "reason": reason or ""}
            text = service.ask_text("POST", f"/v1/hosts/{quoted(host)}/drain", body)
    if json_:
        print(text.decode(), flush=True)


@command(HOST, DEVICE, SERVER, JSON, examples=("warren undrain gpu1", "warren undrain gpu1 3"))
def undrain(*, host: str, device: str | None, server: str | None, json_: bool) -> None:
    """Start jobs there again.

    For admins.
    """
    with Client(server) as service:
        body = {"device": _device_id(service, host, device)}
        text = service.ask_text("POST", f"/v1/hosts/{quoted(host)}/undrain", body)
    if json_:
        print(text.decode(), flush=True)
