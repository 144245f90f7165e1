"""Which trainers of a device are here, when they come and go in any order."""

from __future__ import annotations

from warren.live.device.trainer_slots import TrainerSlots
from warren.live.transport.messages import BUILDING, IDLE, AnyMessage, Leave


class Hub:
    """Takes messages; nobody is behind it."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, AnyMessage]] = []

    def send(self, peer: bytes, message: AnyMessage, *buffers: memoryview) -> bool:
        self.sent.append((peer, message))
        return True


def slots() -> tuple[TrainerSlots, Hub]:
    hub = Hub()
    return TrainerSlots(hub), hub  # type: ignore[arg-type]


def test_a_trainer_is_free_when_it_has_built_its_app() -> None:
    one, _ = slots()
    one.warm(3)
    assert one.warmed() == []
    one.sat_down(b"p", 3, 10)
    assert (one.free(3), one.warmed()) == (False, [])
    one.prepared(3)
    assert (one.free(3), one.warmed(), one.warmed()) == (True, [3], [])
    assert not one.free(5)


def test_a_trainer_that_ends_while_building_is_distinguished_from_one_that_does_nothing() -> None:
    one, _ = slots()
    one.warm(3)
    one.sat_down(b"p", 3, 10)
    assert one.gone(3, 10) == BUILDING
    one.sat_down(b"q", 3, 11)
    one.prepared(3)
    assert one.warmed() == [3]
    assert one.gone(3, 11) == IDLE
    assert not one.free(3)
    assert one.gone(3, 12) is None


def test_the_news_of_an_end_may_come_after_the_successor() -> None:
    one, _ = slots()
    one.warm(3)
    one.sat_down(b"p", 3, 10)
    one.sat_down(b"q", 3, 11)
    one.prepared(3)
    assert one.warmed() == []
    assert one.gone(3, 10) == BUILDING
    assert one.warmed() == [3]
    assert one.free(3)


def test_the_trainer_of_a_job_that_has_ended_leaves() -> None:
    one, hub = slots()
    one.sat_down(b"p", 3, 10)
    one.drop(3)
    one.drop(5)
    assert hub.sent == [(b"p", Leave())]


def test_a_trainer_is_released_only_while_it_does_nothing() -> None:
    one, hub = slots()
    one.sat_down(b"p", 3, 10)
    one.release(3)
    assert hub.sent == []
    one.prepared(3)
    one.release(3)
    assert (hub.sent, one.free(3)) == ([(b"p", Leave())], False)
    assert one.gone(3, 10) is None
    one.sat_down(b"q", 3, 11)
    one.prepared(3)
    assert one.free(3)


def test_a_trainer_whose_end_was_reported_before_it_came_is_not_waited_for() -> None:
    one, _ = slots()
    one.warm(3)
    assert one.gone(3, 10) is None
    one.sat_down(b"p", 3, 10)
    one.sat_down(b"q", 3, 11)
    one.prepared(3)
    assert (one.warmed(), one.free(3)) == ([3], True)


def test_a_trainer_that_comes_when_its_job_has_ended_leaves() -> None:
    one, hub = slots()
    one.drop(3)
    one.sat_down(b"p", 3, 10)
    assert hub.sent == [(b"p", Leave())]
