"""A trainer's link: results come in the order of tasks, from a thread, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S

from warren.live.device.trainer_link import TrainerLink
from warren.live.transport.messages import DeviceFree, TaskComputed
from warren.live.transport.sockets import Hub, Poller

RESULTS = 300
MARKS = bytes(200_000)  # more than a socket takes at once


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "hub")


@pytest.fixture
def hub(address: str) -> Iterator[Hub]:
    one = Hub(address)
    yield one
    one.close()


@pytest.fixture
def poller(hub: Hub) -> Iterator[Poller]:
    one = Poller()
    one.register(hub)
    yield one
    one.close()


def heard(hub: Hub, count: int, poller: Poller) -> list[DeviceFree | TaskComputed]:
    """So many messages."""
    found: list[DeviceFree | TaskComputed] = []
    while len(found) < count:
        poller.poll(50)
        for _, message, _ in hub.drain():
            assert isinstance(message, DeviceFree | TaskComputed)
            found.append(message)
    return found


def test_a_trainer_hears_while_its_thread_sends_results(
    hub: Hub, address: str, poller: Poller
) -> None:
    link = TrainerLink(address, behind=True)
    found: list[DeviceFree | TaskComputed] = []
    reader = threading.Thread(
        target=lambda: found.extend(heard(hub, 2 * RESULTS, poller)), daemon=True
    )
    reader.start()
    for shard in range(RESULTS):
        link.send(DeviceFree(0))
        link.send_result(lambda shard=shard: TaskComputed(0, 0, shard, 0.5, b"", MARKS))  # type: ignore[misc]
        assert link.receive() == []  # which sends what the socket did not take
    while reader.is_alive():
        link.receive()
        reader.join(0.01)
    link.close()
    results = [one for one in found if isinstance(one, TaskComputed)]
    assert [one.shard for one in results] == list(range(RESULTS))
    assert {one.marks for one in results} == {MARKS}


@pytest.mark.parametrize("behind", [True, False])
def test_what_was_sent_before_has_been_sent_when_all_is_waited_for(
    hub: Hub, address: str, poller: Poller, behind: bool
) -> None:
    link = TrainerLink(address, behind=behind)
    go_on = threading.Event()
    if not behind:
        go_on.set()

    def rest() -> TaskComputed:
        assert go_on.wait(PATIENCE_S)
        return TaskComputed(0, 0, 0, 0.5, b"", b"")

    link.send_result(rest)
    if behind:  # the thread waits, and this one goes on
        go_on.set()
    link.wait()
    link.send(DeviceFree(0))
    assert [type(one) for one in heard(hub, 2, poller)] == [TaskComputed, DeviceFree]
    link.close()
