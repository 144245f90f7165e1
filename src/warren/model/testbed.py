"""A testbed: hosts on one Linux machine, each behind a network link of a stated rate. Immutable."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from warren.model.errors import Problem, SpecError

COMMAND: Final = "testbed"
"""Stands in place of a file in a problem without one."""
NAME_TEXT: Final = "1 to 20 of a-z 0-9, and - inside"
Queue = Literal["fair", "fifo"]
QUEUES: Final = get_args(Queue)
"""Queues before each link: a queue for every flow, in turns (``fair``), or one for all."""
DEFAULT_QUEUE: Final[Queue] = "fair"
"""Rings share such links as models of them say (decision 0025)."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")


def checked_name(name: str) -> str:
    """Return a testbed's name, which becomes part of the names of its namespaces, if it is one.

    Raises
    ------
    SpecError
        If it is not a name.
    """
    # The name comes from a command line: a message repeats only its beginning, in ASCII.
    if not is_name(name):
        message = f"{name[:60]!a} is not a name; allowed: {NAME_TEXT}"
        raise SpecError(Problem(file=COMMAND, field="--name", message=message))
    return name


def is_name(name: str) -> bool:
    """Tell whether a testbed may have this name: as ``NAME_TEXT`` says."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class BedHost:
    """One host: its rate in each direction, bits/s, and its processors; ``cpus`` None: all."""

    name: str
    link_bps: int
    cpus: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """All hosts of a testbed; host i has the address i + 1 of ``subnet`` (like 10.77.0.0/24)."""

    name: str
    subnet: str
    hosts: tuple[BedHost, ...]
    queue: Queue = DEFAULT_QUEUE

    def address(self, index: int) -> str:
        """Return the address of one host, without the length of the prefix."""
        # Address 0 of a subnet names the subnet itself.
        return str(ipaddress.IPv4Network(self.subnet)[index + 1])

    @property
    def prefix_bits(self) -> int:
        """Return the length of the prefix of ``subnet``."""
        return ipaddress.IPv4Network(self.subnet).prefixlen

    def index(self, host: str) -> int | None:
        """Return the position of a host; None if no host has this name."""
        # A testbed has a few hosts, so a search is cheap.
        names = [one.name for one in self.hosts]
        return names.index(host) if host in names else None
