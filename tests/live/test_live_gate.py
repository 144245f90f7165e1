"""Connections between hosts: nothing is read of who does not show the run's token first."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.live.transport import tcp_listener as gate
from warren.live.transport.host_identity import HostIdentity
from warren.live.transport.messages import ENCODER, AnyMessage, RehearseTask, Release
from warren.live.transport.sockets import Hub, Link, Poller, link_to_server

TOKEN = bytes(range(32))
SEAT = HostIdentity(0, "127.0.0.1", TOKEN)


class Net:
    """A hub with a gate, and one poller for all."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "hub")
        self.poller = Poller()
        self.ends: list[Hub | Link] = []
        self.hub = Hub(self.path, SEAT)
        self.add(self.hub)

    def add(self, end: Hub | Link) -> None:
        """Wait for this one too, and close it at the end."""
        self.poller.register(end)
        self.ends.append(end)

    def link(self, address: str = "") -> Link:
        """From another host, as it were, unless to an ``address``."""
        end = Link(address or f"tcp:{self.path}", TOKEN)
        self.add(end)
        return end

    def heard(self) -> list[tuple[bytes, AnyMessage, list[memoryview]]]:
        """What comes at the hub within a while of silence."""
        found = []
        while self.poller.poll(100):
            for end in self.ends:
                if isinstance(end, Hub):
                    found += list(end.drain())
                else:
                    list(end.drain())
        return found

    def stranger(self) -> socket.socket:
        """A connection made by hand."""
        address, port = Path(f"{self.path}.tcp").read_text().split(":")
        return socket.create_connection((address, int(port)), 2.0)


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    one = Net(tmp_path)
    yield one
    for end in one.ends:
        end.close()
    one.poller.close()


def frame(message: AnyMessage) -> bytes:
    header = ENCODER.encode(message)
    return struct.pack("<IQ", 1, len(header)) + header


def is_closed(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def test_what_is_sent_between_hosts_comes_whole_and_the_peer_is_known_to_be_far(net: Net) -> None:
    near, link = net.link(net.path), net.link()
    near.send(Release(1))
    bulk = bytes(range(256)) * 20_000
    link.send(RehearseTask(2), bulk, b"end")
    found = net.heard()
    by_far = {net.hub.is_far(peer): (message, buffers) for peer, message, buffers in found}
    assert by_far[False] == (Release(1), [])
    message, buffers = by_far[True]
    assert message == RehearseTask(2)
    assert [bytes(one) for one in buffers] == [bulk, b"end"]
    assert (near.far, link.far) == (False, True)


def test_an_answer_goes_back_over_the_same_connection(net: Net) -> None:
    link = net.link()
    link.send(Release(1))
    ((peer, _, _),) = net.heard()
    bulk = bytes(3_000_000)
    assert net.hub.send(peer, Release(2), bulk)
    got: list[tuple[AnyMessage, list[memoryview]]] = []
    while not got:
        assert net.poller.poll(2000)
        list(net.hub.drain())
        got += list(link.drain())
    assert got == [(Release(2), [bulk])]


WRONG = {"zeros": bytes(32), "last": TOKEN[:31] + b"\0", "first": b"\1" + TOKEN[1:]}


@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG)
def test_a_wrong_token_is_closed_before_a_frame_is_parsed(
    net: Net, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.live.transport.sockets.Stream", None)  # none may come to be
    with net.stranger() as end:
        end.sendall(shown + frame(Release(1)))
        assert net.heard() == []
        assert is_closed(end)


def test_a_token_that_never_becomes_whole_lets_nothing_in_and_its_end_is_noticed(net: Net) -> None:
    with net.stranger() as end:
        end.sendall(TOKEN[:20])
        assert net.heard() == []
    assert net.heard() == []
    assert net.hub._tcp_listener is not None
    assert not net.hub._tcp_listener._unproven


def test_a_token_may_come_in_pieces_and_the_frame_with_the_last(net: Net) -> None:
    with net.stranger() as end:
        end.sendall(TOKEN[:20])
        assert net.heard() == []
        end.sendall(TOKEN[20:] + frame(Release(7)))
        assert [message for _, message, _ in net.heard()] == [Release(7)]


def test_of_many_who_say_nothing_the_oldest_are_closed(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_UNPROVEN_MAX", 2)
    ends = [net.stranger() for _ in range(4)]
    net.heard()
    assert [is_closed(end) for end in ends[:2]] == [True, True]
    for end in ends[2:]:
        end.sendall(TOKEN + frame(Release(1)))
    assert len(net.heard()) == 2
    for end in ends:
        end.close()


def test_it_listens_at_its_own_address_only(net: Net) -> None:
    _, port = Path(f"{net.path}.tcp").read_text().split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), 2.0)


def test_nobody_listens_to_other_hosts_without_a_token(tmp_path: Path) -> None:
    with select.epoll() as epoll, pytest.raises(ValueError, match="32 bytes, not 0"):
        gate.TcpListener(str(tmp_path / "hub"), HostIdentity(0, "127.0.0.1", b""), epoll)


def test_after_the_end_of_the_hub_what_is_sent_is_lost_and_no_error(net: Net) -> None:
    link = net.link()
    net.heard()
    net.ends.remove(net.hub)
    net.poller.unregister(net.hub)
    net.hub.close()
    late = net.link()
    for _ in range(3):
        for end in (link, late):
            end.send(Release(1), bytes(200_000))
        net.heard()


def test_a_server_is_reached_over_the_network_exactly_from_other_hosts(tmp_path: Path) -> None:
    seats = [HostIdentity(host, "127.0.0.1", TOKEN) for host in range(3)]
    homes = (1, 2, 0, 1)
    links = [
        [link_to_server(str(tmp_path / f"s{part}"), home, seat) for part, home in enumerate(homes)]
        for seat in seats
    ]
    assert [[not link.far for link in row] for row in links] == [
        [False, False, True, False],
        [True, False, False, True],
        [False, True, False, False],
    ]
    for row in links:
        for link in row:
            link.close()


def tos_of(end: Link | Hub) -> list[int]:
    """What the kernel marks packets of an end's connections with."""
    streams = [end._stream] if isinstance(end, Link) else [*end._streams.values()]
    found = [] if None in streams else [one._end for one in streams if one is not None]
    return [one.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) for one in found if is_tcp(one)]


def is_tcp(end: socket.socket) -> bool:
    return end.family == socket.AF_INET


def test_connections_between_hosts_are_marked_at_each_end_by_itself_now_and_later(net: Net) -> None:
    near, far = net.link(net.path), net.link()
    for link in (near, far):
        link.send(Release(1))
    net.heard()
    assert (tos_of(far), tos_of(net.hub)) == ([0], [0])
    for link in (near, far):
        link.mark(1)
    assert (tos_of(near), tos_of(far), tos_of(net.hub)) == ([], [56 << 2], [0])
    net.hub.mark(7)
    later = net.link()
    later.send(Release(1))
    net.heard()
    assert tos_of(net.hub) == [8 << 2] * 2
    far.mark(0)
    assert (tos_of(far), tos_of(later)) == ([0], [0])


def test_a_link_is_marked_before_it_connects(net: Net, tmp_path: Path) -> None:
    link = Link(f"tcp:{tmp_path / 'other'}", TOKEN)
    net.add(link)
    link.mark(2)
    net.ends.append(Hub(str(tmp_path / "other"), SEAT))
    assert link.connect()
    assert tos_of(link) == [48 << 2]
