"""Whatever the plan: events through the core and compiled code agree, or both refuse it."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.model.decision import Plan
from warren.model.errors import InfeasibleDecision
from warren.model.timeline import Timeline
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "sim"))
import sim_worlds
import worlds

pytestmark = pytest.mark.slow

Rows = list[tuple[int, int, int, int, int]]


def outcome(world: sim_worlds.World, plan: Plan, compiled: bool) -> History | None:
    journal = bytearray()
    core = Core(
        run=world.run, costs=world.costs, policy=sim_worlds.Planned(plan),
        port=SimPort(world.run, world.costs), sink=journal.extend, world="sim", check=True,
        compiled=compiled,
    )  # type: ignore[arg-type] # fmt: skip
    try:
        core.execute()
    except InfeasibleDecision:
        return None
    return read_history(bytes(journal))


def spoilt(rows: Rows, how: str, rng: random.Random) -> Rows:
    """The same tasks in an order, or cut in a way, that may no longer work."""
    rows = list(rows)
    if how == "swapped":
        for _ in range(rng.randint(1, 4)):
            one, other = rng.randrange(len(rows)), rng.randrange(len(rows))
            rows[one], rows[other] = rows[other], rows[one]
    elif how == "shuffled":
        rng.shuffle(rows)
    elif how == "sorted":
        rows.sort(key=lambda row: (row[1], row[3], row[0]))
    elif how == "repeated":
        rows.insert(rng.randrange(len(rows) + 1), rng.choice(rows))
    elif how == "cut":
        rows = [part for row in rows for part in cut(row, rng)]
    return rows


def cut(row: tuple[int, int, int, int, int], rng: random.Random) -> Rows:
    job, first, rounds, shard, device = row
    if rounds == 1 or rng.random() < 0.5:
        return [row]
    at = rng.randint(1, rounds - 1)
    return [(job, first, at, shard, device), (job, first + at, rounds - at, shard, device)]


@pytest.mark.parametrize("how", ["valid", "swapped", "shuffled", "sorted", "repeated", "cut"])
def test_both_paths_agree_on_any_plan_or_both_refuse_it(how: str) -> None:
    ran = 0
    for seed in range(150):
        rng = random.Random(seed)
        world = sim_worlds.random_world(seed, rng.choice(["lane", "constant"]), rng.random() < 0.4)
        plan = sim_worlds.random_plan(world, seed, rng.choice([1, 2, 6]))
        plan = sim_worlds.plan_of(spoilt(sim_worlds.plan_rows(plan), how, rng))
        fast, slow = (outcome(world, plan, compiled) for compiled in (True, False))
        assert (fast is None) == (slow is None), seed
        if fast is None or slow is None:
            continue
        ran += 1
        for field in fields(Timeline):
            one, other = (getattr(each.timeline, field.name) for each in (fast, slow))
            assert np.array_equal(one, other), (seed, field.name)
        assert np.array_equal(fast.finish_ns_J, slow.finish_ns_J), seed
    assert (ran > 0) == (how != "repeated")


def journals() -> str:
    """A hash of the journals of all place policies on some random worlds."""
    every = hashlib.sha256()
    options = {"hare": {"budget": 20_000}, "hare-published": {"budget": 20}}
    for seed in range(6):
        run, costs = worlds.random_world(seed)
        for name in ("gavel-fifo", "srtf", "hare", "hare-published"):
            policy = place_policy(name, options.get(name, {}))
            Core(
                run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=every.update,
                world="sim",
            ).execute()  # fmt: skip
    return every.hexdigest()


def test_the_journal_does_not_depend_on_the_hash_seed() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    code += "import test_core_paths; print(test_core_paths.journals())"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another one than here
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout == journals() + "\n"
