"""The command ``warren``: which commands there are. The file of one is loaded when it is called."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from warren import __version__
from warren.cli.options import GROUP, examples
from warren.cli.service.names import ALL, JOBS, OPERATION

_RUN: Final = "examples/quickstart/run.yaml"

# Each line of help stands here too, since ``warren --help`` loads no file of a command.
COMMANDS: Final = {
    "simulate": ("run:simulate_app", "Predict a run in virtual time."),
    "run": ("run:app", "Train for real under a scheduler."),
    "compare": ("compare:app", "Compare runs and policies side by side."),
    "report": ("report:app", "Write the tables and the page of a run again, from its journal."),
    "check": ("check:app", "Test whether an app is deterministic, or resumes exactly."),
    "policies": ("policies:app", "List the policies and their sources, or describe one."),
    "schema": ("user_files:schema_app", "Print the JSON Schema of a kind of file."),
    "calibrate": (
        "calibrate:app",
        "Measure the costs of this machine, or how rings slow each other.",
    ),
    "predict": ("predict:app", "Predict a learning curve."),
    "shape": ("shape:app", "Compute how many hosts should work on a job, and how many serve."),
    "group": ("group:app", "Show which jobs of a run share hosts, and their bottleneck."),
    "reproduce": (
        "reproduce:app",
        "Reproduce a figure of a paper, and compare it with the committed one.",
    ),
    "plot": ("plot:app", "Draw pictures of runs for a paper."),
    "trace": ("trace:app", "Describe traces of jobs, and convert them into jobs files."),
    "profile": ("profile:app", "Measure the cost of tasks, and manage the measurements."),
    "testbed": ("testbed:app", "Make hosts on this Linux machine, behind links of a stated rate."),
    "hosts": ("user_files:hosts_app", "Write a cluster file from the nodes of a Ray cluster."),
    "flow": ("flow:app", "Order the bytes of jobs of any framework on links, by their logs."),
}
"""The file in ``warren.cli.commands``, the name there and the line of help of each command."""


SECTIONS: Final = (
    ("Runs and simulations", {name: line for name, (_, line) in COMMANDS.items()}),
    ("A machine shared with a team", {name: line for name, (_, line) in JOBS.items()}),
    ("Operating that service", {name: line for name, (_, line) in OPERATION.items()}),
)
"""Heading, and the lines of help of its commands, in the order of the help."""


@cache
def _loaded(name: str) -> Any:
    """Load a command, once: the library makes it of its function's parameters."""
    if name in ALL:
        from warren.cli.service.as_typer import service_command

        return service_command(name)
    file, _, attribute = COMMANDS[name][0].partition(":")
    module = import_module(f"warren.cli.commands.{file}")
    found = typer.main.get_command(getattr(module, attribute))
    # Usage lines show this name; in its file a command is named after its function.
    found.name = name
    return found


class _Commands(TyperGroup):
    """The group of all commands; it loads their files one at a time."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # The library reads the names alone; ``get_command`` gives the command of a name.
        self.commands: Any = dict.fromkeys([*COMMANDS, *ALL])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load the command of this name; None if there is none."""
        return _loaded(cmd_name) if cmd_name in self.commands else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line a command into the help, without loading any."""
        for heading, lines in SECTIONS:
            with formatter.section(heading):
                formatter.write_dl([*lines.items()])


app: Final = typer.Typer(
    name="warren",
    cls=_Commands,
    help="Schedule, train and simulate many training jobs on one shared cluster.",
    epilog=examples(f"warren simulate {_RUN}", "warren compare --help", "warren submit --help"),
    add_completion=False,
    # ``warren.cli.errors`` makes one line of each error.
    pretty_exceptions_enable=False,
    **GROUP,
)


def _version(value: bool) -> None:
    """Print the version and end, where ``--version`` is given."""
    if value:
        typer.echo(f"warren {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
