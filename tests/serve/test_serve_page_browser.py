"""The page in a real Chromium: submit, watch the log move, cancel, look as another user."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from browser import BROWSER, NO_BROWSER, Browser, browser
from fake_service import TestJournal

from warren.serve.api import tokens
from warren.serve.api.app import make_app
from warren.serve.api.server import ApiServer
from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played, fake_machine
from warren.serve.records.events import UserSet
from warren.serve.records.users import User

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER),
]

WIDTHS: Final = (400, 1280)


class _Hosts(FakeHosts):
    """Hosts whose commands write a line each fifth of a second."""

    begun_s = 0.0

    async def read_log(self, host: str, attempt: str, offset: int, limit: int) -> bytes:
        self.begun_s = self.begun_s or time.monotonic()
        lines = int((time.monotonic() - self.begun_s) * 5) + 1
        text = "".join(f"step {n} of {attempt} <b>&amp;\n" for n in range(lines))
        return text.encode()[offset : offset + limit]


class _Service:
    """A service in a thread with a loop of its own, by TCP."""

    def __init__(self, folder: Path) -> None:
        self.tokens = {name: tokens.new_token(name) for name in ("ana", "ben", "root")}
        self.url = ""
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

    def __enter__(self) -> _Service:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(30)

    async def _main(self) -> None:
        with TestJournal(self._folder / "queue.db") as journal:
            hosts = _Hosts([fake_machine("node1", 2, "H100")], lambda _: Played(600.0))
            daemon = Daemon(journal, hosts)
            await daemon.start()
            await self._serve(daemon)
            await daemon.stop()

    async def _serve(self, daemon: Daemon) -> None:
        for name, token in self.tokens.items():
            role = "admin" if name == "root" else "user"
            user = User(name, role, token_hash=tokens.hash_of(token))  # type: ignore[arg-type]
            daemon.record([UserSet(time_ns=time.time_ns(), by="root", user=user)])
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            self._loop, self._server = asyncio.get_running_loop(), ApiServer(make_app(daemon))
            self._ready.set()
            await self._server.serve(sockets=[listening])


@contextmanager
def pages(folder: Path) -> Iterator[tuple[_Service, Browser]]:
    with _Service(folder) as service, browser(folder) as page:
        page.resize(1280)
        yield service, page


def login(page: Browser, service: _Service, user: str) -> None:
    page.ask("Network.clearBrowserCookies")
    page.open(f"{service.url}/login")
    page.fill("input[name=token]", service.tokens[user])
    page.click("button")
    page.until("document.querySelector('#jobs')")


def fits(page: Browser, service: _Service, paths: list[str]) -> None:
    """No page is wider than its window, on a phone and on a screen, light and dark."""
    for path in paths:
        page.open(f"{service.url}{path}")
        for width in WIDTHS:
            page.resize(width, dark=width == 400)
            wide = page.value("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide in a window of {width}"
            ink, ground = page.value(
                "[getComputedStyle(document.body).color, getComputedStyle(document.body)"
                ".backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => +a + +b))"
            )
            assert (ink > ground) == (width == 400)
    page.resize(1280)


def test_a_user_submits_watches_the_log_and_cancels_and_another_sees_no_more_than_it_may(
    tmp_path: Path,
) -> None:
    with pages(tmp_path) as (service, page):
        login(page, service, "ana")
        page.click("summary")
        page.fill("textarea", "python train.py '<i>'")
        page.fill("[name=folder]", "/tmp")
        page.fill("[name=name]", "a-long-name-" * 8)
        page.click("form.fields button.main")
        page.until("document.querySelector('#message a')?.getAttribute('href') == '/jobs/1'")
        # The row comes and changes by itself; the form beside it stays as it is.
        page.until("document.querySelector('#job-1 .state')?.textContent == 'running'")
        assert page.value("document.querySelector('textarea').value") == "python train.py '<i>'"

        page.open(f"{service.url}/jobs/1")
        page.until("document.querySelector('#log').textContent.includes('step 1 of 1.1 <b>&amp;')")
        before = page.value("document.querySelector('#log').textContent.length")
        page.until(f"document.querySelector('#log').textContent.length > {before}")
        assert "python train.py" in page.value("document.body.innerText")
        fits(page, service, ["/", "/jobs/1", "/machines", "/users"])

        login(page, service, "ben")
        page.until("document.querySelector('#job-1 .state')?.textContent == 'running'")
        assert not page.value("document.querySelectorAll('#job-1 button').length")
        page.open(f"{service.url}/jobs/1")
        text = page.value("document.body.innerText")
        assert "The log of this job is for ana" in text
        assert "train.py" not in text
        tried = (
            "fetch('/page/jobs/1/cancel', {method: 'POST', headers: {'HX-Request': 'true'}})"
            ".then(r => window.tried = r.status)"
        )
        page.value(tried)
        page.until("window.tried == 403")

        login(page, service, "ana")
        page.value("window.confirm = text => (window.asked = text, true)")
        page.click("#job-1 button.danger")
        page.until("document.querySelector('#message').textContent.includes('cancelled')")
        assert page.value("window.asked") == "Cancel job 1?"
        page.until("!document.querySelector('#job-1')")
        page.open(f"{service.url}/jobs/1")
        page.until("document.querySelector('h1 .state').textContent == 'cancelled'")
        page.until("'whole' in document.querySelector('#log').dataset")
        assert page.problems == []


def test_an_admin_drains_a_device_and_gives_a_user_a_token(tmp_path: Path) -> None:
    with pages(tmp_path) as (service, page):
        login(page, service, "root")
        page.open(f"{service.url}/machines")
        page.click("tbody tr button")
        page.until("document.querySelector('#live').innerText.includes('drained: by root')")
        page.open(f"{service.url}/users")
        page.click("summary")
        page.fill("[name=name]", "cleo")
        page.click("form.fields button.main")
        page.until("document.querySelector('#message code')")
        service.tokens["cleo"] = page.value("document.querySelector('#message code').textContent")
        page.until("document.querySelector('#live').innerText.includes('cleo')")
        fits(page, service, ["/machines", "/users"])
        login(page, service, "cleo")
        assert "cleo" in page.value("document.querySelector('.who').innerText")
        page.open(f"{service.url}/machines")
        assert not page.value("document.querySelectorAll('#live button').length")
        assert page.problems == []


def test_without_scripts_the_page_still_submits_and_cancels(tmp_path: Path) -> None:
    with pages(tmp_path) as (service, page):
        page.ask("Emulation.setScriptExecutionDisabled", value=True)
        login(page, service, "ana")
        page.fill("textarea", "true")
        page.click("form.fields button.main")
        page.until("document.querySelector('#job-1')")
        page.click("#job-1 button.danger")
        page.until("location.pathname == '/jobs/1'")
        page.open(f"{service.url}/jobs/1")
        page.until("document.querySelector('h1 .state').textContent == 'cancelled'")
