"""Submissions: what is wrong with one, and the jobs that it means."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

import msgspec

from warren.serve.queue.refusals import Refusal
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import CommandSpec, Submission
from warren.serve.records.users import NO_NOTICES

ARRAY_MOST: Final = 10_000
"""Most jobs of one array or sweep."""
INDEX_MOST: Final = 1_000_000
"""Largest index of a job in an array."""
PRIORITY_MOST: Final = 1_000
"""Largest priority; its negative is the smallest."""
RETRIES_MOST: Final = 100
"""Most retries of a job."""
COMMAND_BYTES_MOST: Final = 128 * 1024
"""Most bytes of a command with its environment, each in UTF-8; Linux takes no longer argument."""
ENVIRONMENT_BYTES_MOST: Final = 1024 * 1024
"""Most bytes of an environment in UTF-8."""
URL_MOST: Final = 2_000
"""Most characters of the URL of notices."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME: Final = re.compile(r"[\w.:@+-]{1,100}")
_NUMERIC: Final = re.compile(r"\d+(_\d+)?")


class JobMember(NamedTuple):
    """One job of a submission; ``place`` is its index in an array or sweep."""

    place: int | None
    spec: CommandSpec


def checked(submission: Submission) -> None:
    """Refuse a submission that is wrong by itself, whatever the queue holds.

    Raises
    ------
    Refusal
        With one line that names the field and what is allowed.
    """
    spec = submission.spec
    for problem in (
        *_text_problems(spec),
        *_number_problems(spec),
        *_resume_problems(spec),
        *_array_problems(submission),
    ):
        raise Refusal("wrong", problem)


def _text_problems(spec: CommandSpec) -> Iterator[str]:
    if not spec.command or not spec.command[0]:
        yield "command: is empty; write the program and its arguments after --"
    if any("\0" in word for word in spec.command):
        yield "command: holds a zero byte"
    if sum(len(word.encode(errors="surrogatepass")) for word in spec.command) > COMMAND_BYTES_MOST:
        yield f"command: is longer than {COMMAND_BYTES_MOST:,} bytes"
    if not spec.folder.startswith("/") or "\0" in spec.folder:
        yield f"folder: {spec.folder!r} is not an absolute path"
    for name, value in spec.environment.items():
        if not name or "=" in name or "\0" in name + value:
            yield f"environment: {name!r} is not a variable that a process can have"
            return
    if sum(len(name) + len(value) for name, value in spec.environment.items()) > (
        ENVIRONMENT_BYTES_MOST
    ):
        yield f"environment: is longer than {ENVIRONMENT_BYTES_MOST:,} bytes"
    if spec.name and not _NAME.fullmatch(spec.name):
        yield f"name: {spec.name!r} may hold at most 100 letters, digits and . : @ + - _"
    if _NUMERIC.fullmatch(spec.name):
        yield f"name: {spec.name!r} looks like the id of a job; begin it with a letter"
    if spec.key is not None and not 0 < len(spec.key) <= 200:
        yield "key: must have 1 to 200 characters"
    yield from url_problems(spec.notify)


def url_problems(url: str) -> Iterator[str]:
    """Yield what is wrong with the URL of notices; no text holds it, since it is a secret."""
    if len(url) > URL_MOST:
        yield f"notify: the URL has more than {URL_MOST:,} characters"
    elif url and url != NO_NOTICES and "://" not in url:
        yield "notify: expected a URL such as mailto://USER:PASSWORD@HOST, or off"


def _number_problems(spec: CommandSpec) -> Iterator[str]:
    if spec.devices < 1:
        yield f"devices: {spec.devices} is less than 1"
    if spec.time_limit_s is not None and not 0 < spec.time_limit_s < math.inf:
        yield f"time limit: {spec.time_limit_s:g} s is not above 0"
    if spec.memory_bytes is not None and spec.memory_bytes < 1:
        yield f"memory: {spec.memory_bytes} bytes is less than 1"
    if abs(spec.priority) > PRIORITY_MOST:
        yield f"priority: {spec.priority} is not between -{PRIORITY_MOST:,} and {PRIORITY_MOST:,}"
    if not 0 <= spec.retries <= RETRIES_MOST:
        yield f"retries: {spec.retries} is not between 0 and {RETRIES_MOST}"
    if not 0 <= spec.grace_s <= 86_400:
        yield f"grace: {spec.grace_s:g} s is not between 0 s and 24 h"


def _resume_problems(spec: CommandSpec) -> Iterator[str]:
    resume = spec.resume
    if resume is None:
        return
    if not 0 <= resume.grace_s <= 86_400:
        yield f"save time: {resume.grace_s:g} s is not between 0 s and 24 h"
    if resume.checkpoints and (
        not resume.checkpoints.startswith("/") or "\0" in resume.checkpoints
    ):
        yield f"checkpoints: {resume.checkpoints!r} is not an absolute path"
    if "\0" in resume.template or len(resume.template) > 10_000:
        yield "resume: holds a zero byte, or more than 10,000 characters"
    try:
        shlex.split(resume.template)
    except ValueError as error:
        yield f"resume: {resume.template!r} is not a list of words: {str(error).lower()}"


