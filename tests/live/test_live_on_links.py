"""An emulated task whose bytes pass links: what its stamps are, and when its update leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest
from device_world import Peer, Stage, stage
from live_worlds import job

from warren.live.emulated_times import PadTable
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import CompEnded, LostRace, RunTask, TaskComputed
from warren.live.transport.server_messages import Commit, Push, Pushed

PAD_NS: Final = 150_000_000
LATE_S: Final = 0.05


@pytest.fixture
def here() -> Iterator[tuple[Stage, Peer]]:
    """A device with one task of job 0 in its queue, and its trainer."""
    pads = PadTable(pads_J=((PAD_NS, 0),) * 2, on_links=True)
    with stage(job(0, scale=1), job(1, scale=1), pads=pads) as one:
        trainer = one.trainer(7)
        one.assign(1, 0, 0, (0,))
        yield one, trainer


Span = tuple[int, int]
"""Between which readings of the clock something has happened."""


def computed(one: Stage, trainer: Peer) -> Span:
    """The state comes late and the task computes at once; when its state arrived."""
    time.sleep(LATE_S)
    sent_ns = time.monotonic_ns()
    one.state(0)
    task = trainer.hear(RunTask)
    heard_ns = time.monotonic_ns()
    assert task.update is not None
    trainer.say(TaskComputed(0, 0, 0, 1.0, b"\1", b""))
    return sent_ns, heard_ns


def commit(one: Stage, late_s: float) -> tuple[TaskStamp, int, Span]:
    """The server takes its time; the stamp of the task, when its update came and was taken."""
    (server,) = one.servers
    push = server.hear(Push)
    came_ns = time.monotonic_ns()
    assert not push.committed
    time.sleep(late_s)
    taken_ns = time.monotonic_ns()
    server.say(Pushed(0, 0))
    stamp = server.hear(Commit).stamp
    return stamp, came_ns, (taken_ns, time.monotonic_ns())


def test_a_task_begins_when_its_state_is_here_and_ends_when_its_update_is_there(
    here: tuple[Stage, Peer],
) -> None:
    one, trainer = here
    sent_ns, heard_ns = computed(one, trainer)
    stamp, came_ns, (taken_ns, told_ns) = commit(one, LATE_S)
    assert sent_ns <= stamp.start_ns <= heard_ns
    assert stamp.comp_end_ns - stamp.start_ns == PAD_NS
    assert came_ns >= stamp.comp_end_ns, "an update left before COMP had ended"
    assert taken_ns <= stamp.end_ns <= told_ns


def test_the_update_of_a_task_that_was_done_elsewhere_meanwhile_never_leaves(
    here: tuple[Stage, Peer],
) -> None:
    one, trainer = here
    computed(one, trainer)
    one.controller.say(LostRace(1))
    ended = one.controller.hear(CompEnded)
    assert ended.end_ns - ended.start_ns == PAD_NS
    assert one.servers[0].hears_none(Push)
    # Its place is free: both are there for the tasks of the next rounds.
    for round_no in (1, 2):
        one.assign(round_no + 1, 0, round_no, (0,))
        one.state(round_no)
        trainer.hear(RunTask)
        trainer.say(TaskComputed(0, round_no, 0, 1.0, b"\1", b""))
        assert one.controller.hear(CompEnded).round == round_no
