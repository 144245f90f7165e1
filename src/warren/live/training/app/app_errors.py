"""Errors of user code in people's words: one line with its place, or the traceback.

User code may raise anything, with any text of any size: the report is made all the same.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.live.extras import hint
from warren.live.training.app.user_files import is_users
from warren.model.errors import (
    InputDataError,
    SpecError,
    chain_of,
    kind_of,
    one_line,
    printable,
    short_line,
    text_of,
)

_CHARS: Final = 500
"""The most characters of a reason."""
_FRAMES: Final = 100
"""The most frames of the app's own code in the way there."""
_PIECE_CHARS: Final = 10_000
"""The most characters of one piece of a traceback: a line of code, an error's text."""
_PIECES: Final = 200
"""The most pieces of a traceback that are kept, at its beginning and at its end."""


def reason_of(error: BaseException) -> str:
    """Describe an error, for a reason: ``ValueError: no such file (net.py:31)``.

    The place is the last one in the app's own code, if any. Warren's own refusals name the app's
    file themselves. The traceback belongs in the log.
    """
    if isinstance(error, SpecError | InputDataError):
        return short_line(text_of(error), _CHARS)
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_users(file := frame.f_code.co_filename):
            place = f" ({printable(Path(file).name)}:{line})"
    return one_line(error, _CHARS) + place + hint(error)


def way_there(error: BaseException) -> str:
    """Return the traceback from the app's own code on, as text; empty if none of it is the app's.

    For an app that could not be imported it is the traceback of the import's error.
    """
    # A SpecError made in Warren has no frame of the app's; its cause may have one.
    for cause in chain_of(error):
        if not isinstance(cause, SpecError) or cause.__cause__ is None:
            break
    # Frames before the app's first one are Warren's and libraries', and tell a user nothing.
    frames = list(traceback.walk_tb(cause.__traceback__))
    own = [at for at, (frame, _) in enumerate(frames) if is_users(frame.f_code.co_filename)]
    if not own:
        return ""
    shown = traceback.StackSummary.extract(iter(frames[own[0] :][-_FRAMES:])).format()
    lines = "".join([*shown, one_line(cause, _PIECE_CHARS)]).splitlines()
    return "\n".join(printable(line) for line in lines)


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error to standard error: the log, in a job's process."""
    try:
        pieces = traceback.format_exception(error)
    except BaseException as failed:
        line = f"{one_line(error)} (its traceback cannot be made: {kind_of(failed)})\n"
        pieces = [*traceback.format_tb(error.__traceback__), line]
    if len(pieces) > 2 * _PIECES:
        left = f"  ... {len(pieces) - 2 * _PIECES} more ...\n"
        pieces = [*pieces[:_PIECES], left, *pieces[-_PIECES:]]
    cut = [one if len(one) <= _PIECE_CHARS else f"{one[:_PIECE_CHARS]}...\n" for one in pieces]
    with suppress(OSError):  # a full disk must not hide the app's error
        print("".join(cut), end="", file=sys.stderr, flush=True)
