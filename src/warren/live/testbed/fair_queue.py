"""A port that shares its rate evenly among flows, as lines for ``tc -batch``. Pure.

One queue for all (``fifo``) leaves the sharing to TCP, which is uneven for seconds and more
(``experiments/ring_placements.py``). Here every flow has a queue of its own, in a class of
HTB, and those that have something take turns (deficit round robin). A flow is a pair of TCP ports;
one of ``FLOWS`` queues is chosen by their bits, so that now and then two share one.

What makes turns fair:

- Acknowledgements go before data. In a queue behind the data of their own connection, as where two
  hosts send to each other on one, they cost it much of its share.
- A turn is short: a host hands the link at most ``unit_bytes`` at once, where it would otherwise
  hand up to 64 kB, the more the faster it is.
"""

from __future__ import annotations

from typing import Final

FLOWS: Final = 256
"""How many queues a port has for flows: a power of two, since they are chosen by bits."""
_UNIT_S: Final = 0.0005
_UNIT_LEAST_BYTES: Final = 1514
"""One Ethernet frame of an MTU of 1500, without check sum."""
_UNIT_MOST_BYTES: Final = 65536
_FIRST: Final = 0x100
"""Minor number of the first flow's class; all of them are below 0x200."""
_TURN_BYTES: Final = 3028
"""What a flow sends in its turn: two full frames."""
_ACK_BYTES: Final = 100
"""An IP packet of at most so many carries no data worth a turn."""

# Instruction codes of classic BPF (linux/filter.h): class, size or operation, and mode or source.
_LOAD_16: Final = 0x28
_IF_EQUAL: Final = 0x15
_IF_ABOVE: Final = 0x25
_TO_X: Final = 0x07
_XOR_X: Final = 0xAC
_SHIFT_RIGHT: Final = 0x74
_AND: Final = 0x54
_ADD: Final = 0x04
_RETURN: Final = 0x06
_RETURN_A: Final = 0x16


def unit_bytes(rate_bps: int) -> int:
    """Return how many bytes a host hands its link at once.

    0.5 ms of the link, at least one frame and at most the 64 kB that it would be otherwise.
    """
    return min(_UNIT_MOST_BYTES, max(_UNIT_LEAST_BYTES, round(rate_bps * _UNIT_S / 8)))


def fair_lines(device: str, rate_bps: int, burst: int, queue: int) -> tuple[str, ...]:
    """Return the lines that limit what leaves by a device, shared by flows in turns.

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
    # HTB: class 1:1 has the rate of the port. Below it 1:2 is for acknowledgements, which go first
    # (prio 0), and there is a class a flow. That is guaranteed next to nothing: it borrows from
    # 1:1, and those that borrow take turns of a quantum.
    low_bps = max(8_000, rate_bps // 1000)
    common = f"ceil {rate_bps}bit burst 1600 cburst {burst} quantum {_TURN_BYTES}"
    lines = [
        f"qdisc add dev {device} root handle 1: htb default 2",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate_bps}bit "
        f"burst {burst} cburst {burst} quantum 60000",
        f"class add dev {device} parent 1:1 classid 1:2 htb rate {rate_bps // 4}bit "
        f"{common} prio 0",
    ]
    for flow in range(_FIRST, _FIRST + FLOWS):
        lines += [
            f"class add dev {device} parent 1:1 classid 1:{flow:x} htb rate {low_bps}bit "
            f"{common} prio 1",
            f"qdisc add dev {device} parent 1:{flow:x} bfifo limit {queue}",
        ]
    lines.append(
        f"filter add dev {device} parent 1: protocol all prio 1 "
        f"bpf bytecode '{_bytecode()}' flowid 1:2"
    )
    return tuple(lines)


def _bytecode() -> str:
    """Return a program of classic BPF that gives the class of an Ethernet frame.

    No match, hence 1:2, if the frame is small or not IP. The ports are where they are without IP
    options, which no testbed has.
    """
    # a, b: the two TCP ports, at 14 + 20 and 14 + 20 + 2 bytes of the frame. x = a ^ b, then
    # class = 1:(_FIRST + ((x >> 7 ^ x) & (FLOWS - 1))), as major number 1 << 16 and minor number.
    ports = [
        (_LOAD_16, 0, 0, 34),
        (_TO_X, 0, 0, 0),
        (_LOAD_16, 0, 0, 36),
        (_XOR_X, 0, 0, 0),
        (_TO_X, 0, 0, 0),
        (_SHIFT_RIGHT, 0, 0, 7),
        (_XOR_X, 0, 0, 0),
        (_AND, 0, 0, FLOWS - 1),
        (_ADD, 0, 0, 0x10000 + _FIRST),
        (_RETURN_A, 0, 0, 0),
    ]
    # EtherType at 12 is IPv4, and the total length at 16 above that of an acknowledgement; else
    # the jump goes past the ports, to the last instruction.
    looks = [
        (_LOAD_16, 0, 0, 12),
        (_IF_EQUAL, 0, len(ports) + 2, 0x0800),
        (_LOAD_16, 0, 0, 16),
        (_IF_ABOVE, 0, len(ports), _ACK_BYTES),
    ]
    code = [*looks, *ports, (_RETURN, 0, 0, 0)]  # 0: no match, so the default class
    return f"{len(code)}," + ",".join(" ".join(map(str, one)) for one in code) + ","
