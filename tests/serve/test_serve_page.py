"""The page without a browser: what it shows to whom, what forms do, and that texts stay texts."""

from __future__ import annotations

import asyncio
import html
import re

import pytest
from api_world import submitted, world
from fake_service import play

from warren.serve.client.shown import size
from warren.serve.hosts.fake import Played
from warren.serve.hosts.port import DevicesSeen
from warren.serve.page.render import static_file
from warren.serve.page.text import duration, moment
from warren.serve.records.machines import DeviceUse

HTMX = {"hx-request": "true"}


def shown(text: str) -> str:
    """The text of a page without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_the_queue_shows_jobs_by_state_with_buttons_for_their_user() -> None:
    async def main() -> None:
        async with world() as w:
            ana, ben = w.local("ana"), w.local("ben")
            await submitted(ana, name="train")
            await submitted(ana, held=True)
            await asyncio.sleep(1)
            await submitted(ben)
            text = (await ana.get("/")).text
            assert "1 running train ana" in shown(text)
            assert 'action="/page/jobs/1/cancel"' in text
            assert 'action="/page/jobs/2/release"' in text
            assert 'action="/page/jobs/3/cancel"' not in text
            assert 'action="/page/jobs/3/cancel"' in (await w.local("root").get("/")).text
            mine = (await ben.get("/?who=mine")).text
            assert 'id="job-3"' in mine
            assert 'id="job-1"' not in mine
            await asyncio.sleep(100)
            ended = (await ben.get("/?state=ended")).text
            assert ended.index('id="job-3"') < ended.index('id="job-1"')
            assert 'id="job-2"' not in ended
            assert (await ben.get("/?state=lost")).status_code == 400

    play(main())


def test_a_long_queue_is_cut_and_says_so() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana, array=[1, 205], held=True)
            text = (await ana.get("/")).text
            assert text.count("<tr id=") == 200
            assert "5 more jobs are not shown" in text

    play(main())


def test_texts_of_users_are_never_markup() -> None:
    async def main() -> None:
        async with world() as w:
            ana, root = w.local("ana"), w.local("root")
            bad = '"><script>alert(1)</script><b hx-get="/x"'
            await ana.post("/v1/jobs", json={"spec": {"command": [bad], "folder": f"/{bad}"}})
            await asyncio.sleep(1)
            await root.post("/v1/hosts/h0/drain", json={"reason": bad})
            w.daemon.report(DevicesSeen("h0", (DeviceUse("GPU-h0-1", 1, (bad,)),)))
            await asyncio.sleep(1)
            for path in ("/", "/jobs/1", "/machines", "/users", f"/jobs/{bad.replace('/', '')}"):
                text = (await root.get(path)).text
                assert "<script>" not in text, path
                assert "<b hx" not in text, path
            assert bad in html.unescape((await root.get("/machines")).text)
            message = await ana.post(
                "/page/jobs", data={"command": "x", "folder": bad}, headers=HTMX
            )
            assert message.status_code == 400
            assert "<script>" not in message.text

    play(main())


def test_pages_run_only_files_of_the_server() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            await submitted(ana)
            for path in ("/", "/jobs/1", "/machines", "/users", "/jobs/9", "/login"):
                answer = await ana.get(path)
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
                assert "unsafe" not in policy
                text = answer.text
                assert not re.search(r"<script(?![^>]* src=\"/static/)", text), path
                assert not re.search(r"<style|style=| on\w+=|javascript:|hx-on|js:", text), path
                for found in re.findall(r"(?:src|href)=\"([^\"]*)\"", text):
                    assert found.startswith(("/", "data:,")), path
                for name in re.findall(r"/static/([\w.]+)", text):
                    assert (await w.remote().get(f"/static/{name}")).status_code == 200
            assert (await ana.get("/static/..%2fpages.py")).status_code == 404
            assert (await ana.get("/static/htmx.LICENSE.txt")).status_code == 404
            log = await ana.get("/v1/jobs/1/log")
            assert log.headers["content-type"] == "text/plain; charset=utf-8"
            assert log.headers["x-content-type-options"] == "nosniff"

    play(main())


def test_a_form_submits_a_command_for_sh_and_answers_with_its_job() -> None:
    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            form = {"command": "echo $HOME\r\necho b", "folder": "/tmp", "devices": "2",
                    "time": "2 h", "name": "two", "device_type": "", "priority": "-3"}  # fmt: skip
            answer = await ana.post("/page/jobs", data=form, headers=HTMX)
            assert answer.status_code == 200
            assert 'href="/jobs/1"' in answer.text
            spec = w.daemon.queue.jobs["1"].spec
            assert spec.command == ("sh", "-c", "echo $HOME\necho b")
            assert (spec.devices, spec.time_limit_s, spec.priority) == (2, 7200.0, -3)
            assert spec.environment["USER"] == "ana"
            assert "/bin" in spec.environment["PATH"]
            plain = await ana.post("/page/jobs", data=form)
            assert (plain.status_code, plain.headers["location"]) == (303, "/")

    play(main())


@pytest.mark.parametrize(
    ("field", "text", "word"),
    [
        ("command", "  ", "command"),
        ("folder", "here", "folder"),
        ("devices", "two", "devices"),
        ("devices", "99999999999", "devices"),
        ("time", "soon", "time limit"),
        ("name", "a b", "name"),
        ("device_type", "H1000", "H1000"),
    ],
)
def test_a_wrong_field_of_the_form_is_named(field: str, text: str, word: str) -> None:
    async def main() -> None:
        async with world() as w:
            await asyncio.sleep(1)
            form = {"command": "true", "folder": "/", field: text}
            answer = await w.local("ana").post("/page/jobs", data=form, headers=HTMX)
            assert answer.status_code in (400, 422)
            assert word in answer.text
            assert not w.daemon.queue.jobs

    play(main())


@pytest.mark.parametrize(
    "content", [b"\xff=%ff", b"command=%ff", b"a=b&" * 200, b"command=%00&folder=/", b"{}"]
)
def test_what_is_no_form_is_refused(content: bytes) -> None:
    async def main() -> None:
        async with world() as w:
            answer = await w.local("ana").post("/page/jobs", content=content)
            assert answer.status_code == 400
            assert not w.daemon.queue.jobs

    play(main())


def test_admins_drain_hosts_and_set_users_and_quotas_by_forms() -> None:
    async def main() -> None:
        async with world() as w:
            root = w.local("root")
            await asyncio.sleep(1)
            await root.post("/page/hosts/h0/drain", data={"device": "GPU-h0-1"})
            text = shown((await root.get("/machines")).text)
            assert "drained: by root" in text
            await root.post("/page/hosts/h0/undrain", data={})
            assert "drained: by root" not in (await root.get("/machines")).text
            added = await root.post(
                "/page/users", data={"name": "cleo", "groups": "vision, nlp", "weight": "2"}
            )
            token = re.search(r"<code>(cleo\.[\w-]{43})</code>", added.text)
            assert token is not None
            assert (await w.remote(token[1]).get("/v1/jobs")).status_code == 200
            changed = await root.post("/page/users", data={"name": "cleo", "role": "admin"})
            assert changed.status_code == 303
            user = w.daemon.queue.users["cleo"]
            assert (user.role, user.groups, user.weight) == ("admin", ("vision", "nlp"), 2.0)
            for bad in ({"name": ""}, {"name": "a", "weight": "nan"}, {"name": "a", "role": "x"}):
                assert (await root.post("/page/users", data=bad)).status_code == 400
            await root.post(
                "/page/quotas", data={"subject": "group:nlp", "type": "any", "devices": "1"}
            )
            text = shown((await root.get("/users")).text)
            assert "cleo admin vision, nlp 2" in text
            assert "group:nlp any 1" in text
            await root.post("/page/users/cleo/remove", data={})
            assert "cleo" not in w.daemon.queue.users

    play(main())


def test_a_page_of_a_job_says_why_it_ended_and_who_may_read_its_log() -> None:
    async def main() -> None:
        async with world() as w:
            ana, ben = w.local("ana"), w.local("ben")
            await submitted(ana, time_limit_s=5.0)
            await asyncio.sleep(10)
            text = (await ana.get("/jobs/1")).text
            assert "train --secret" in shown(text)
            assert 'data-log="/v1/jobs/1/log?follow=1' in text
            assert "cancel" not in text.lower()
            other = (await ben.get("/jobs/1")).text
            assert "The log of this job is for ana and for admins." in other
            assert "data-log" not in other

    play(main())


def test_times_and_sizes_are_in_words() -> None:
    second = 10**9
    texts = [duration(s * second) for s in (-1, 0, 59, 60, 3_661, 90_000, 200_000)]
    assert texts == ["0 s", "0 s", "59 s", "1 min", "1 h 1 min", "1 d 1 h", "2 d 7 h"]
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    sizes = [size(count) for count in (0, 1_500, 80e9, 1.5e12)]
    assert sizes == ["0 B", "1.5 kB", "80 GB", "1.5 TB"]


def test_the_one_foreign_file_is_whole_and_has_its_license_beside_it() -> None:
    found = static_file("htmx.min.js")
    assert found is not None
    content, type_ = found
    assert content.startswith(b"var htmx=")
    assert b"4.0.1" in content
    assert type_.startswith("text/javascript")


def test_a_job_that_was_preempted_says_whether_it_saved() -> None:
    async def main() -> None:
        plays = [Played(1000.0, stop_s=12.0), Played(1000.0, stop_s=1.0, lost_s=840.0)]
        async with world(plays=lambda _: plays.pop(0) if plays else Played(1.0)) as w:
            ana = w.local("ana")
            await submitted(ana, resume={"grace_s": 90.0})
            for _ in range(2):
                await asyncio.sleep(2)
                assert (await ana.post("/v1/jobs/1/preempt")).json() == {"ids": ["1"]}
                await asyncio.sleep(100)
            text = shown((await ana.get("/jobs/1")).text)
            assert "after SIGTERM, with 1 min 30 s to save" in text
            assert "preempted by ana; saved in 12 s" in text
            assert "preempted by ana; not saved: 14 min lost" in text

    play(main())
