"""``warren flow coordinator`` and ``warren flow agent``: one order over several hosts."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.flow.options import (
    DEFAULT_LABEL,
    DEFAULT_TABLE,
    Addresses,
    CodePointTable,
    DeviceName,
    Label,
    Logs,
    Metric,
    Pattern,
    Period,
    Periods,
    Pids,
    Ports,
    Queues,
    Rate,
    Sudo,
    check_periods,
    class_of,
    flows_of,
    queues_of,
)
from warren.cli.options import Cuts, Json, examples
from warren.cli.streams import answer_now, answers_alone, json_line, say
from warren.live.enforcement.coordination.agent import FlowAgent
from warren.live.enforcement.coordination.coordinator import FlowCoordinator
from warren.live.enforcement.coordination.messages import MOST_PERIODS, MOST_SEED
from warren.live.enforcement.coordination.peer_address import peer_address
from warren.live.enforcement.coordination.state import Coordination
from warren.live.enforcement.coordination.token_file import read_secret
from warren.live.enforcement.requests import SetUpQueues, code_points_of, wrong
from warren.live.enforcement.training_log import PATTERN
from warren.live.enforcement.watch import helper_for, shown
from warren.live.enforcement.watched_jobs import WatchedJobs, stated_kind

_ADDRESS: Final = "127.0.0.1:7411"
COORDINATOR_EXAMPLES: Final = examples(
    "warren flow coordinator --token-file flow.token --period 60",
    "warren flow coordinator --listen 10.0.0.1:7411 --token-file flow.token --wait 0.25 --json",
)
AGENT_EXAMPLES: Final = examples(
    "warren flow agent --token-file flow.token --log a.log --port 29500 --dry-run",
    "warren flow agent --coordinator 10.0.0.1:7411 --token-file flow.token --log a.log --pid 4711 "
    "--log b.log --pid 4712",
)

TokenFile = Annotated[
    Path,
    typer.Option(
        "--token-file", metavar="FILE", help="File with the secret of coordinator and agents."
    ),
]


@answers_alone()
def coordinator(
    token_file: TokenFile,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address for agents.")
    ] = _ADDRESS,
    period: Period = 60.0,
    periods: Periods = None,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="PART", help="Part of a period in which answers count."),
    ] = 0.5,
    keep: Annotated[
        int,
        typer.Option("--keep", metavar="N", help="Periods for which gains and classes are valid."),
    ] = 5,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of draws and predictions.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask and order, but send no classes.")
    ] = False,
    json_: Json = False,
) -> None:
    """Order the jobs of all hosts whose agents connect, and send each agent its classes.

    In each period a random agent of each job is asked for the gain of the next period. The command
    needs no root. It makes the token file if there is none; every agent needs a copy. With --json
    each period is a line. The command ends by Ctrl-C, or after --periods.
    """
    check_periods(period, periods)
    _check("--wait", wait, 0.01, 1.0)
    _check("--keep", keep, 1, MOST_PERIODS)
    _check("--seed", seed, 0, MOST_SEED)
    address = peer_address("--listen", listen)
    core = Coordination(seed, keep)
    with FlowCoordinator(
        address,
        read_secret(token_file, make=True),
        core,
        period_s=period,
        wait_s=wait * period,
        sets=not dry_run,
        say=say,
    ) as served:
        say(f"coordinator: listens at {served.address}")
        for rows in served.periods(periods):
            row = {"period": core.period, "dry_run": dry_run, "agents": core.agents, "jobs": rows}
            if json_:
                answer_now(json_line(row))
            else:
                say(_period_line(core, rows))


@answers_alone()
def agent(
    token_file: TokenFile,
    log: Logs,
    coordinator: Annotated[
        str, typer.Option("--coordinator", metavar="HOST:PORT", help="Address of the coordinator.")
    ] = _ADDRESS,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of this agent. Default: the host's name."
        ),
    ] = None,
    port: Ports = None,
    address: Addresses = None,
    pid: Pids = None,
    pattern: Pattern = PATTERN,
    metric: Metric = None,
    cuts: Cuts = None,
    periods: Periods = None,
    device: DeviceName = None,
    rate: Rate = None,
    queues: Queues = "htb",
    code_points: CodePointTable = DEFAULT_TABLE,
    label: Label = DEFAULT_LABEL,
    sudo: Sudo = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the rules of each period and change nothing.")
    ] = False,
    json_: Json = False,
) -> None:
    """Watch the jobs of this host by their logs, and set the classes of a coordinator.

    On every host a job has the name of its log, without the ending. On a host without a log of the
    job, name a log that does not exist. With --json each order is a line. The command ends by
    Ctrl-C, or after --periods orders. All its rules end with it, however it ends.
    """
    check_periods(1.0, periods)
    flows, points = flows_of(log, port, address, pid), code_points_of(code_points)
    kind = stated_kind(metric, cuts)
    jobs = WatchedJobs(label, flows, pattern, kind, code_points=points)
    set_up = queues_of(label, device, rate, queues, points)
    where = peer_address("--coordinator", coordinator)
    name = name or _host_name()
    served = FlowAgent(name, jobs, where, read_secret(token_file), say, queues=set_up is not None)
    try:
        head = {"agent": name, "label": label, "dry_run": dry_run}
        if dry_run:
            _show(jobs, set_up, json_)
            _serve(served, periods, head, json_)
        else:
            with helper_for(label, sudo, set_up) as helper:
                jobs.ask = helper.ask
                _serve(served, periods, head, json_)
    finally:
        served.close()


def _show(jobs: WatchedJobs, set_up: SetUpQueues | None, json_: bool) -> None:
    """Have rules answered in place of set, unless for ``--json``."""
    if json_:
        return
    if set_up is not None:
        answer_now(shown(set_up).rstrip())
    jobs.ask = lambda request: answer_now(shown(request).rstrip())


def _serve(served: FlowAgent, periods: int | None, head: dict[str, Any], json_: bool) -> None:
    for rows in served.orders(periods):
        if json_:
            answer_now(json_line({**head, "jobs": rows}))
        else:
            say(_order_line(rows))


def _order_line(rows: list[dict[str, Any]]) -> str:
    """Return an order as an agent has set it, as one line."""
    parts = []
    for row in rows:
        why = "" if row["state"] == "watched" else f" ({row['state']})"
        parts.append(f"{row['job']}: {class_of(row)}{why}")
    return "; ".join(parts)


def _period_line(core: Coordination, rows: list[dict[str, Any]]) -> str:
    """Return a period of the coordinator as one line."""
    parts = []
    for row in rows:
        known = "not known" if row["gain"] is None else f"gain {row['gain']:.4f}"
        age = f" of {row['gain_periods']} periods ago" if row["gain_periods"] else ""
        why = f"{known}{age}" + ", silent" * (row["state"] == "silent")
        parts.append(f"{row['job']}: {class_of(row)} ({why})")
    jobs = "; ".join(parts) or "no jobs"
    return f"period {core.period}, {len(core.agents)} agents: {jobs}"


def _host_name() -> str:
    """Return this host's name without its domain, of the characters that names have."""
    first = socket.gethostname().partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", first)[:20].strip("-") or "host"


def _check(option: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise wrong(option, f"{value:g}; allowed: {low:g} to {high:g}")
