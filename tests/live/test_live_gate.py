"""Connections between hosts: nothing is read of who does not know the run's secret."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S

from warren.live.transport import tcp_listener as gate
from warren.live.transport.frames import Stream
from warren.live.transport.host_identity import HostIdentity
from warren.live.transport.messages import ENCODER, AnyMessage, RehearseTask, Release
from warren.live.transport.sockets import Hub, Link, Poller, link_to_server
from warren.live.transport.tls import TlsSocket

SECRET = bytes(range(32))
SEAT = HostIdentity(0, "127.0.0.1", SECRET)


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
        end = Link(address or f"tcp:{self.path}", SECRET)
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

    def refused(self) -> int:
        """How many connections the hub has refused."""
        assert self.hub._tcp_listener is not None
        return self.hub._tcp_listener.refused

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


def heard_by(end: socket.socket) -> bytes | None:
    """What is said at an end until its peer closes it; None: it did not within a while."""
    found = b""
    try:
        while data := end.recv(1000):
            found += data
    except ConnectionError:
        pass
    except TimeoutError:
        return None
    return found


def is_closed(end: socket.socket) -> bool:
    return heard_by(end) == b""


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


WRONG = {"zeros": bytes(32), "last": SECRET[:31] + b"\0", "first": b"\1" + SECRET[1:]}


@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG)
def test_a_peer_with_another_secret_is_closed_and_counted_before_a_frame_is_parsed(
    net: Net, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = Stream(TlsSocket(net.stranger(), shown, False))
    monkeypatch.setattr("warren.live.transport.sockets.Stream", None)  # none may come to be
    stranger.send(ENCODER.encode(Release(1)))
    for _ in range(3):
        assert net.heard() == []
        assert list(stranger.drain()) == []
    assert stranger.closed
    assert net.refused() == 1


@pytest.mark.parametrize("noise", [SECRET, b"GET / HTTP/1.1\r\n\r\n", bytes(70_000)])
def test_what_is_no_handshake_is_closed_and_counted(
    net: Net, noise: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.live.transport.sockets.Stream", None)
    with net.stranger() as end:
        end.sendall(noise + frame(Release(1)))
        assert net.heard() == []
        assert net.refused() == 1
        assert heard_by(end) is not None


class ByHand:
    """A peer that knows the secret, whose bytes are carried by hand."""

    def __init__(self, net: Net) -> None:
        self.end = net.stranger()
        self.end.setblocking(False)
        inner, self.outer = socket.socketpair()
        self.outer.setblocking(False)
        self.peer = Stream(TlsSocket(inner, SECRET, False))

    def said(self) -> bytes:
        """What the peer says now."""
        try:
            return self.outer.recv(1 << 20)
        except BlockingIOError:
            return b""

    def hear(self) -> None:
        """Let the peer hear what has come for it."""
        self.outer.sendall(self.end.recv(1 << 20))
        assert list(self.peer.drain()) == []

    def close(self) -> None:
        for end in (self.end, self.outer, self.peer):
            end.close()


def test_a_handshake_that_never_ends_lets_nothing_in_and_its_end_is_noticed(net: Net) -> None:
    half = ByHand(net)
    half.end.sendall(half.said()[:20])
    assert net.heard() == []
    assert net.refused() == 0
    half.close()
    assert net.heard() == []
    assert net.refused() == 1
    assert net.hub._tcp_listener is not None
    assert not net.hub._tcp_listener._unproven


def test_a_handshake_may_come_in_pieces_and_the_frame_with_the_last(net: Net) -> None:
    slow = ByHand(net)
    slow.peer.send(ENCODER.encode(Release(7)))
    while said := slow.said():
        for piece in (said[:20], said[20:50], said[50:]):
            assert not slow.peer.closed
            slow.end.sendall(piece)
            found = net.heard()
        if not found:
            slow.hear()
    assert [message for _, message, _ in found] == [Release(7)]
    slow.close()


def test_of_many_who_say_nothing_the_oldest_are_closed(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_UNPROVEN_MAX", 2)
    ends = [net.stranger() for _ in range(4)]
    net.heard()
    assert [is_closed(end) for end in ends[:2]] == [True, True]
    assert net.refused() == 2
    peers = [Stream(TlsSocket(end, SECRET, False)) for end in ends[2:]]
    found = []
    for _ in range(2):
        for peer in peers:
            peer.send(ENCODER.encode(Release(1)))
            assert list(peer.drain()) == []
        found += net.heard()
    assert len(found) == 4
    for end in ends:
        end.close()


def test_many_from_one_address_that_never_end_keep_out_nobody_from_another(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_UNPROVEN_MAX", 3)
    halves = [ByHand(net) for _ in range(3)]
    for half in halves:
        half.end.sendall(half.said()[:20])
    assert net.heard() == []
    address, port = Path(f"{net.path}.tcp").read_text().split(":")
    end = socket.create_connection((address, int(port)), 2.0, source_address=("127.0.0.2", 0))
    peer, found = Stream(TlsSocket(end, SECRET, False)), []
    for _ in range(2):
        peer.send(ENCODER.encode(Release(1)))
        assert list(peer.drain()) == []
        found += net.heard()
    assert len(found) == 2
    assert net.refused() == 1
    peer.close()
    for half in halves:
        half.close()


def test_many_who_begin_at_once_are_all_let_in(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who find no room are turned away, and come again; descriptors are used again."""
    monkeypatch.setattr(gate, "_UNPROVEN_MAX", 3)
    links = [net.link() for _ in range(16)]
    for number, link in enumerate(links):
        link.send(Release(number))
    found: set[int] = set()
    until_s = time.monotonic() + PATIENCE_S
    while len(found) < len(links) and time.monotonic() < until_s:
        found |= {message.job for _, message, _ in net.heard() if isinstance(message, Release)}
    assert found == set(range(16))
    assert net.refused() == 0


