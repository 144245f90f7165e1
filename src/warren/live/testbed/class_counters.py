"""The bytes of each class of flows that have left each port of a testbed, as the kernel counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from warren.live.testbed.iproute import answer_of
from warren.live.testbed.names import NIC, namespace, port, switch
from warren.live.testbed.setup_commands import queue_minors
from warren.model.decision import CLASSES
from warren.model.testbed import Bed

# ``tc -j`` prints HTB's counters as text all the same (iproute2 6.1).
_SENT: Final = re.compile(r"class htb 1:([0-9a-f]+) .*\n Sent (\d+) bytes")


def sent_bytes(bed: Bed, host: int) -> tuple[int, ...]:
    """Return the bytes that a host has sent, by class; with headers.

    With ``queue: fair`` small packets count in no class: acknowledgements have a queue of their
    own.
    """
    return _by_class(bed, namespace(bed.name, host), NIC)


def received_bytes(bed: Bed, host: int) -> tuple[int, ...]:
    """Return the bytes that the bridge has sent to a host, by class; see ``sent_bytes``."""
    return _by_class(bed, switch(bed.name), port(host))


def _by_class(bed: Bed, where: str, device: str) -> tuple[int, ...]:
    """Return the bytes that have left by a device, by class."""
    shown = answer_of("tc", ["-n", where, "-s", "class", "show", "dev", device])
    sent: Mapping[int, int] = {int(minor, 16): int(count) for minor, count in _SENT.findall(shown)}
    return tuple(
        sum(sent.get(minor, 0) for minor in queue_minors(bed.queue, flow_class))
        for flow_class in range(CLASSES)
    )
