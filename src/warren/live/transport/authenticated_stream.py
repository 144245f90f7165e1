"""A connection between hosts whose every frame proves that its sender knows a secret.

Each side first sends 32 random bytes. Both make a key of the secret and these, and each later frame
begins with an HMAC by that key of who sends it, its number and its body. So the secret passes no
link, a frame that is changed, repeated, left out or sent back is found, and neither side can be
stood in for. Nothing is encrypted: who sees the link can read along.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
from collections.abc import Iterator
from typing import Final

from warren.live.transport.frames import BadFrame, Stream

SECRET_BYTES: Final = 32
"""The least length of a secret."""
_NONCE_BYTES: Final = 32
_MAC_BYTES: Final = 32
_PURPOSE: Final = b"warren flow 1"


class AuthenticatedStream:
    """One end of such a connection. ``proven``: the peer has shown that it knows the secret.

    Parameters
    ----------
    end
        A connection, which may be still in the making.
    secret
        What both sides know, at least ``SECRET_BYTES`` long.
    accepted
        Whether this side has accepted the connection; the other one made it.
    most_bytes
        The longest body that is taken.

    Raises
    ------
    ValueError
        The secret is too short: it could be guessed.
    """

    def __init__(self, end: socket.socket, secret: bytes, accepted: bool, most_bytes: int) -> None:
        if len(secret) < SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes and more, not {len(secret)}")
        self._stream = Stream(end, most_bytes=most_bytes + _MAC_BYTES)
        self._secret, self._accepted = secret, accepted
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._key = b""
        self._sent = self._taken = 0
        # What was sent before the peer's random bytes have come.
        self._early: list[bytes] = []
        self.proven = False
        self._stream.send(self._nonce)

    @property
    def met(self) -> bool:
        """Whether the peer has sent its random bytes, as one of Warren's processes does."""
        return bool(self._key)

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._stream.closed

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        return self._stream.fileno()

    def watch(self, epoll: select.epoll) -> None:
        """Let an epoll wake up for what comes, and for room when something has to wait."""
        self._stream.watch(epoll)

    def send(self, body: bytes) -> None:
        """Send a body, or keep it until it can be sent. Raises OSError as ``Stream.send`` does."""
        if not self._key:
            self._early.append(body)
            return
        self._stream.send(self._mac(self._accepted, self._sent, body) + body)
        self._sent += 1

    def drain(self) -> Iterator[bytes]:
        """Yield every body that is here and proven.

        Raises
        ------
        BadFrame
            If what comes is no frame, or not from who knows the secret.
        """
        for header, buffers in self._stream.drain():
            if buffers:
                raise BadFrame("a frame of several parts")
            if not self._key:
                self._meet(bytes(header))
                continue
            shown, body = bytes(header[:_MAC_BYTES]), bytes(header[_MAC_BYTES:])
            # In constant time, so that how long it takes says nothing about how much was right.
            right = self._mac(not self._accepted, self._taken, body)
            if not hmac.compare_digest(shown, right):
                raise BadFrame("it does not know the secret")
            self._taken, self.proven = self._taken + 1, True
            yield body

    def close(self) -> None:
        """Close this end; what was not sent is dropped."""
        self._stream.close()

    def _meet(self, nonce: bytes) -> None:
        """Make the key of both sides' random bytes, and send what had to wait for it."""
        if len(nonce) != _NONCE_BYTES:
            raise BadFrame(f"{len(nonce)} random bytes, not {_NONCE_BYTES}")
        both = nonce + self._nonce if self._accepted else self._nonce + nonce
        self._key = hmac.digest(self._secret, _PURPOSE + both, "sha256")
        for body in self._early:
            self.send(body)
        self._early.clear()

    def _mac(self, by_accepted: bool, number: int, body: bytes) -> bytes:
        who = b"accepted" if by_accepted else b"connected"
        return hmac.digest(self._key, who + number.to_bytes(8, "little") + body, "sha256")
