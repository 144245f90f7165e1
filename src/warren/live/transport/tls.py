"""TLS 1.3 between processes that know one secret, over a socket that never waits.

From the secret both sides make the same key and the same certificate, which signs itself, and each
accepts only that certificate. So a peer proves that it knows the secret, and the secret itself
passes no link. Bytes that others change, repeat or leave out end the connection. The standard
library holds the protocol; this module has only its two buffers, one for each direction, and their
limits.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import hmac
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

_T = TypeVar("_T")
SECRET_BYTES: Final = 32
"""Least length in bytes of a secret. It must be random: the first message would show a guess."""
RECORD_BYTES: Final = 17 << 10
"""More than the longest record of the protocol; bytes that may be here and not readable yet."""
_PIECE_BYTES: Final = 1 << 17
"""Bytes encrypted before they are sent."""
_READ_BYTES: Final = 1 << 17
"""Bytes read at a time from a proven peer; before that ``_UNPROVEN_BYTES`` count."""
_UNPROVEN_BYTES: Final = 1 << 14
"""Bytes read in total from a peer that has not shown the secret; a handshake takes a quarter."""
_PURPOSE: Final = b"warren tls 1"
# The secret counts, which has a run's lifetime: times of the certificate are not looked at.
_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL."""
_FROM: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


