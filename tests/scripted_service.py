"""A service that answers as a test says, on a Unix socket or on TCP, with or without TLS."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request that came."""

    method: str
    path: str
    head: dict[str, str]
    body: Any


Answer = tuple[int, object] | bytes
"""Status and value of an answer, or all of its bytes: what a test wants to go wrong."""


class ScriptedService:
    """Answers each request with what ``answers`` returns for it, and keeps all requests."""

    def __init__(
        self, listener: socket.socket, answers: Callable[[Asked], Answer], tls: Any
    ) -> None:
        self.asked: list[Asked] = []
        self._listener = listener
        self._answers = answers
        self._tls = tls

    def run(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                self._serve(connection)
            except OSError:
                pass
            finally:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        file = connection.makefile("rb")
        while line := file.readline():
            method, path, _ = line.decode().split()
            head = {}
            while text := file.readline().decode().strip():
                name, _, value = text.partition(":")
                head[name.lower()] = value.strip()
            body = file.read(int(head.get("content-length", 0)))
            asked = Asked(method, path, head, json.loads(body) if body else None)
            self.asked.append(asked)
            answer = self._answers(asked)
            if isinstance(answer, bytes):
                connection.sendall(answer)
                return
            connection.sendall(http(*answer))


def http(status: int, value: object) -> bytes:
    """Return an answer of HTTP."""
    text = json.dumps(value).encode()
    return b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)


def chunked(*pieces: bytes) -> bytes:
    """Return an answer whose body comes in pieces."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in [*pieces, b""])


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write a certificate that no authority knows, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "warren")])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end).sign(key, None)
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))
    return folder / "certificate.pem", folder / "key.pem"


@contextmanager
def served(
    answers: Callable[[Asked], Answer], path: Path | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, ScriptedService]]:
    """Run a fake service: at a path, else at a port of this machine; yields how it is named."""
    family = socket.AF_UNIX if path else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(str(path) if path else ("127.0.0.1", 0))
        listener.listen()
        service = ScriptedService(listener, answers, tls)
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        scheme = "https" if tls else "http"
        yield str(path) if path else f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", service
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
