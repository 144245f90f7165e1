"""The rules that requests become, as text for ``nft -f`` and lines for ``tc -batch``. Pure.

All rules under a label are one table of nft, ``warren_flows_LABEL``, and on each device that is in
its set ``queues`` a root queue of the handle 5741:. A job is a chain of the table. A repeated
request has no second effect: a chain is emptied before it is filled, in one transaction.

JPAS (JNCA'20), 3.2: agents write the DSCP field of the jobs' traffic, switches and the queues of
the host (TC) serve by it. Differs: nft in place of iptables, and it gives each packet its queue
too, so that no filter of tc is needed. At the host 8 queues, as many as code points. A packet's
queue is by the order at this host, if that is given, and its mark by the order at its target host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from warren.live.enforcement.requests import Endpoint, MarkFlows, SetUpQueues, address_of
from warren.live.testbed.fair_queue import trickle_bps
from warren.live.testbed.setup_commands import burst_bytes, queue_bytes
from warren.model.decision import CLASSES

HANDLE: Final = "5741:"
"""The handle of each root queue that is made here."""
TABLE_PREFIX: Final = "warren_flows_"
JOB_PREFIX: Final = "job_"
QUEUE_PREFIX: Final = "queue_"
QUEUES: Final = "queues"
"""The set of the devices whose root queue belongs to the label."""
_ROOT_MINOR: Final = 0x10
"""The HTB class that has the rate of the device; flow class c is 1 + c for every kind of queue."""
# Jobs' chains (priority of mangle) come before the chain that reads the marks; the chain that sets
# their queues comes after it.
_MARK_PRIORITY: Final = -150
_CLASSIFY_PRIORITY: Final = -140
_QUEUE_PRIORITY: Final = -130


def table(label: str) -> str:
    """Return the name of the table of a label."""
    return f"{TABLE_PREFIX}{label}"


def queue_table(request: SetUpQueues) -> str:
    """Return the text for nft by which packets get the queue of their mark on a device."""
    name = f"inet {table(request.label)}"
    # Of classes with one code point the first says the queue.
    first = {point: c for c, point in reversed([*enumerate(request.code_points)])}
    points = ", ".join(f"{point} : {HANDLE}{c + 1:x}" for point, c in reversed(first.items()))
    rule = f"add rule {name} classify oifname @{QUEUES} meta priority set"
    return _text(
        [
            f"add table {name}",
            f"add set {name} {QUEUES} {{ type ifname; }}",
            f'add element {name} {QUEUES} {{ "{request.device}" }}',
            f"add chain {name} classify {{ {_hook(_CLASSIFY_PRIORITY)} }}",
            f"flush chain {name} classify",
            f"{rule} ip dscp map {{ {points} }}",
            f"{rule} ip6 dscp map {{ {points} }}",
        ]
    )


def queue_lines(request: SetUpQueues) -> tuple[str, ...]:
    """Return the lines for tc that make the queues of a device."""
    device = request.device
    if request.kind == "prio":
        same = " ".join(["0"] * 16)
        return (f"qdisc add dev {device} root handle {HANDLE} prio bands 8 priomap {same}",)
    if request.kind == "ets":
        same = " ".join(["0"] * 16)
        return (f"qdisc add dev {device} root handle {HANDLE} ets strict 8 priomap {same}",)
    rate = request.rate_bps
    burst, least = burst_bytes(rate), request.guaranteed_bps or trickle_bps(rate)
    lines = [
        f"qdisc add dev {device} root handle {HANDLE} htb default 1",
        f"class add dev {device} parent {HANDLE} classid {HANDLE}{_ROOT_MINOR:x} htb "
        f"rate {rate}bit burst {burst} cburst {burst} quantum 60000",
    ]
    for flow_class in range(CLASSES):
        at = f"{HANDLE}{flow_class + 1:x}"
        lines += [
            f"class add dev {device} parent {HANDLE}{_ROOT_MINOR:x} classid {at} htb "
            f"rate {least}bit ceil {rate}bit burst {burst} cburst {burst} quantum 60000 "
            f"prio {flow_class}",
            f"qdisc add dev {device} parent {at} bfifo limit {queue_bytes(rate)}",
        ]
    return tuple(lines)


def removed_queue(device: str) -> str:
    """Return the line for tc by which the device's default queue comes back."""
    return f"qdisc del dev {device} root handle {HANDLE}"


def removed_device(label: str, device: str) -> str:
    """Return the text for nft that takes a device out of the label's set."""
    return f'delete element inet {table(label)} {QUEUES} {{ "{device}" }}\n'


def removed_table(label: str) -> str:
    """Return the text for nft that removes all marks of a label."""
    return f"delete table inet {table(label)}\n"


def marks(request: MarkFlows) -> str:
    """Return the text for nft that marks a job's traffic from now on, and queues it."""
    name, chain = f"inet {table(request.label)}", f"{JOB_PREFIX}{request.job}"
    queued = f"{QUEUE_PREFIX}{request.job}"
    point = request.code_points[request.flow_class]
    comment = f'comment "class {request.flow_class}"'
    matches = [one for end in request.endpoints for one in _matches(end)]
    rules = [
        f"add rule {name} {chain} {match}{family} dscp set {point} {comment}"
        for match, family in matches
    ]
    # A later rule wins: by the target of a packet.
    rules += [
        f"add rule {name} {chain} {family} daddr {address} {match}{family} dscp set "
        f"{request.code_points[peer.flow_class]} {comment}"
        for peer in request.peers
        for address in [address_of(peer.address)]
        for match, family in matches
        if family == _family(address)
    ]
    if request.queue >= 0:
        rules += [
            f"add rule {name} {queued} oifname @{QUEUES} {match}"
            f"meta priority set {HANDLE}{request.queue + 1:x}"
            for match in dict.fromkeys(match for match, _ in matches)
        ]
    return _text(
        [
            f"add table {name}",
            f"add set {name} {QUEUES} {{ type ifname; }}",
            f"add chain {name} {chain} {{ {_hook(_MARK_PRIORITY)} }}",
            f"add chain {name} {queued} {{ {_hook(_QUEUE_PRIORITY)} }}",
            f"flush chain {name} {chain}",
            f"flush chain {name} {queued}",
            *rules,
        ]
    )


def unmarks(label: str, job: str) -> str:
    """Return the text for nft by which a job's flows are marked no more."""
    name = f"inet {table(label)}"
    lines = [
        f"{what} chain {name} {prefix}{job}"
        for prefix in (JOB_PREFIX, QUEUE_PREFIX)
        for what in ("flush", "delete")
    ]
    return _text(lines)


def _hook(priority: int) -> str:
    """Return the hook of a chain: all outgoing traffic, before it is queued."""
    return f"type filter hook postrouting priority {priority}; policy accept;"


def _family(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return "ip" if address.version == 4 else "ip6"


def _matches(one: Endpoint) -> Iterable[tuple[str, str]]:
    """Yield the match of packets from or to an endpoint, and its version of IP."""
    ranges = ", ".join(
        f"{first}" if first == last else f"{first}-{last}" for first, last in merged(one.ports)
    )
    for side, port in (("saddr", "sport"), ("daddr", "dport")):
        ports = f"meta l4proto {{ tcp, udp }} th {port} {{ {ranges} }} " if ranges else ""
        if one.address:
            address = address_of(one.address)
            family = _family(address)
            yield f"{family} {side} {address} {ports}", family
        else:
            yield ports, "ip"
            yield ports, "ip6"


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, merged where they meet: nft refuses a set whose ranges overlap."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
