"""Running a command in a host of a testbed."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from warren.live.testbed.cpu_quota import enter
from warren.live.testbed.iproute import refusal
from warren.live.testbed.namespaces import place_of
from warren.live.testbed.status import one_standing


def become(name: str, host: str, command: Sequence[str]) -> NoReturn:
    """Turn this process into a command in a host: its signals and exit status are its own.

    Its environment is the original one of this process, without Warren's own additions.

    Raises
    ------
    SpecError
        If there is no such testbed, host or command.
    """
    record = one_standing(name)
    index = record.bed.index(host)
    if index is None:
        known = ", ".join(one.name for one in record.bed.hosts)
        raise refusal(f"exec: no host {host!r} in {name}; allowed: {known}")
    if shutil.which(command[0]) is None:
        raise refusal(f"exec: no command {command[0]!r}")
    place = place_of(record, index)
    if place.cgroup:
        enter(Path(place.cgroup))
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, not by the caller
        signal.signal(ignored, signal.SIG_DFL)
    # The kernel keeps the environment with which this process was started: a variable that is not
    # in it, or has another value, was set here since.
    own = Path("/proc/self/environ").read_bytes().split(b"\0")
    given = {key: value for key, value in os.environb.items() if key + b"=" + value in own}
    os.execvpe("ip", ["ip", "netns", "exec", place.namespace, *command], given)
