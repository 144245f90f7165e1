"""The commands that make a testbed, as lines for ``ip -batch`` and ``tc -batch``. Pure.

Every port is shaped on both ends of its link by HTB with one class: in the host, what it sends; at
the bridge, what it receives. A class may send ``burst`` bytes at once, what the link carries in
2 ms, so that a processor that comes late does not cost rate; and it keeps a queue of at most 20 ms
(at least 128 kB), about what a port of a switch holds: else a bulk transfer would delay each small
message by all that its sender's window allows. With ``queue: fair`` see ``fair_queue``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.live.testbed.fair_queue import fair_lines, unit_bytes
from warren.live.testbed.names import BRIDGE, NIC, namespace, namespaces, port, switch
from warren.model.testbed import Bed

_BURST_S: Final = 0.002
"""What a port may send at once, as time of its link."""
_BURST_LEAST_BYTES: Final = 16_000
_QUEUE_S: Final = 0.02
"""What a port's queue holds, as time of its link."""
_QUEUE_LEAST_BYTES: Final = 128_000


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
        )
        if bed.queue == "fair":
            inside = (*inside, f"link set {NIC} gso_max_size {unit_bytes(one.link_bps)}")
        found += [
            CommandBatch("ip", host, inside),
            CommandBatch("tc", host, _shaped(bed, NIC, one.link_bps)),
        ]
    return found


def _shaped(bed: Bed, device: str, rate_bps: int) -> tuple[str, ...]:
    """Return what ``shaped`` does; by flows where the testbed is to share its links fairly."""
    if bed.queue == "fifo":
        return shaped(device, rate_bps)
    return fair_lines(device, rate_bps, burst_bytes(rate_bps), queue_bytes(rate_bps))


def shaped(device: str, rate_bps: int) -> tuple[str, ...]:
    """Return the lines that limit what leaves by a device to ``rate_bps`` bits/s, in one queue."""
    burst, queue = burst_bytes(rate_bps), queue_bytes(rate_bps)
    return (
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate_bps}bit "
        # The quantum, which one class alone never needs, is given since HTB warns of its default.
        f"burst {burst} cburst {burst} quantum 60000",
        f"qdisc add dev {device} parent 1:1 handle 10: bfifo limit {queue}",
    )


def burst_bytes(rate_bps: int) -> int:
    """Return how many bytes a link of this rate may send at once."""
    return max(_BURST_LEAST_BYTES, round(rate_bps * _BURST_S / 8))


def queue_bytes(rate_bps: int) -> int:
    """Return how many bytes may wait before a link of this rate."""
    return max(_QUEUE_LEAST_BYTES, round(rate_bps * _QUEUE_S / 8))
