"""Who asks: accounts by the socket, users by tokens and sessions, and no other way."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx
import pytest
from api_world import HERE, JOB, UIDS, World, submitted, world
from fake_service import TestJournal, play

from warren.serve.api import tokens
from warren.serve.api.app import make_app
from warren.serve.api.callers import COOKIE, SESSION_S
from warren.serve.api.limits import RateLimit
from warren.serve.api.server import ApiServer
from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played
from warren.serve.records.events import UserSet
from warren.serve.records.users import User, account_name

EVIL: Final = "evil.test"
"""Host of another web site."""


async def who(client: httpx.AsyncClient) -> object:
    answer = await client.get("/v1/service")
    return answer.json()["caller"] if answer.status_code == 200 else answer.status_code


@asynccontextmanager
async def served(folder: Path, listening: socket.socket) -> AsyncIterator[tuple[Daemon, ApiServer]]:
    """A server in real time on a socket."""
    with TestJournal(folder / "q") as journal:
        daemon = Daemon(journal, FakeHosts([], lambda _: Played(1.0)))
        await daemon.start()
        server = ApiServer(make_app(daemon))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield daemon, server
        server.stop()
        await serving
        await daemon.stop()


def unix_socket(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    return listening


def test_the_account_at_the_other_end_of_a_real_socket_is_the_caller(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "socket"
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with (
            served(tmp_path, unix_socket(path)) as (_, server),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            name = pwd.getpwuid(os.geteuid()).pw_name
            assert await who(client) == {"user": name, "role": "admin"}
            # A follower does not keep the service from its end.
            events = asyncio.create_task(client.get("/v1/events"))
            await asyncio.sleep(0.1)
            server.stop()
            assert (await events).text.startswith("retry")

    asyncio.run(main())


def test_the_address_of_a_caller_is_that_of_its_connection(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with served(tmp_path, listening) as (daemon, _), httpx.AsyncClient() as client:
                headers = {"authorization": "Bearer x", "x-forwarded-for": "10.1.2.3"}
                answer = await client.get(f"{url}/v1/jobs", headers=headers)
                assert answer.status_code == 401
                (entry,) = daemon.journal.audit()
                assert "127.0.0.1" in str(entry.event)
                assert "10.1.2.3" not in str(entry.event)

    asyncio.run(main())


def test_a_connection_that_sends_no_request_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        path = tmp_path / "socket"
        async with served(tmp_path, unix_socket(path)):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
            assert await reader.read() == b""
            writer.close()

    monkeypatch.setattr("warren.serve.api.server.HEAD_S", 0.1)
    asyncio.run(main())


def test_names_in_headers_cookies_and_queries_change_nothing() -> None:
    async def main() -> None:
        async with world() as w:
            token = w.token("cleo", "admin")
            ben = w.local("ben")
            for headers in (
                {"x-user": "root"}, {"remote-user": "root"}, {"x-remote-user": "root"},
                {"authorization": f"Bearer {token}"}, {"authorization": "Basic cm9vdDo="},
                {"cookie": f"{COOKIE}=root; user=root"},
            ):  # fmt: skip
                answer = await ben.get("/v1/service?", headers=headers)
                assert answer.json()["caller"] == {"user": "ben", "role": "user"}
            body = {"spec": {**JOB["spec"], "environment": {"USER": "root"}}}
            await ben.post("/v1/jobs", json=body)
            assert w.daemon.queue.jobs["1"].user == "ben"

    play(main())


def test_only_a_whole_token_of_a_known_user_leads_in_by_tcp() -> None:
    async def main() -> None:
        async with world() as w:
            token = w.token("cleo")
            other = w.token("dora")
            assert await who(w.remote(token)) == {"user": "cleo", "role": "user"}
            name, _, secret = token.rpartition(".")
            wrong = (
                None, "", name, secret, token[:-1], f"{token}=", f"dora.{secret}", f"root.{secret}",
                other.replace("dora", "cleo"), token.upper(), tokens.new_token("cleo"),
            )  # fmt: skip
            for index, text in enumerate(wrong):
                assert await who(w.remote(text, f"10.0.0.{index}")) == 401
            answer = await w.remote().get("/v1/jobs")
            assert answer.headers["www-authenticate"] == "Bearer"
            kept = w.audit("refused")
            assert {event.by for event in kept} == {"(unknown)"}
            assert kept[-1].action.startswith("sign in from 10.0.0.")

    play(main())


def test_a_user_without_a_token_cannot_come_by_tcp() -> None:
    async def main() -> None:
        async with world() as w:
            w.token("cleo")
            user = w.daemon.queue.users["cleo"]
            w.daemon.queue.users["cleo"] = type(user)("cleo")
            for token in ("cleo.", "cleo." + "A" * 43):
                assert await who(w.remote(token)) == 401

    play(main())


def test_an_address_with_many_wrong_tokens_waits_and_known_users_do_not() -> None:
    async def main() -> None:
        async with world() as w:
            token, bad = w.token("cleo"), tokens.new_token("cleo")
            known = w.remote(token, "10.0.0.1")
            assert await who(known) == {"user": "cleo", "role": "user"}
            guessing = w.remote(bad, "10.0.0.1")
            answers = [await who(guessing) for _ in range(12)]
            assert answers == [401] * 10 + [429] * 2
            limited = await guessing.get("/v1/jobs")
            assert 0 < int(limited.headers["retry-after"]) <= 61
            assert await who(w.remote(bad, "10.0.0.2")) == 401
            assert await who(known) == {"user": "cleo", "role": "user"}
            await asyncio.sleep(61)
            assert await who(guessing) == 401

    play(main())


def test_many_wrong_tokens_at_once_do_not_pass_the_limit_together() -> None:
    async def main() -> None:
        async with world() as w:
            w.token("cleo")
            guessing = [w.remote(tokens.new_token("cleo"), "10.0.0.1") for _ in range(30)]
            answers = await asyncio.gather(*map(who, guessing))
            assert answers.count(401) <= 11
            assert answers.count(429) >= 19

    play(main())


async def login(w: World, token: str, **headers: str) -> httpx.AsyncClient:
    client = w.remote()
    answer = await client.post("/login", data={"token": token, "next": "/jobs/1"}, headers=headers)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/jobs/1"
    flags = answer.headers["set-cookie"].lower()
    assert all(flag in flags for flag in ("httponly", "secure", "samesite=lax"))
    return client


def test_a_session_of_the_page_ends_by_time_by_logout_and_with_its_token() -> None:
    async def main() -> None:
        async with world() as w:
            token = w.token("cleo")
            same = {"origin": f"https://{HERE}"}
            one, two, three = [await login(w, token) for _ in range(3)]
            assert await who(one) == {"user": "cleo", "role": "user"}
            value = two.cookies[COOKIE]
            assert (await two.post("/logout", headers=same)).status_code == 303
            two.cookies.set(COOKIE, value)
            assert await who(two) == 401
            await asyncio.sleep(SESSION_S - 100)
            assert await who(three) == {"user": "cleo", "role": "user"}
            await asyncio.sleep(200)
            assert await who(three) == 401
            four = await login(w, token)
            w.token("cleo")
            assert await who(four) == 401

    play(main())


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, False),
        ({"origin": f"https://{EVIL}"}, False),
        ({"origin": "null"}, False),
        ({"origin": f"https://{HERE}.{EVIL}"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"origin": f"https://{EVIL}", "sec-fetch-site": "same-origin"}, False),
        ({"origin": f"https://{HERE}"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
    ],
)
def test_a_session_changes_something_only_from_the_page_itself(
    headers: dict[str, str], allowed: bool
) -> None:
    async def main() -> None:
        async with world() as w:
            client = await login(w, w.token("cleo"))
            form = {"command": "true", "folder": "/"}
            answers = [
                await client.post("/v1/jobs", json=JOB, headers=headers),
                await client.post("/page/jobs", data=form, headers=headers),
                await client.post("/logout", headers=headers),
            ]
            good = [201, 303, 303]
            assert [a.status_code for a in answers] == (good if allowed else [403] * 3)
            assert len(w.daemon.queue.jobs) == (2 if allowed else 0)

    play(main())


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": f"https://{EVIL}"},
        {"sec-fetch-site": "cross-site"},
        {"host": EVIL},
        {"host": f"{EVIL}:8080", "origin": f"http://{EVIL}:8080"},
        {"host": "[", "origin": "http://["},
        {"x-forwarded-for": "10.0.0.1"},
        {"forwarded": "for=10.0.0.1"},
        {"via": "1.1 proxy"},
    ],
)
def test_the_socket_is_closed_to_web_sites_and_proxies(headers: dict[str, str]) -> None:
    async def main() -> None:
        async with world() as w:
            answer = await w.local("root").post("/v1/jobs", json=JOB, headers=headers)
            assert answer.status_code == 403
            assert not w.daemon.queue.jobs

    play(main())


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:80", "warren"])
def test_the_socket_is_open_to_clients_and_to_a_forwarded_port(host: str) -> None:
    async def main() -> None:
        async with world() as w:
            headers = {"host": host, "origin": f"http://{host}"}
            answer = await w.local("ana").post("/v1/jobs", json=JOB, headers=headers)
            assert answer.status_code == 201

    play(main())


def test_an_account_that_an_admin_made_admin_is_one() -> None:
    async def main() -> None:
        async with world() as w:
            await submitted(w.local("ana"))
            ben = w.local("ben")
            assert (await ben.post("/v1/jobs/1/cancel")).status_code == 403
            await w.local("root").put("/v1/users/ben", json={"role": "admin"})
            assert (await ben.post("/v1/jobs/1/cancel")).status_code == 200

    play(main())


def test_another_site_cannot_log_a_browser_in() -> None:
    async def main() -> None:
        async with world() as w:
            token, foreign = w.token("cleo"), {"origin": f"https://{EVIL}"}
            answer = await w.remote().post("/login", data={"token": token}, headers=foreign)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers

    play(main())


def test_a_login_leads_to_no_other_site() -> None:
    async def main() -> None:
        async with world() as w:
            token = w.token("cleo")
            for path in (f"//{EVIL}", f"https://{EVIL}", f"/\\{EVIL}", "/\nx", ""):
                data = {"token": token, "next": path}
                answer = await w.remote().post("/login", data=data)
                assert answer.headers["location"] == "/"

    play(main())


def test_hashes_hold_their_cost_and_broken_ones_match_nothing() -> None:
    token = tokens.new_token("cleo")
    assert tokens.user_of(token) == "cleo"
    one, two = tokens.hash_of(token), tokens.hash_of(token)
    assert one != two
    assert tokens.matches(token, one)
    assert not tokens.matches(token + "x", one)
    for broken in ("", "x", "scrypt$2$1$1$!$!", "scrypt$x$1$1$$", one.replace("scrypt", "md5")):
        assert not tokens.matches(token, broken)


def test_a_limit_forgets_the_oldest_key_and_not_the_count() -> None:
    now = 0
    limit = RateLimit(2, 10.0, lambda: now)
    assert [limit.add("a"), limit.add("a"), limit.add("a")] == [True, True, False]
    assert limit.wait_s("a") == 10.0
    now = 10_000_000_000
    assert limit.wait_s("a") == 0.0
    assert limit.add("a")


def test_an_admin_cannot_become_root_by_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = {"root": SimpleNamespace(pw_uid=0), "toor": SimpleNamespace(pw_uid=0)}
    monkeypatch.setattr("warren.serve.api.routes.users.pwd.getpwnam", accounts.__getitem__)

    async def main() -> None:
        async with world() as w:
            for caller in (w.remote(w.token("cleo", "admin")), w.local("root")):
                for name in accounts:
                    for body in ({"new_token": True}, {}):
                        answer = await caller.put(f"/v1/users/{name}", json=body)
                        assert (answer.status_code, answer.json()["kind"]) == (403, "forbidden")
            assert set(w.daemon.queue.users) == {"cleo"}

    play(main())


def test_only_root_gives_out_an_account_that_jobs_run_as(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = {name: SimpleNamespace(pw_uid=uid) for name, uid in UIDS.items()}
    monkeypatch.setattr("warren.serve.api.routes.users.pwd.getpwnam", accounts.__getitem__)

    async def main() -> None:
        async with world() as w:
            w.app.state.service.as_accounts = True
            lead = User("ana", "admin")
            w.daemon.record([UserSet(time_ns=w.daemon.now_ns(), by="root", user=lead)])
            root, ana = w.local("root"), w.local("ana")

            async def add(client: httpx.AsyncClient, name: str, **body: Any) -> Any:
                answer = await client.put(f"/v1/users/{name}", json=body)
                return answer.status_code, answer.json()

            status, said = await add(root, "cleo")
            assert status == 400
            assert "no account 'cleo'; name the account" in said["error"]
            assert (await add(root, "cleo", account="no-such"))[0] == 400
            assert (await add(root, "ben", account="ana"))[0] == 400  # ben is an account itself
            assert (await add(root, "cleo", account="root"))[0] == 403

            status, said = await add(root, "cleo", account="ben")
            assert (status, said["user"]["account"]) == (200, "ben")
            cleo = w.remote(said["token"])
            job = await submitted(cleo)
            assert w.daemon.queue.jobs[job].user == "cleo"

            # An admin by role changes users, but takes no account that is not its own.
            assert (await add(ana, "cleo", weight=2.0))[0] == 200
            taken = {"cleo": {"new_token": True}, "ben": {}, "dora": {"account": "ben"}}
            for name, body in taken.items():
                status, said = await add(ana, name, **body)  # type: ignore[arg-type]
                assert (status, said["kind"]) == (403, "forbidden"), (name, said)
            assert {one.by for one in w.audit("refused")} == {"root", "ana"}
            status, said = await add(ana, "ana-laptop", account="ana")
            assert (status, said["user"]["account"]) == (200, "ana")
            assert (await add(ana, "ana"))[0] == 200
            assert account_name(w.daemon.queue.users, "cleo") == "ben"

    play(main())


def test_where_all_jobs_run_as_one_account_none_is_named() -> None:
    async def main() -> None:
        async with world() as w:
            root = w.local("root")
            answer = await root.put("/v1/users/cleo", json={"account": "ana"})
            assert (answer.status_code, answer.json()["kind"]) == (400, "wrong")
            answer = await root.put("/v1/users/cleo", json={})
            assert (answer.status_code, answer.json()["user"]["account"]) == (200, None)

    play(main())
