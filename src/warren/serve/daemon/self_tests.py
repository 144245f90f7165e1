"""Tests of GPUs that are due: each is ordered once, and again if no answer comes."""

from __future__ import annotations

from typing import Final

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import Hosts
from warren.serve.queue.quarantine import due_tests
from warren.serve.queue.state import Queue

ANSWER_S: Final = 300.0
"""Time after which a test that was not answered is ordered again, in seconds."""


class TestOrders:
    """Orders tests at hosts.

    Parameters
    ----------
    hosts
        All hosts.
    """

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._asked_ns: dict[tuple[str, str], int] = {}

    def order(self, queue: Queue, now_ns: int) -> None:
        """Order the tests that are due and not under way."""
        due = due_tests(queue, now_ns)
        self._asked_ns = {one: at for one, at in self._asked_ns.items() if one in due}
        for place in due:
            asked_ns = self._asked_ns.get(place)
            if asked_ns is None or now_ns >= asked_ns + int(ANSWER_S * NS_PER_S):
                self._asked_ns[place] = now_ns
                self._hosts.test(*place)

    def joined(self, host: str) -> None:
        """Forget what a host was asked before its agent connected again."""
        self._asked_ns = {one: at for one, at in self._asked_ns.items() if one[0] != host}
