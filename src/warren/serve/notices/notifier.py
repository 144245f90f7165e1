"""Notices of a daemon: made of events when they are on disk, and handed to the sender."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from warren.model.errors import SpecError, one_line
from warren.model.units import NS_PER_S
from warren.runs.studies.serve_extra import check_notify
from warren.serve.notices.sender import Sender, scheme_of
from warren.serve.notices.texts import notices_of, to_admins
from warren.serve.queue.refusals import Refusal
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent
from warren.serve.records.users import NO_NOTICES

AWAY_S: Final = 120.0
"""Time after which admins hear of a host that is away, in seconds."""
_LOCAL: Final = (
    *("blink1", "dbus", "gio", "glib", "gnome"),
    *("kde", "macosx", "qt", "syslog", "windows"),
)
"""Schemes of Apprise for messages on the screen or in the log of the service's own machine."""


class Notifier:
    """Makes notices, and checks where they shall go.

    Parameters
    ----------
    admins
        URLs of the admins.
    say
        Called with each line that an operator should read.
    sender
        Sends them; None: by Apprise.
    """

    def __init__(
        self,
        admins: Sequence[str] = (),
        say: Callable[[str], None] = lambda _: None,
        sender: Sender | None = None,
    ) -> None:
        self._admins, self._say = tuple(admins), say
        self._sender = sender or Sender(say)
        self._away_ns: dict[str, int] = {}
        self._said_away: set[str] = set()
        self._checked: set[str] = set()

    def take(self, queue: Queue, events: Iterable[AnyEvent]) -> None:
        """Send the notices of events that the queue has; an error is said and stops nothing."""
        try:
            for event in events:
                for notice in notices_of(queue, event, self._admins):
                    self._sender.put(notice)
        except Exception as error:  # a notice must not stop the service
            self._say(f"a notice is left out: {one_line(error)}")

    def look(self, queue: Queue, now_ns: int) -> None:
        """Tell admins of hosts that have been away for some time."""
        if not self._admins:
            return
        away = [name for name, state in queue.machines.items() if not state.connected]
        self._away_ns = {name: self._away_ns.get(name, now_ns) for name in away}
        self._said_away &= set(away)
        for name, since_ns in self._away_ns.items():
            if name not in self._said_away and now_ns - since_ns >= AWAY_S * NS_PER_S:
                self._said_away.add(name)
                state = queue.machines[name]
                running = len(state.attempts)
                body = f"{state.reason or 'Its agent does not answer'}. Jobs on it: {running}."
                self._to_admins(f"host {name} is away", body)

    def disk_refuses(self, error: str) -> None:
        """Tell admins that the disk takes no events, so that nothing starts."""
        self._to_admins("the disk takes no events", f"{error}. Nothing starts until it does.")

    def _to_admins(self, title: str, body: str) -> None:
        for notice in to_admins(self._admins, title, body):
            self._sender.put(notice)

    def check(self, url: str) -> None:
        """Look whether notices can go to a URL; no text names more of it than its scheme.

        Raises
        ------
        Refusal
            If Apprise is not installed, does not know the URL, or it means this machine's screen.
        """
        if not url or url == NO_NOTICES or url in self._checked:
            return
        kind = scheme_of(url).lower() or "a text without ://"
        if kind in _LOCAL:
            raise Refusal("wrong", f"notify: {kind} shows messages on the service's own machine")
        try:
            check_notify()
        except SpecError as error:
            raise Refusal("wrong", f"notify: where the service runs, {error}") from None
        logging.getLogger("apprise").disabled = True
        apprise = importlib.import_module("apprise")
        if apprise.Apprise.instantiate(url, suppress_exceptions=True) is None:
            raise Refusal(
                "wrong",
                f"notify: Apprise cannot use this URL ({kind}); write one of its URLs, such as "
                "mailto://USER:PASSWORD@HOST or json://HOST/PATH",
            )
        self._checked.add(url)

    def close(self) -> None:
        """Send what is left, and end."""
        self._sender.close()
