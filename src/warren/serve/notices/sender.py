"""Sends notices from a thread, so that nothing waits for a mail server or a chat.

To one URL at most one message goes in ``PAUSE_S``: what comes meanwhile is in the next one. A URL
that does not work is named once, by its scheme alone, since the rest of it is a secret.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from warren.serve.notices.texts import Notice

PAUSE_S: Final = 60.0
"""Shortest time between two messages to one URL, in seconds."""
CLOSE_S: Final = 10.0
"""Longest wait for messages that are left when the service ends, in seconds."""
_MOST: Final = 10_000
"""Most notices that wait for one URL; further ones are counted alone."""
_SHOWN: Final = 20
"""Most notices that one message names one by one."""

Send = Callable[[str, str, str], bool]
"""Sends a message to a URL: title, body; returns whether it was taken."""


class Sender:
    """A thread that sends notices; it begins with the first one.

    Parameters
    ----------
    say
        Called with each line that an operator should read.
    send
        Sends a message.
    pause_s
        Shortest time between two messages to one URL, in seconds.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        send: Send = lambda *message: send_by_apprise(*message),
        pause_s: float = PAUSE_S,
    ) -> None:
        self._say, self._send, self._pause_s = say, send, pause_s
        self._waiting: dict[str, list[Notice]] = {}
        self._left_out: dict[str, int] = {}
        self._next_s: dict[str, float] = {}
        self._failed: set[str] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def put(self, notice: Notice) -> None:
        """Let a notice be sent; this returns at once."""
        with self._changed:
            waiting = self._waiting.setdefault(notice.url, [])
            if len(waiting) < _MOST:
                waiting.append(notice)
            else:
                self._left_out[notice.url] = self._left_out.get(notice.url, 0) + 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="warren notices", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Send what is left, and end; what is not sent in time is lost."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                url = self._due()
                while url is None:
                    if self._closing and not self._waiting:
                        return
                    self._changed.wait(self._wait_s())
                    url = self._due()
                notices, more = self._waiting.pop(url), self._left_out.pop(url, 0)
                self._next_s[url] = time.monotonic() + self._pause_s
            self._deliver(url, notices, more)

    def _due(self) -> str | None:
        """Return a URL to which a message may go now."""
        now_s = time.monotonic()
        for url in self._waiting:
            if self._closing or self._next_s.get(url, 0.0) <= now_s:
                return url
        return None

    def _wait_s(self) -> float | None:
        if not self._waiting:
            return None
        first_s = min(self._next_s.get(url, 0.0) for url in self._waiting)
        return max(0.0, first_s - time.monotonic())

    def _deliver(self, url: str, notices: list[Notice], more: int) -> None:
        try:
            sent = self._send(url, *message_of(notices, more))
        except Exception:  # of whatever library the URL needs
            sent = False
        if sent:
            self._failed.discard(url)
        elif url not in self._failed:
            self._failed.add(url)
            self._say(
                f"a notice by {scheme_of(url)} was not taken; the next ones are tried, and this is "
                "said once"
            )


def message_of(notices: list[Notice], more: int = 0) -> tuple[str, str]:
    """Return title and body of one message for several notices; ``more`` were left out."""
    if len(notices) == 1 and not more:
        return f"Warren: {notices[0].title}", notices[0].body
    lines = [f"{notice.title}: {notice.body}" for notice in notices[:_SHOWN]]
    rest = len(notices) - len(lines) + more
    if rest:
        lines.append(f"and {rest} more")
    return f"Warren: {len(notices) + more} notices", "\n".join(lines)


def scheme_of(url: str) -> str:
    """Return what of a URL may be shown: the kind of service."""
    return url.partition("://")[0] if "://" in url else ""


def send_by_apprise(url: str, title: str, body: str) -> bool:
    """Send a message by Apprise; returns whether the service took it."""
    apprise = importlib.import_module("apprise")
    logging.getLogger("apprise").disabled = True  # it would write to the error stream
    asset = apprise.AppriseAsset(async_mode=False, secure_logging=True)
    # One URL, as it was checked: `add` would take a text for several.
    found = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    target = apprise.Apprise(asset=asset)
    return found is not None and bool(target.add(found) and target.notify(body=body, title=title))
