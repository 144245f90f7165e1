"""Options and help that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")]


def examples(*lines: str) -> str:
    """An epilog that is shown line by line, as it stands."""
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *lines])
