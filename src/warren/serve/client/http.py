"""HTTP/1.1 as far as the service speaks it; http.client takes longer to load than a request."""

from __future__ import annotations

from warren.serve.client.address import Address, connect, refused

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from typing import BinaryIO, Final

ANSWER_S: Final = 60.0
"""Longest time without a byte of an answer, in seconds."""
_LINE: Final = 65_536
"""Longest line of an answer's head, in bytes."""


class HttpConnection:
    """A connection to the service, made again where it has ended between two requests."""

    def __init__(self, address: Address, token: str) -> None:
        self._address = address
        self._token = token
        self._socket: socket.socket | None = None
        self._file: BinaryIO | None = None

    def close(self) -> None:
        """End the connection."""
        if self._file is not None:
            self._file.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._file = None

    def request(
        self, method: str, path: str, body: bytes | None = None, timeout_s: float | None = ANSWER_S
    ) -> HttpAnswer:
        """Send a request, and return the answer; its body is read from it.

        Raises
        ------
        ServiceError
            If the service cannot be reached, or ends the connection before its answer.
        """
        lines = [f"{method} {path} HTTP/1.1", "Host: warren"]
        if self._token and not self._address.path:
            lines.append(f"Authorization: Bearer {self._token}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        sent = "\r\n".join([*lines, "", ""]).encode() + (body or b"")
        while True:
            used = self._socket
            connection, file = self._connected()
            try:
                connection.settimeout(timeout_s)
                connection.sendall(sent)
                return HttpAnswer(self, file)
            except (OSError, ValueError, EOFError) as error:
                self.close()
                # The service may end a connection that was not used for some seconds just now. A
                # request that changes nothing is repeated on a new one.
                if connection is used and method == "GET":
                    continue
                said = getattr(error, "strerror", None) or str(error)
                raise lost(self._address, method, said) from error

    def _connected(self) -> tuple[socket.socket, BinaryIO]:
        """Return the connection; a new one where the service has ended the last."""
        if self._socket is not None:
            import select

            # Nothing is asked, so whatever comes is the end of the connection.
            if select.select([self._socket], [], [], 0)[0]:
                self.close()
        if self._socket is None or self._file is None:
            self._socket = connect(self._address)
            self._file = self._socket.makefile("rb")
        return self._socket, self._file


class HttpAnswer:
    """An answer of the service: its status, and its body, which may come bit by bit."""

    def __init__(self, connection: HttpConnection, file: BinaryIO) -> None:
        self._connection = connection
        self._file = file
        self._left: int | None = None
        self._chunked = False
        parts = self._line().split(None, 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
            raise ValueError("what answers there is no Warren service")
        self.status: Final = int(parts[1])
        while line := self._line().strip():
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip().lower()
            if name == b"content-length":
                self._left = int(value)
            elif name == b"transfer-encoding":
                self._chunked = value == b"chunked"

    def _line(self) -> bytes:
        """Read a line of the answer's head."""
        line = self._file.readline(_LINE)
        if not line.endswith(b"\n"):
            raise EOFError("the connection ended before the answer")
        return line

    def body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes.

        Raises
        ------
        OSError, EOFError
            If the connection ends before the body.
        """
        if self._chunked:
            while size := int(self._line().split(b";")[0], 16):
                yield from self._counted(size)
                self._line()
            self._line()
        elif self._left is not None:
            yield from self._counted(self._left)
        else:
            # Such a body ends with its connection.
            while piece := self._file.read1(_LINE):  # type: ignore[attr-defined]
                yield piece
            self._connection.close()

    def _counted(self, left: int) -> Iterator[bytes]:
        """Yield a number of bytes as they come."""
        while left:
            piece = self._file.read1(min(left, _LINE))  # type: ignore[attr-defined]
            if not piece:
                raise EOFError("the connection ended inside the answer")
            left -= len(piece)
            yield piece


def lost(address: Address, method: str, why: str) -> Exception:
    """Return the error of a connection that ended before its answer."""
    # A request that changes nothing can simply be repeated.
    sure = "" if method == "GET" else "; it may have been done: look before you repeat it"
    return refused(f"{address.text}: no answer ({why}){sure}")
