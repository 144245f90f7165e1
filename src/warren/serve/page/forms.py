"""What the forms of the page send: read, and turned into what the API takes."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from warren.model.units import parse_time_s
from warren.serve.api.endpoint import BODY_MAX_BYTES, body_of
from warren.serve.api.errors import Failure
from warren.serve.records.jobs import CommandSpec, Submission

_FIELDS_MAX = 100


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a field that is given twice the last counts.

    Raises
    ------
    Failure
        400 if it is no form, 413 if it is too long.
    """
    body = await body_of(request, BODY_MAX_BYTES)
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict"
        )
    except ValueError as error:
        raise Failure("wrong", f"the form cannot be read: {error}") from None
    return {name: value.strip() for name, value in pairs}


def submission_of(form: Mapping[str, str], user: str) -> Submission:
    """Return the submission of the form of the queue.

    Its command is run by ``sh`` with the few variables that a login sets.

    Raises
    ------
    Failure
        400 with the name of the field that is wrong.
    """
    command = form.get("command", "").replace("\r\n", "\n")
    if not command:
        raise Failure("wrong", "command: write the command to run")
    spec = CommandSpec(
        command=("sh", "-c", command),
        folder=form.get("folder", ""),
        environment=environment_of(user),
        name=form.get("name", ""),
        devices=number(form, "devices", 1),
        device_type=form.get("device_type") or None,
        time_limit_s=_time_limit(form.get("time", "")),
        priority=number(form, "priority", 0),
    )
    return Submission(spec)


def number(form: Mapping[str, str], name: str, default: int) -> int:
    """Return a whole number of a form.

    Raises
    ------
    Failure
        400 with the name of the field if it is none.
    """
    text = form.get(name, "")
    if not text:
        return default
    if len(text) > 9 or not text.removeprefix("-").isdecimal():
        raise Failure("wrong", f"{name}: {text[:40]!r} is no whole number")
    return int(text)


def home_of(user: str) -> str:
    """Return the home folder of an account; ``/tmp`` for a user without one here."""
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return "/tmp"  # noqa: S108 - a folder that is there; the user changes it


def environment_of(user: str) -> dict[str, str]:
    """Return the variables of a command that no shell of its user has submitted."""
    return {
        "HOME": home_of(user),
        "LANG": "C.UTF-8",
        "LOGNAME": user,
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "USER": user,
    }


def _time_limit(text: str) -> float | None:
    if not text:
        return None
    try:
        return parse_time_s(text)
    except ValueError as error:
        raise Failure("wrong", f"time limit: {error}") from None
