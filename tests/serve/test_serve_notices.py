"""Notices: what they say to whom, that nothing waits for them, and that URLs stay secret."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from api_world import UIDS, submitted, world
from fake_service import TestJournal, daemon_of, fake_hosts, play, submit_one, until
from queue_tools import ANA, NS, add, apply, machine, refused, service, start

from warren.cli.service.lookup import declared
from warren.live import extras
from warren.model.errors import SpecError
from warren.serve.daemon.service import run_service
from warren.serve.hosts.fake import Played
from warren.serve.hosts.port import AttemptIdle, XidSeen
from warren.serve.journal.journal import JournalWriteError
from warren.serve.notices.notifier import AWAY_S, Notifier
from warren.serve.notices.sender import Sender, message_of, scheme_of
from warren.serve.notices.texts import Notice, notices_of
from warren.serve.queue.idleness import GRACE_S, idle_ends
from warren.serve.queue.reports import events_of
from warren.serve.queue.requests import cancel, set_notify, submit
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import CommandSpec, JobState, Submission

URL = "json://ana:s3cret-word@hooks.example/path-of-ana"
SECRETS = ("s3cret-word", "hooks.example", "path-of-ana")
ADMIN_URL = "slack://admin-token"
needs_apprise = pytest.mark.skipif(find_spec("apprise") is None, reason="needs Apprise")


def hidden(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


def said(queue: Queue, events: list[Any]) -> list[Notice]:
    """Apply events, and return the notices that they mean."""
    found: list[Notice] = []
    for event in events:
        queue.apply(event)
        found += notices_of(queue, event, (ADMIN_URL,))
    return found


def running(**spec: Any) -> tuple[Queue, str]:
    queue = service(machine("h1", "H100", "H100"))
    job = add(queue, **{"notify": URL, **spec})
    start(queue)
    return queue, job


def ended(queue: Queue, job: str, **how: Any) -> list[Notice]:
    from warren.serve.hosts.port import CommandEnded

    how = {"cause": "exit", "exit_code": 0, **how}
    return said(queue, events_of(queue, CommandEnded("h1", f"{job}.1", 90 * NS, **how), 0))


@pytest.mark.parametrize(
    ("how", "title", "words"),
    [
        ({}, "job 1 (train) finished", ("It ran for 1 min 30 s on h1", "warren logs 1")),
        ({"exit_code": 3}, "job 1 (train) failed", ("exit code 3. It ran",)),
    ],
)
def test_the_end_of_a_job_is_said_to_where_its_submission_says(
    how: dict[str, Any], title: str, words: tuple[str, ...]
) -> None:
    queue, job = running(name="train")
    (notice,) = ended(queue, job, **how)
    assert notice[:2] == (URL, title)
    assert all(word in notice.body for word in words)


def test_a_user_has_a_default_which_a_job_may_replace_or_switch_off() -> None:
    queue, job = running(notify="")
    assert not ended(queue, job)
    for notify, goes_to in (("", [URL]), ("off", []), (ADMIN_URL, [ADMIN_URL])):
        queue, job = running(notify=notify)
        apply(queue, set_notify(queue, "ana", URL, ANA, 0))
        assert [notice.url for notice in ended(queue, job)] == goes_to


def test_a_user_who_cancels_a_job_hears_nothing_and_of_a_cancel_by_an_admin_does() -> None:
    from queue_tools import ROOT

    for caller, count in ((ANA, 0), (ROOT, 1)):
        queue, job = running()
        apply(queue, cancel(queue, [job], caller, 0))
        assert len(ended(queue, job, cause="cancel", exit_code=None)) == count


def test_a_warning_of_a_job_that_does_nothing_is_said_once_and_so_is_its_end() -> None:
    queue, job = running()
    report = AttemptIdle("h1", f"{job}.1", 0)
    (warned,) = said(queue, events_of(queue, report, 7200 * NS))
    assert warned.title == "job 1 does nothing"
    assert "'warren extend 1'" in warned.body
    assert not said(queue, events_of(queue, report, 7260 * NS))
    assert not said(queue, idle_ends(queue, lambda _: True, int((7200 + GRACE_S) * NS)))
    (over,) = ended(queue, job, cause="cancel", exit_code=None)
    assert over.title == "job 1 failed"
    assert over.body.startswith("idle: its GPU did nothing for 3 h. ")


def test_admins_hear_of_a_faulty_gpu_once_and_users_do_not() -> None:
    queue, _ = running()
    (notice,) = said(queue, events_of(queue, XidSeen("h1", "h1/1", 79), 0))
    assert notice.url == ADMIN_URL
    assert notice.title == "device 1 of h1 is quarantined"
    assert "Xid 79" in notice.body
    assert not said(queue, events_of(queue, XidSeen("h1", "h1/1", 79), 0))
    assert not said(queue, events_of(queue, XidSeen("h1", "h1/0", 31), 0))


def test_only_the_user_and_admins_set_where_notices_go() -> None:
    queue = service()
    from queue_tools import BEN

    text = refused("forbidden", lambda: set_notify(queue, "ana", URL, BEN, 0))
    assert hidden(text)
    for url in ("s3cret-word", "x" * 3000 + "://"):
        assert hidden(refused("wrong", lambda url=url: set_notify(queue, "ana", url, ANA, 0)))
        one = Submission(CommandSpec(("true",), "/", notify=url))
        assert hidden(refused("wrong", lambda one=one: submit(queue, [one], ANA, 0)))


# The sender.


class Taken:
    """Where messages go; it may refuse them, and may take long."""

    def __init__(self, works: bool = True) -> None:
        self.works, self.open = works, threading.Event()
        self.open.set()
        self.messages: list[tuple[str, str, str]] = []
        self.lines: list[str] = []

    def sender(self, pause_s: float = 0.0) -> Sender:
        return Sender(self.lines.append, self.send, pause_s)

    def send(self, *message: str) -> bool:
        self.open.wait(60)
        self.messages.append(message)  # type: ignore[arg-type]
        if not self.works:
            raise OSError(f"no answer from {message[0]}")
        return True


def test_nothing_waits_for_a_notice_and_what_came_meanwhile_is_one_message() -> None:
    there = Taken()
    there.open.clear()
    sender = there.sender(pause_s=3600.0)
    for number in range(100):
        sender.put(Notice(URL, f"job {number} failed", "exit code 1"))
    assert not there.messages  # `put` has returned a hundred times all the same
    there.open.set()
    sender.close()
    assert 1 <= len(there.messages) <= 2
    counted = [title.removeprefix("Warren: ").split()[0] for _, title, _ in there.messages]
    assert sum(1 if word == "job" else int(word) for word in counted) == 100
    assert there.messages[-1][2].endswith("more")


def test_a_url_that_does_not_work_is_named_once_without_its_secret_and_stops_no_other() -> None:
    there = Taken(works=False)
    sender = there.sender()
    for url in (URL, URL, ADMIN_URL):
        sender.put(Notice(url, "title", "body"))
    sender.close()
    assert {message[0] for message in there.messages} == {URL, ADMIN_URL}
    assert len(there.lines) == 2
    assert all(hidden(line) and "was not taken" in line for line in there.lines)


def test_a_sender_that_has_nothing_to_send_has_no_thread() -> None:
    before = threading.active_count()
    Taken().sender().close()
    assert threading.active_count() == before


def test_a_message_of_many_notices_names_some_and_counts_the_rest() -> None:
    notices = [Notice(URL, f"job {number} failed", "exit code 1") for number in range(30)]
    assert message_of(notices[:1]) == ("Warren: job 0 failed", "exit code 1")
    title, body = message_of(notices, more=5)
    assert title == "Warren: 35 notices"
    assert body.splitlines()[0] == "job 0 failed: exit code 1"
    assert body.splitlines()[-1] == "and 15 more"
    assert (scheme_of(URL), scheme_of("s3cret-word")) == ("json", "")


# The daemon.


@pytest.fixture
def journal(tmp_path: Path) -> TestJournal:
    return TestJournal(tmp_path / "queue.db")


def test_notices_follow_events_on_disk_and_faults_of_hosts_and_disk_go_to_admins(
    journal: TestJournal,
) -> None:
    there = Taken()
    sender = there.sender()

    async def main() -> None:
        hosts = fake_hosts(plays=lambda _: Played(1.0))
        daemon = daemon_of(journal, hosts, notifier=Notifier([ADMIN_URL], sender=sender))
        await daemon.start()
        job = submit_one(daemon, notify=URL)
        await until(daemon, lambda: daemon.queue.jobs[job].state is JobState.FINISHED)
        hosts.lose("h0")
        await asyncio.sleep(AWAY_S / 2)
        hosts.bring_back("h0")  # a short trouble of the network
        await asyncio.sleep(AWAY_S)
        hosts.lose("h0")
        await asyncio.sleep(3 * AWAY_S)
        journal.full = True
        for _ in range(2):
            with pytest.raises(JournalWriteError):
                submit_one(daemon)
        journal.full = False
        await daemon.stop()

    play(main())
    sender.close()
    text = "\n".join(" ".join(message[1:]) for message in there.messages)
    assert text.count("finished") == 1
    assert text.count("host h0 is away") == 1
    assert text.count("the disk takes no events") == 1
    assert [one[0] for one in there.messages].count(URL) == 1


def test_an_error_in_a_notice_is_said_and_stops_nothing(
    journal: TestJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def broken(*_: object) -> Iterator[Notice]:
        raise ValueError("no such field")

    monkeypatch.setattr("warren.serve.notices.notifier.notices_of", broken)

    async def main() -> None:
        daemon = daemon_of(journal, fake_hosts(), notifier=Notifier(say=lines.append))
        await daemon.start()
        job = submit_one(daemon)
        await until(daemon, lambda: daemon.queue.jobs[job].state is JobState.FINISHED)
        await daemon.stop()

    play(main())
    assert any("a notice is left out" in line for line in lines)


# What users see and type.


def without_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    monkeypatch.setattr(extras, "requires", lambda _: ['apprise; extra == "notify"'])


def test_without_apprise_a_job_with_a_url_is_refused_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_apprise(monkeypatch)

    async def main() -> None:
        async with world() as w:
            ana = w.local("ana")
            body = {"spec": {"command": ["true"], "folder": "/", "notify": URL}}
            for answer in (
                await ana.post("/v1/jobs", json=body),
                await ana.put("/v1/users/ana/notify", json={"url": URL}),
            ):
                assert answer.status_code == 400
                assert "Apprise is not installed" in answer.json()["error"]
                assert "pip install apprise" in answer.json()["error"]
                assert hidden(answer.text)
            body["spec"]["notify"] = "off"
            assert (await ana.post("/v1/jobs", json=body)).status_code == 201

    play(main())
    with pytest.raises(SpecError, match="pip install apprise") as caught:
        run_service(tmp_path / "home", notify=[URL])
    assert hidden(str(caught.value))
    assert not (tmp_path / "home").exists()


def test_a_url_is_shown_by_its_first_word_to_user_and_admins_and_to_no_other_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Notifier, "check", lambda self, url: None)
    monkeypatch.setattr(Notifier, "take", lambda self, queue, events: None)

    async def main() -> None:
        async with world() as w:
            clients = {name: w.local(name) for name in UIDS}
            ana = clients["ana"]
            job = await submitted(ana, notify=URL)
            answer = await ana.put("/v1/users/ana/notify", json={"url": URL})
            assert answer.json() == {"notify": "json"}
            forbidden = await clients["ben"].put("/v1/users/ana/notify", json={"url": URL})
            assert forbidden.status_code == 403
            for name, client in clients.items():
                shown = (await client.get(f"/v1/jobs/{job}")).json()
                assert shown["notify"] == (None if name == "ben" else "json")
                for path in ("/v1/jobs", f"/v1/jobs/{job}", "/v1/users", "/v1/audit", "/metrics",
                             f"/jobs/{job}", "/users", "/"):  # fmt: skip
                    text = (await client.get(path)).text
                    assert hidden(text), (name, path)
            # What an admin changes of the user leaves the URL as it is.
            await clients["root"].put("/v1/users/ana", json={"weight": 2})
            assert w.daemon.queue.users["ana"].notify == URL
            await ana.put("/v1/users/ana/notify", json={"url": ""})
            assert w.daemon.queue.users["ana"].notify == ""

    play(main())


def test_urls_are_options_of_submit_serve_and_user_set_and_no_unit_holds_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert declared("submit").read(["--notify", URL, "--", "true"])["notify"] == URL
    assert declared("serve").read(["--notify", URL, "--notify", "x://"])["notify"] == (URL, "x://")
    assert declared("user").commands["set"].read(["--notify", URL])["notify"] == URL
    values = declared("serve").read(["--notify", URL, "--print-unit"])
    with pytest.raises(SpecError, match="WARREN_NOTIFY") as caught:
        declared("serve").run(**values)
    assert hidden(str(caught.value))


class _Webhook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.came.append(json.loads(self.rfile.read(size)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@needs_apprise
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise, when it is loaded
def test_apprise_takes_a_message_to_a_webhook_and_refuses_what_is_no_url_of_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), _Webhook)
    server.came = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    lines: list[str] = []
    notifier = Notifier(say=lines.append)
    url = f"json://127.0.0.1:{server.server_port}/"
    try:
        notifier.check(url)
        for wrong in ("nothing-known://s3cret-word", "s3cret-word", "syslog://", "dbus://"):
            assert hidden(refused("wrong", lambda wrong=wrong: notifier.check(wrong)))
        sender = Sender(lines.append)
        sender.put(Notice(url, "job 1 failed", "exit code 1"))
        sender.put(Notice("json://127.0.0.1:1/s3cret-word", "job 2 failed", "exit code 1"))
        sender.close(60)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    (came,) = server.came  # type: ignore[attr-defined]
    assert came["title"] == "Warren: job 1 failed"
    assert came["message"] == "exit code 1"
    assert len(lines) == 1
    assert hidden("".join(capfd.readouterr()) + lines[0])
