"""How ranks of one ring on several hosts meet: through rank 0, over encrypted connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from warren.live.rings.interfaces import interface_at
from warren.live.rings.meeting_store import MeetingStore
from warren.live.transport.host_identity import HostIdentity
from warren.live.transport.sockets import Hub, Link, Poller
from warren.live.transport.tcp_listener import FAR
from warren.live.transport.tls import SECRET_BYTES

SECRET = bytes(range(SECRET_BYTES))
SOON, LATE = timedelta(seconds=0.05), timedelta(seconds=60)


class Meeting:
    """Rank 0 and what the others need to meet it."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self.address, self._ends = str(folder / "g"), ends
        self.hub = Hub(self.address, HostIdentity(0, "127.0.0.1", SECRET, True))
        self.first = self._store(self.hub)

    def rank(self, secret: bytes = SECRET) -> MeetingStore:
        return self._store(Link(FAR + self.address, secret))

    def _store(self, source: Hub | Link) -> MeetingStore:
        poller = Poller()
        poller.register(source)
        # In this order: a connection takes itself out of the epoll when it is closed.
        self._ends.callback(poller.close)
        self._ends.callback(source.close)
        return MeetingStore(source, poller)


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Meeting]:
    with ExitStack() as ends:
        yield Meeting(tmp_path, ends)


def test_what_each_rank_says_reaches_all_though_they_come_one_after_another(
    meeting: Meeting,
) -> None:
    stores = [meeting.first, meeting.rank(), meeting.rank()]
    keys = ["0", "1", "2"]

    def meet(rank: int) -> None:
        stores[rank].set(keys[rank], bytes([rank]) * 3)
        stores[rank].wait(keys, LATE)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in (0, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        assert [store.get(key) for key in keys] == [bytes([rank]) * 3 for rank in (0, 1, 2)]


def test_a_rank_that_misses_others_gives_up_in_time(meeting: Meeting) -> None:
    for store in (meeting.first, meeting.rank()):
        store.set("own", b"x")
        with pytest.raises(RuntimeError, match="have not met in time"):
            store.wait(["own", "other"], SOON)


def test_a_process_without_the_secret_meets_no_rank(meeting: Meeting) -> None:
    stranger = meeting.rank(bytes(SECRET_BYTES))
    stranger.set("1", b"evil")
    meeting.first.set("0", b"address")
    while not meeting.hub.strangers:
        for store, other in ((stranger, "0"), (meeting.first, "1")):
            with pytest.raises(RuntimeError, match="have not met in time"):
                store.wait([other], SOON)


def test_ranks_do_not_wait_for_a_rank_0_that_has_gone(meeting: Meeting) -> None:
    other = meeting.rank()

    def meet() -> None:
        other.set("1", b"x")
        other.wait(["0"], LATE)

    thread = threading.Thread(target=meet)
    thread.start()
    meeting.first.set("0", b"address")
    meeting.first.wait(["1"], LATE)
    thread.join()
    meeting.hub.close()
    with pytest.raises(RuntimeError, match="rank 0 is gone"):
        other.wait(["2"], LATE)


def test_the_interface_of_an_address_is_found() -> None:
    assert interface_at("127.0.0.1") == "lo"
    with pytest.raises(OSError, match=r"no network interface here has the address 192\.0\.2\.77"):
        interface_at("192.0.2.77")
