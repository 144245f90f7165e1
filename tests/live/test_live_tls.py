"""Who does not know the secret says nothing that counts, reads nothing, and changes nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from warren.live.transport.frames import BadFrame, Stream, bodies
from warren.live.transport.tls import TlsSocket

SECRET = bytes(range(32))
OTHER = b"o" * 32
MUCH = 1 << 22


class Middle:
    """Two ends whose bytes pass through a middle, which may do with them what it likes."""

    def __init__(self, ours: bytes = SECRET, theirs: bytes = SECRET) -> None:
        one, self.near = socket.socketpair()
        two, self.far = socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)
        self.ends = TlsSocket(one, ours, True), TlsSocket(two, theirs, False)
        self.accepted, self.connected = (Stream(end, most_bytes=1000) for end in self.ends)
        self.seen = b""

    def up(self) -> bytes:
        """Carry what the connecting side has sent."""
        return self._carry(self.far, self.near)

    def down(self) -> bytes:
        """Carry what the accepting side has sent."""
        return self._carry(self.near, self.far)

    def _carry(self, source: socket.socket, sink: socket.socket) -> bytes:
        try:
            data = source.recv(MUCH)
        except BlockingIOError:
            return b""
        self.seen += data
        with suppress(BrokenPipeError):
            sink.sendall(data)
        return data

    def meet(self) -> None:
        """Carry the handshake."""
        for _ in range(4):
            self.up()
            assert not list(self.accepted.drain())
            self.down()
            assert not list(self.connected.drain())


@contextmanager
def middle(ours: bytes = SECRET, theirs: bytes = SECRET) -> Iterator[Middle]:
    made = Middle(ours, theirs)
    try:
        yield made
    finally:
        for one in (made.accepted, made.connected, made.near, made.far):
            one.close()


def test_what_is_said_before_both_have_met_waits_and_arrives_in_order_and_unseen() -> None:
    with middle() as between:
        between.connected.send(b"hello, hello")
        between.connected.send(b"again")
        between.up()
        assert list(bodies(between.accepted)) == []
        between.down()
        assert list(bodies(between.connected)) == []
        between.up()
        assert list(bodies(between.accepted)) == [b"hello, hello", b"again"]
        assert all(end.proven for end in between.ends)
        between.accepted.send(b"welcome, welcome")
        between.down()
        assert list(bodies(between.connected)) == [b"welcome, welcome"]
        for secret in (SECRET, b"hello, hello", b"welcome, welcome"):
            assert secret not in between.seen


def repeat(between: Middle, data: bytes) -> None:
    between.near.sendall(data + data)


def change(between: Middle, data: bytes) -> None:
    between.near.sendall(data[:-1] + bytes([data[-1] ^ 1]))


def leave_out(between: Middle, data: bytes) -> None:
    between.connected.send(b"two")
    between.up()


def put_in(between: Middle, data: bytes) -> None:
    between.near.sendall(b"\1\0\0\0" + bytes(8) + data)


@pytest.mark.parametrize("attack", [repeat, change, leave_out, put_in])
def test_what_is_repeated_changed_left_out_or_put_in_ends_the_connection(
    attack: Callable[[Middle, bytes], None],
) -> None:
    with middle() as between:
        between.meet()
        between.connected.send(b"one")
        attack(between, between.far.recv(MUCH))
        # A first copy, as it was sent, may be read.
        assert list(bodies(between.accepted)) in ([], [b"one"])
        assert between.accepted.closed


def test_what_is_sent_back_to_its_sender_ends_the_connection() -> None:
    with middle() as between:
        between.meet()
        between.connected.send(b"one")
        between.far.sendall(between.far.recv(MUCH))
        assert list(bodies(between.connected)) == []
        assert between.connected.closed


@pytest.mark.parametrize("ours", [SECRET, OTHER], ids=["ours", "other"])
def test_with_different_secrets_neither_side_takes_the_other(ours: bytes) -> None:
    theirs = OTHER if ours == SECRET else SECRET
    with middle(ours, theirs) as between:
        between.connected.send(b"hello, hello")
        between.accepted.send(b"welcome, welcome")
        between.meet()
        assert between.accepted.closed
        assert between.connected.closed
        assert not any(end.proven for end in between.ends)
        assert b"hello, hello" not in between.seen


def test_a_session_that_is_played_again_says_nothing() -> None:
    with middle() as between:
        between.connected.send(b"pay")
        told, heard = b"", list[bytes]()
        for _ in range(3):
            told += between.up()
            heard += bodies(between.accepted)
            between.down()
            list(between.connected.drain())
        assert heard == [b"pay"]
    with middle() as later:
        later.near.sendall(told)
        assert list(bodies(later.accepted)) == []
        assert not later.ends[0].proven


def test_what_is_read_of_an_unproven_peer_is_bounded() -> None:
    # The beginning of a handshake that says that it is long: nothing is wrong with it yet.
    record = b"\x16\x03\x01\x3f\xfc" + b"\x01\x00\xff\xff\x03\x03" + bytes(16_374)
    with middle() as between:
        between.near.setblocking(True)
        between.near.sendall(record)
        between.near.sendall(record)
        assert list(bodies(between.accepted)) == []
        assert between.accepted.closed


def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    with middle() as between:
        between.meet()
        between.connected.send(b"x" * 1001)
        between.up()
        with pytest.raises(BadFrame, match="a frame of 1001 bytes"):
            list(between.accepted.drain())


def test_a_secret_that_could_be_guessed_is_refused() -> None:
    one, two = socket.socketpair()
    with one, two, pytest.raises(ValueError, match="32 bytes and more, not 31"):
        TlsSocket(one, b"s" * 31, True)
