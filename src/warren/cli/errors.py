"""The end of a command: one clear line an error on standard error, and the exit code.

0 done, 1 some failed, 2 wrong input, 130 interrupted. A traceback never reaches the terminal: that
of an unforeseen error is written to a file, and the line says where. A typing error becomes a line
that names the allowed words.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from warren.store.files import DISK_ERRORS

if TYPE_CHECKING:
    from warren.model.errors import WarrenError


def usage_line(error: Any) -> str | None:
    """Return the line for a usage error of the command-line library; None for any other error.

    The error is known by its attributes, since the library moves its classes between versions.
    """
    if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
        return None
    context = getattr(error, "ctx", None)
    # Without a context it is not known which command was meant.
    if context is None:
        return _one_line(f"{_lowered(error.format_message())}; see `warren --help`")
    _, _, command = context.command_path.partition(" ")
    said, allowed = _said(error, context.command)
    place = f"{command}: " if command else ""
    more = f"allowed: {allowed}" if allowed else f"see `{context.command_path} --help`"
    more = f" {more}" if said.endswith("?") else f"; {more}"
    return _one_line(f"{place}{said}{more}")


def _said(error: Any, command: Any) -> tuple[str, str]:
    """Return the fault, and the allowed words; empty if only the help lists them."""
    # By name of the class, as ``usage_line`` says; each kind has attributes of its own.
    kind = type(error).__name__
    commands = getattr(command, "commands", None)
    if kind == "NoSuchOption":
        options = _options(command)
        return f"no option {error.option_name}{_meant(error.option_name, options)}", ", ".join(
            options
        )
    if kind == "MissingParameter":
        return f"{_name(error.param)} is missing", _usage(error.ctx)
    if kind == "UsageError" and commands:
        # The library's sentence quotes the typed word, and keeps it nowhere else.
        typed = error.message.partition("'")[2].partition("'")[0]
        return f"no command {typed!r}{_meant(typed, commands)}", ", ".join(commands)
    if kind == "UsageError":
        return _lowered(error.message).replace("got unexpected", "unexpected"), _usage(error.ctx)
    if kind == "BadParameter" and error.param is not None:
        return f"{_name(error.param)}: {_value_problem(error) or _lowered(error.message)}", ""
    return _lowered(error.format_message()), ""


def _meant(typed: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean NAME?`` if one of the names is near, otherwise an empty text."""
    # Imported here: a correctly typed command does not need it.
    from difflib import get_close_matches

    near = get_close_matches(typed[:100], list(allowed), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _value_problem(error: Any) -> str:
    """Return the fault of an option's value in our words; empty for other problems."""
    # The library makes its sentence from the validator's error, which is the error's cause.
    found = getattr(error.__cause__, "errors", lambda: ())()
    if not found:
        return ""
    kind, limits = found[0]["type"], found[0].get("ctx") or {}
    words = {
        "int": "expected a whole number",
        "float": "expected a number",
        "greater_than_equal": f"must be at least {limits.get('ge')}",
        "less_than_equal": f"must be at most {limits.get('le')}",
    }
    said = words.get(kind) or words.get(kind.partition("_")[0])
    return f"{said}, got {str(found[0]['input'])[:100]!r}" if said else ""


def _options(command: Any) -> list[str]:
    """Return the options of a command, as they are typed."""
    found = [param.opts[0] for param in command.params if param.param_type_name == "option"]
    return [*found, "--help"]


def _name(param: Any) -> str:
    """Return the name of an argument or an option in the help."""
    return str(param.metavar if param.param_type_name == "argument" else param.opts[0])


def _usage(context: Any) -> str:
    """Return the short name of a command."""
    return " ".join(
        [context.command_path, "[OPTIONS]"]
        + [p.metavar for p in context.command.params if p.param_type_name == "argument"]
    )


def _lowered(text: str) -> str:
    """Return a sentence of the library as it may stand inside a line of ours."""
    return (text[:1].lower() + text[1:]).rstrip(".")


def _one_line(text: str) -> str:
    """Return a text with each run of blanks and line breaks as one blank."""
    return " ".join(text.split())


# Exit codes, as the head of this file explains them.
DONE: Final = 0
FAILED: Final = 1
WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130

_MACHINE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG})
"""Further errors that are the machine's state and no fault of the program."""


def complain(text: str) -> None:
    """Print each line of a text on standard error, marked as Warren's."""
    from warren.model.errors import printable

    for line in text.splitlines():
        print(f"warren: {printable(line)}", file=sys.stderr, flush=True)


def end_of(error: BaseException) -> int:
    """Report an error, and return the exit code."""
    # Imported here: help and usage errors need no model.
    from warren.model.errors import SpecError, WarrenError, one_line, short_line
    from warren.store.signals import was_interrupted

    # An exception by which the command-line library ends a command has its exit code.
    code = getattr(error, "exit_code", None)
    # Usage errors have an exit code as well, so they are looked for first.
    line = usage_line(error)
    if line is not None:
        complain(line)
        return WRONG_INPUT
    if isinstance(code, int):
        return code
    if _is_interrupt(error):
        complain("interrupted")
        return INTERRUPTED
    # The reader of the output has gone, as ``head`` does: there is no reader for a message.
    if isinstance(error, BrokenPipeError):
        return FAILED
    if isinstance(error, WarrenError):
        complain(_with_cause(error))
        return WRONG_INPUT if isinstance(error, SpecError) else FAILED
    # A full disk or a folder without permission is for the user to mend, as wrong input is.
    if isinstance(error, OSError) and error.errno in DISK_ERRORS | _MACHINE:
        complain(f"{error.filename or 'output'}: {error.strerror}")
        return WRONG_INPUT
    # Messages between processes and the journal are UTF-8: folders have to be named so.
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        complain(f"{short_line(error.object)}: the name is not UTF-8; rename the file or folder")
        return WRONG_INPUT
    # An import or a library that an interrupt cut short may raise anything after it.
    if was_interrupted():
        complain(f"interrupted ({one_line(error)})")
        return INTERRUPTED
    complain(f"internal error: {one_line(error)} (traceback: {keep_traceback(error)})")
    return FAILED


def _is_interrupt(error: BaseException) -> bool:
    """Tell whether an error is an interrupt, or a library's version of one from its import."""
    # RuntimeError: Python 3.11 raises it instead where a class names its fields.
    from warren.model.errors import chain_of

    for one in chain_of(error):
        if not isinstance(one, ImportError | SystemError | RuntimeError):
            return isinstance(one, KeyboardInterrupt)
    return False


def _with_cause(error: WarrenError) -> str:
    """Return the text of an error and, where a user's policy raised it, where its traceback is."""
    from warren.model.errors import InfeasibleDecision, kind_of, text_of

    text, cause = text_of(error) or kind_of(error), error.__cause__
    if not isinstance(error, InfeasibleDecision) or cause is None:
        return text
    return f"{' '.join(text.split())} (traceback: {keep_traceback(cause)})"


def keep_traceback(error: BaseException) -> str:
    """Write a traceback to a new file of the temporary folder, and return its path.

    Where it cannot be written, the reason is returned in its place.
    """
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # its own methods, or those of its cause, raise
        text = "".join(traceback.format_tb(error.__traceback__))
    try:
        handle, path = tempfile.mkstemp(prefix="warren-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as failed:
        return f"not written, {failed.strerror}"
    return path
