"""An executor's side of the job servers: states ahead of their tasks, updates back."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import zmq

from warren.live.lanes import Key
from warren.live.messages import AnyMessage, Passed, Pull, Pushed, State
from warren.live.transport import Buffer, Link, server_address


class Supply:
    """One connection a job, made when first needed; states that are here or asked for."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], poller: zmq.Poller, folder: str
    ) -> None:
        self._context, self._poller, self._folder = context, poller, folder
        self._links: dict[int, Link] = {}
        self._asked: set[Key] = set()
        self._states: dict[Key, memoryview] = {}
        self._passed_ns: dict[Key, int] = {}

    def want(self, keys: Collection[Key], keep: Collection[Key]) -> None:
        """Ask for the states of ``keys``; let go of those in neither list."""
        for key in keys:
            if key not in self._asked:
                self._asked.add(key)
                self._link(key[0]).send(Pull(key[1]))
        for key in self._asked.difference(keys, keep):
            self._forget(key)

    def ready(self, key: Key) -> tuple[memoryview, int] | None:
        """The state and when its barrier passed, once both are here."""
        state, passed_ns = self._states.get(key), self._passed_ns.get(key)
        return None if state is None or passed_ns is None else (state, passed_ns)

    def send(self, job: int, message: AnyMessage, *buffers: Buffer) -> None:
        """To the job's server."""
        self._link(job).send(message, *buffers)

    def hear(self) -> Iterator[tuple[int, Pushed]]:
        """Take what the servers sent; acknowledgements are the caller's."""
        for job, link in self._links.items():
            for message, buffers in link.drain():
                match message:
                    case State(round=round_no, passed_ns=passed_ns):
                        self._arrived((job, round_no), buffers[0], passed_ns)
                    case Passed(round=round_no, at_ns=at_ns):
                        if (job, round_no) in self._asked:
                            self._passed_ns[job, round_no] = at_ns
                    case Pushed():
                        yield job, message
                    case _:
                        raise ValueError(f"a server does not send {message}")

    def drop(self, job: int) -> None:
        """The job has ended: close its connection."""
        for key in [key for key in self._asked if key[0] == job]:
            self._forget(key)
        if (link := self._links.pop(job, None)) is not None:
            self._poller.unregister(link.socket)
            link.close()

    def _arrived(self, key: Key, state: memoryview, passed_ns: int | None) -> None:
        if key in self._asked:
            self._states[key] = state
            if passed_ns is not None:
                self._passed_ns[key] = passed_ns

    def _forget(self, key: Key) -> None:
        self._asked.discard(key)
        self._passed_ns.pop(key, None)
        self._states.pop(key, None)

    def _link(self, job: int) -> Link:
        if job not in self._links:
            link = Link(self._context, server_address(self._folder, job))
            self._poller.register(link.socket, zmq.POLLIN)
            self._links[job] = link
        return self._links[job]
