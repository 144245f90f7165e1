"""Routes of jobs, hosts, users and the service: what they answer, and how they refuse."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from api_world import JOB, World, submitted, world
from fake_service import play

from warren.serve.api.endpoint import BODY_MAX_BYTES
from warren.serve.api.routes.jobs import SUBMISSIONS_MAX
from warren.serve.hosts.fake import FakeHosts, Played
from warren.serve.records.events import AttemptEnded, UserSet


async def refused(answer: Any, status: int, kind: str) -> str:
    """The one line of an error."""
    assert answer.status_code == status, answer.text
    error = answer.json()
    assert error["kind"] == kind
    assert "\n" not in error["error"]
    text: str = error["error"]
    return text


def test_a_job_is_submitted_listed_waited_for_and_shown() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            answer = await ana.post("/v1/jobs", json=JOB)
            assert (answer.status_code, answer.json()) == (201, {"id": "1", "ids": ["1"]})
            rows = (await ana.get("/v1/jobs")).json()
            assert [(r["id"], r["user"], r["state"]) for r in rows] == [("1", "ana", "queued")]
            shown = (await ana.get("/v1/jobs/1/wait")).json()
            assert (shown["state"], shown["exit_code"]) == ("finished", 0)
            assert shown["devices"] == ["GPU-h0-0"]
            assert shown["log"] == "h0:1.1"
            assert shown["ended_s"] - shown["started_s"] == 60

    play(main())


def test_arrays_and_lists_are_answered_with_all_ids_and_are_all_or_none() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            both = [JOB, {**JOB, "array": [3, 5]}]
            answer = await ana.post("/v1/jobs", json=both)
            assert answer.json() == [
                {"id": "1", "ids": ["1"]},
                {"id": "2", "ids": ["2_3", "2_4", "2_5"]},
            ]
            rows = (await ana.get("/v1/jobs", params={"array": "2"})).json()
            assert [row["id"] for row in rows] == ["2_3", "2_4", "2_5"]
            text = await refused(await ana.get("/v1/jobs/2"), 404, "unknown")
            assert "2_3 to 2_5" in text
            await refused(await ana.post("/v1/jobs", json=[JOB, {**JOB, "array": [5, 3]}]),
                          400, "wrong")  # fmt: skip
            await refused(await ana.post("/v1/jobs", json=[]), 400, "wrong")
            assert len(w.daemon.queue.jobs) == 4

    play(main())


def test_lists_are_chosen_by_user_and_state_and_keep_the_newest() -> None:
    async def main() -> None:
        async with world() as w:
            ana, ben = w.local("ana"), w.local("ben")
            for client, held in ((ana, True), (ben, False), (ana, False), (ana, True)):
                await submitted(client, held=held)

            async def ids(**chosen: Any) -> list[str]:
                return [row["id"] for row in (await ben.get("/v1/jobs", params=chosen)).json()]

            assert await ids(user="ana") == ["1", "3", "4"]
            assert await ids(state="held") == ["1", "4"]
            assert await ids(state=["held", "queued"], user="ana") == ["1", "3", "4"]
            assert await ids(limit=2) == ["3", "4"]

    play(main())


@pytest.mark.parametrize(
    ("query", "word"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("state=lost", "state"), ("other=1", "other"),
     ("user=a&user=b", "twice")],
)  # fmt: skip
def test_a_wrong_query_is_refused_by_its_parameter(query: str, word: str) -> None:
    async def main() -> None:
        async with world() as w:
            answer = await w.local("ana").get(f"/v1/jobs?{query}")
            assert word in await refused(answer, 400, "wrong")

    play(main())


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff", "body"),
        (b"[" * 100_000, "body"),
        (b'{"spec": {"command": ["x"]}}', "folder"),
        (b'{"spec": {"command": "x", "folder": "/"}}', "command"),
        (b'{"spec": {"command": ["x"], "folder": "/", "gpus": 1}}', "gpus"),
        (b'{"spec": {"command": ["x"], "folder": "/", "priority": 1e400}}', "priority"),
        (b'{"spec": {"command": ["x\\u0000"], "folder": "/"}}', "zero byte"),
        (b'{"spec": {"command": ["x\\ud800"], "folder": "/"}}', "body"),
        (b'{"spec": {"command": ["x"], "folder": "here"}}', "absolute"),
    ],
)
def test_a_wrong_body_is_refused_with_its_place(body: bytes, word: str) -> None:
    async def main() -> None:
        async with world() as w:
            answer = await w.local("ana").post("/v1/jobs", content=body)
            assert word in await refused(answer, 400, "wrong")
            assert not w.daemon.queue.jobs

    play(main())


def test_a_job_that_no_machine_could_run_has_a_kind_of_its_own() -> None:
    async def main() -> None:
        async with world() as w:
            await asyncio.sleep(1)
            answer = await w.local("ana").post(
                "/v1/jobs", json={"spec": {**JOB["spec"], "devices": 3}}
            )
            await refused(answer, 422, "never")

    play(main())


def test_a_body_that_is_too_long_is_not_read_to_its_end() -> None:
    async def main() -> None:
        sent = 0

        async def parts() -> Any:
            nonlocal sent
            for _ in range(1000):
                sent += 1
                yield b" " * (BODY_MAX_BYTES // 4)

        async with world() as w:
            ana = w.local("ana")
            await submitted(ana)
            await refused(await ana.post("/v1/jobs/1/priority", content=parts()), 413, "large")
            assert sent <= 6
            many = [JOB] * (SUBMISSIONS_MAX + 1)
            await refused(await ana.post("/v1/jobs", json=many), 400, "wrong")

    play(main())


def test_a_full_disk_refuses_requests_and_changes_nothing() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana, held=True)
            w.daemon.journal.full = True  # type: ignore[attr-defined]
            for path, body in (("/v1/jobs", JOB), ("/v1/jobs/1/cancel", None)):
                await refused(await ana.post(path, json=body), 507, "full")
            await refused(await w.local("ben").post("/v1/jobs/1/cancel"), 403, "forbidden")
            assert (await ana.get("/v1/jobs/1")).json()["state"] == "held"
            assert (await ana.get("/v1/service")).json()["disk_error"]
            w.daemon.journal.full = False  # type: ignore[attr-defined]
            assert await submitted(ana) == "2"

    play(main())


def test_jobs_are_held_released_cancelled_and_get_a_priority() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana, array=[0, 1], name="sweep")
            assert (await ana.post("/v1/jobs/1/hold")).json() == {"ids": ["1_0", "1_1"]}
            assert (await ana.post("/v1/jobs/1_0/release")).json() == {"ids": ["1_0"]}
            answer = await ana.post("/v1/jobs/1_1/priority", json={"priority": 7})
            assert answer.json() == {"ids": ["1_1"]}
            assert w.daemon.queue.jobs["1_1"].priority == 7
            await asyncio.sleep(1)
            text = await refused(await ana.post("/v1/jobs/1_0/hold"), 409, "conflict")
            assert "running" in text
            assert (await ana.post("/v1/jobs/sweep/cancel")).json() == {"ids": ["1_0", "1_1"]}
            assert (await ana.get("/v1/jobs/1_0/wait")).json()["state"] == "cancelled"
            await refused(await ana.post("/v1/jobs/9/cancel"), 404, "unknown")

    play(main())


def test_a_wait_ends_with_its_time_with_the_job_and_with_the_service() -> None:
    async def main() -> None:
        async with world() as w:
            ana, loop = w.local("ana"), asyncio.get_running_loop()
            await submitted(ana)
            begun = loop.time()
            short = (await ana.get("/v1/jobs/1/wait", params={"timeout_s": 5})).json()
            assert (short["state"], round(loop.time() - begun)) == ("running", 5)
            whole = (await ana.get("/v1/jobs/1/wait")).json()
            assert (whole["state"], round(loop.time() - begun)) == ("finished", 60)
            await submitted(ana, held=True)
            waiting = asyncio.create_task(ana.get("/v1/jobs/2/wait"))
            await asyncio.sleep(1)
            w.app.state.service.close()
            assert (await waiting).json()["state"] == "held"
            assert loop.time() - begun < 70

    play(main())


class _GrowingLog(FakeHosts):
    """A host whose commands write a line a second."""

    begun: dict[str, float]

    async def read_log(self, host: str, attempt: str, offset: int, limit: int) -> bytes:
        loop = asyncio.get_running_loop()
        begun = self.begun.setdefault(attempt, loop.time())
        lines = min(10, int(loop.time() - begun))
        text = "".join(f"{attempt} line {n}\n" for n in range(lines)).encode()
        return text[offset : offset + limit]


def grow(w: World) -> None:
    w.hosts.__class__ = _GrowingLog
    w.hosts.begun = {}  # type: ignore[attr-defined]


def test_a_followed_log_begins_before_the_job_and_ends_with_it() -> None:
    async def main() -> None:
        async with world(lambda _: Played(20.0)) as w:
            grow(w)
            ana, loop = w.local("ana"), asyncio.get_running_loop()
            await submitted(ana, held=True)
            reading = asyncio.create_task(ana.get("/v1/jobs/1/log?follow=1"))
            await asyncio.sleep(5)
            assert not reading.done()
            await ana.post("/v1/jobs/1/release")
            text = (await reading).text
            assert text == "".join(f"1.1 line {n}\n" for n in range(10))
            assert loop.time() < 30
            again = await ana.get("/v1/jobs/1/log?follow=1")
            assert again.text == text
            assert (await ana.get("/v1/jobs/1/log?offset=11")).text == text[11:]
            assert (await ana.get("/v1/jobs/1/log?tail=13")).text == text[-13:]
            assert (await ana.get("/v1/jobs/1/log?tail=0")).text == ""
            assert (await ana.get("/v1/jobs/1/log?tail=99999")).text == text

    play(main())


def test_a_followed_log_goes_on_with_the_next_attempt() -> None:
    async def main() -> None:
        async with world(lambda order: Played(20.0, int(order.attempt == "1.1"))) as w:
            grow(w)
            ana = w.local("ana")
            await submitted(ana, retries=1)
            await asyncio.sleep(2)
            lines = (await ana.get("/v1/jobs/1/log?follow=1")).text.splitlines()
            assert lines == [f"1.{a} line {n}" for a in (1, 2) for n in range(10)]
            first = (await ana.get("/v1/jobs/1/log?attempt=1&follow=1")).text.splitlines()
            assert first == lines[:10]
            await refused(await ana.get("/v1/jobs/1/log?attempt=3"), 404, "unknown")
            followed = await ana.get("/v1/jobs/1/log?attempt=3&follow=1")
            assert followed.text == ""

    play(main())


def test_a_log_of_a_job_that_never_ran_is_empty_also_when_followed() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana, held=True)
            assert (await ana.get("/v1/jobs/1/log")).text == ""
            reading = asyncio.create_task(ana.get("/v1/jobs/1/log?follow=1"))
            await asyncio.sleep(1)
            await ana.post("/v1/jobs/1/cancel")
            assert (await reading).text == ""

    play(main())


def test_a_host_that_does_not_send_a_log_is_named() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana)
            await asyncio.sleep(1)

            async def never(*_: object) -> bytes:
                await asyncio.sleep(1e6)
                return b""

            w.hosts.read_log = never  # type: ignore[method-assign]
            assert "h0" in await refused(await ana.get("/v1/jobs/1/log"), 409, "conflict")

    play(main())


def test_hosts_are_listed_drained_and_removed() -> None:
    async def main() -> None:
        async with world(count=2) as w:
            root, ana = w.local("root"), w.local("ana")
            await submitted(ana)
            await asyncio.sleep(1)
            first, second = (await ana.get("/v1/hosts")).json()
            assert [one["use"] for one in first["devices"]] == ["jobs", "free"]
            assert first["devices"][0]["jobs"] == [{"id": "1", "name": "", "user": "ana"}]
            drained = await root.post(
                "/v1/hosts/h0/drain", json={"device": "GPU-h0-1", "reason": "fan"}
            )
            assert drained.json()["devices"][1]["drained"] == "fan"
            assert drained.json()["devices"][1]["use"] == "drained"
            whole = await root.post("/v1/hosts/h0/drain", json={})
            assert whole.json()["drained"] == ""
            free = await root.post("/v1/hosts/h0/undrain", json={})
            assert free.json()["drained"] is None
            await refused(await root.post("/v1/hosts/x/drain", json={}), 404, "unknown")
            await refused(await root.delete("/v1/hosts/h1"), 409, "conflict")
            w.hosts.lose("h1")
            await asyncio.sleep(1)
            assert [one["name"] for one in (await root.delete("/v1/hosts/h1")).json()] == ["h0"]
            assert second["connected"]

    play(main())


def test_users_get_a_token_once_and_keep_it_when_they_change() -> None:
    async def main() -> None:
        async with world() as w:
            root = w.local("root")
            first = (await root.put("/v1/users/cleo", json={"groups": ["vision"]})).json()
            assert first["user"]["groups"] == ["vision"]
            assert (await w.remote(first["token"]).get("/v1/service")).json()["caller"] == {
                "user": "cleo", "role": "user",
            }  # fmt: skip
            second = (await root.put("/v1/users/cleo", json={"weight": 2, "role": "admin"})).json()
            assert second == {
                "user": {**first["user"], "weight": 2.0, "role": "admin"}, "token": None,
            }  # fmt: skip
            assert (await w.remote(first["token"]).get("/v1/audit")).status_code == 200
            third = (await root.put("/v1/users/cleo", json={"new_token": True})).json()
            assert (await w.remote(first["token"]).get("/v1/jobs")).status_code == 401
            assert (await w.remote(third["token"]).get("/v1/jobs")).status_code == 200
            await root.delete("/v1/users/cleo")
            assert (await w.remote(third["token"]).get("/v1/jobs")).status_code == 401
            await refused(await root.put("/v1/users/a:b", json={}), 400, "wrong")
            await refused(await root.delete("/v1/users/cleo"), 404, "unknown")

    play(main())


def test_quotas_are_set_listed_and_taken_away() -> None:
    async def main() -> None:
        async with world() as w:
            root, quota = w.local("root"), {"subject": "user:ana", "type": "any", "devices": 1}
            assert (await root.put("/v1/quotas", json=quota)).json() == [quota]
            assert (await w.local("ana").get("/v1/quotas")).json() == [quota]
            assert (await root.put("/v1/quotas", json={**quota, "devices": -1})).json() == []
            await refused(
                await root.put("/v1/quotas", json={**quota, "subject": "ana"}), 400, "wrong"
            )

    play(main())


def test_the_audit_names_who_did_what_and_holds_no_secret() -> None:
    async def main() -> None:
        async with world() as w:
            root, ana = w.local("root"), w.local("ana")
            await submitted(ana)
            token = (await root.put("/v1/users/cleo", json={})).json()["token"]
            await ana.put("/v1/users/ana", json={"role": "admin"})
            text = (await root.get("/v1/audit")).text
            rows = json.loads(text)
            assert [(row["user"], row["action"]) for row in rows] == [
                ("ana", "submitted"), ("root", "user"), ("ana", "refused"),
            ]  # fmt: skip
            assert rows[2]["details"]["action"] == "set user ana"
            assert "secret value" not in text
            assert token not in text
            assert "scrypt" not in text
            only = (await root.get("/v1/audit", params={"user": "ana", "limit": 1})).json()
            assert [row["seq"] for row in only] == [rows[2]["seq"]]

    play(main())


def test_a_caller_that_is_refused_again_and_again_does_not_fill_the_journal() -> None:
    async def main() -> None:
        async with world() as w:
            await submitted(w.local("ana"))
            ben = w.local("ben")
            for _ in range(50):
                assert (await ben.post("/v1/jobs/1/cancel")).status_code == 403
            assert len(w.audit("refused")) == 30
            await asyncio.sleep(61)
            await ben.post("/v1/jobs/1/cancel")
            assert len(w.audit("refused")) == 31

    play(main())


def test_figures_for_prometheus_count_jobs_devices_starts_and_submissions() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            for held in (False, False, False, True):
                await submitted(ana, held=held)
            await asyncio.sleep(1)
            text = (await ana.get("/metrics")).text
            for line in (
                'warren_jobs{state="running"} 2',
                'warren_jobs{state="held"} 1',
                'warren_devices{type="FAKE",use="jobs"} 2',
                "warren_starts_total 2",
                "warren_submit_seconds_count 4",
                'warren_submit_seconds_bucket{le="+Inf"} 4',
            ):
                assert line in text.splitlines()
            assert "warren_queue_length" not in text
            root = (await w.local("root").get("/metrics")).text
            assert 'warren_queue_length{user="ana"} 1' in root.splitlines()

    play(main())


def test_events_tell_of_changes_at_once_but_not_of_each_one() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            reading = asyncio.create_task(ana.get("/v1/events"))
            await asyncio.sleep(1)
            for _ in range(20):
                await submitted(ana, held=True)
            await asyncio.sleep(40)
            w.app.state.service.close()
            text = (await reading).text
            assert text.startswith("retry: 2000\nevent: hello\n")
            assert 1 <= text.count("event: changed") <= 3
            assert ": nothing has changed" in text

    play(main())


def test_unknown_paths_and_methods_are_answered_as_all_errors_are() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await refused(await ana.get("/v1/nothing"), 404, "unknown")
            answer = await ana.delete("/v1/jobs")
            assert answer.headers["allow"] == "POST"
            await refused(answer, 405, "wrong")

    play(main())


def test_a_job_that_another_host_ended_wakes_its_waiter() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana)
            await asyncio.sleep(1)
            waiting = asyncio.create_task(ana.get("/v1/jobs/1/wait"))
            await asyncio.sleep(0)
            w.hosts.lose("h0")
            await asyncio.sleep(1)
            assert (await w.local("root").delete("/v1/hosts/h0")).status_code == 200
            assert (await waiting).json()["state"] == "failed"
            ends = [e for e in w.daemon.journal.events() if isinstance(e, AttemptEnded)]
            assert [end.cause for end in ends] == ["host"]

    play(main())


def test_no_user_is_stored_with_a_token_that_can_be_read() -> None:
    async def main() -> None:
        async with world() as w:
            token = (await w.local("root").put("/v1/users/cleo", json={})).json()["token"]
            (event,) = [e for e in w.daemon.journal.events() if isinstance(e, UserSet)]
            assert token.rpartition(".")[2] not in msgspec.json.encode(event).decode()
            assert event.user.token_hash.startswith("scrypt$")

    play(main())
