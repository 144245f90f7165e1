"""What each kind of caller may do and see: a table of all routes, and requests that are drawn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import msgspec
import pytest
from api_fuzz import requests_of
from api_world import World, submitted, world
from fake_service import play
from hypothesis import given
from hypothesis import strategies as st

from warren.serve.api.app import ROUTES
from warren.serve.api.errors import STATUS_OF_KIND
from warren.serve.hosts.fake import Played
from warren.serve.page.actions import ACTIONS

SECRETS: Final = ("--secret", "/secret/folder", "secret value", "output of 1.1", "scrypt$")
"""Texts of ana's jobs 1 and 2, and of hashes, that others must not see."""

OPEN: Final = {
    ("POST", "/v1/jobs"): {"spec": {"command": ["x"], "folder": "/"}},
    ("GET", "/v1/jobs"): None,
    ("GET", "/v1/jobs/{job}"): None,
    ("GET", "/v1/jobs/{job}/wait"): None,
    ("GET", "/v1/jobs/{job}/why"): None,
    ("POST", "/v1/what-if"): {"order": "backfill"},
    ("GET", "/v1/hosts"): None,
    ("GET", "/v1/users"): None,
    ("GET", "/v1/quotas"): None,
    ("GET", "/v1/service"): None,
    ("GET", "/metrics"): None,
}
"""Routes for all that are known, each with a body."""
OWN: Final = {
    ("POST", "/v1/jobs/{job}/priority"): {"priority": 1},
    ("POST", "/v1/jobs/{job}/release"): None,
    ("POST", "/v1/jobs/{job}/hold"): None,
    ("POST", "/v1/jobs/{job}/cancel"): None,
    ("GET", "/v1/jobs/{job}/log"): None,
}
"""Routes for the user of a job and for admins."""
RUNNING: Final = {
    ("POST", "/v1/jobs/{job}/preempt"): None,
    ("POST", "/v1/jobs/{job}/extend"): {},
}
"""Routes for the same, of jobs that run."""
ONESELF: Final = {("PUT", "/v1/users/{user}/notify"): {"url": ""}}
"""Routes for the user that they name, and for admins."""
ADMINS: Final = {
    ("POST", "/v1/hosts/{host}/drain"): {},
    ("POST", "/v1/hosts/{host}/undrain"): {},
    ("PUT", "/v1/users/{user}"): {},
    ("DELETE", "/v1/users/{user}"): None,
    ("PUT", "/v1/quotas"): {"subject": "each", "type": "any", "devices": 3},
    ("GET", "/v1/audit"): None,
    ("DELETE", "/v1/hosts/{host}"): None,
}
"""Routes for admins."""
FOLLOWED: Final = {("GET", "/v1/events")}
"""Routes for all that are known, whose answer does not end by itself."""


MADE: Final = {(route.method, route.path): route for route in ROUTES}


def path_of(route: str, job: str = "2") -> str:
    return route.format(job=job, host="h1", user="cleo")


@pytest.fixture(scope="module")
def statuses() -> dict[tuple[str, str, str], int]:
    """The status that each caller gets for each route; and nothing that it may not see."""

    async def main() -> dict[tuple[str, str, str], int]:
        async with world(count=2) as w:
            token = w.token("cleo")
            callers = {"none": w.remote(), "ben": w.local("ben"), "cleo": w.remote(token),
                       "ana": w.local("ana"), "root": w.local("root")}  # fmt: skip
            await submitted(callers["ana"])
            await submitted(callers["ana"], held=True)
            await asyncio.sleep(1)
            w.hosts.lose("h1")
            await asyncio.sleep(1)
            found = {}
            for name, client in callers.items():
                for (method, route), body in {
                    **OPEN,
                    **OWN,
                    **RUNNING,
                    **ONESELF,
                    **ADMINS,
                }.items():
                    params = {"timeout_s": 0} if route.endswith("wait") else None
                    answer = await client.request(method, path_of(route), json=body, params=params)
                    found[name, method, route] = answer.status_code
                    if answer.is_success and MADE[method, route].media is None:
                        type_ = MADE[method, route].types["return"]
                        msgspec.json.decode(answer.content, type=type_)  # as the schema says
                    if name not in ("ana", "root"):
                        assert not [one for one in SECRETS if one in answer.text], route
            return found

    return play(main())


def test_the_table_names_all_routes() -> None:
    table = {*OPEN, *OWN, *RUNNING, *ONESELF, *ADMINS, *FOLLOWED}
    assert table == {(route.method, route.path) for route in ROUTES}


