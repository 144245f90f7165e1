"""The packages that ``warren serve`` and its notices need beside Warren's own."""

from __future__ import annotations

from warren.live.extras import need


def check_serve() -> None:
    """Refuse to go on without the packages of the extra ``serve``.

    Raises
    ------
    SpecError
        If one is missing; with the command that installs all of them.
    """
    need("serve")


def check_notify() -> None:
    """Refuse to go on without the packages of the extra ``notify``.

    Raises
    ------
    SpecError
        If one is missing; with the command that installs all of them.
    """
    need("notify")
