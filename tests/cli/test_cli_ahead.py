"""The bound computed beside a simulation: the same bound, and no process left, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warren.report.record import Bound
from warren.runs import bound_of_run as ahead
from warren.runs.bound_of_run import Columns, bound_ahead, bound_of, columns_of, packed

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds
from processes import children

RUN, COSTS = worlds.random_world(3, jobs=ahead._FEW_JOBS + 2)
ROUNDS_J = np.array([job.rounds for job in RUN.workload.jobs])
ASKED = packed(columns_of(RUN, COSTS, ROUNDS_J))
HERE = os.getpid()
BEFORE: set[int] = set()


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    BEFORE.clear()
    BEFORE.update(children(HERE))
    ahead._answers.clear()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def refuse_here(columns: Columns) -> Bound:
    """In place of ``bound_of``: solves in another process only."""
    assert os.getpid() != HERE
    return bound_of(columns)


def no_process_is_left() -> bool:
    """Whether this process has no child that it did not have before, not even one that ended."""
    return children(HERE) <= BEFORE


def test_the_answer_is_the_bound_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bound_of(ASKED)
    assert expected.weighted_jct_s
    ahead._answers.clear()
    monkeypatch.setattr(ahead, "bound_of", refuse_here)
    with bound_ahead(RUN, COSTS, "sim") as solve:
        assert solve(ASKED) == expected
    assert no_process_is_left()


def test_a_bound_that_is_known_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another process, and for the next policy of a comparison by none."""
    with bound_ahead(RUN, COSTS, "sim") as solve:
        expected = solve(ASKED)
    monkeypatch.setattr(ahead, "_computed", refuse_here)
    monkeypatch.setattr(os, "fork", refuse_here)
    with bound_ahead(RUN, COSTS, "sim") as solve:
        assert solve(ASKED) == expected


def test_no_more_bounds_are_remembered_than_stated() -> None:
    one = Bound(weighted_jct_s=1.0, makespan_s=1.0)
    for rounds in range(ahead._MOST_ANSWERS + 5):
        ahead._remembered((("rounds_J", "<i8", (1,), bytes([rounds])),), one)
    assert len(ahead._answers) == ahead._MOST_ANSWERS


def test_other_rounds_are_solved_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = packed(columns_of(RUN, COSTS, np.maximum(ROUNDS_J - 1, 1)))
    here = Bound(weighted_jct_s=1.0, makespan_s=1.0)
    with bound_ahead(RUN, COSTS, "sim") as solve:
        monkeypatch.setattr(ahead, "bound_of", lambda _: here)
        assert solve(fewer) is here


def test_a_process_that_fails_is_replaced_by_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_here(columns: Columns) -> Bound:
        if os.getpid() != HERE:
            raise MemoryError
        return bound_of(columns)

    monkeypatch.setattr(ahead, "bound_of", only_here)
    with bound_ahead(RUN, COSTS, "sim") as solve:
        assert solve(ASKED) == bound_of(ASKED)
    assert no_process_is_left()


LOADED_BY_COPIES = """
import sys
from test_cli_ahead import ASKED, COSTS, RUN, ahead, bound_ahead, bound_of
from warren.report.record import Bound

def loaded(columns):
    before = len(sys.modules)
    bound_of(columns)
    return Bound(weighted_jct_s=len(sys.modules) - before, makespan_s=None)

ahead.bound_of = loaded
for _ in range(3):
    ahead._answers.clear()
    with bound_ahead(RUN, COSTS, "sim") as solve:
        print(solve(ASKED).weighted_jct_s)
"""


def test_only_the_first_process_of_many_simulations_loads_what_solves() -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-c", LOADED_BY_COPIES]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    first, *others = map(int, done.stdout.split())
    assert first > 100
    assert others == [0, 0]


def test_a_run_that_breaks_off_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "bound_of", lambda _: time.sleep(600))
    with pytest.raises(KeyboardInterrupt), bound_ahead(RUN, COSTS, "sim"):
        raise KeyboardInterrupt
    assert no_process_is_left()


@pytest.mark.parametrize(
    "why", ["one core", "no room", "unknown rounds", "drawn times", "few jobs"]
)
def test_without_another_process_it_is_solved_here(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    run, costs = RUN, COSTS
    with bound_ahead(RUN, COSTS, "sim"):  # the first of all is computed by a process
        pass

    def fork() -> int:
        if why == "no room":
            raise BlockingIOError
        raise AssertionError("another process")

    monkeypatch.setattr(os, "fork", fork)
    if why == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    if why == "unknown rounds":
        jobs = tuple(replace(job, rounds=None) for job in run.workload.jobs)
        run = replace(run, workload=replace(run.workload, jobs=jobs))
    if why == "drawn times":
        run = replace(run, truth=replace(run.truth, task_cv=0.1))
    if why == "few jobs":
        run, costs = worlds.random_world(3, jobs=ahead._FEW_JOBS)
    with bound_ahead(run, costs, "sim") as solve:
        assert solve(ASKED) == bound_of(ASKED)
