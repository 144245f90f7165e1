"""How a command ends: one clear line an error on standard error, and the exit code.

0 done, 1 some failed, 2 wrong input, 130 interrupted. A traceback never reaches the terminal:
that of an error nobody foresaw is written to a file, and the line says where. What was typed wrong
becomes a line that names what is allowed.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from typing import TYPE_CHECKING, Any, Final

from warren.store.files import DISK_ERRORS

if TYPE_CHECKING:
    from warren.model.errors import WarrenError


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


DONE: Final = 0
FAILED: Final = 1
WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130

_MACHINE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG})
"""Further errors that are the machine's state and no fault of the program."""


def complain(text: str) -> None:
    """Each line of the text on standard error, marked as ours."""
    for line in text.splitlines():
        print(f"warren: {line}", file=sys.stderr, flush=True)


def end_of(error: BaseException) -> int:
    """Say what went wrong and give the exit code."""
    from warren.model.errors import SpecError, WarrenError, one_line

    code = getattr(error, "exit_code", None)
    line = usage_line(error)
    if line is not None:
        complain(line)
        return WRONG_INPUT
    if isinstance(code, int):
        return code
    if isinstance(error, KeyboardInterrupt):
        complain("interrupted")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return FAILED
    if isinstance(error, WarrenError):
        complain(_with_cause(error))
        return WRONG_INPUT if isinstance(error, SpecError) else FAILED
    if isinstance(error, OSError) and error.errno in DISK_ERRORS | _MACHINE:
        complain(f"{error.filename or 'output'}: {error.strerror}")
        return WRONG_INPUT
    complain(f"internal error: {one_line(error)} (traceback: {keep_traceback(error)})")
    return FAILED


def _with_cause(error: WarrenError) -> str:
    """The text of an error and, where a user's policy raised it, where its traceback is."""
    from warren.model.errors import InfeasibleDecision

    text, cause = str(error) or type(error).__name__, error.__cause__
    if not isinstance(error, InfeasibleDecision) or cause is None:
        return text
    return f"{' '.join(text.split())} (traceback: {keep_traceback(cause)})"


def keep_traceback(error: BaseException) -> str:
    """Write the traceback to a new file of the temporary folder; gives its path."""
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="warren-error-", suffix=".txt")
        with os.fdopen(handle, "w") as file:
            file.write(text)
    except OSError as failed:
        return f"not written, {failed.strerror}"
    return path
