"""``warren testbed``: testbeds are made, looked at, used and removed."""

from __future__ import annotations

import shutil
from typing import Annotated, Any, Final

import typer

from warren.cli.errors import FAILED, complain
from warren.cli.options import GROUP, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.testbed_text import hosts_lines, measured_lines, measured_view, whole
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.link_test import MeasuredLink
from warren.live.testbed.link_test import measure as measure_links
from warren.live.testbed.ray_nodes import check_ray, ray_folder, start_ray
from warren.live.testbed.status import TestbedStatus, standing
from warren.model.testbed import Bed, checked_name
from warren.report.number_text import count
from warren.runs.studies.testbed_shape import TestbedShape, bed_of


def _told(one: TestbedStatus, measured: bool, json_: bool) -> tuple[dict[str, Any], bool]:
    """Return a testbed for ``--json``, and whether all of it is in order.

    Without ``--json`` it is also printed. Links are measured only if there is no other fault.
    """
    for fault in one.faults:
        complain(f"{one.name}: {fault}; `warren testbed down --name {one.name}` removes it")
    if one.record is None:
        return whole(one, None), False
    if not json_:
        for line in hosts_lines(one):
            answer(line)
    # A testbed with faults has no rates to be met.
    found = _measured(one.record.bed) if measured and not one.faults else None
    for line in measured_lines(one.record.bed, found) if found and not json_ else ():
        answer(line)
    off = sum(not row.ok for row in found or ())
    if off:
        complain(f"{one.name}: {off} of {len(found or ())} rates are off by more than 10 %")
    return whole(one, found), not one.faults and not off


def _measured(bed: Bed) -> list[MeasuredLink]:
    """Measure the links of a testbed, and show how far that is."""
    with measured_view(bed) as tell:
        return measure_links(bed, tell)


_NAME: Final = "lab"

app = typer.Typer(
    name="testbed",
    help="Make hosts on this Linux machine, behind links of a stated rate.\n\n"
    "Hosts are network namespaces on a bridge. HTB limits the rate of each host. Needs "
    "root (or CAP_NET_ADMIN and CAP_SYS_ADMIN), iproute2 and HTB in the kernel.",
    epilog=examples(
        "warren testbed up --hosts 4 --link 200Mbit",
        "warren testbed exec h0 -- ip addr",
        "warren testbed down",
    ),
    **GROUP,
)

Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the testbed.")]


@app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Link = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="RATE",
        help="Rate of each host's link in each direction, such as 200Mbit or 1Gbit.",
    ),
]
Subnet = Annotated[
    str | None,
    typer.Option("--subnet", metavar="NET", help="Addresses of the hosts. Default: 10.77.0.0/24."),
]
File = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="TESTBED.yaml",
        help="Testbed file, for unequal hosts, in place of the options above.",
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="fair|fifo",
        help=(
            "Queues before each link: flows in turns (fair), or one queue for all (fifo). "
            "Default: fair."
        ),
    ),
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure", help="Measure each link once the testbed is up, or not."
    ),
]


@app.command(
    epilog=examples(
        "warren testbed up --hosts 4 --link 200Mbit",
        "warren testbed up --hosts 2 --link '1 Gbit' --cpus 0.5 --name pair",
        "warren testbed up --file testbed.yaml --no-measure",
        "warren testbed up --hosts 4 --link 1Gbit --ray",
    )
)
@answers_alone()
def up(
    hosts: Annotated[
        int | None,
        typer.Option("--hosts", metavar="N", help="Number of hosts: h0, h1, ..., 2 to 64."),
    ] = None,
    link: Link = None,
    cpus: Annotated[
        float | None,
        typer.Option("--cpus", metavar="N", help="Processors of each host. Default: not limited."),
    ] = None,
    subnet: Subnet = None,
    file: File = None,
    queue: Queue = None,
    name: Name = _NAME,
    measure: Measure = True,
    ray: Annotated[
        bool, typer.Option("--ray", help="Also start a Ray cluster, with a node on each host.")
    ] = False,
    json_: Json = False,
) -> None:
    """Make a testbed, and measure its links.

    If a testbed of the same shape is up, it stays as it is. A testbed of another shape is refused.
    Leftovers of a killed attempt are removed first. Exit code 1: the testbed is up, but the rate of
    a link is more than 10 % off.
    """
    shape = TestbedShape(hosts, link, cpus, subnet, file, queue)
    bed = bed_of(shape, checked_name(name))
    if ray:
        check_ray()
    made = make(bed)
    if made.repaired:
        say(f"{name}: what an earlier attempt had left was removed")
    say(f"{name} is {'up' if made.changed else 'up already; nothing was changed'}")
    # Looked at again: the report is of what is there, not of the request.
    (found,) = standing(name)
    shown, fine = _told(found, measure, json_)
    address = start_ray(bed) if ray and fine and made.changed else None
    if ray and not made.changed:
        say(f"Ray is started in a new testbed alone; `warren testbed down --name {name}` first")
    if address is not None:
        say(f"Ray is up; engine: {{ray: {address}}}, local: {{testbed: {bed.name}}}")
    if json_:
        print_json({**shown, "changed": made.changed, **({"ray": address} if address else {})})
    if not fine:
        raise typer.Exit(FAILED)


@app.command(
    "exec",
    epilog=examples(
        "warren testbed exec h0 -- ip addr",
        "warren testbed exec h2 --name pair -- python train.py --rank 2",
    ),
)
def exec_(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="Name of a host.", show_default=False)
    ],
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND", help="Command and its arguments.", show_default=False),
    ],
    name: Name = _NAME,
) -> None:
    """Run a command in a host; its exit status is the command's.

    The command sees only the host's network and names. Files, users and processes are those of the
    machine.
    """
    from warren.live.testbed.exec import become

    # Not under ``answers_alone``: this process becomes the command, and standard output is the
    # command's.
    become(checked_name(name), host, command)


@app.command(epilog=examples("warren testbed status", "warren testbed status --measure"))
@answers_alone()
def status(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of a testbed. Default: all.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure each link.")] = False,
    json_: Json = False,
) -> None:
    """Show which testbeds are up, and whether they have changed."""
    found = standing(None if name is None else checked_name(name))
    if not found:
        say("no testbed is up" if name is None else f"{name} is not up")
    shown = [_told(one, measure, json_) for one in found]
    if json_:
        print_json([value for value, _ in shown])
    if not all(fine for _, fine in shown):
        raise typer.Exit(FAILED)


@app.command(epilog=examples("warren testbed down", "warren testbed down --name pair"))
@answers_alone()
def down(name: Name = _NAME, json_: Json = False) -> None:
    """Remove a testbed and all its parts.

    Processes in its hosts get SIGTERM, and a second later SIGKILL. Leftovers of a killed `up` or
    `down` are removed, too.
    """
    removed = remove(checked_name(name))
    shutil.rmtree(ray_folder(name), ignore_errors=True)
    ended = f"; ended in it: {count(removed.ended, 'process')}" if removed.ended else ""
    say(f"{name}: removed{ended}" if removed.changed else f"{name} is not up; nothing to remove")
    if json_:
        print_json({"name": name, "changed": removed.changed, "ended": removed.ended})