def _array_problems(submission: Submission) -> Iterator[str]:
    if submission.array is not None and submission.sweep is not None:
        yield "array: a submission is an array or a sweep, not both"
    if submission.array is not None:
        first, last = submission.array
        if not 0 <= first <= last <= INDEX_MOST:
            yield f"array: {first}-{last} is not a range of indices from 0 to {INDEX_MOST:,}"
        elif last - first >= ARRAY_MOST:
            yield f"array: has {last - first + 1:,} jobs; {ARRAY_MOST:,} are allowed"
    if submission.sweep is not None:
        yield from _sweep_problems(submission.sweep, submission.spec.command)


def _sweep_problems(sweep: dict[str, tuple[str, ...]], command: tuple[str, ...]) -> Iterator[str]:
    if not sweep:
        yield "sweep: names no value"
    for name, values in sweep.items():
        if name == "index" or not _VARIABLE.fullmatch(name):
            yield f"sweep: {name!r} is not a name of letters, digits and _, other than 'index'"
        elif not values:
            yield f"sweep: {name} has no values"
        elif not any(f"{{{name}}}" in word for word in command):
            yield f"sweep: the command does not hold {{{name}}}"
    if math.prod(len(values) for values in sweep.values()) > ARRAY_MOST:
        yield f"sweep: has more than {ARRAY_MOST:,} combinations"


def members(submission: Submission) -> Iterator[JobMember]:
    """Yield the jobs of a submission; ``{name}`` and ``{index}`` in commands become values."""
    spec = submission.spec
    if submission.sweep is not None:
        names = list(submission.sweep)
        for index, values in enumerate(product(*submission.sweep.values())):
            values_by_name = dict(zip(names, values, strict=True))
            yield JobMember(index, _filled(spec, {**values_by_name, "index": str(index)}))
    elif submission.array is not None:
        first, last = submission.array
        for index in range(first, last + 1):
            yield JobMember(index, _filled(spec, {"index": str(index)}))
    else:
        yield JobMember(None, spec)


def _filled(spec: CommandSpec, values: dict[str, str]) -> CommandSpec:
    """Return a spec with ``{name}`` of its words replaced; other braces stay."""
    pattern = re.compile(r"\{(" + "|".join(map(re.escape, values)) + r")\}")

    def filled(word: str) -> str:
        return pattern.sub(lambda hit: values[hit[1]], word)

    resume = spec.resume
    if resume is not None:
        resume = msgspec.structs.replace(resume, template=filled(resume.template))
    command = tuple(map(filled, spec.command))
    return msgspec.structs.replace(spec, command=command, resume=resume)


def placeable(queue: Queue, spec: CommandSpec) -> CommandSpec:
    """Return a spec with its type as the machines spell it.

    Raises
    ------
    Refusal
        If machines are known, and none of them could ever run it: kind ``never``.
    """
    if not queue.machines:
        return spec
    wanted = spec.device_type
    if wanted is not None:
        known = device_types(queue)
        same = [one for one in known if one.casefold() == wanted.casefold()]
        if not same:
            by_name = {one.casefold(): one for one in known}  # `CPU` and `cpu` mean the same
            names = ", ".join(by_name.values())
            raise Refusal("never", f"no machine has a device of type '{wanted}'; known: {names}")
        if wanted not in same:
            spec = msgspec.structs.replace(spec, device_type=same[0])
    if (reason := never(queue, spec)) is not None:
        raise Refusal("never", reason)
    return spec


def device_types(queue: Queue) -> list[str]:
    """Return the kinds and types of all devices of the known machines, sorted."""
    return sorted({*queue.types, *(total.kind for total in queue.types.values())})


def never(queue: Queue, spec: CommandSpec) -> str | None:
    """Return why no known machine could ever run a job; None if one could."""
    if spec.host is not None and spec.host not in queue.machines:
        known = ", ".join(queue.machines)
        return f"host '{spec.host}' is unknown; known: {known}"
    hosts = [one for name, one in queue.machines.items() if spec.host is None or name == spec.host]
    most = max((one.most(spec.device_type) for one in hosts), default=0)
    kind = spec.device_type or ("device" if spec.devices == 1 else "devices")
    if most < spec.devices:
        where = f"host {spec.host} has" if spec.host else "the largest host has"
        return f"needs {spec.devices} {kind} on one host; {where} {most}"
    if spec.memory_bytes is not None and all(
        one.machine.memory_bytes < spec.memory_bytes
        for one in hosts
        if one.most(spec.device_type) >= spec.devices
    ):
        return f"needs {spec.memory_bytes:,} bytes of memory; no host with its devices has as much"
    return None
