"""``warren flow``: jobs that Warren did not start get their links in order."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from warren.cli.flow import hosts
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
    flows_of,
    line_of,
    queues_of,
)
from warren.cli.options import GROUP, Cuts, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.live.enforcement.client import FlowHelper
from warren.live.enforcement.nccl import environment_of
from warren.live.enforcement.requests import (
    ClearFlows,
    FlowRequest,
    ListFlows,
    SetUpQueues,
    checked,
    code_points_of,
)
from warren.live.enforcement.training_log import PATTERN
from warren.live.enforcement.watch import FlowWatch, helper_for, shown, watched
from warren.live.enforcement.watched_jobs import WatchedJobs, stated_kind

app = typer.Typer(
    name="flow",
    help="Order the bytes of jobs of any framework on links, by their logs.\n\n"
    "Warren need not have started the jobs. It reads their logs. Of two jobs on a link, the job "
    "that will gain more accuracy in the next period goes first. Needs Linux, nft and root; "
    "--dry-run needs no root.",
    epilog=examples(
        "warren flow watch --log a.log --port 29500 --log b.log --port 29600 --dry-run",
        "warren flow coordinator --token-file flow.token --dry-run",
        "warren flow status",
        "warren flow clear",
    ),
    **GROUP,
)


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
    pattern: Pattern = PATTERN,
    metric: Metric = None,
    cuts: Cuts = None,
    period: Period = 60.0,
    periods: Periods = None,
    device: DeviceName = None,
    rate: Rate = None,
    queues: Queues = "htb",
    code_points: CodePointTable = DEFAULT_TABLE,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the prediction.")] = 0,
    label: Label = DEFAULT_LABEL,
    sudo: Sudo = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the rules of one period and change nothing.")
    ] = False,
    json_: Json = False,
) -> None:
    """Watch jobs by their logs, and give their bytes a class each period.

    The command ends by Ctrl-C, or after --periods. All its rules end with it, however it ends.
    """
    check_periods(period, periods)
    jobs = flows_of(log, port, address, pid)
    points = code_points_of(code_points)
    set_up = queues_of(label, device, rate, queues, points)
    kind = stated_kind(metric, cuts)
    watched_jobs = WatchedJobs(label, jobs, pattern, kind, code_points=points)
    flows = FlowWatch(watched_jobs, period, seed, say)
    rows = _dry(flows, set_up, json_) if dry_run else _live(flows, set_up, sudo, periods)
    if json_:
        print_json({"label": label, "dry_run": dry_run, "jobs": rows})


def _dry(flows: FlowWatch, set_up: SetUpQueues | None, json_: bool) -> list[dict[str, Any]]:
    """Answer with the rules of one period, unless for ``--json``; return its rows."""
    texts = [] if set_up is None else [shown(set_up)]
    flows.jobs.ask = lambda request: texts.append(shown(request))
    rows = flows.step(0.0)
    for text in () if json_ else texts:
        answer(text.rstrip())
    return rows


def _live(
    flows: FlowWatch, set_up: SetUpQueues | None, sudo: bool, periods: int | None
) -> list[dict[str, Any]]:
    """Watch, a line a period; return the rows of the last."""
    rows: list[dict[str, Any]] = []
    with helper_for(flows.jobs.label, sudo, set_up) as helper:
        flows.jobs.ask = helper.ask
        for rows in watched(flows, periods):
            say(line_of(rows))
    return rows


app.command(epilog=hosts.COORDINATOR_EXAMPLES)(hosts.coordinator)
app.command(epilog=hosts.AGENT_EXAMPLES)(hosts.agent)


@app.command(epilog=examples("warren flow status", "warren flow status --json"))
@answers_alone()
def status(label: Label = DEFAULT_LABEL, sudo: Sudo = False, json_: Json = False) -> None:
    """Show the rules of a label: devices with queues, and classes of jobs."""
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
def clear(label: Label = DEFAULT_LABEL, sudo: Sudo = False, json_: Json = False) -> None:
    """Remove the rules of a label that a killed watch has left, and nothing else."""
    found = _asked(label, sudo, ClearFlows(label=label))
    say(f"{label}: {'removed' if found['removed'] else 'nothing stands; nothing to remove'}")
    if json_:
        print_json({"label": label, "changed": found["removed"]})


@app.command(epilog=examples("warren flow nccl --class 2", "env $(warren flow nccl --class 2) ..."))
@answers_alone()
def nccl(
    flow_class: Annotated[
        int, typer.Option("--class", metavar="0-7", help="Class of all bytes that a job sends.")
    ],
    code_points: CodePointTable = DEFAULT_TABLE,
    json_: Json = False,
) -> None:
    """Print the environment that gives NCCL's traffic over InfiniBand or RoCE a class.

    NCCL reads the environment once, when it makes a communicator. There is no known setting for
    plain sockets; use `warren flow watch` for them.
    """
    found = environment_of(flow_class, code_points_of(code_points))
    if json_:
        print_json(found)
        return
    for name, value in found.items():
        answer(f"{name}={value}")


def _asked(label: str, sudo: bool, request: FlowRequest) -> dict[str, Any]:
    checked(request)
    with FlowHelper(label, sudo, isinstance(request, ListFlows)) as helper:
        return helper.ask(request)
