"""Looking at the testbeds of this machine: whether they match their records, and the processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from warren.live.testbed import orphans as leftovers
from warren.live.testbed.cpu_quota import quota_of, quota_period_us
from warren.live.testbed.iproute import answer_of, check_usable, refusal
from warren.live.testbed.names import (
    HOSTS_FILES,
    NAMESPACES,
    NIC,
    namespace,
    namespaces,
    owner,
    port,
    switch,
)
from warren.live.testbed.records import TestbedRecord, TestbedRecords
from warren.live.testbed.setup_commands import queue_minors
from warren.model.decision import CLASSES
from warren.model.errors import SpecError
from warren.model.testbed import Bed

# ``tc -j class show`` prints HTB's classes as text all the same (iproute2 6.1), so that they are
# read by a pattern; ``ip -j`` gives JSON.
_PORT: Final = re.compile(r"class htb 1:1 .*\brate ([\d.]+)([KMGT]?)bit ")
_QUEUE: Final = re.compile(r"class htb 1:([0-9a-f]+) ")
_UNITS: Final = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ROUNDED: Final = 0.01
"""``tc`` prints a rate in a few digits, and the kernel keeps whole bytes."""


class TestbedStatus(NamedTuple):
    """A testbed with a record, or remains of one without (``record`` None).

    ``faults`` describe deviations from the record; ``processes_H``: number of processes by host.
    """

    name: str
    record: TestbedRecord | None
    faults: tuple[str, ...]
    processes_H: tuple[int, ...]


def standing(name: str | None = None) -> list[TestbedStatus]:
    """Look at all testbeds of this machine and remains of testbeds, or at those of one name."""
    check_usable()
    # Locked meanwhile: testbeds that another command is making or removing are no fault.
    with TestbedRecords() as records:
        known = [one for one in records.names() if name in (None, one)]
        found = [_standing(records, one) for one in known]
    left = {owner(Path(one).name) or "" for part in leftovers.found(name) for one in part}
    lost = sorted(left - {*known})
    return found + [TestbedStatus(one, None, ("remains without a record",), ()) for one in lost]


def one_standing(name: str) -> TestbedRecord:
    """Return the record of the testbed of this name, which is up as recorded.

    Raises
    ------
    SpecError
        If the testbed is not up, or not as recorded.
    """
    every = standing(name)
    if not every or every[0].record is None:
        raise refusal(f"{name} is not up; `warren testbed up --name {name}` makes it")
    if every[0].faults:
        again = f"`warren testbed down --name {name}` and `up` make it again"
        raise refusal(f"{name}: {every[0].faults[0]}; {again}")
    return every[0].record


def _standing(records: TestbedRecords, name: str) -> TestbedStatus:
    """Look at one testbed that has a record."""
    try:
        record = records.read(name)
    except SpecError:
        record = None
    if record is None:
        return TestbedStatus(name, None, ("its record cannot be read",), ())
    bed = record.bed
    inside = (leftovers.processes([namespace(bed.name, i)]) for i in range(len(bed.hosts)))
    return TestbedStatus(bed.name, record, tuple(faults(record)), tuple(map(len, inside)))


def faults(record: TestbedRecord) -> list[str]:
    """Describe each deviation of a testbed from its record in one sentence; empty if none."""
    if not record.made:
        return ["its making was cut off"]
    bed = record.bed
    missing = [name for name in namespaces(bed) if not (NAMESPACES / name).exists()]
    # Without its namespace nothing of a host can be looked at.
    if missing:
        return [f"there is no namespace {name}" for name in missing]
    at_switch = _ports(switch(bed.name), [port(i) for i in range(len(bed.hosts))])
    queues = {minor for kind in range(CLASSES) for minor in queue_minors(bed.queue, kind)}
    found = []
    for i, one in enumerate(bed.hosts):
        where = namespace(bed.name, i)
        # A link is shaped at both ends: a host's sending in the host, its receiving at the bridge.
        ports = {"out of": _ports(where, [NIC])[0], "into": at_switch[i]}
        for way, (rate_bps, minors) in ports.items():
            if rate_bps is None or abs(rate_bps - one.link_bps) > _ROUNDED * one.link_bps:
                found.append(f"the rate {way} {one.name} is not {one.link_bps / 1e6:g} Mbit/s")
            elif not queues <= minors:
                found.append(f"the link {way} {one.name} does not tell classes of flows apart")
        if not _has_address(where, bed.address(i)):
            found.append(f"{one.name} has not the address {bed.address(i)}")
        if not (HOSTS_FILES / where / "hosts").exists():
            found.append(f"{one.name} has no hosts file")
    return found + list(_wrong_quotas(bed, record.cgroups))


def _ports(where: str, devices: list[str]) -> list[tuple[float | None, set[int]]]:
    """Return the limits of some devices in a namespace, in bits/s, and their HTB classes.

    None: it is not limited. Classes are identified by their minor numbers.
    """
    shown = (answer_of("tc", ["-n", where, "class", "show", "dev", one]) for one in devices)
    return [
        (
            float(match[1]) * _UNITS[match[2]] if (match := _PORT.search(text)) else None,
            {int(minor, 16) for minor in _QUEUE.findall(text)},
        )
        for text in shown
    ]


def _has_address(where: str, address: str) -> bool:
    """Tell whether the link of a host is up and has an address."""
    text = answer_of("ip", ["-n", where, "-j", "addr", "show", "dev", NIC])
    links = json.loads(text) if text else []
    return any(
        "UP" in link.get("flags", ()) and address == one.get("local")
        for link in links
        for one in link.get("addr_info", ())
    )


def _wrong_quotas(bed: Bed, cgroups: tuple[str, ...]) -> Iterator[str]:
    """Describe hosts whose quota of processors is not the requested one."""
    # Cgroups are recorded in the order of hosts, of limited ones only.
    limited = [one for one in bed.hosts if one.cpus is not None]
    for one, cgroup in zip(limited, cgroups, strict=True):
        assert one.cpus is not None
        share, period_us = quota_of(Path(cgroup)) or (0.0, 0)
        if abs(share - one.cpus) > _ROUNDED * one.cpus or period_us != quota_period_us(one.cpus):
            yield f"{one.name} is not limited to {one.cpus:g} processors"
