"""Frames over Unix sockets: whole, in order, never waiting, and one bad peer harms no other."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.transport import frames as stream_module
from warren.live.transport.frames import COPY_BELOW_BYTES, READ_BYTES, BadFrame, Stream
from warren.live.transport.messages import RehearseTask, Release
from warren.live.transport.sockets import Hub, Link, Poller
from warren.live.transport.tls import TlsSocket

SIZES = st.sampled_from(
    [0, 1, 7, 300, 16_384, READ_BYTES - 20, READ_BYTES, READ_BYTES + 1, 700_000]
)
FRAMES = st.lists(st.tuples(st.integers(1, 300), st.lists(SIZES, max_size=4)), max_size=12)


@contextmanager
def pair(secure: bool = False) -> Iterator[tuple[Stream, Stream]]:
    """Both ends of a connection."""
    one, other = (
        Stream(TlsSocket(end, bytes(32), accepted) if secure else end)
        for end, accepted in zip(socket.socketpair(), (False, True), strict=True)
    )
    try:
        yield one, other
    finally:
        one.close()
        other.close()


@given(frames=FRAMES, together=st.booleans(), secure=st.booleans())
def test_frames_of_any_size_come_whole_and_in_order(
    frames: list[tuple[int, list[int]]], together: bool, secure: bool
) -> None:
    sent = [
        (bytes([at]) * header, tuple(bytes([at + 1]) * size for size in sizes))
        for at, (header, sizes) in enumerate(frames)
    ]
    heard: list[tuple[bytes, tuple[bytes, ...]]] = []
    with pair(secure) as (one, other):

        def hear() -> None:
            for header, buffers in other.drain():
                heard.append((bytes(header), tuple(map(bytes, buffers))))
            assert not list(one.drain())

        for header, buffers in sent:
            one.send(header, buffers)
            if not together:
                hear()
        for _ in range(300):  # the kernel takes about 200 kB at a time
            one.flush()
            hear()
    assert heard == sent


def fill(one: Stream) -> None:
    """Send until the kernel takes no more."""
    while not one._left:
        one.send(b"x", (bytes(9000),))


@contextmanager
def tcp() -> Iterator[tuple[socket.socket, Stream, select.epoll]]:
    """A connection: the end of a sender as it is, and a stream that an epoll watches."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        reader = Stream(listener.accept()[0])
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sender, select.epoll() as epoll:
        reader.watch(epoll)
        yield sender, reader, epoll
        reader.close()


def framed(size: int) -> bytes:
    """A frame of one part of so many bytes."""
    return struct.pack("<IQ", 1, size) + bytes(size)


def test_a_large_frame_that_comes_slowly_by_tcp_wakes_up_its_reader_a_few_times() -> None:
    size, wakes, heard = 1_000_000, 0, []
    with tcp() as (sender, reader, epoll):
        frame = framed(size)
        for begin in range(0, len(frame), 2000):
            sender.sendall(frame[begin : begin + 2000])
            if epoll.poll(0):
                wakes += 1
                heard += [len(header) for header, _ in reader.drain()]
        while not heard:
            assert epoll.poll(10)
            heard += [len(header) for header, _ in reader.drain()]
        assert heard == [size]
        assert wakes < 30  # of 500 pieces
        # What is small is heard at once again.
        for _ in range(3):
            sender.sendall(framed(5))
            assert epoll.poll(10)
            assert [len(header) for header, _ in reader.drain()] == [5]


def test_who_waits_for_much_of_a_frame_hears_of_its_senders_end() -> None:
    with tcp() as (sender, reader, epoll):
        sender.sendall(framed(1_000_000)[:200_000])
        while epoll.poll(0.2):
            assert list(reader.drain()) == []
        sender.close()
        assert epoll.poll(10)
        assert list(reader.drain()) == []
        assert reader.closed


def test_a_small_buffer_that_has_to_wait_may_be_written_and_a_large_one_is_not_copied() -> None:
    small, large = bytearray(b"before"), bytearray(b"a" * COPY_BELOW_BYTES)
    with pair() as (one, other):
        fill(one)
        one.send(b"last", (small, large))
        small[:] = b"behind"
        large[:] = b"b" * COPY_BELOW_BYTES
        found: list[list[bytes]] = []
        while not found or len(found[-1]) < 2:
            found += [list(map(bytes, buffers)) for _, buffers in other.drain()]
            one.flush()
        assert found[-1] == [b"before", bytes(large)]


def test_what_waits_is_copied_once_however_much_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, keep = [0], stream_module._until_sent

    def count(view: memoryview) -> memoryview:
        copied[0] += 1
        return keep(view)

    monkeypatch.setattr(stream_module, "_until_sent", count)
    with pair() as (one, _):
        fill(one)
        before = copied[0]
        for _ in range(500):
            one.send(b"x")
        assert copied[0] - before == 500