def test_a_caller_that_is_unknown_gets_nothing(
    statuses: dict[tuple[str, str, str], int],
) -> None:
    assert {status for (name, *_), status in statuses.items() if name == "none"} == {401}


def test_known_callers_read_what_is_open(statuses: dict[tuple[str, str, str], int]) -> None:
    for name in ("ben", "cleo", "ana", "root"):
        assert {statuses[name, *route] for route in OPEN} == {200, 201}


def test_jobs_are_changed_and_logs_read_by_their_user_and_by_admins(
    statuses: dict[tuple[str, str, str], int],
) -> None:
    for name in ("ben", "cleo"):
        assert {statuses[name, *route] for route in (*OWN, *RUNNING)} == {403}
    for name in ("ana", "root"):  # job 2 is held
        assert {statuses[name, *route] for route in RUNNING} == {409}
    assert {statuses["ana", *route] for route in OWN} == {200}
    # What ana has cancelled is over for an admin, too.
    assert {statuses["root", *route] for route in OWN} == {200, 409}


def test_a_user_and_admins_say_where_notices_go(
    statuses: dict[tuple[str, str, str], int],
) -> None:
    for name, status in {"ben": 403, "ana": 403, "cleo": 200, "root": 200}.items():
        assert {statuses[name, *route] for route in ONESELF} == {status}


def test_hosts_users_quotas_and_the_audit_are_for_admins(
    statuses: dict[tuple[str, str, str], int],
) -> None:
    for name in ("ben", "cleo", "ana"):
        assert {statuses[name, *route] for route in ADMINS} == {403}
    assert {statuses["root", *route] for route in ADMINS} == {200}


def test_the_page_refuses_what_the_api_refuses() -> None:
    async def main() -> None:
        async with world(count=2) as w:
            ana, ben, none = w.local("ana"), w.local("ben"), w.remote()
            await submitted(ana)
            await submitted(ana, held=True)
            await asyncio.sleep(1)
            before = w.daemon.journal.last
            fields = {"name": "ben", "role": "admin", "subject": "each", "type": "any",
                      "devices": "1"}  # fmt: skip
            for path in ACTIONS:
                if path != "/page/jobs":
                    answer = await ben.post(path_of(path), data=fields)
                    assert answer.status_code == 403, path
                answer = await none.post(path_of(path), data=fields)
                assert answer.status_code == 401, path
            kinds = {e.event.__struct_config__.tag for e in w.daemon.journal.entries(before)}
            assert kinds == {"refused"}
            for path in ("/", "/?state=ended", "/jobs/1", "/jobs/2", "/machines", "/users"):
                text = (await ben.get(path)).text
                assert not [one for one in SECRETS if one in text], path
                answer = await none.get(path)
                assert answer.status_code == 303, path
                assert answer.headers["location"].startswith("/login?next=")
            assert "secret value" not in (await ana.get("/jobs/1")).text
            assert "/secret/folder" in (await ana.get("/jobs/1")).text

    play(main())


async def _send(client: httpx.AsyncClient, request: tuple[str, str, Any, Any]) -> httpx.Response:
    method, path, query, body = request
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    return await client.request(method, path, params=query, content=content)


def _texts(w: World) -> Iterator[str]:
    """What belongs to ana, as it is."""
    for job in w.daemon.queue.jobs.values():
        if job.user == "ana":
            yield repr((job.state, job.priority, job.cancelled_by))


@given(
    st.lists(requests_of(ROUTES, FOLLOWED), min_size=1, max_size=12),
    st.sampled_from(["ben", "none", "root"]),
)
def test_no_drawn_request_breaks_the_service_or_reaches_a_job_of_another_user(
    requests: list[tuple[str, str, Any, Any]], name: str
) -> None:
    async def main() -> None:
        async with world(lambda _: Played(1e6)) as w:
            ana = w.local("ana")
            await submitted(ana, name="mine")
            await submitted(ana, held=True)
            await asyncio.sleep(1)
            before = list(_texts(w))
            client = w.remote() if name == "none" else w.local(name)
            for request in requests:
                answer = await _send(client, request)
                assert answer.status_code in {200, 201, *STATUS_OF_KIND.values()} - {507}, request
                if answer.status_code >= 400:
                    assert set(answer.json()) == {"error", "kind"}
                if name != "root":
                    assert not [one for one in SECRETS if one in answer.text], request
            if name != "root":
                assert list(_texts(w)) == before
            for path in ("/", "/jobs/1", "/machines", "/users", "/v1/jobs", "/metrics"):
                assert (await ana.get(path)).status_code == 200

    play(main())
