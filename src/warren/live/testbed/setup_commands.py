"""The commands that make a testbed, as lines for ``ip -batch`` and ``tc -batch``. Pure.

Every port is shaped on both ends of its link by HTB: in the host, the bytes it sends; at the
bridge, the bytes it receives. It serves classes of flows in strict order. It may send ``burst``
bytes at once, the bytes of 2 ms on the link, so that a processor that comes late does not cost
rate. A class keeps a queue of at most 20 ms (at least 128 kB), about the size of a switch port's.
Otherwise a bulk transfer would delay each small message by all that its sender's window allows.
With ``queue: fair`` see ``fair_queue``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.live.testbed.classifier import by_class
from warren.live.testbed.fair_queue import fair_lines, flow_minors, trickle_bps, unit_bytes
from warren.live.testbed.names import BRIDGE, NIC, namespace, namespaces, port, switch
from warren.model.decision import CLASSES
from warren.model.testbed import Bed, Queue

_BURST_S: Final = 0.002
"""Bytes that a port may send at once, in seconds of its link."""
_BURST_LEAST_BYTES: Final = 16_000
_QUEUE_S: Final = 0.02
"""Bytes that a port's queue holds, in seconds of its link."""
_QUEUE_LEAST_BYTES: Final = 128_000
_CONGESTION: Final = "reno"
"""TCP's congestion control, which every kernel has.

A machine's own may be BBR, with which jobs that take turns on their links lost turns
(decision 0022).
"""
_FIRST_QUEUE: Final = 0x10
"""Minor number of the HTB class of flow class 0 where each has one queue; the others follow."""


class CommandBatch(NamedTuple):
    """Lines for one call of ``tool`` (ip or tc) in the namespace ``where``; empty: outside any."""

    tool: str
    where: str
    lines: tuple[str, ...]


def batches(bed: Bed) -> list[CommandBatch]:
    """Return all commands that make the namespaces and links of a testbed, in order."""
    ports = range(len(bed.hosts))
    at_switch = switch(bed.name)
    links = [f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up"]
    # The other end of each link is made in its host at once: it never stands among the links of the
    # machine or of the switch.
    for i in ports:
        host = namespace(bed.name, i)
        links += [
            f"link add {port(i)} type veth peer name {NIC} netns {host}",
            f"link set {port(i)} master {BRIDGE} up",
        ]
    shapes = [
        line for i, one in enumerate(bed.hosts) for line in _shaped(bed, port(i), one.link_bps)
    ]
    found = [
        CommandBatch("ip", "", tuple(f"netns add {name}" for name in namespaces(bed))),
        CommandBatch("ip", at_switch, tuple(links)),
        CommandBatch("tc", at_switch, tuple(shapes)),
    ]
    for i, one in enumerate(bed.hosts):
        host = namespace(bed.name, i)
        inside: tuple[str, ...] = (
            "link set lo up",
            f"addr add {bed.address(i)}/{bed.prefix_bits} dev {NIC}",
            f"link set {NIC} up",
            f"route replace {bed.subnet} dev {NIC} src {bed.address(i)} congctl {_CONGESTION}",
        )
        if bed.queue == "fair":
            inside = (*inside, f"link set {NIC} gso_max_size {unit_bytes(one.link_bps)}")
        found += [
            CommandBatch("ip", host, inside),
            CommandBatch("tc", host, _shaped(bed, NIC, one.link_bps)),
        ]
    return found


def _shaped(bed: Bed, device: str, rate_bps: int) -> tuple[str, ...]:
    """Return the lines of ``shaped``, or by flows if the testbed shares its links fairly."""
    if bed.queue == "fifo":
        return shaped(device, rate_bps)
    return fair_lines(device, rate_bps, burst_bytes(rate_bps), queue_bytes(rate_bps))


def shaped(device: str, rate_bps: int) -> tuple[str, ...]:
    """Return the lines that limit traffic leaving by a device to a rate, with a queue a class."""
    burst, queue = burst_bytes(rate_bps), queue_bytes(rate_bps)
    lines = [
        f"qdisc add dev {device} root handle 1: htb default {_FIRST_QUEUE:x}",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate_bps}bit "
        # The quantum is not shared here; it is given since HTB warns of its default.
        f"burst {burst} cburst {burst} quantum 60000",
    ]
    for flow_class in range(CLASSES):
        (minor,) = queue_minors("fifo", flow_class)
        lines += [
            f"class add dev {device} parent 1:1 classid 1:{minor:x} htb "
            f"rate {trickle_bps(rate_bps)}bit ceil {rate_bps}bit burst {burst} cburst {burst} "
            f"quantum 60000 prio {flow_class}",
            f"qdisc add dev {device} parent 1:{minor:x} bfifo limit {queue}",
        ]
    lines.append(
        f"filter add dev {device} parent 1: protocol all prio 1 "
        f"bpf bytecode '{by_class(_FIRST_QUEUE)}' flowid 1:{_FIRST_QUEUE:x}"
    )
    return tuple(lines)


def queue_minors(queue: Queue, flow_class: int) -> range:
    """Return the minor numbers of the HTB classes that a port has for a class of flows."""
    if queue == "fair":
        return flow_minors(flow_class)
    first = _FIRST_QUEUE + flow_class
    return range(first, first + 1)


def burst_bytes(rate_bps: int) -> int:
    """Return the bytes that a link of this rate may send at once."""
    return max(_BURST_LEAST_BYTES, round(rate_bps * _BURST_S / 8))


def queue_bytes(rate_bps: int) -> int:
    """Return the bytes that may wait before a link of this rate."""
    return max(_QUEUE_LEAST_BYTES, round(rate_bps * _QUEUE_S / 8))
