"""The classes of ports: the classifiers, run here instruction by instruction."""

from __future__ import annotations

import re
import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.flow_marks import CODE_POINTS
from warren.live.testbed.fair_queue import MARKED, UNMARKED, fair_lines, unit_bytes
from warren.live.testbed.setup_commands import batches, queue_minors, shaped
from warren.model.decision import CLASSES
from warren.model.testbed import QUEUES, Bed, BedHost, Queue

RATE = 200_000_000
LINES = {"fair": fair_lines("eth0", RATE, 50_000, 500_000), "fifo": shaped("eth0", RATE)}
PORTS = st.integers(1024, 65535)
KINDS = st.integers(0, CLASSES - 1)


def program(queue: Queue) -> list[tuple[int, int, int, int]]:
    (text,) = re.findall(r"bytecode '\d+,(.*),'", LINES[queue][-1])
    return [tuple(map(int, one.split())) for one in text.split(",")]  # type: ignore[misc]


def classified(frame: bytes, queue: Queue = "fair") -> int:
    """What classic BPF returns for a frame, after the kernel's documentation of it."""
    code, at, a, x, kept = program(queue), 0, 0, 0, 0
    while True:
        op, if_true, if_false, k = code[at]
        at += 1
        if op == 0x28:  # ldh [k]; reading past the end returns 0
            if k + 2 > len(frame):
                return 0
            a = struct.unpack_from("!H", frame, k)[0]
        elif op == 0x30:
            if k + 1 > len(frame):
                return 0
            a = frame[k]
        elif op == 0x60:
            a = kept
        elif op == 0x02:
            kept = a
        elif op == 0x15:
            at += if_true if a == k else if_false
        elif op == 0x25:
            at += if_true if a > k else if_false
        elif op == 0x07:
            x = a
        elif op == 0xAC:
            a ^= x
        elif op == 0x0C:
            a = (a + x) & 0xFFFFFFFF
        elif op == 0x74:
            a >>= k
        elif op == 0x64:
            a = (a << k) & 0xFFFFFFFF
        elif op == 0x84:
            a = -a & 0xFFFFFFFF
        elif op == 0x54:
            a &= k
        elif op == 0x04:
            a = (a + k) & 0xFFFFFFFF
        elif op == 0x06:
            return k
        elif op == 0x16:
            return a
        else:
            raise AssertionError(f"no such instruction: {op:#x}")


def frame(sport: int, dport: int, data: int, kind: int = 0x0800, flow_class: int = 0) -> bytes:
    """An Ethernet frame of IPv4 and TCP with time stamps."""
    ethernet = bytes(12) + struct.pack("!H", kind)
    # The two bits below the code point are those of congestion control: here both are set.
    tos = CODE_POINTS[flow_class] << 2 | 3
    ip = struct.pack("!BBH", 0x45, tos, 52 + data) + bytes(16)
    return ethernet + ip + struct.pack("!HH", sport, dport) + bytes(28 + data)


def made(queue: Queue) -> dict[int, int]:
    """The priority of each HTB class below the port's own, by minor number."""
    found = re.findall(r"parent 1:1 classid 1:(\w+) .* prio (\d)", "\n".join(LINES[queue]))
    return {int(minor, 16): int(prio) for minor, prio in found}


@given(PORTS, PORTS, st.integers(100, 1448), KINDS)
def test_data_of_a_connection_has_one_class_that_is_there_whatever_its_direction(
    sport: int, dport: int, data: int, kind: int
) -> None:
    of = classified(frame(sport, dport, data, flow_class=kind))
    assert of == classified(frame(dport, sport, data, flow_class=kind))
    assert of >> 16 == 1
    assert of & 0xFFFF in queue_minors("fair", kind)
    assert made("fair")[of & 0xFFFF] == kind


@given(st.integers(0, 1448), KINDS)
def test_with_one_queue_a_class_all_packets_of_a_class_are_in_it(data: int, kind: int) -> None:
    of = classified(frame(1, 2, data, flow_class=kind), "fifo")
    assert of - (1 << 16) in queue_minors("fifo", kind)
    assert made("fifo")[of - (1 << 16)] == kind


@pytest.mark.parametrize("queue", QUEUES)
def test_each_class_has_its_queues_and_no_queue_is_of_two(queue: Queue) -> None:
    every = [minor for kind in range(CLASSES) for minor in queue_minors(queue, kind)]
    assert len({*every}) == len(every)
    assert {*every} <= made(queue).keys()
    assert CODE_POINTS[0] == 0
    assert sorted(CODE_POINTS[1:], reverse=True) == list(CODE_POINTS[1:])


@given(PORTS, PORTS, KINDS)
def test_acknowledgements_and_what_is_not_ip_go_to_the_class_before_all_others(
    sport: int, dport: int, kind: int
) -> None:
    # No match: the filter's default, 1:2.
    assert classified(frame(sport, dport, 0, flow_class=kind)) == 0
    assert classified(frame(sport, dport, 1000, kind=0x0806)) == 0
    assert classified(b"") == 0
    (first,) = (one for one in LINES["fair"] if "classid 1:2 " in one)
    assert first.endswith("prio 0")
    assert sum(one.endswith("prio 0") for one in LINES["fair"]) == UNMARKED + 1
    assert sum(one.endswith("prio 7") for one in LINES["fair"]) == MARKED


@pytest.mark.parametrize(("step", "most"), [(1, 1), (2, 1), (7, 3)])
def test_ports_in_a_row_as_a_system_gives_them_hardly_meet(step: int, most: int) -> None:
    found = Counter(classified(frame(40000 + step * i, 50123, 1000)) for i in range(64))
    assert max(found.values()) <= most


def test_a_turn_grows_with_the_rate_from_four_packets_to_what_a_host_hands_over_else() -> None:
    assert unit_bytes(10_000_000) == 4 * 1514
    assert unit_bytes(200_000_000) == 12_500
    assert unit_bytes(100_000_000_000) == 65536


def test_a_testbed_says_by_itself_which_ports_it_has() -> None:
    hosts = tuple(BedHost(name=f"h{i}", link_bps=RATE) for i in range(2))
    plain = batches(Bed(name="a", subnet="10.77.0.0/24", hosts=hosts, queue="fifo"))
    fair = batches(Bed(name="a", subnet="10.77.0.0/24", hosts=hosts))
    for queues, batch in [(CLASSES, one) for one in plain] + [(480, one) for one in fair]:
        if batch.tool == "tc":
            ports = 2 if batch.where.endswith("-sw") else 1
            assert sum("bpf bytecode" in line for line in batch.lines) == ports
            assert sum("bfifo" in line for line in batch.lines) == ports * queues
