"""Who is next where jobs were rolled back, cancelled or grew old while they stood in line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.events import (
    AnyEvent,
    CompDone,
    JobArrived,
    JobCancelled,
    RolledBack,
    RoundsDone,
    TasksDone,
)
from warren.model.run import Grain, Run
from warren.policy.common.persistent_heap import PersistentHeap, entries
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

S = 10**9


class Silent(SimPort):
    """Nothing happens but what the test tells the core."""

    def submit(self, assignments: object) -> None: ...


def begun(run: Run, costs: CostTable, name: str, **options: object) -> Core:
    port = Silent(run, costs)
    core = Core(
        run=run, costs=costs, policy=place_policy(name, options), port=port, sink=len, world="test",
        check=True,
    )  # fmt: skip
    core.begin()
    return core


def end(core: Core, device: int, now_s: int) -> None:
    """What a device runs ends now, and its round with the last of its tasks."""
    one, now = core.state.queues[device][0], now_s * S
    what = now, one.job, one.round, one.rounds, one.shards, device
    events: list[AnyEvent] = [CompDone(*what), TasksDone(*what, 0, now, 0)]
    done = core.state.groups[one.job][one.round].done + len(one.shards)
    if done == core.run.workload.jobs[one.job].scale:
        events.append(RoundsDone(now, one.job, one.round, one.rounds, False))
    core.step(tuple(events))


def running(core: Core) -> list[int]:
    """The job of each device, -1 for none."""
    return [queue[0].job if queue else -1 for queue in core.state.queues]


@pytest.mark.parametrize("name", ["hlas", "las-2d"])
def test_a_job_that_was_rolled_back_in_line_stands_there_once(name: str) -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(k, rounds=9) for k in range(3)])
    core = begun(run, worlds.costs([[1.0]] * 3, [[0.0]] * 3), name, thresholds="1 s")
    core.step((JobArrived(0, 0), JobArrived(0, 1)))
    core.step((RolledBack(0, 1, 0, "its server was lost"),))
    end(core, 0, 1)
    assert running(core) == [1]
    core.step((JobArrived(S, 2),))
    end(core, 0, 2)
    assert running(core) == [2]  # the others have had a second


def test_a_cancelled_job_ahead_lets_no_later_queue_pass_a_partly_placed_round() -> None:
    jobs = [worlds.job(0, scale=3, rounds=9), worlds.job(1, rounds=9), worlds.job(2)]
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    costs = worlds.costs([[1.0], [5.0], [1.0]], [[0.0]] * 3)
    core = begun(run, costs, "hlas", groups=2, round="per-gpu", thresholds="1 s, 5 s")
    core.step((JobArrived(0, 0), JobArrived(0, 1)))
    for device, now_s in ((0, 1), (1, 1), (0, 2), (1, 6)):
        end(core, device, now_s)
    assert running(core) == [0, 0]  # queue 1; one task of three is left; job 1 waits in queue 2
    core.step((JobArrived(7 * S, 2),))
    core.step((JobCancelled(8 * S, 2),))
    end(core, 1, 9)
    assert running(core) == [0, 0]


def test_a_job_that_was_rolled_back_is_no_longer_partly_placed() -> None:
    jobs = [worlds.job(0, rounds=9), worlds.job(1, scale=2, rounds=9)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    core = begun(run, worlds.costs([[1.0]] * 2, [[0.0]] * 2), "hlas", thresholds="100 s")
    core.step((JobArrived(0, 1),))
    core.step((JobArrived(0, 0),))
    core.step((RolledBack(0, 1, 0, "its server was lost"),))
    assert running(core) == [0]


def lengths(memory: Any) -> int:
    """Entries of all lines of a policy's memory."""
    fields = (getattr(memory, name) for name in memory.__slots__)
    return sum(len(entries(one)) for one in fields if isinstance(one, PersistentHeap))


@pytest.mark.parametrize("age", ["", "5 s", "1 h"])
def test_lines_grow_with_jobs_and_not_with_rounds(age: str) -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(k, rounds=40) for k in range(3)])
    costs, found = worlds.costs([[1.0]] * 3, [[0.0]] * 3), list[int]()
    core = Core(
        run=run, costs=costs, policy=place_policy("hlas", {"age": age}), port=SimPort(run, costs),
        sink=len, world="sim", observe=lambda *_: found.append(lengths(core.memory)),
    )  # fmt: skip
    core.execute()
    assert max(found) <= 2 * 3


def test_a_stretch_takes_no_group_that_none_of_its_tasks_fits() -> None:
    jobs = [worlds.job(0, scale=3, rounds=3), worlds.job(1, rounds=3)]
    run = worlds.run(worlds.cluster(["A", "A", "B"]), jobs, grain=Grain(text="3", rounds=3))
    costs = worlds.costs([[1.0, np.inf], [np.inf, 1.0]], [[0.0, 0.0]] * 2)
    journal = bytearray()
    policy = place_policy("hlas", {"groups": 3, "round": "per-gpu"})
    port = SimPort(run, costs)
    Core(run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="s").execute()
    assert read_history(bytes(journal)).finish_ns_J.tolist() == [6 * S, 3 * S]
