"""The commands ``warren testbed ...``: their options and help."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples

_NAME: Final = "lab"

testbed_app = typer.Typer(
    name="testbed",
    help="Hosts on this Linux machine, behind links of a stated rate.\n\n"
    "Hosts are network namespaces on a bridge; HTB limits what each sends and receives. Needs "
    "root (or CAP_NET_ADMIN and CAP_SYS_ADMIN), iproute2 and HTB in the kernel.",
    epilog=examples(
        "warren testbed up --hosts 4 --link 200Mbit",
        "warren testbed exec h0 -- ip addr",
        "warren testbed down",
    ),
    rich_markup_mode=None,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Which testbed, of several.")]


@testbed_app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@testbed_app.command(
    epilog=examples(
        "warren testbed up --hosts 4 --link 200Mbit",
        "warren testbed up --hosts 2 --link '1 Gbit' --cpus 0.5 --name pair",
        "warren testbed up --file testbed.yaml --no-measure",
    )
)
def up(
    hosts: Annotated[
        int | None,
        typer.Option("--hosts", metavar="N", help="So many hosts: h0, h1, ..., 2 to 64."),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="RATE", help="Of each host, out and in: 200Mbit, 1Gbit."),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option("--cpus", metavar="N", help="Processors of each host; not limited if absent."),
    ] = None,
    subnet: Annotated[
        str | None,
        typer.Option("--subnet", metavar="NET", help="Their addresses; 10.77.0.0/24 if absent."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="TESTBED.yaml", help="In place of these: unlike hosts."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="fair|fifo",
            help="Before each link: flows in turns, or one for all; fair if absent.",
        ),
    ] = None,
    name: Name = _NAME,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Whether to measure each link then.")
    ] = True,
    json_: Json = False,
) -> None:
    """Make a testbed, and measure its links.

    One that is up in the same shape is left as it is; one of another shape is refused. Where an
    earlier attempt was killed, what it left is removed first. Exit code 1: it is up, but a link
    is more than 10 % off.
    """
    from warren.cli.commands.testbed import Shape, up_command

    up_command(Shape(hosts, link, cpus, subnet, file, queue), name, measure, json_)


@testbed_app.command(
    "exec",
    epilog=examples(
        "warren testbed exec h0 -- ip addr",
        "warren testbed exec h2 --name pair -- python train.py --rank 2",
    ),
)
def exec_(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host.", show_default=False)],
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND", help="And its arguments.", show_default=False),
    ],
    name: Name = _NAME,
) -> None:
    """Run a command in a host; its exit status is the command's.

    It sees the host's network and names alone; files, users and processes are the machine's.
    """
    from warren.live.testbed.exec import become
    from warren.model.testbed import checked_name

    become(checked_name(name), host, command)


@testbed_app.command(epilog=examples("warren testbed status", "warren testbed status --measure"))
def status(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="This one alone; else all.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure each link now.")] = False,
    json_: Json = False,
) -> None:
    """Say which testbeds are up, and whether they are as they were made."""
    from warren.cli.commands.testbed import status_command

    status_command(name, measure, json_)


@testbed_app.command(epilog=examples("warren testbed down", "warren testbed down --name pair"))
def down(name: Name = _NAME, json_: Json = False) -> None:
    """Remove a testbed and all that belongs to it.

    Processes that still run in its hosts get SIGTERM, and a second later SIGKILL. What a killed
    `up` or `down` has left goes too.
    """
    from warren.cli.commands.testbed import down_command

    down_command(name, json_)
