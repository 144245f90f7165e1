"""The names of a testbed's parts: by these names they are found again.

A host is a network namespace ``warren-NAME-I``, and the bridge between them is in one of its own,
``warren-NAME-sw``. So nothing of a testbed is seen among the machine's own links, addresses and
firewall rules, and the contents of a namespace go with it. Names of links are short (Linux allows
15 characters): ``eth0`` in a host, ``br0`` and a port ``pI`` for host I at the bridge.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from warren.model.testbed import Bed

BRIDGE: Final = "br0"
NIC: Final = "eth0"
LOOPBACK: Final = "lo"
NAMESPACES: Final = Path("/run/netns")
"""Folder in which iproute2 keeps the names of namespaces."""
HOSTS_FILES: Final = Path("/etc/netns")
"""Folder with a folder for each namespace; iproute2 mounts their files over those of ``/etc``."""
# At most two digits: a testbed has no more hosts than that.
_OWN: Final = re.compile(r"warren-(?P<name>[a-z0-9-]+)-(\d{1,2}|sw)")


def namespace(name: str, index: int) -> str:
    """Return the namespace of a host of the testbed ``name``; its cgroup is called the same."""
    return f"warren-{name}-{index}"


def switch(name: str) -> str:
    """Return the namespace that holds the bridge of the testbed ``name``."""
    return f"warren-{name}-sw"


def port(index: int) -> str:
    """Return the name of the bridge's end of the link to host ``index``."""
    return f"p{index}"


def namespaces(bed: Bed) -> list[str]:
    """Return all namespaces of a testbed: the switch's, then the hosts'."""
    return [switch(bed.name), *(namespace(bed.name, i) for i in range(len(bed.hosts)))]


def owner(name: str) -> str | None:
    """Return the testbed that a namespace, folder or cgroup belongs to by its name; or None."""
    match = _OWN.fullmatch(name)
    return match["name"] if match else None


def hosts_text(bed: Bed, index: int, machine: str) -> str:
    """Return the text of the hosts file of one host.

    Parameters
    ----------
    bed
        The testbed.
    index
        Index of the host.
    machine
        The machine's own name. Inside, it means the address of this very host, so that a library
        that announces ``gethostname()`` can be reached by the others.
    """
    lines = [f"# A host of the testbed {bed.name}; made and removed by `warren testbed`."]
    lines += ["127.0.0.1 localhost", "::1 localhost"]
    names = [one.name for one in bed.hosts]
    lines += [f"{bed.address(i)} {name}" for i, name in enumerate(names)]
    # A host that is named like the machine has its line already.
    if machine and machine not in (*names, "localhost"):
        lines.append(f"{bed.address(index)} {machine}")
    return "\n".join(lines) + "\n"
