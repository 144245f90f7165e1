"""How the ranks of a ring on several hosts meet: entries of gloo's store, passed on by rank 0.

Through the store each rank says at which address it listens. On one machine the store is a file in
the run's private folder. Between hosts the entries go over the ranks' encrypted connections to
rank 0, so that they come from ranks alone, and need no shared folder.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]

from warren.live.transport.ring_messages import MeetingEntry
from warren.live.transport.sockets import Hub, Link, Poller


class MeetingStore(Store):
    """The store of one rank: each entry is set once, and reaches all ranks.

    Parameters
    ----------
    source : Hub or Link
        On rank 0 the hub to which the others connect, elsewhere the link to it.
    poller : Poller
        Waits for the source.
    """

    def __init__(self, source: Hub | Link, poller: Poller) -> None:
        super().__init__()
        self._source, self._poller = source, poller
        self._entries: dict[str, bytes] = {}
        # The ranks that have said something to rank 0.
        self._peers: list[bytes] = []

    def set(self, key: str, value: bytes) -> None:  # type: ignore[override]
        """Set an entry."""
        self._entries[key] = value
        self._send(MeetingEntry(key, value))

    def get(self, key: str) -> bytes:
        """Return an entry that was waited for."""
        return self._entries[key]

    def wait(self, keys: Sequence[str], timeout: timedelta) -> None:  # type: ignore[override]
        """Wait for entries.

        Raises
        ------
        RuntimeError
            They do not come in time, or rank 0 is gone.
        """
        until_s = time.monotonic() + timeout.total_seconds()
        while any(key not in self._entries for key in keys):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise RuntimeError("the ranks have not met in time")
            self._poller.poll(left_s * 1e3)
            self._hear()
            if isinstance(self._source, Link) and self._source.lost:
                raise RuntimeError("rank 0 is gone")

    def _send(self, entry: MeetingEntry, but: bytes = b"") -> None:
        if isinstance(self._source, Link):
            self._source.send(entry)
            return
        for peer in self._peers:
            if peer != but:
                self._source.send(peer, entry)

    def _hear(self) -> None:
        if isinstance(self._source, Link):
            for entry, _ in self._source.drain():
                assert isinstance(entry, MeetingEntry)
                self._entries[entry.key] = entry.value
            return
        for peer, entry, _ in self._source.drain():
            assert isinstance(entry, MeetingEntry)
            if peer not in self._peers:
                self._peers.append(peer)
                for key, value in self._entries.items():
                    self._source.send(peer, MeetingEntry(key, value))
            self._entries[entry.key] = entry.value
            self._send(entry, but=peer)
