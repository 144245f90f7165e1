"""A port that shares its rate evenly among the flows of a class, as lines for ``tc -batch``. Pure.

One queue for all flows of a class (``fifo``) leaves the sharing to TCP, which is uneven for seconds
and more (``experiments/ring_placements.py``). Here every flow has a queue of its own, in a class of
HTB. Queues with data take turns (deficit round robin), flow classes in strict order. A flow is a
pair of TCP ports; their bits choose one of its class's queues, so that now and then two flows share
one.

Two rules make turns fair:

- Acknowledgements go before data. In a queue behind the data of their own connection, as where two
  hosts send to each other on one, they cost it much of its share.
- A turn is short: a host hands the link at most ``unit_bytes`` at once, where it would otherwise
  hand up to 64 kB, the more the faster it is. Where links are slow a turn lasts longer.
"""

from __future__ import annotations

from typing import Final

from warren.live.testbed.classifier import by_class_and_flow
from warren.model.decision import CLASSES

UNMARKED: Final = 256
"""Number of queues of a port for flows of class 0: a power of two, since bits choose one."""
MARKED: Final = 32
"""Number of queues for flows of each other class: fewer jobs are in one of several classes."""
_UNIT_S: Final = 0.0005
_UNIT_LEAST_BYTES: Final = 4 * 1514
"""Four Ethernet frames of an MTU of 1500, without check sum.

Each handover costs processor time of the host, which its quota counts.
"""
_UNIT_MOST_BYTES: Final = 65536
_TURN_BYTES: Final = 3028
"""Bytes that a flow sends in its turn: two full frames."""
_ACK_BYTES: Final = 100
"""Size in bytes up to which an IP packet carries no data worth a turn."""
_PROGRAM: Final = by_class_and_flow(UNMARKED, MARKED, _ACK_BYTES)


def unit_bytes(rate_bps: int) -> int:
    """Return the bytes that a host hands its link at once.

    0.5 ms of the link, at least four frames and at most the 64 kB that it would be otherwise.
    """
    return min(_UNIT_MOST_BYTES, max(_UNIT_LEAST_BYTES, round(rate_bps * _UNIT_S / 8)))


def flow_minors(flow_class: int) -> range:
    """Return the minor numbers of the HTB classes that flows of a class are in."""
    first = 0x100 * (flow_class + 1)
    return range(first, first + (MARKED if flow_class else UNMARKED))


def fair_lines(device: str, rate_bps: int, burst: int, queue: int) -> tuple[str, ...]:
    """Return the lines that limit traffic leaving by a device, shared by flows in turns.

    Parameters
    ----------
    device
        Name of the link.
    rate_bps
        Its rate, in bits/s.
    burst
        Bytes that may go at once.
    queue
        Bytes that each flow's queue holds.

    Returns
    -------
    tuple of str
        Lines for ``tc -batch``.
    """
    # HTB: class 1:1 has the rate of the port. Below it 1:2 is for acknowledgements, which are
    # guaranteed more than they need, so that they go first, and there is a class a flow. That is
    # guaranteed next to nothing, which keeps its connection alive: it borrows from 1:1, where a
    # flow class is a priority, and those of one priority take turns of a quantum.
    low_bps = trickle_bps(rate_bps)
    common = f"ceil {rate_bps}bit burst 1600 cburst {burst} quantum {_TURN_BYTES}"
    lines = [
        f"qdisc add dev {device} root handle 1: htb default 2",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate_bps}bit "
        f"burst {burst} cburst {burst} quantum 60000",
        f"class add dev {device} parent 1:1 classid 1:2 htb rate {rate_bps // 4}bit "
        f"{common} prio 0",
    ]
    for flow_class in range(CLASSES):
        for minor in flow_minors(flow_class):
            lines += [
                f"class add dev {device} parent 1:1 classid 1:{minor:x} htb rate {low_bps}bit "
                f"{common} prio {flow_class}",
                f"qdisc add dev {device} parent 1:{minor:x} bfifo limit {queue}",
            ]
    lines.append(
        f"filter add dev {device} parent 1: protocol all prio 1 "
        f"bpf bytecode '{_PROGRAM}' flowid 1:2"
    )
    return tuple(lines)


def trickle_bps(rate_bps: int) -> int:
    """Return the rate that a queue always has: 0.1 % of its port, at least 8 kbit/s."""
    return max(8_000, rate_bps // 1000)
