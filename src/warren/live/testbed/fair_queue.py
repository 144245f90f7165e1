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
_UNIT_S: Final = 0.0005
_UNIT_LEAST_BYTES: Final = 1514
_UNIT_MOST_BYTES: Final = 65536
_FIRST: Final = 0x100
"""Minor number of the first flow's class; all of them are below 0x200."""
_TURN_BYTES: Final = 3028
_ACK_BYTES: Final = 100
"""An IP packet of at most so many carries no data worth a turn."""

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
    """What a host hands its link at once: 0.5 ms of it, from one packet to what it would else."""
    return min(_UNIT_MOST_BYTES, max(_UNIT_LEAST_BYTES, round(rate_bps * _UNIT_S / 8)))


def fair_lines(device: str, rate_bps: int, burst: int, queue: int) -> tuple[str, ...]:
    """What limits all that leaves by a device to ``rate_bps`` bits/s, in turns of flows.

    ``burst`` bytes may go at once, and each flow's queue holds ``queue``.
    """
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
    """Classic BPF: the class of an Ethernet frame; no match, hence 1:2, if it is small or not IP.

    The ports are where they are without IP options, which no testbed has.
    """
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
    looks = [
        (_LOAD_16, 0, 0, 12),
        (_IF_EQUAL, 0, len(ports) + 2, 0x0800),
        (_LOAD_16, 0, 0, 16),
        (_IF_ABOVE, 0, len(ports), _ACK_BYTES),
    ]
    code = [*looks, *ports, (_RETURN, 0, 0, 0)]
    return f"{len(code)}," + ",".join(" ".join(map(str, one)) for one in code) + ","
