"""Commands of the service by name, and the quick way to a plain one."""

from __future__ import annotations

from importlib import import_module

from warren.cli.service.declare import CommandGroup
from warren.cli.service.names import ALL

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warren.cli.service.declare import Command


def declared(name: str) -> Command | CommandGroup:
    """Return the declaration of a command of the service; its file is loaded."""
    found: Command | CommandGroup = getattr(
        import_module(f"warren.cli.service.{ALL[name][0]}"), name.replace("-", "_")
    )
    return found


def quickly(line: Sequence[str]) -> Callable[[], int | None] | None:
    """Return the call that a plain command line of the service means; None for any other line."""
    if not line or line[0] not in ALL:
        return None
    found, rest = declared(line[0]), line[1:]
    if isinstance(found, CommandGroup):
        if not rest or rest[0] not in found.commands:
            return None
        found, rest = found.commands[rest[0]], rest[1:]
    values = found.read(rest)
    run = found.run
    return None if values is None else lambda: run(**values)
