"""The thread that writes: in order, bounded, and no error is lost."""

from __future__ import annotations

import errno
import select
import threading

import pytest

from warren.live.training.writer import Writer


def test_a_writer_works_in_order_and_gives_errors_to_who_asks() -> None:
    writer, order, gate = Writer(), [], threading.Event()

    def work(index: int) -> int:
        gate.wait(5)
        order.append(index)
        if index == 1:
            raise OSError(errno.ENOSPC, "full", "file")
        return index

    writer.submit(lambda: work(0))
    writer.submit(lambda: work(1))
    assert writer.results() == []
    gate.set()
    writer.submit(lambda: work(2))
    assert writer.wait() == [0]
    with pytest.raises(OSError, match="full"):
        writer.results()
    assert writer.wait() == [2]
    assert order == [0, 1, 2]
    writer.close()


def test_a_poller_hears_when_a_writer_is_done() -> None:
    writer = Writer()
    assert select.select([writer], [], [], 0)[0] == []
    writer.submit(lambda: "done")
    assert select.select([writer], [], [], 5)[0] == [writer]
    assert writer.results() == ["done"]
    writer.close()


def test_a_writer_holds_at_most_two_things() -> None:
    writer, gate = Writer(), threading.Event()
    writer.submit(lambda: gate.wait(5))
    writer.submit(lambda: None)
    third = threading.Thread(target=writer.submit, args=[lambda: None])
    third.start()
    third.join(0.05)
    assert third.is_alive()
    gate.set()
    third.join(5)
    assert not third.is_alive()
    assert len(writer.wait()) == 3
    writer.close()
