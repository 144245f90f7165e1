"""What a submission is made of: the command, where it was typed, and what it needs."""

from __future__ import annotations

import os

from warren.serve.client.address import refused

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

_SECRET: Final = ("WARREN_TOKEN",)
"""Variables that stay with the caller: a job needs no token, and jobs are kept in a journal."""
_SHARED: Final = ("devices", "device_type", "share", "host", "memory_bytes", "priority", "retries")
_FIELDS: Final = (
    *_SHARED,
    *("name", "time_limit_s", "grace_s", "held", "key", "after", "resume", "notify"),
)
"""Fields of a command that are sent as they are, where they are given."""


def submission(
    command: Sequence[str],
    *,
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
    array: tuple[int, int] | None = None,
    sweep: Mapping[str, Sequence[str]] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a submission as it is sent.

    Parameters
    ----------
    command
        Program and arguments.
    folder
        Working folder; the current one by default.
    environment
        All variables; those of this process by default.
    array
        First and last index of an array of jobs.
    sweep
        Names with their values: a job for each combination.
    fields
        Further fields of ``warren.serve.records.jobs.CommandSpec``; None stands for its default.

    Raises
    ------
    ServiceError
        If the command is empty, or not text.
    """
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        raise TypeError(f"unknown field {unknown[0]!r}; allowed: {', '.join(_FIELDS)}")
    if not command or not command[0]:
        raise refused("there is no command; write it behind `--`", "wrong")
    unreadable = [word for word in command if not _is_text(word)]
    if unreadable:
        raise refused(f"the command is not UTF-8: {ascii(unreadable[0])[:80]}", "wrong")
    spec = {
        "command": [*command],
        "folder": os.path.abspath(folder or os.getcwd()),
        "environment": kept(os.environ if environment is None else environment),
        **{name: value for name, value in fields.items() if value not in (None, (), "", False)},
    }
    body: dict[str, Any] = {"spec": spec}
    if array is not None:
        body["array"] = [*array]
    if sweep:
        body["sweep"] = {name: [*values] for name, values in sweep.items()}
    return body


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that go with a job: all that are text, without the caller's token."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _SECRET and _is_text(name) and _is_text(value)
    }


def _is_text(word: str) -> bool:
    """Tell whether a word is text that can be sent: bytes of other encodings are not."""
    return word.isascii() or not any("\ud800" <= char <= "\udfff" for char in word)
