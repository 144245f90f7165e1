"""Options that the commands of ``warren flow`` share, and the objects made of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.live.enforcement.requests import (
    CodePoints,
    Endpoint,
    SetUpQueues,
    address_of,
    checked,
    ports_of,
    wrong,
)
from warren.live.enforcement.watched_jobs import WatchedFlows
from warren.model.units import parse_rate_bps

DEFAULT_LABEL: Final = "jobs"

Label = Annotated[str, typer.Option("--label", metavar="NAME", help="Label of the rules.")]
Logs = Annotated[
    list[str], typer.Option("--log", metavar="FILE", help="Log of a job. Give one for each job.")
]
Ports = Annotated[
    list[str] | None,
    typer.Option(
        "--port",
        metavar="PORTS",
        help=("Ports of the job, such as 29500,29510-29519. Once for each log, in the same order."),
    ),
]
Addresses = Annotated[
    list[str] | None,
    typer.Option(
        "--address", metavar="IP", help="Address of the job. Once for each log, in the same order."
    ),
]
Pids = Annotated[
    list[int] | None,
    typer.Option(
        "--pid",
        metavar="PID",
        help="Process of the job, in place of ports. Its connections get the class.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Metric of the values, such as accuracy, loss, perplexity or F1.",
    ),
]
DeviceName = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="Also make eight queues on this interface."),
]
Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="RATE", help="Rate of the interface, such as 1Gbit."),
]
Sudo = Annotated[bool, typer.Option("--sudo", help="Start only the helper, by sudo -n.")]
Pattern = Annotated[
    str,
    typer.Option(
        "--pattern",
        metavar="REGEX",
        help=(
            "Pattern of a line, with groups (?P<step>...) and (?P<value>...). Default: a "
            "step, then an accuracy."
        ),
        show_default=False,
    ),
]
Period = Annotated[
    float, typer.Option("--period", metavar="SECONDS", help="Seconds between two orders.")
]
Periods = Annotated[
    int | None,
    typer.Option("--periods", metavar="N", help="End after N periods. Default: only by Ctrl-C."),
]
Queues = Annotated[str, typer.Option("--queues", metavar="htb|prio|ets", help="Kind of queues.")]

CodePointTable = Annotated[
    str,
    typer.Option(
        "--code-points",
        metavar="TABLE",
        help=(
            "Code points (DSCP) of classes 0 to 7: testbed, switch, or eight numbers. See "
            "docs/guides/flows.md."
        ),
    ),
]
DEFAULT_TABLE: Final = "testbed"


def check_periods(period: float, periods: int | None) -> None:
    """Refuse a period or a number of them that is out of range. Raises SpecError."""
    if not 0.1 <= period <= 86_400:
        raise wrong("--period", f"{period:g}; allowed: 0.1 to 86400 seconds")
    if periods is not None and periods < 1:
        raise wrong("--periods", f"{periods}; allowed: 1 and more")


def flows_of(
    logs: list[str], ports: list[str] | None, addresses: list[str] | None, pids: list[int] | None
) -> list[WatchedFlows]:
    """Return the flows to watch, a job a log. Raises SpecError."""
    for name, given in (("--port", ports), ("--address", addresses), ("--pid", pids)):
        if given and len(given) != len(logs):
            raise wrong(name, f"{len(given)} for {len(logs)} logs; allowed: one for each, or none")
    if pids and (ports or addresses):
        raise wrong("--pid", "tells the flows already; leave out --port and --address")
    if not (ports or addresses or pids):
        raise wrong("--port", "is missing; allowed: --port, --address or --pid, once a log")
    if pids and min(pids) < 1:
        raise wrong("--pid", f"{min(pids)} is no process")
    return [
        WatchedFlows(
            name=_job_name(log) or f"job{i}",
            log=Path(log),
            endpoints=()
            if pids
            else (_endpoint(addresses[i] if addresses else "", ports[i] if ports else ""),),
            pid=pids[i] if pids else None,
        )
        for i, log in enumerate(logs)
    ]


def _job_name(log: str) -> str:
    """Return the name of a log without its ending, of the characters that names of jobs have."""
    return re.sub(r"[^a-z0-9]+", "-", Path(log).stem.lower())[:20].strip("-")


def _endpoint(address: str, ports: str) -> Endpoint:
    return Endpoint(str(address_of(address)) if address else "", ports_of(ports) if ports else ())


def queues_of(
    label: str, device: str | None, rate: str | None, kind: str, code_points: CodePoints
) -> SetUpQueues | None:
    """Return the queues that are asked for on a device. Raises SpecError."""
    if device is None:
        if rate is not None:
            raise wrong("--rate", "is that of a --device, which is missing")
        return None
    if rate is None and kind == "htb":
        raise wrong("--rate", "is missing: htb needs what the device carries, like 1Gbit")
    bps = 0
    if rate is not None:
        try:
            bps = round(parse_rate_bps(rate))
        except ValueError as error:
            raise wrong("--rate", str(error)) from None
    found = SetUpQueues(
        label=label, device=device, rate_bps=bps, kind=kind, code_points=code_points
    )
    checked(found)
    return found


def line_of(rows: list[dict[str, Any]]) -> str:
    """Return a period as one line."""
    parts = []
    for row in rows:
        known = "not known yet" if row["gain"] is None else f"gain {row['gain']:.4f}"
        state = known if row["state"] == "watched" else f"{known}, {row['state']}"
        parts.append(f"{row['job']}: {class_of(row)} ({state})")
    return "; ".join(parts)


def class_of(row: dict[str, Any]) -> str:
    """Return the class of a job's row, as a line says it."""
    return "no class" if row["class"] is None else f"class {row['class']}"
