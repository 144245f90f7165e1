"""A testbed file, or the options in its place, become a ``warren.model.testbed`` value."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TypeVar

from warren.model.errors import Problem, SpecError
from warren.model.testbed import COMMAND, DEFAULT_QUEUE, Bed, BedHost, checked_name
from warren.workload.specs.testbed import (
    MAX_HOSTS,
    SUBNET,
    BedHostSpec,
    BedSpec,
    link_bps,
    network,
    queue,
    quota,
)
from warren.workload.text import Reader, fetch
from warren.workload.validation import check
from warren.workload.yaml_document import parse_document

T = TypeVar("T")
Given = TypeVar("Given")


def load_testbed(path: str, read: Reader, name: str) -> Bed:
    """The testbed that a file describes.

    Raises
    ------
    SpecError
        With all problems of the file.
    """
    problems: list[Problem] = []
    document = parse_document(path, fetch(path, read))
    spec = check(BedSpec, document, problems)
    if spec is None:
        raise SpecError(problems)
    hosts: list[BedHost] = []
    for position, one in enumerate(spec.hosts):
        made = _hosts(one)
        known = {host.name for host in hosts}
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
    """Hosts ``h0``, ``h1``, ... that are all alike, as options describe them; ``shared``: --queue.

    Raises
    ------
    SpecError
        Naming the option that is wrong.
    """
    rate_bps = _option("--link", link_bps, link)
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
    """What is wrong with a number of hosts; empty if nothing is."""
    most = min(MAX_HOSTS, ipaddress.IPv4Network(subnet).num_addresses - 2)
    if 2 <= number <= most:
        return ""
    return f"must be 2 to {most} hosts in {subnet}, got {number}"


def _option(field: str, parse: Callable[[Given], T], value: Given) -> T:
    try:
        return parse(value)
    except ValueError as error:
        raise SpecError(Problem(file=COMMAND, field=field, message=str(error))) from None
