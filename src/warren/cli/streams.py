"""Rules for printing: answers alone on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

from warren.runs.notices import LOGGER


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Answer with JSON; nothing else may be answered beside it."""
    # Without ``allow_nan``, since NaN is no JSON: a figure that is not known is null.
    answer(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def json_line(value: Mapping[str, Any]) -> str:
    """Return JSON as one line, of which a command that goes on prints many."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def say(text: str) -> None:
    """Print a line for people on standard error; standard output stays clean for ``--json``."""
    print(text, file=sys.stderr, flush=True)


class _Said(logging.Handler):
    """The handler by which lines of the room ``runs`` are said as a command's own lines are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one line."""
        say(record.getMessage())


_SAID: Final = _Said()


_answers: list[str] = []
"""Answers that are not yet printed."""


def answer(text: str) -> None:
    """Answer with a line; it is printed when the command is done."""
    _answers.append(text)


_real_stdout: list[tuple[TextIO, int | None]] = []
"""Inside ``answers_alone``: the stream and the descriptor that answers go to."""


def answer_now(text: str) -> None:
    """Answer a line at once: for a command that goes on until it is interrupted."""
    stream, descriptor = _real_stdout[-1]
    if descriptor is None:
        print(text, file=stream, flush=True)
        return
    os.dup2(descriptor, 1)
    try:
        print(text, file=stream, flush=True)
    finally:
        os.dup2(2, 1)


@contextlib.contextmanager
def answers_alone() -> Iterator[None]:
    """Let only ``answer`` reach standard output while the block runs.

    Everything else printed there meanwhile, by a library or a user's file, goes to standard error,
    also from compiled code.
    """
    # Lines left by a command before it, in a process that calls several, are not its answer.
    _answers.clear()
    # Without ``propagate`` a line is said once, whatever handlers the root logger has.
    LOGGER.addHandler(_SAID)
    LOGGER.propagate = False
    # Both: prints of compiled code go to the descriptor, those of Python to the stream.
    saved, old = _point_stdout_at_stderr(), sys.stdout
    sys.stdout = sys.stderr
    _real_stdout.append((old, saved))
    try:
        yield
    finally:
        _real_stdout.pop()
        LOGGER.removeHandler(_SAID)
        LOGGER.propagate = True
        sys.stdout = old
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)
        # Also after an error: earlier answers hold.
        for text in _answers:
            print(text)
        _answers.clear()


def _point_stdout_at_stderr() -> int | None:
    """Send the descriptor of standard output to standard error; return a copy of the real one.

    None if there is none: the parent process may have closed it.
    """
    try:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(2, 1)
    except (OSError, AttributeError, ValueError):
        return None
    return saved
