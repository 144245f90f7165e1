"""The API over a daemon with fake hosts in played time, and callers of several kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import httpx
from fake_service import TestJournal, daemon_of, fake_hosts
from fastapi import FastAPI

from warren.serve.api import callers, tokens
from warren.serve.api.app import make_app
from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played
from warren.serve.hosts.port import StartOrder
from warren.serve.records.events import UserSet
from warren.serve.records.users import Role, User

UIDS: Final = {"root": 0, "ana": 2001, "ben": 2002}
"""Accounts of the machine; root is an admin."""
NAMES: Final = {uid: name for name, uid in UIDS.items()}
HERE: Final = "warren.test"
"""Host of the service for clients by TCP."""
JOB: Final = {"spec": {"command": ["train", "--secret"], "folder": "/secret/folder",
                       "environment": {"KEY": "secret value"}}}  # fmt: skip
"""A job, of which other users may see nothing that is secret."""


class World:
    """A daemon with its app."""

    def __init__(self, daemon: Daemon, hosts: FakeHosts, app: FastAPI) -> None:
        self.daemon = daemon
        self.hosts = hosts
        self.app = app
        self._clients: list[httpx.AsyncClient] = []

    def local(self, user: str) -> httpx.AsyncClient:
        """A client on the socket, from the account of this user."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "state": {callers.PEER_UID: UIDS[user]}}, receive, send)

        return self._client(httpx.ASGITransport(app), "http://localhost")

    def remote(self, token: str | None = None, address: str = "10.0.0.9") -> httpx.AsyncClient:
        """A client by TCP, with a token or without."""
        transport = httpx.ASGITransport(self.app, client=(address, 4711))
        client = self._client(transport, f"https://{HERE}")
        if token is not None:
            client.headers["authorization"] = f"Bearer {token}"
        return client

    def token(self, user: str, role: Role = "user") -> str:
        """Add a user with a token, as an admin does."""
        token = tokens.new_token(user)
        added = User(user, role, token_hash=tokens.hash_of(token))
        self.daemon.record([UserSet(time_ns=self.daemon.now_ns(), by="root", user=added)])
        return token

    def audit(self, kind: str) -> list[Any]:
        """Events of the audit log of this kind."""
        events = [entry.event for entry in self.daemon.journal.audit()]
        return [one for one in events if one.__struct_config__.tag == kind]

    def _client(self, transport: httpx.ASGITransport, url: str) -> httpx.AsyncClient:
        client = httpx.AsyncClient(transport=transport, base_url=url)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


async def _in_this_thread(function: Callable[..., Any], *values: Any) -> Any:
    """Played time would pass while another thread computes."""
    await asyncio.sleep(0)
    return function(*values)


@contextmanager
def known_accounts() -> Iterator[None]:
    """Let the accounts of ``UIDS`` be there, and hashes cost nothing."""
    with (
        patch.object(asyncio, "to_thread", _in_this_thread),
        patch.object(callers, "_account_name", NAMES.__getitem__),
        patch.object(tokens, "_COST", (2, 1, 1)),
    ):
        yield


@asynccontextmanager
async def world(
    plays: Callable[[StartOrder], Played] = lambda _: Played(60.0), **hosts: Any
) -> AsyncIterator[World]:
    """A service whose commands take a minute; to be used in played time."""
    with (
        TemporaryDirectory() as folder,
        known_accounts(),
        TestJournal(Path(folder) / "queue.db") as journal,
    ):
        fake = fake_hosts(plays=plays, **hosts)
        daemon = daemon_of(journal, fake)
        await daemon.start()
        made = World(daemon, fake, make_app(daemon))
        yield made
        await made.close()
        await daemon.stop()


async def submitted(client: httpx.AsyncClient, **more: Any) -> str:
    """Submit a job, and return its id."""
    body = {**JOB, **{key: more.pop(key) for key in ("array", "sweep") if key in more}}
    body["spec"] = {**JOB["spec"], **more}
    answer = await client.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["id"]
    return found