def test_after_its_peers_end_a_stream_is_closed_and_what_is_sent_is_lost() -> None:
    with pair() as (one, other):
        other.send(b"last words", (b"and bytes",))
        other.close()
        one.send(b"nobody hears this")
        assert [bytes(header) for header, _ in one.drain()] == [b"last words"]
        assert list(one.drain()) == []
        assert one.closed
        one.send(b"nor this")


@pytest.mark.parametrize("size", [100, 500_000])
def test_a_frame_that_its_sender_did_not_finish_is_never_seen(size: int) -> None:
    mine, raw = socket.socketpair()
    with raw:
        one = Stream(mine)
        raw.sendall(struct.pack("<IQQ", 2, 4, size) + b"head" + bytes(size // 2 // 100))
        assert list(one.drain()) == []
        raw.close()
        assert list(one.drain()) == []
        assert one.closed


@pytest.mark.parametrize(
    "bytes_", [struct.pack("<I", 0), struct.pack("<I", 1 << 31), struct.pack("<IQ", 1, 1 << 60)]
)
def test_what_is_no_frame_is_refused_before_memory_is_taken_for_it(bytes_: bytes) -> None:
    mine, raw = socket.socketpair()
    with raw:
        one = Stream(mine)
        raw.sendall(bytes_)
        with pytest.raises(BadFrame):
            list(one.drain())
        one.close()


class Net:
    """A hub, links to it, and one poller for all."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "hub")
        self.poller = Poller()
        self.hub: Hub | None = None
        self._links: list[Link] = []

    def link(self) -> Link:
        """Connects as soon as somebody listens."""
        self._links.append(link := Link(self.address))
        self.poller.register(link)
        return link

    def listen(self) -> Hub:
        """From now on somebody does."""
        self.hub = Hub(self.address)
        self.poller.register(self.hub)
        return self.hub

    def close(self) -> None:
        """Let go of all."""
        for end in (*self._links, self.hub):
            if end is not None:
                end.close()
        self.poller.close()


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    one = Net(tmp_path)
    yield one
    one.close()


def heard(net: Net, hub: Hub) -> list[tuple[bytes, object]]:
    """What comes within a while of silence."""
    found = []
    while hub in net.poller.poll(200):
        found += [(peer, message) for peer, message, _ in hub.drain()]
    return found


def test_what_is_said_before_anybody_listens_is_heard_when_somebody_does(net: Net) -> None:
    link = net.link()
    link.send(Release(1))
    link.send(Release(2))
    assert net.poller.poll(20) == set()
    hub = net.listen()
    link.send(Release(3))
    assert [message for _, message in heard(net, hub)] == [Release(1), Release(2), Release(3)]


@pytest.mark.parametrize(
    "bytes_", [struct.pack("<I", 0), struct.pack("<IQ", 1, 3) + b"\xc1\xc1\xc1"]
)
def test_a_peer_that_does_not_keep_to_the_protocol_is_let_go_of_and_others_are_heard(
    net: Net, bytes_: bytes
) -> None:
    hub, good = net.listen(), net.link()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bad:
        bad.connect(net.address)
        bad.sendall(bytes_)
        good.send(RehearseTask(1))
        ((peer, message),) = heard(net, hub)
        assert message == RehearseTask(1)
        assert bad.recv(1) == b""
    assert hub.send(peer, Release(1))
    assert good in net.poller.poll(1000)
    assert [message for message, _ in good.drain()] == [Release(1)]


def test_what_has_to_wait_goes_on_when_there_is_room_though_nobody_sends_more(net: Net) -> None:
    hub, link = net.listen(), net.link()
    bulk = bytes(5_000_000)
    link.send(Release(1), bulk)
    sizes: list[int] = []
    while not sizes:
        ready = net.poller.poll(2000)
        assert ready
        if hub in ready:
            sizes += [buffer.nbytes for _, _, buffers in hub.drain() for buffer in buffers]
        if link in ready:
            list(link.drain())
    assert sizes == [5_000_000]


def test_a_hub_says_that_a_peer_is_gone(net: Net) -> None:
    hub, link = net.listen(), net.link()
    link.send(Release(1))
    ((peer, _),) = heard(net, hub)
    assert hub.send(peer, Release(2))
    net.poller.unregister(link)
    link.close()
    assert heard(net, hub) == []
    assert not hub.send(peer, Release(3))


def test_nobody_is_woken_up_for_a_link_that_has_ended_though_a_child_holds_its_socket(
    net: Net,
) -> None:
    hub, link = net.listen(), net.link()
    assert link._stream is not None
    held = os.dup(link._stream.fileno())  # what a fork in user code would hold
    assert heard(net, hub) == []
    net.poller.unregister(hub)
    hub.close()
    assert link in net.poller.poll(1000)
    assert list(link.drain()) == []
    assert net.poller.poll(20) == set()
    net.poller.unregister(link)
    os.close(held)
