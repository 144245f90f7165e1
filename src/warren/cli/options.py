"""Options and help that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}
GROUP: Final[dict[str, Any]] = {
    "rich_markup_mode": None,
    "no_args_is_help": False,
    "invoke_without_command": True,
    "context_settings": CONTEXT,
}
"""What every command that has commands of its own is made with."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")]

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a field, dotted: grain='60 s', cluster.network.model=lane. Repeatable.",
    ),
]


def examples(*lines: str) -> str:
    """An epilog that is shown line by line, as it stands."""
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *lines])


def one_command() -> typer.Typer:
    """What a file of one command registers it with."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)
