"""The process side of measuring rings: ranks that exchange, each in its assigned host.

Started as ``python -m warren.live.measure.ring_rounds_process PARENT FD``. It loads torch once and
forks every rank from that. A rank goes to its host's network namespace and is in one ring. For each
round rank 0 writes a ``STAMP`` to FD, by the monotonic clock that all hosts of a machine share. A
line on standard input is a set of rings (``ProbeOrder``) that run at once; an empty one ends them.
Ranks end with this process, and this one with its standard input or its parent.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from warren.live.process.linux import die_with_parent, kill, set_name
from warren.live.testbed.cpu_quota import enter
from warren.live.testbed.names import LOOPBACK, NIC
from warren.live.testbed.namespaces import HostNamespace, enter_network

STAMP: Final = struct.Struct("<qqq")
"""Ring, when its exchange began, when it ended, ns; written at once, so never mixed."""
ENDED: Final = -1
"""In place of a ring: all ranks of an order have ended."""
READY: Final = -2
"""In place of a ring: orders may come."""
FAILED: Final = -3
"""In place of a ring: a rank failed; standard error says why."""
_LIMIT_S: Final = 60.0
"""Longest time in seconds of one sum of a ring."""


class OrderedRing(msgspec.Struct, frozen=True, kw_only=True):
    """One ring: the hosts of its ranks, the bytes they sum, and their sleep before that.

    They find each other through the file ``meeting``, and identify each other by ``secret``.
    """

    places: tuple[HostNamespace, ...]
    message_bytes: int
    comp_s: float
    meeting: str
    secret: bytes


class ProbeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Rings that run at once until an order ends them."""

    rings: tuple[OrderedRing, ...]


def main() -> None:
    """Serve orders until standard input ends."""
    parent, out = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    # The parent may have blocked signals while it started this process, which inherits that. An
    # interrupt from the keyboard reaches the parent too, which ends this process in its own time.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_name("warren-prober")
    _serve(out)


def _serve(out: int) -> None:
    """Read orders; each line ends the rings that run and starts its own."""
    # Here and not in each rank: loaded once, it is shared by all that are forked.
    import torch

    torch.set_num_threads(1)
    _tell(out, READY)
    running: list[int] = []
    for line in sys.stdin.buffer:
        for pid in running:
            kill(pid)
        for pid in running:
            os.waitpid(pid, 0)
        if running:
            _tell(out, ENDED)
        running = []
        if line.strip():
            running = _started(msgspec.json.decode(line, type=ProbeOrder), out)
    for pid in running:
        kill(pid)


def _tell(out: int, ring: int, begin_ns: int = 0, end_ns: int = 0) -> None:
    """Write one stamp, in a single call."""
    os.write(out, STAMP.pack(ring, begin_ns, end_ns))


def _started(order: ProbeOrder, out: int) -> list[int]:
    """Fork the ranks of all rings; return their process ids."""
    me = os.getpid()
    found = []
    for at, ring in enumerate(order.rings):
        for rank in range(len(ring.places)):
            pid = os.fork()
            if pid == 0:
                _be(me, out, at, ring, rank)
            found.append(pid)
    return found


def _be(parent: int, out: int, at: int, ring: OrderedRing, rank: int) -> NoReturn:
    """Run one rank until it is killed."""
    try:
        die_with_parent(parent)
        set_name(f"warren-ring-{at}-{rank}")
        os.close(0)  # orders are for the parent alone
        _exchange(out, at, ring, rank)
    except BaseException:
        traceback.print_exc()
        _tell(out, FAILED)
    # Not ``sys.exit``: the parent's exit handlers are not this rank's to run.
    os._exit(1)


def _exchange(out: int, at: int, ring: OrderedRing, rank: int) -> NoReturn:
    """Enter the rank's host, join its ring, and exchange round after round."""
    import torch

    from warren.live.rings.allreduce import Ring

    place = ring.places[rank]
    if place.cgroup:
        enter(Path(place.cgroup))
    enter_network(place)  # threads that are started from now on are there too
    interface = NIC if place.namespace else LOOPBACK
    joined = Ring(rank, len(ring.places), ring.meeting, interface, _LIMIT_S, ring.secret)
    # Zeros stay zeros, however often they are summed.
    message = torch.zeros(max(1, ring.message_bytes // 4), dtype=torch.float32)
    while True:
        time.sleep(ring.comp_s)
        begin_ns = time.monotonic_ns()
        joined.add(message)
        if rank == 0:
            _tell(out, at, begin_ns, time.monotonic_ns())


if __name__ == "__main__":
    main()
