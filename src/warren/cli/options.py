"""Options and help that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from warren.model.errors import Problem, SpecError

if TYPE_CHECKING:
    from warren.runs.comparison.observed import ObservedRun

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

Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Of a service: how much time before its last event, such as 7d. Default: all.",
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


def service_record(path: str, since: str | None, *, ends_count: bool = True) -> ObservedRun | None:
    """Return what a service recorded, as a run; None where a path is none of a service.

    ``ends_count`` as for ``load_service``. Raises SpecError as it does, and if ``since`` is given
    for something else.
    """
    from warren.serve.replay.found import is_service

    if not is_service(path):
        if since is not None:
            message = f"is for the home of a service, which {path} is not"
            raise SpecError(Problem(file="--since", message=message))
        return None
    from warren.serve.replay.read_service import load_service

    return load_service(path, since, ends_count=ends_count)


def examples(*lines: str) -> str:
    """Return examples as an epilog of a help text, shown line by line as they stand."""
    # The library joins the lines of a paragraph unless it begins with a backspace.
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *lines])


def one_command() -> typer.Typer:
    """Return the registry with which a file registers its one command."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)
