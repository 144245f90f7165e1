"""Serves the API by uvicorn: on a Unix socket, whose callers the kernel names, and by TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from warren.serve.api.callers import PEER_UID

HEADERS_MAX_BYTES: Final = 64 * 1024
"""Longest head of a request in bytes."""

HEAD_S: Final = 30.0
"""Longest time from a connection to the end of the head of its first request, in seconds."""

_TCP_CONNECTIONS_MAX: Final = 1_000
_CLOSE_S: Final = 1
"""Seconds that open requests have to end in when the service stops."""
_CREDENTIALS: Final = struct.Struct("iII")
"""``struct ucred`` of Linux: pid, uid, gid."""


class PeerProtocol(H11Protocol):
    """HTTP/1.1 whose requests on a Unix socket carry the uid of their sender.

    A connection that sends no request is closed.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel whose connection this is, once."""
        super().connection_made(transport)
        uid = peer_uid(transport.get_extra_info("socket"))
        if uid is not None:
            self.app_state = {**self.app_state, PEER_UID: uid}
        self._silent = self.loop.call_later(HEAD_S, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer for a request."""
        self._silent.cancel()
        super().connection_lost(exc)

    def _close_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


def peer_uid(connection: Any) -> int | None:
    """Return the account at the other end of a Unix socket; None for any other connection."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


class ApiServer(uvicorn.Server):
    """A server in the event loop of the daemon, which keeps the signals of the process.

    Parameters
    ----------
    app
        What ``make_app`` returned.
    certificate, key
        Files of TLS; None only for a Unix socket.
    """

    def __init__(self, app: Any, certificate: Path | None = None, key: Path | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=PeerProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # else a text could say who asks
            server_header=False,
            limit_concurrency=_TCP_CONNECTIONS_MAX if certificate else None,
            h11_max_incomplete_event_size=HEADERS_MAX_BYTES,
            timeout_graceful_shutdown=_CLOSE_S,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        super().__init__(config)
        self._app = app
        self._stopped = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield

    async def main_loop(self) -> None:
        """Wait for ``stop``: an idle service does not wake up ten times a second."""
        self.config.date_header = False
        await self.on_tick(0)
        await self._stopped.wait()

    def stop(self) -> None:
        """End ``serve`` soon, and before it the requests that wait for something."""
        self._app.state.service.close()
        self.should_exit = True
        self._stopped.set()
