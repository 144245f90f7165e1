"""Making a testbed and removing it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from warren.live.testbed import orphans as leftovers
from warren.live.testbed.cpu_quota import make_quota, quota_home
from warren.live.testbed.iproute import check_usable, refusal, run_batch
from warren.live.testbed.names import hosts_text, namespace, namespaces
from warren.live.testbed.orphans import Orphans
from warren.live.testbed.records import TestbedRecord, TestbedRecords
from warren.live.testbed.setup_commands import batches
from warren.live.testbed.status import faults
from warren.model.errors import EngineError, SpecError
from warren.model.testbed import Bed


class TestbedMade(NamedTuple):
    """The result of ``make``. ``repaired``: remains of an earlier attempt were removed first."""

    changed: bool
    repaired: bool


class TestbedRemoved(NamedTuple):
    """The result of ``remove``. ``ended``: number of processes that were in the hosts."""

    changed: bool
    ended: int


def make(bed: Bed) -> TestbedMade:
    """Bring a testbed up; if an equal one is up, leave it alone.

    Raises
    ------
    SpecError
        If it cannot be made here, or another one of this name is up.
    EngineError
        If making it fails; nothing is left then.
    """
    check_usable()
    cgroups = _cgroups(bed)
    with TestbedRecords() as records:
        known, remains = records.read(bed.name), leftovers.found(bed.name)
        if known is None and remains:
            raise refusal(f"there are things with the names of {bed.name}; {_down_first(bed)}")
        if known is not None and known.made and not faults(known):
            if known.bed != bed:
                raise refusal(f"{bed.name} is up in another shape; {_down_first(bed)}")
            return TestbedMade(changed=False, repaired=False)
        # Cut off or damaged: the remains go before it is made again.
        if known is not None:
            leftovers.remove(_all(known, remains), records.lock)
        # The record comes first: a kill from here on leaves a list of everything that may exist.
        paths = tuple(str(path) for path in cgroups.values())
        record = TestbedRecord(bed=bed, namespaces=tuple(namespaces(bed)), cgroups=paths)
        records.write(record)
        try:
            _make(bed, cgroups, records.lock)
            records.write(msgspec.structs.replace(record, made=True))
        except BaseException:
            leftovers.remove(_all(record, leftovers.found(bed.name)), records.lock)
            records.remove(bed.name)
            raise
        return TestbedMade(changed=True, repaired=known is not None)


def _down_first(bed: Bed) -> str:
    """Say by which command the testbed of this name is removed first."""
    return f"`warren testbed down --name {bed.name}` first"


def _cgroups(bed: Bed) -> dict[int, Path]:
    """Return, by host, the cgroup that limits it; only of hosts that are limited."""
    limited = [i for i, one in enumerate(bed.hosts) if one.cpus is not None]
    home = quota_home() if limited else Path()
    return {i: home / namespace(bed.name, i) for i in limited}


def _make(bed: Bed, cgroups: Mapping[int, Path], lock: int) -> None:
    """Make namespaces, links, hosts files and cgroups, in this order."""
    for batch in batches(bed):
        run_batch(batch, lock)
    machine = socket.gethostname()
    for i, one in enumerate(bed.hosts):
        leftovers.write_hosts(namespace(bed.name, i), hosts_text(bed, i, machine))
        if one.cpus is not None:
            make_quota(cgroups[i], one.cpus)


def _all(record: TestbedRecord, remains: Orphans) -> Orphans:
    """Return the parts that a record names together with those found by name."""
    return Orphans(
        tuple(sorted({*record.namespaces, *remains.namespaces})),
        tuple(sorted({*record.namespaces, *remains.folders})),
        tuple(sorted({*record.cgroups, *remains.cgroups})),
    )


def remove(name: str) -> TestbedRemoved:
    """Take a testbed down: the parts that its record names, and those with its names.

    Raises
    ------
    EngineError
        If a part of it cannot be removed; its record stays then.
    """
    check_usable()
    with TestbedRecords() as records:
        what, known = leftovers.found(name), name in records.names()
        try:
            record = records.read(name)
            what = what if record is None else _all(record, what)
        except SpecError:  # it is damaged; the names must do
            pass
        ended = leftovers.remove(what, records.lock) if what else 0
        left = leftovers.found(name)
        if left.namespaces or left.cgroups:  # a folder may be kept by files of others
            what_stays = ", ".join((*left.namespaces, *left.cgroups))
            raise EngineError(f"testbed: {what_stays} cannot be removed")
        records.remove(name)
        return TestbedRemoved(changed=known or bool(what), ended=ended)
