"""What user code raised, as people read it: one line with its place, or the way there."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from warren.live.training.app.user_files import is_users
from warren.model.errors import InputDataError, SpecError

_CHARS: Final = 500


def one_line(error: BaseException) -> str:
    """Say what was raised, for a reason: ``ValueError: no such file (net.py:31)``.

    The place is the last one in the app's own code, if any. What Warren refuses names the app's
    file itself. The traceback belongs in the log.
    """
    what, text = type(error).__name__, str(error)
    if isinstance(error, SpecError | InputDataError):
        return _short(text)
    own = [at for at in traceback.extract_tb(error.__traceback__) if is_users(at.filename)]
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return _short(f"{what}: {text}" if text else what) + place


def way_there(error: BaseException) -> str:
    """Return the traceback from the app's own code on, as text; empty if none of it is the app's.

    For an app that could not be imported it is the traceback of what its import raised.
    """
    # A SpecError made in Warren has no frame of the app's; what caused it may have.
    if isinstance(error, SpecError) and error.__cause__ is not None:
        return way_there(error.__cause__)
    frames = traceback.extract_tb(error.__traceback__)
    # Frames before the app's first one are Warren's and libraries', and tell a user nothing.
    first = next((at for at, frame in enumerate(frames) if is_users(frame.filename)), None)
    if first is None:
        return ""
    lines = traceback.StackSummary.from_list(frames[first:]).format()
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip("\n")


def _short(text: str) -> str:
    """Return a text as one line of at most ``_CHARS`` characters."""
    return " ".join(text.split())[:_CHARS]
