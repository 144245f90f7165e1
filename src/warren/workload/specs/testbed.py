"""What a testbed file may say, and what the options of ``warren testbed up`` may say."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, cast

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from warren.model.testbed import DEFAULT_QUEUE, QUEUES, Queue
from warren.model.units import parse_rate_bps
from warren.workload.specs.types import Format, Spec, choice
from warren.workload.text import shown

MAX_HOSTS: Final = 64
MIN_LINK_BPS: Final = 10_000_000
MAX_LINK_BPS: Final = 100_000_000_000
MIN_CPUS: Final = 0.01
"""A quota of 1 ms in 100 ms, the least that the kernel takes."""
MAX_CPUS: Final = 1024
SUBNET: Final = "10.77.0.0/24"
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def link_bps(value: object) -> int:
    """A rate of a link, in whole bits/s; raises ValueError."""
    if isinstance(value, str) and len(value) > 100:
        raise ValueError(f"{shown(value)} is too long")
    rate_bps = parse_rate_bps(value)
    if not MIN_LINK_BPS <= rate_bps <= MAX_LINK_BPS:
        raise ValueError(f"must be from 10 Mbit to 100 Gbit, got {shown(value)}")
    return round(rate_bps)


def quota(value: float) -> float:
    """A quota of processors; raises ValueError."""
    if not MIN_CPUS <= value <= MAX_CPUS:
        raise ValueError(f"must be from {MIN_CPUS:g} to {MAX_CPUS} processors, got {shown(value)}")
    return value


def network(value: str) -> str:
    """A private IPv4 network; raises ValueError."""
    allowed = "allowed: a private IPv4 network of at most /29, like 10.77.0.0/24"
    try:
        found = ipaddress.IPv4Network(value)
    except ValueError:
        raise ValueError(f"{shown(value)} is not a network; {allowed}") from None
    if not found.is_private or found.is_loopback or not 8 <= found.prefixlen <= 29:
        raise ValueError(f"{shown(value)} cannot be used; {allowed}")
    return str(found)


def _host(value: str) -> str:
    if not _HOST.fullmatch(value) or value == "localhost":
        raise ValueError(f"{shown(value)} is not a host name; allowed: a-z 0-9 and - inside")
    return value


def queue(value: str) -> Queue:
    """How flows share a link; raises ValueError."""
    if value not in QUEUES:
        raise ValueError(f"{shown(value)} is not known; allowed: {', '.join(QUEUES)}")
    return cast("Queue", value)


class BedHostSpec(Spec):
    """One host, or ``count`` equal ones named ``NAME-0``, ``NAME-1``, ..."""

    name: Annotated[str, AfterValidator(_host)] = Field(
        description="1 to 63 of a-z 0-9 - as in host names; differs from other hosts."
    )
    count: int | None = Field(
        None, ge=1, le=MAX_HOSTS, description="So many hosts; default: one, called name."
    )
    link: Annotated[
        int, BeforeValidator(link_bps), WithJsonSchema({"type": ["string", "number"]})
    ] = Field(description='Its rate out, and as much in: "200 Mbit", or a number of bits/s.')
    cpus: Annotated[float, AfterValidator(quota)] | None = Field(
        None, description="Of all that runs on it, in processors; default: not limited."
    )


class BedSpec(Spec):
    """Hosts on one Linux machine."""

    format: Format = 1
    subnet: Annotated[str, AfterValidator(network)] = Field(
        SUBNET, description="Addresses of the hosts, from the first on."
    )
    queue: Annotated[str, *choice(*QUEUES)] = Field(
        DEFAULT_QUEUE, description="Before each link: flows in turns (fair), or one for all (fifo)."
    )
    hosts: list[BedHostSpec] = Field(description="2 to 64 in all.")