class TlsSocket:
    """One end of a connection, with the methods of a socket that never waits.

    Parameters
    ----------
    end
        A connection, which may be still in the making.
    secret
        The secret of both sides: random, and at least ``SECRET_BYTES`` long.
    accepted
        Whether this side has accepted the connection; the other one made it.

    Attributes
    ----------
    proven
        Whether the peer has shown that it knows the secret.
    met
        Whether the peer has sent anything.
    refused
        Whether no process listens there, as far as the machine says.

    Raises
    ------
    ValueError
        The secret is too short: it could be guessed.
    """

    def __init__(self, end: socket.socket, secret: bytes, accepted: bool) -> None:
        end.setblocking(False)
        self._end = end
        self._certificate, server, client = _contexts(secret)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = server if accepted else client
        self._tls = context.wrap_bio(self._in, self._out, server_side=accepted)
        # Encrypted bytes still to be sent.
        self._sealed = memoryview(b"")
        self._unproven_bytes = 0
        self.proven = self.met = self.refused = False
        # The side that has made the connection speaks first. If that fails, the next call says why.
        if not accepted:
            with contextlib.suppress(OSError):
                self.handshake()

    @property
    def unsent(self) -> bool:
        """Whether something is encrypted that the kernel has not taken."""
        return bool(self._sealed)

    @property
    def socket(self) -> socket.socket:
        """The connection itself, whose options may be set."""
        return self._end

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        return self._end.fileno()

    def close(self) -> None:
        """Close the connection; bytes not yet sent are dropped."""
        self._end.close()

    def handshake(self) -> bool:
        """Go on with the handshake as far as is possible now; tell whether the peer is proven.

        Raises
        ------
        ConnectionResetError
            The peer does not know the secret, speaks no TLS or has gone.
        OSError
            The way to it does not work.
        """
        try:
            # All received bytes are looked at, and this side's answer is sent.
            while not self.proven:
                if self._step():
                    self.proven = True
                else:
                    self._fill(_UNPROVEN_BYTES - self._unproven_bytes)
        except BlockingIOError:
            return False
        except OSError as error:
            self.refused = error.errno == errno.ECONNREFUSED
            raise
        return True

    def sendmsg(self, buffers: Sequence[memoryview], *_: Any) -> int:
        """Encrypt and send, as far as there is room; return the number of bytes taken.

        Of these some may be unsent: call again, with no buffers too, when there is room.

        Raises
        ------
        BlockingIOError
            Nothing was taken, since earlier encrypted bytes are still here.
        OSError
            As ``handshake`` does.
        """
        if not self.handshake():
            raise BlockingIOError
        self._push()
        taken = 0
        with contextlib.suppress(BlockingIOError):
            for view in buffers:
                for at in range(0, view.nbytes, _PIECE_BYTES):
                    if self._out.pending + self._sealed.nbytes >= _PIECE_BYTES:
                        self._push()
                    taken += self._write(view[at : at + _PIECE_BYTES])
            self._push()
        return taken

    def _write(self, piece: memoryview) -> int:
        try:
            return self._tls.write(piece)
        except ssl.SSLError as error:
            raise _reset(error) from None

    def recv(self, size: int) -> bytes:
        """Return received bytes, at most ``size``; none: the peer has closed.

        Raises
        ------
        BlockingIOError
            Nothing has come.
        OSError
            As ``handshake`` does.
        """
        return self._opened(lambda: self._tls.read(size))

    def recv_into(self, view: memoryview) -> int:
        """Read received bytes into memory, and return their number; see ``recv``."""
        # With memory to read into it returns a count, which its type does not say.
        read = cast("Callable[[int, memoryview], int]", self._tls.read)
        return self._opened(lambda: read(view.nbytes, view))

    def _opened(self, read: Callable[[], _T]) -> _T:
        """Read decrypted bytes, with as many from the connection as that takes."""
        if not self.handshake():
            raise BlockingIOError
        while True:
            try:
                return read()
            except ssl.SSLWantReadError:
                with contextlib.suppress(BlockingIOError):
                    self._push()
                self._fill(_READ_BYTES)
            except ssl.SSLError as error:
                raise _reset(error) from None

    def _step(self) -> bool:
        """Do one step of the handshake and send its message; tell whether it was the last step."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            # The alert, so that the peer knows.
            with contextlib.suppress(OSError):
                self._push()
            raise _reset(error) from None
        finally:
            with contextlib.suppress(BlockingIOError):
                self._push()
        shown = self._tls.getpeercert(binary_form=True)
        if shown is None or not hmac.compare_digest(shown, self._certificate):
            raise _reset("another certificate")
        return True

    def _fill(self, most_bytes: int) -> None:
        """Read from the connection. Raises BlockingIOError if there is nothing."""
        if most_bytes <= 0:
            raise _reset("too long a handshake")
        data = self._end.recv(most_bytes)
        if not data:
            raise _reset("closed")
        self.met = True
        self._unproven_bytes += 0 if self.proven else len(data)
        self._in.write(data)

    def _push(self) -> None:
        """Send encrypted bytes. Raises BlockingIOError if a rest has to wait."""
        while self._sealed or self._out.pending:
            if not self._sealed:
                self._sealed = memoryview(self._out.read())
            sent = self._end.send(self._sealed, socket.MSG_NOSIGNAL)
            self._sealed = self._sealed[sent:]


def _reset(why: object) -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, str(why))


@functools.lru_cache(maxsize=8)
def _contexts(secret: bytes) -> tuple[bytes, ssl.SSLContext, ssl.SSLContext]:
    """Return a secret's certificate, and the contexts of the accepting side and the other."""
    # This import takes 50 ms, so only processes with peers on other hosts pay for it.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if len(secret) < SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes and more, not {len(secret)}")
    key = Ed25519PrivateKey.from_private_bytes(hmac.digest(secret, _PURPOSE, "sha256"))
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "warren")])
    # A signature by Ed25519 has no chance in it, so both sides make the same bytes.
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, _FROM, _UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, None)
    )
    der = certificate.public_bytes(serialization.Encoding.DER)
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (
        der,
        _context(ssl.PROTOCOL_TLS_SERVER, der, pem),
        _context(ssl.PROTOCOL_TLS_CLIENT, der, pem),
    )


def _context(side: ssl._SSLMethod, certificate: bytes, with_key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The other side is known by its certificate, wherever it is.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    # Nor does a clock count: that of a board without a battery begins in 1970.
    context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    # No session is resumed: nothing is sent that was not requested.
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    # The library reads keys from files alone; this one is in memory and nowhere else.
    file = os.memfd_create("key")
    try:
        os.write(file, with_key)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context
