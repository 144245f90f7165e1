"""Ports of a testbed and marked connections: strict order, by the counters of the ports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from processes import PATIENCE_S

from warren.live.testbed.class_counters import received_bytes, sent_bytes
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.names import NIC, namespace
from warren.live.testbed.setup_commands import queue_minors
from warren.live.testbed.status import standing
from warren.model.testbed import QUEUES, Bed, BedHost, Queue

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

NAME = f"classes-{os.getpid()}"
LINK_BPS = 20_000_000
"""So slow that what sockets hold fills it while their process waits for a core."""
BED = Bed(
    name=NAME,
    subnet="10.82.0.0/24",
    hosts=tuple(BedHost(name=f"h{i}", link_bps=LINK_BPS) for i in range(2)),
)
SECONDS = 1.5
"""Of an order: one timeout of TCP, 0.2 s at least, is a small part of it."""

TAKES = """
import selectors, socket
listener = socket.create_server(("", 5555))
print("listens", flush=True)
waits = selectors.DefaultSelector()
for _ in range(2):
    waits.register(listener.accept()[0], selectors.EVENT_READ)
while waits.get_map():
    for key, _ in waits.select():
        if not key.fileobj.recv(1 << 20):
            waits.unregister(key.fileobj)
"""
SENDS = f"""
import socket, threading, time
from warren.live.flow_marks import mark
ends = [socket.create_connection(("10.82.0.1", 5555)) for _ in range(2)]

def send(end):
    until = time.monotonic() + {2 * SECONDS}
    while time.monotonic() < until:
        end.sendall(bytes(1 << 16))
    end.close()

for first, second in ((1, 2), (4, 3)):
    mark(ends[0], first)
    mark(ends[1], second)
    if first == 1:
        for end in ends:
            threading.Thread(target=send, args=(end,)).start()
        time.sleep({SECONDS})
"""


@contextmanager
def up(queue: Queue) -> Iterator[Bed]:
    bed = replace(BED, queue=queue)
    make(bed)
    try:
        yield bed
    finally:
        remove(NAME)


def inside(host: int, program: str) -> subprocess.Popen[str]:
    where = ["ip", "netns", "exec", namespace(NAME, host), sys.executable, "-c", program]
    return subprocess.Popen(where, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("queue", QUEUES)
def test_a_port_serves_the_first_class_alone_and_a_connection_changes_its_class_at_once(
    queue: Queue,
) -> None:
    """One connection is before the other; after a while it is behind, in other classes."""
    with up(queue) as bed:
        before = sent_bytes(bed, 1)
        with inside(0, TAKES) as takes:
            assert takes.stdout is not None
            takes.stdout.readline()
            with inside(1, SENDS) as sends:
                assert sends.wait(PATIENCE_S) == 0
            assert takes.wait(PATIENCE_S) == 0
        sent = [after - one for after, one in zip(sent_bytes(bed, 1), before, strict=True)]
        arrived = received_bytes(bed, 0)
    # A quarter of the link at least: other programs may take the sender's core. Of what leaves the
    # port the first class has nearly all, in the first order and in the second.
    least = 0.25 * SECONDS * LINK_BPS / 8
    for first, behind in ((1, 2), (3, 4)):
        assert sent[first] > least
        # Ports are never idle: who is behind has what is left while the other is not at work, and
        # what was in the queue of its old class when the order changed.
        assert sent[behind] < 0.25 * sent[first]
    assert not any(sent[5:])
    for kind in (1, 3):
        assert arrived[kind] == pytest.approx(sent[kind], rel=0.02)


def test_a_port_that_does_not_tell_classes_apart_is_found() -> None:
    with up("fair"):
        (minor, *_) = queue_minors("fair", 7)
        gone = f"class del dev {NIC} classid 1:{minor:x}"
        subprocess.run(["tc", "-n", namespace(NAME, 1), *gone.split()], check=True)
        (found,) = standing(NAME)
        assert found.faults == ("the link out of h1 does not tell classes of flows apart",)
