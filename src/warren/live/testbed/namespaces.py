"""Hosts of a testbed as places for processes: where each is, and how a process gets into it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from warren.live.testbed.iproute import refusal
from warren.live.testbed.names import HOSTS_FILES, NAMESPACES, namespace
from warren.live.testbed.records import TestbedRecord
from warren.live.testbed.status import one_standing

# Flags of the kernel (linux/sched.h, linux/mount.h): CLONE_NEWNET, CLONE_NEWNS, MS_BIND, and
# MS_REC | MS_SLAVE.
_NEW_NET: Final = 0x40000000
_NEW_MOUNTS: Final = 0x00020000
_BIND: Final = 0x1000
_SLAVES_BELOW: Final = 0x4000 | 0x80000
_ETC: Final = Path("/etc")


class HostNamespace(msgspec.Struct, frozen=True, array_like=True):
    """A host: its network namespace, the cgroup of its quota (empty: none) and its address."""

    namespace: str = ""
    cgroup: str = ""
    address: str = ""


HERE: Final = HostNamespace()
"""This machine itself."""


def places(name: str, hosts: Sequence[str]) -> tuple[HostNamespace, ...]:
    """Return the hosts of these names in a testbed that is up, in the order of ``hosts``.

    Raises
    ------
    SpecError
        If it is not up as recorded, lacks one of them, or cannot be used by this process.
    """
    record = one_standing(name)
    for host in hosts:
        if record.bed.index(host) is None:
            known = ", ".join(one.name for one in record.bed.hosts)
            raise refusal(f"{name} has no host {host!r}, which the cluster names; it has: {known}")
    return tuple(place_of(record, record.bed.index(host) or 0) for host in hosts)


def place_of(record: TestbedRecord, index: int) -> HostNamespace:
    """Return one host of a testbed, by its position."""
    where = namespace(record.bed.name, index)
    cgroup = next((one for one in record.cgroups if Path(one).name == where), "")
    return HostNamespace(where, cgroup, record.bed.address(index))


def enter_network(place: HostNamespace) -> None:
    """Move this thread, and its children from now on, into a host's network with its hosts file.

    As ``ip netns exec`` does it, but that ``/sys`` stays: the machine's cgroups are found there.

    Raises
    ------
    OSError
        If the host is not there any more, or this process may not.
    """
    if not place.namespace:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(NAMESPACES / place.namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _done(libc.setns(fd, _NEW_NET), place.namespace)
    finally:
        os.close(fd)
    # Mounts of this process's own, which do not reach the machine's: only it sees the hosts file.
    _done(libc.unshare(_NEW_MOUNTS), "mounts")
    _done(libc.mount(b"none", b"/", None, _SLAVES_BELOW, None), "/")
    folder = HOSTS_FILES / place.namespace
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (_ETC / file.name).exists():
            target = os.fsencode(_ETC / file.name)
            _done(libc.mount(os.fsencode(file), target, None, _BIND, None), file.name)


@contextmanager
def inside(place: HostNamespace) -> Iterator[None]:
    """Have this thread in a host's network for a while: sockets it opens stay there.

    Raises
    ------
    OSError
        If the host is gone, or this process has no right to enter it.
    """
    if not place.namespace:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(NAMESPACES / place.namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _done(libc.setns(there, _NEW_NET), place.namespace)
        try:
            yield
        finally:
            _done(libc.setns(own, _NEW_NET), "the network from before")
    finally:
        os.close(own)
        os.close(there)


def _done(result: int, what: str) -> None:
    """Raise the error of a call to the C library that has failed."""
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
