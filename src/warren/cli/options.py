"""Options and help that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
