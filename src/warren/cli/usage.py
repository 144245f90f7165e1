"""What was typed wrong, in one line that names what is allowed."""

from __future__ import annotations

from typing import Any


def usage_line(error: Any) -> str | None:
    """The line for a usage error of the command-line library, or None if it is no such error.

    Told by what it has, since the library moves its classes about between versions.
    """
    if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
        return None
    context = getattr(error, "ctx", None)
    if context is None:
        return _one_line(f"{_lowered(error.format_message())}; see `warren --help`")
    _, _, command = context.command_path.partition(" ")
    said, allowed = _said(error, context.command)
    place = f"{command}: " if command else ""
    more = f"; allowed: {allowed}" if allowed else f"; see `{context.command_path} --help`"
    return _one_line(f"{place}{said}{more}")


def _said(error: Any, command: Any) -> tuple[str, str]:
    """What is wrong, and what is allowed (empty: see the help)."""
    kind = type(error).__name__
    commands = getattr(command, "commands", None)
    if kind == "NoSuchOption":
        return f"no option {error.option_name}", ", ".join(_options(command))
    if kind == "MissingParameter":
        return f"{_name(error.param)} is missing", _usage(error.ctx)
    if kind == "UsageError" and commands:
        typed = error.message.partition("'")[2].partition("'")[0]
        return f"no command {typed!r}", ", ".join(commands)
    if kind == "UsageError":
        return _lowered(error.message).replace("got unexpected", "unexpected"), _usage(error.ctx)
    if kind == "BadParameter" and error.param is not None:
        return f"{_name(error.param)}: {_lowered(error.message)}", ""
    return _lowered(error.format_message()), ""


def _options(command: Any) -> list[str]:
    found = [param.opts[0] for param in command.params if param.param_type_name == "option"]
    return [*found, "--help"]


def _name(param: Any) -> str:
    return str(param.metavar if param.param_type_name == "argument" else param.opts[0])


def _usage(context: Any) -> str:
    return " ".join(
        [context.command_path, "[OPTIONS]"]
        + [p.metavar for p in context.command.params if p.param_type_name == "argument"]
    )


def _lowered(text: str) -> str:
    return (text[:1].lower() + text[1:]).rstrip(".")


def _one_line(text: str) -> str:
    return " ".join(text.split())
