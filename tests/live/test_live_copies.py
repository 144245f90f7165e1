"""A late task is started once more on another device, and the first result counts, live.

How much that saves, and that it is as simulated, is in ``test_live_emulated_times.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from live_worlds import drive, job, of, world
from straggler import COMP_S, SCALE, SYNC_S, history_of, with_straggler

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.model.decision import Assignment
from warren.model.events import ParamsSaved

pytestmark = pytest.mark.live

ROUNDS = 4


def test_with_copies_of_late_tasks_each_counts_once_and_the_bits_are_those_of_plain(
    tmp_path: Path,
) -> None:
    told = world(tmp_path, [job(0, rounds=ROUNDS)], 2, scale=SCALE, comp_s=COMP_S, sync_s=SYNC_S)
    run, costs = with_straggler(told, 2.0)
    with PlainPort(run, tmp_path / "plain") as plain:
        (saved,) = of(drive(plain, [Assignment(0, 0, 0, ROUNDS, (0, 1))]), ParamsSaved)
    with LivePort(run, costs, tmp_path / "out") as port:
        history = history_of((run, costs), port)
    assert history.saved[0].sha256 == saved.sha256
    assert len(history.timeline) == 2 * ROUNDS