def test_a_link_that_is_made_again_leaves_who_has_its_descriptor_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (tmp_path / "hub.tcp").write_text("{}:{}".format(*listener.getsockname()))
        poller, links = Poller(), []
        for _ in range(2):
            links.append(Link(f"tcp:{tmp_path}/hub", SECRET))
            poller.register(links[-1])
            end, _ = listener.accept()
            if len(links) == 1:
                end.close()
                assert poller.poll(5000) == {links[0]}
                assert list(links[0].drain()) == []
        assert poller.poll(0) == set()
        end.sendall(b"\x16\x03")
        assert links[1] in poller.poll(5000)
        for one in (*links, end, poller):
            one.close()


def test_of_a_host_that_has_gone_without_a_word_connections_end_some_time(net: Net) -> None:
    link = net.link()
    link.send(Release(1))
    ((peer, _, _),) = net.heard()
    for stream in (link._stream, net.hub._streams[peer]):
        assert stream is not None
        end = stream._socket
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle_s, again_s, times = (
            end.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle_s + times * again_s == 600
        # Where something was sent that is not acknowledged, nobody asks whether the peer lives.
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 600_000


def test_it_listens_at_its_own_address_only(net: Net) -> None:
    _, port = Path(f"{net.path}.tcp").read_text().split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), 2.0)


def test_nobody_listens_to_other_hosts_without_a_secret(tmp_path: Path) -> None:
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
    seats = [HostIdentity(host, "127.0.0.1", SECRET) for host in range(3)]
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
    found = [] if None in streams else [one._socket for one in streams if one is not None]
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
    link = Link(f"tcp:{tmp_path / 'other'}", SECRET)
    net.add(link)
    link.mark(2)
    net.ends.append(Hub(str(tmp_path / "other"), SEAT))
    assert link.connect()
    assert tos_of(link) == [48 << 2]
