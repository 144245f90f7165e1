"""Who may print where: answers alone on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from warren.runs.notices import LOGGER


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """JSON alone on standard output."""
    answer(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def say(text: str) -> None:
    """A line for people: standard error, so that standard output stays clean for ``--json``."""
    print(text, file=sys.stderr, flush=True)


class _Said(logging.Handler):
    """What is noticed while a run is prepared and played, said as a command's own lines are."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


_SAID: Final = _Said()


_answers: list[str] = []


def answer(text: str) -> None:
    """What was asked for: printed on standard output when the command is done."""
    _answers.append(text)


@contextlib.contextmanager
def answers_alone() -> Iterator[None]:
    """Only ``answer`` reaches standard output.

    What anything else prints there meanwhile, a library or a user's file, goes to standard error,
    also from compiled code.
    """
    _answers.clear()
    LOGGER.addHandler(_SAID)
    LOGGER.propagate = False
    saved, old = _point_stdout_at_stderr(), sys.stdout
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        LOGGER.removeHandler(_SAID)
        LOGGER.propagate = True
        sys.stdout = old
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)
        for text in _answers:
            print(text)
        _answers.clear()


def _point_stdout_at_stderr() -> int | None:
    """A copy of the real standard output; None where there is none."""
    try:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(2, 1)
    except (OSError, AttributeError, ValueError):
        return None
    return saved
