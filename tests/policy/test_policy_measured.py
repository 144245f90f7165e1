"""How long a task keeps its device, as shape policies measure it while links are free and busy."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from warren.model.events import RolledBack, TasksDone
from warren.model.units import NS_PER_S
from warren.policy.shape.measured import Measured

HOST = 3


def after(rows: Sequence[tuple[int, float, float, float]]) -> Measured:
    """What was seen of tasks of job 0 on device 0: round, start, end of computation, end."""
    seen = Measured()
    for shard, (round_, *times) in enumerate(rows):
        start, comp_end, end = (round(time * NS_PER_S) for time in times)
        done = TasksDone(end, 0, round_, 1, (shard,), 0, start, comp_end, comp_end - start)
        seen = seen.computed(done, HOST)
    return seen


def test_a_turn_is_from_one_computation_to_the_next_with_the_update_that_is_sent_meanwhile() -> (
    None
):
    """Alone a task computes 1 s; while an update is sent it is 1.2 s, and 0.1 s pass between."""
    rows = [(0, 0.0, 1.0, 1.5), (0, 1.1, 2.3, 2.8), (0, 2.4, 3.9, 4.4)]
    assert after(rows[:2]).turn_s[0, HOST] == pytest.approx(1.3)
    seen = after([*rows, *[(1, *(time + 9 for time in row[1:])) for row in rows]])
    assert 1.3 < seen.turn_s[0, HOST] < 1.6


def test_a_task_that_waits_for_links_is_not_seen_as_longer() -> None:
    """The first update takes until 5 s, so the third task may not begin before: it is left out."""
    seen = after([(0, 0.0, 1.0, 5.0), (0, 1.1, 2.3, 9.0), (0, 5.0, 6.2, 13.0)])
    assert seen.turn_s[0, HOST] == pytest.approx(1.3)


def test_a_task_alone_in_its_round_has_no_turn() -> None:
    seen = after([(0, 0.0, 1.0, 1.5), (1, 2.0, 3.0, 3.5)])
    assert (0, HOST) not in seen.turn_s
    assert seen.comp_s[0, HOST] == pytest.approx(1.0)


def test_no_turn_is_from_a_task_before_a_roll_back_to_one_after() -> None:
    """Round 0 runs again: its first task ends nine seconds after the one that was lost."""
    before = after([(0, 0.0, 1.0, 1.5), (0, 1.1, 2.3, 2.8)])
    back = SimpleNamespace(changes=(RolledBack(3 * NS_PER_S, 0, 0, "its server ended"),))
    ends = [round(time * NS_PER_S) for time in (12.0, 11.0, 11.9)]
    again = TasksDone(ends[0], 0, 0, 1, (0,), 0, ends[1], ends[2], ends[2] - ends[1])
    seen = before.after(back).computed(again, HOST)  # type: ignore[arg-type]
    assert seen.turn_s == before.turn_s
