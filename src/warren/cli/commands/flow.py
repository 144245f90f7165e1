"""``warren flow``: jobs that Warren did not start get their links in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.options import GROUP, Cuts, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.live.enforcement.client import FlowHelper
from warren.live.enforcement.nccl import environment_of
from warren.live.enforcement.requests import (
    ClearFlows,
    Endpoint,
    FlowRequest,
    ListFlows,
    SetUpQueues,
    address_of,
    checked,
    ports_of,
    wrong,
)
from warren.live.enforcement.training_log import PATTERN
from warren.live.enforcement.watch import (
    FlowWatch,
    WatchedFlows,
    helper_for,
    shown,
    stated_kind,
    watched,
)
from warren.model.units import parse_rate_bps

_LABEL: Final = "jobs"

app = typer.Typer(
    name="flow",
    help="Order on links for jobs of any framework that Warren did not start.\n\n"
    "Their logs are read; of two jobs on a link, the one that will gain more accuracy in the next "
    "period goes first. Needs Linux, nft and, but for --dry-run, root.",
    epilog=examples(
        "warren flow watch --log a.log --port 29500 --log b.log --port 29600 --dry-run",
        "warren flow status",
        "warren flow clear",
    ),
    **GROUP,
)

Label = Annotated[str, typer.Option("--label", metavar="NAME", help="Which rules, of several.")]
Logs = Annotated[list[str], typer.Option("--log", metavar="FILE", help="A job's log; once a job.")]
Ports = Annotated[
    list[str] | None,
    typer.Option("--port", metavar="PORTS", help="Its ports; once a log, in the same order."),
]
Addresses = Annotated[
    list[str] | None,
    typer.Option("--address", metavar="IP", help="Its address; once a log."),
]
Pids = Annotated[
    list[int] | None,
    typer.Option("--pid", metavar="PID", help="Or: its process, whose connections are meant."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="What the pattern's values are, such as accuracy, loss, perplexity, F1.",
    ),
]
DeviceName = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="Make eight queues on this interface too."),
]
Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="RATE", help="What the interface carries: 1Gbit."),
]
Sudo = Annotated[bool, typer.Option("--sudo", help="Start the helper alone by sudo -n.")]


@app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog=examples(
        "warren flow watch --log a.log --pid 4711 --log b.log --pid 4712 --period 60",
        "warren flow watch --log a.log --port 29500,29510-29519 --device eth0 --rate 1Gbit",
        "warren flow watch --log a.log --address 10.0.0.7 --pattern "
        "'it (?P<step>[0-9]+) top1 (?P<value>[0-9.]+)' --metric accuracy --cuts 30000,60000",
    )
)
@answers_alone()
def watch(
    log: Logs,
    port: Ports = None,
    address: Addresses = None,
    pid: Pids = None,
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="With groups (?P<step>...) and (?P<value>...); else a step, then an accuracy.",
            show_default=False,
        ),
    ] = PATTERN,
    metric: Metric = None,
    cuts: Cuts = None,
    period: Annotated[
        float, typer.Option("--period", metavar="SECONDS", help="Between two orders.")
    ] = 60.0,
    periods: Annotated[
        int | None, typer.Option("--periods", metavar="N", help="End after so many.")
    ] = None,
    device: DeviceName = None,
    rate: Rate = None,
    queues: Annotated[
        str, typer.Option("--queues", metavar="htb|prio|ets", help="Which kind of queues.")
    ] = "htb",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the prediction.")] = 0,
    label: Label = _LABEL,
    sudo: Sudo = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the rules of one period; change nothing.")
    ] = False,
    json_: Json = False,
) -> None:
    """Watch jobs by their logs, and give what they send a class each period.

    Ends by Ctrl-C, or after --periods; all rules that it made go with it, however it ends.
    """
    if not 0.1 <= period <= 86_400:
        raise wrong("--period", f"{period:g}; allowed: 0.1 to 86400 seconds")
    if periods is not None and periods < 1:
        raise wrong("--periods", f"{periods}; allowed: 1 and more")
    jobs = _jobs(log, port, address, pid)
    set_up = _queues(label, device, rate, queues)
    kind = stated_kind(metric, cuts)
    flows = FlowWatch(label, jobs, pattern, period, seed, lambda _: None, kind)
    rows = _dry(flows, set_up, json_) if dry_run else _live(flows, set_up, sudo, periods)
    if json_:
        print_json({"label": label, "dry_run": dry_run, "jobs": rows})


def _dry(flows: FlowWatch, set_up: SetUpQueues | None, json_: bool) -> list[dict[str, Any]]:
    """Answer with the rules of one period, unless for ``--json``; return its rows."""
    texts = [] if set_up is None else [shown(set_up)]
    flows.ask = lambda request: texts.append(shown(request))
    rows = flows.step(0.0)
    for text in () if json_ else texts:
        answer(text.rstrip())
    return rows


def _live(
    flows: FlowWatch, set_up: SetUpQueues | None, sudo: bool, periods: int | None
) -> list[dict[str, Any]]:
    """Watch, a line a period; return the rows of the last."""
    rows: list[dict[str, Any]] = []
    with helper_for(flows.label, sudo, set_up) as helper:
        flows.ask = helper.ask
        for rows in watched(flows, periods):
            say(_line(rows))
    return rows


@app.command(epilog=examples("warren flow status", "warren flow status --json"))
@answers_alone()
def status(label: Label = _LABEL, sudo: Sudo = False, json_: Json = False) -> None:
    """Say what stands under a label: devices with queues, classes of jobs."""
    found = _asked(label, sudo, ListFlows(label=label))
    if json_:
        print_json(found)
        return
    if not found["devices"] and not found["jobs"]:
        say(f"{label}: nothing stands")
    for one in found["devices"]:
        answer(f"{one}: eight queues")
    for job, flow_class in found["jobs"].items():
        answer(f"{job}: class {flow_class}")


@app.command(epilog=examples("warren flow clear", "warren flow clear --label jobs"))
@answers_alone()
def clear(label: Label = _LABEL, sudo: Sudo = False, json_: Json = False) -> None:
    """Remove all that a killed watch has left under a label. Nothing else is touched."""
    found = _asked(label, sudo, ClearFlows(label=label))
    say(f"{label}: {'removed' if found['removed'] else 'nothing stands; nothing to remove'}")
    if json_:
        print_json({"label": label, "changed": found["removed"]})


@app.command(epilog=examples("warren flow nccl --class 2", "env $(warren flow nccl --class 2) ..."))
@answers_alone()
def nccl(
    flow_class: Annotated[
        int, typer.Option("--class", metavar="0-7", help="The class of all that a job sends.")
    ],
    json_: Json = False,
) -> None:
    """Print the environment that gives NCCL's traffic over InfiniBand or RoCE a class.

    NCCL reads it once, when a communicator is made. For plain sockets we know of no such
    setting: there `warren flow watch` does it.
    """
    found = environment_of(flow_class)
    if json_:
        print_json(found)
        return
    for name, value in found.items():
        answer(f"{name}={value}")


def _asked(label: str, sudo: bool, request: FlowRequest) -> dict[str, Any]:
    checked(request)
    with FlowHelper(label, sudo, isinstance(request, ListFlows)) as helper:
        return helper.ask(request)


def _jobs(
    logs: list[str], ports: list[str] | None, addresses: list[str] | None, pids: list[int] | None
) -> list[WatchedFlows]:
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


def _queues(label: str, device: str | None, rate: str | None, kind: str) -> SetUpQueues | None:
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
    found = SetUpQueues(label=label, device=device, rate_bps=bps, kind=kind)
    checked(found)
    return found


def _line(rows: list[dict[str, Any]]) -> str:
    """Return a period as one line."""
    parts = []
    for row in rows:
        known = "not known yet" if row["gain"] is None else f"gain {row['gain']:.4f}"
        kind = "no class" if row["class"] is None else f"class {row['class']}"
        told = known if row["state"] == "watched" else row["state"]
        parts.append(f"{row['job']}: {kind} ({told})")
    return "; ".join(parts)
