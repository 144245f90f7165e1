"""Commands of the service for Typer: help, mistakes, completion of the command's tree."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from warren.cli.options import CONTEXT, GROUP, examples
from warren.cli.service.declare import Argument, Command, Option
from warren.cli.service.lookup import declared


def service_command(name: str) -> Any:
    """Return the command of a name as Typer knows commands."""
    found = declared(name)
    app = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)
    if isinstance(found, Command):
        _register(app, name, found)
        return typer.main.get_command(app)
    app = typer.Typer(name=name, help=found.help, epilog=examples(*found.examples), **GROUP)
    app.callback()(_root)
    for below, one in found.commands.items():
        _register(app, below, one)
    return typer.main.get_command(app)


def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _register(app: typer.Typer, name: str, command: Command) -> None:
    """Register a command: its parameters are made of its declaration."""

    def call(**values: Any) -> None:
        # Typer makes a list of several values, and None of no value.
        several = {part.name: tuple(values[part.name] or ()) for part in parts if part.many}
        code = command.run(**{**values, **several})
        if code:
            raise typer.Exit(code)

    parts: list[Option | Argument] = [*command.arguments, *command.options]
    made: Any = call
    made.__signature__ = inspect.Signature([_parameter(command, part) for part in parts])
    made.__annotations__ = {
        one.name: one.annotation for one in made.__signature__.parameters.values()
    }
    made.__doc__ = command.run.__doc__
    context = {**CONTEXT, "allow_interspersed_args": not command.words}

    class Ordered(TyperCommand):
        """The command, whose job file may stand before options."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Read the command line."""
            return super().parse_args(ctx, command.ordered(args))

    epilog = examples(*command.examples)
    app.command(name, cls=Ordered, epilog=epilog, context_settings=context)(made)


def _parameter(command: Command, part: Option | Argument) -> inspect.Parameter:
    """Return an option or argument as the parameter of a function."""
    kind: Any = bool if isinstance(part, Option) and part.read is None else str
    info: Any
    if isinstance(part, Option):
        info = typer.Option(
            *part.flags,
            metavar=part.metavar or None,
            help=part.help,
            show_default=False,
            callback=_value(command, part),
        )
    else:
        info = typer.Argument(
            metavar=part.metavar, help=part.help, show_default=False, callback=_value(command, part)
        )
    kind = list[str] if part.many else kind
    required = isinstance(part, Argument) and part.required
    empty: Any = inspect.Parameter.empty
    default = empty if required else False if kind is bool else None
    if default is None:
        kind = kind | None
    return inspect.Parameter(
        part.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _value(command: Command, part: Option | Argument) -> Callable[[Any], Any]:
    """Return the function that makes a value of what was typed."""

    def read(typed: Any) -> Any:
        if part.read is None:
            return typed
        if not typed and typed != "":
            return command.default(part)
        try:
            return tuple(part.read(one) for one in typed) if part.many else part.read(typed)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return read
