"""Options and help that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}
# A group that is called without a command prints its help, by a callback of its own.
GROUP: Final[dict[str, Any]] = {
    "rich_markup_mode": None,
    "no_args_is_help": False,
    "invoke_without_command": True,
    "context_settings": CONTEXT,
}
"""Settings of each command that has commands of its own."""

Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help=(
            "Override a field of the run, for example grain='60 s' or "
            "cluster.network.model=lane. Repeatable."
        ),
    ),
]

Cuts = Annotated[
    str | None,
    typer.Option(
        "--cuts",
        metavar="STEP,...|none",
        help=("First steps with a lower learning rate; none: it never falls. Unknown by default."),
    ),
]


def examples(*lines: str) -> str:
    """Return examples as an epilog of a help text, shown line by line as they stand."""
    # The library joins the lines of a paragraph unless it begins with a backspace.
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *lines])


def one_command() -> typer.Typer:
    """Return the registry with which a file registers its one command."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)
