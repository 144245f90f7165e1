"""Build a testbed of a testbed file, or of the options of ``warren testbed up``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Final, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from warren.model.errors import Problem, SpecError
from warren.model.testbed import COMMAND, DEFAULT_QUEUE, QUEUES, Bed, BedHost, Queue, checked_name
from warren.model.units import parse_rate_bps
from warren.workload.specs.types import Format, Spec, choice
from warren.workload.text import Reader, fetch_text, shown
from warren.workload.validation import check
from warren.workload.yaml_document import parse_document

MAX_HOSTS: Final = 64
MIN_LINK_BPS: Final = 10_000_000
MAX_LINK_BPS: Final = 100_000_000_000
MIN_CPUS: Final = 0.01
"""A quota of 1 ms in 100 ms, the least that the kernel takes."""
MAX_CPUS: Final = 1024
SUBNET: Final = "10.77.0.0/24"
# A label of a host name (RFC 1123): 1 to 63 characters, no hyphen at either end.
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def link_bps(value: object) -> int:
    """Parse the rate of a link, in whole bits/s; raises ValueError."""
    if isinstance(value, str) and len(value) > 100:
        raise ValueError(f"{shown(value)} is too long")
    rate_bps = parse_rate_bps(value)
    if not MIN_LINK_BPS <= rate_bps <= MAX_LINK_BPS:
        raise ValueError(f"must be from 10 Mbit to 100 Gbit, got {shown(value)}")
    return round(rate_bps)


def quota(value: float) -> float:
    """Check a quota of processors; raises ValueError."""
    if not MIN_CPUS <= value <= MAX_CPUS:
        raise ValueError(f"must be from {MIN_CPUS:g} to {MAX_CPUS} processors, got {shown(value)}")
    return value


def network(value: str) -> str:
    """Check a private IPv4 network; raises ValueError."""
    allowed = "allowed: a private IPv4 network of at most /29, like 10.77.0.0/24"
    try:
        found = ipaddress.IPv4Network(value)
    except ValueError:
        raise ValueError(f"{shown(value)} is not a network; {allowed}") from None
    # A /8 is the largest private network; a /29 has addresses for six hosts.
    if not found.is_private or found.is_loopback or not 8 <= found.prefixlen <= 29:
        raise ValueError(f"{shown(value)} cannot be used; {allowed}")
    return str(found)


def _host(value: str) -> str:
    if not _HOST.fullmatch(value) or value == "localhost":
        raise ValueError(f"{shown(value)} is not a host name; allowed: a-z 0-9 and - inside")
    return value


def queue(value: str) -> Queue:
    """Check how flows share a link; raises ValueError."""
    if value not in QUEUES:
        raise ValueError(f"{shown(value)} is not known; allowed: {', '.join(QUEUES)}")
    return cast("Queue", value)


class BedHostSpec(Spec):
    """One host, or ``count`` equal ones named ``NAME-0``, ``NAME-1``, ..."""

    name: Annotated[str, AfterValidator(_host)] = Field(
        description="Name of the host, unique in the testbed: 1 to 63 characters of a-z 0-9 -"
    )
    count: int | None = Field(
        None,
        ge=1,
        le=MAX_HOSTS,
        description="Number of equal hosts, called NAME-0, NAME-1, ...; default: one host, "
        "called NAME.",
    )
    link: Annotated[
        int, BeforeValidator(link_bps), WithJsonSchema({"type": ["string", "number"]})
    ] = Field(
        description='Rate of the host\'s link in each direction: "200 Mbit", or a number of bits/s.'
    )
    cpus: Annotated[float, AfterValidator(quota)] | None = Field(
        None,
        description="Number of processors that all programs of the host share; default: not "
        "limited.",
    )


class BedSpec(Spec):
    """Hosts on one Linux machine."""

    format: Format = 1
    subnet: Annotated[str, AfterValidator(network)] = Field(
        SUBNET, description="Subnet from which the hosts get their addresses, in order."
    )
    queue: Annotated[str, *choice(*QUEUES)] = Field(
        DEFAULT_QUEUE,
        description="Queue before each link. fair: flows take turns; fifo: one queue for all.",
    )
    hosts: list[BedHostSpec] = Field(description="The hosts of the testbed: 2 to 64 in all.")


T = TypeVar("T")
Given = TypeVar("Given")


def load_testbed(path: str, read: Reader, name: str) -> Bed:
    """Load the testbed that a file describes.

    Raises SpecError with all problems of the file.
    """
    problems: list[Problem] = []
    document = parse_document(path, fetch_text(path, read))
    spec = check(BedSpec, document, problems)
    if spec is None:
        raise SpecError(problems)
    hosts: list[BedHost] = []
    for position, one in enumerate(spec.hosts):
        made = _hosts(one)
        known = {host.name for host in hosts}
        # An entry with a count makes several names, each of which another entry may have.
        twice = next((host.name for host in made if host.name in known), None)
        if twice is not None:
            message = f"{twice} is the name of another host"
            problems.append(document.problem(("hosts", position, "name"), message))
        hosts += made
    message = _wrong_number(len(hosts), spec.subnet)
    if message:
        problems.append(document.problem(("hosts",), message))
    if problems:
        raise SpecError(problems)
    return Bed(
        name=checked_name(name), subnet=spec.subnet, hosts=tuple(hosts), queue=queue(spec.queue)
    )


def equal_hosts(
    number: int,
    link: str,
    cpus: float | None,
    subnet: str | None,
    name: str,
    shared: str | None = None,
) -> Bed:
    """Build hosts ``h0``, ``h1``, ... that are all alike, from options; ``shared`` is --queue.

    Raises SpecError that names the option that is wrong.
    """
    rate_bps = _option("--link", link_bps, link)
    # Each option is parsed on its own, so that an error names the right one.
    share = None if cpus is None else _option("--cpus", quota, cpus)
    within = SUBNET if subnet is None else _option("--subnet", network, subnet)
    by = _option("--queue", queue, DEFAULT_QUEUE if shared is None else shared)
    hosts = (BedHost(name=f"h{i}", link_bps=rate_bps, cpus=share) for i in range(number))
    message = _wrong_number(number, within)
    if message:
        raise SpecError(Problem(file=COMMAND, field="--hosts", message=message))
    return Bed(name=checked_name(name), subnet=within, hosts=tuple(hosts), queue=by)


def _hosts(spec: BedHostSpec) -> list[BedHost]:
    names = [spec.name] if spec.count is None else [f"{spec.name}-{i}" for i in range(spec.count)]
    return [BedHost(name=name, link_bps=spec.link, cpus=spec.cpus) for name in names]


def _wrong_number(number: int, subnet: str) -> str:
    """Return the fault of a number of hosts; empty if there is none."""
    # Two addresses of a network are no hosts: its own and that of broadcasts.
    most = min(MAX_HOSTS, ipaddress.IPv4Network(subnet).num_addresses - 2)
    if 2 <= number <= most:
        return ""
    return f"must be 2 to {most} hosts in {subnet}, got {number}"


def _option(field: str, parse: Callable[[Given], T], value: Given) -> T:
    """Parse the value of an option; an error names the option."""
    try:
        return parse(value)
    except ValueError as error:
        raise SpecError(Problem(file=COMMAND, field=field, message=str(error))) from None
