"""Who sits at an executor's desk, when trainers come and go in any order."""

from __future__ import annotations

from warren.live.desk import Desk
from warren.live.messages import AnyMessage, Prepare


class Hub:
    """Takes messages; nobody is behind it."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, AnyMessage]] = []

    def send(self, peer: bytes, message: AnyMessage, *buffers: memoryview) -> bool:
        self.sent.append((peer, message))
        return True


def desk() -> tuple[Desk, Hub]:
    hub = Hub()
    return Desk(hub), hub  # type: ignore[arg-type]


def test_apps_are_prepared_one_after_the_other() -> None:
    one, hub = desk()
    one.warm("ana", (3, 5))
    assert one.warmed() == []
    one.sat_down(b"p", "ana", 10)
    assert hub.sent == [(b"p", Prepare(3))]
    one.prepared(b"p")
    assert not one.free("ana")
    one.prepared(b"p")
    assert (one.free("ana"), one.warmed(), one.warmed()) == (True, ["ana"], [])


def test_a_trainer_that_ends_while_preparing_names_the_job() -> None:
    one, _ = desk()
    one.warm("ana", (3, 5))
    one.sat_down(b"p", "ana", 10)
    assert one.gone("ana", 10) == 3
    one.sat_down(b"q", "ana", 11)
    one.prepared(b"q")
    assert one.warmed() == ["ana"]


def test_the_news_of_an_end_may_come_after_the_successor() -> None:
    one, _ = desk()
    one.warm("ana", (3,))
    one.sat_down(b"p", "ana", 10)
    one.sat_down(b"q", "ana", 11)
    assert one.warmed() == []
    assert one.gone("ana", 10) == 3
    assert one.warmed() == ["ana"]
    assert one.free("ana")


def test_the_end_of_an_idle_trainer_names_no_job() -> None:
    one, _ = desk()
    one.sat_down(b"p", "ana", 10)
    assert one.gone("ana", 10) is None
    assert not one.free("ana")


def test_a_dropped_job_is_not_prepared() -> None:
    one, hub = desk()
    one.warm("ana", (3, 5))
    one.drop(5)
    one.sat_down(b"p", "ana", 10)
    one.prepared(b"p")
    assert hub.sent == [(b"p", Prepare(3))]
    assert one.warmed() == ["ana"]
