"""Which plans run every task of every job exactly once, against counting every task."""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from warren.core.scheduling_rules import check_plan
from warren.core.state import State
from warren.model.decision import Plan
from warren.model.errors import InfeasibleDecision

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

Row = tuple[int, int, int, int]
JOBS = ((2, 3), (1, 1), (3, 4))
"""Scale and rounds."""


def cut(rng: random.Random) -> list[Row]:
    """(job, round, rounds, shard) of rows that cover every task once, in any order."""
    rows = []
    for job, (scale, rounds) in enumerate(JOBS):
        for shard in range(scale):
            first = 0
            while first < rounds:
                length = rng.randint(1, rounds - first)
                rows.append((job, first, length, shard))
                first += length
    rng.shuffle(rows)
    return rows


def spoilt(rows: list[Row], rng: random.Random) -> list[Row]:
    """One row is gone, there twice, or has one number that is a little different."""
    place = rng.randrange(len(rows))
    row, how = list(rows[place]), rng.randrange(6)
    if how < 4:
        row[how] += rng.choice((-1, 1))
    if not 0 <= row[0] < len(JOBS):
        return rows
    return rows[:place] + [(*row,)] * (0, 1)[how != 4] + rows[place + (how != 5) :]  # type: ignore[list-item]


def once(rows: list[Row]) -> bool:
    """Every task is counted once, and none that does not exist."""
    ran = Counter(
        (job, round_, shard)
        for job, first, rounds, shard in rows
        for round_ in range(first, first + rounds)
    )
    all_tasks = {
        (job, round_, shard)
        for job, (scale, rounds) in enumerate(JOBS)
        for round_ in range(rounds)
        for shard in range(scale)
    }
    return set(ran) == all_tasks and set(ran.values()) == {1} and all(row[2] > 0 for row in rows)


def whole(rows: list[Row]) -> bool:
    """Rows of a stretch of several rounds follow one another, one for each shard."""
    blocks = [(key, len(list(block))) for key, block in groupby(rows, key=lambda row: row[:3])]
    return all(count == JOBS[job][0] for (job, _, rounds), count in blocks if rounds > 1)


def test_a_plan_is_refused_exactly_if_counting_its_tasks_says_so() -> None:
    jobs = [worlds.job(i, scale=scale, rounds=rounds) for i, (scale, rounds) in enumerate(JOBS)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    state = State(run, worlds.costs([[1.0]] * len(jobs), [[0.0]] * len(jobs)))
    rng, refused = random.Random(1), 0
    for _ in range(600):
        rows = cut(rng)
        for _ in range(rng.randrange(3)):
            rows = spoilt(rows, rng)
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
        plan = Plan(
            job_R=columns[0], round_R=columns[1], rounds_R=columns[2], shard_R=columns[3],
            device_R=np.zeros(len(rows), dtype=np.int64),
        )  # fmt: skip
        if once(rows):
            torn = pytest.raises(InfeasibleDecision, match="follow one another")
            with torn if any(row[2] > 1 for row in rows) and not whole(rows) else nullcontext():
                check_plan(state, "p", plan)
        else:
            refused += 1
            with pytest.raises(InfeasibleDecision, match="exactly once"):
                check_plan(state, "p", plan)
    assert 200 < refused < 500
