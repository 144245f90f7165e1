"""When a job that loses processes counts as the cause."""

from __future__ import annotations

import pytest

from warren.live.control.recovery import LossCounter
from warren.live.process.agents.leased_processes import AWAY

KILLED, CRASHED = "killed by SIGKILL", "killed by SIGSEGV"
SERVER = ()


class Progress:
    """Of job 0: barriers passed."""

    passed = 0

    def __call__(self, job: int) -> int:
        return self.passed


def test_many_tasks_killed_at_once_are_one_strike_each() -> None:
    strikes = LossCounter(Progress())
    for _ in range(2):
        assert not any(strikes.out(0, (5, shard), KILLED) for shard in range(8))
        assert not strikes.out(0, SERVER, KILLED)
    assert strikes.out(0, (5, 3), KILLED)
    assert strikes.out(0, SERVER, KILLED)
    assert not strikes.out(1, (5, 3), KILLED)


def test_a_new_barrier_forgives_what_came_from_outside_and_an_old_one_does_not() -> None:
    progress = Progress()
    strikes = LossCounter(progress)
    for passed in (0, 1, 2):
        progress.passed = passed
        assert [strikes.out(0, SERVER, KILLED) for _ in range(2)] == [False, False]
    progress.passed = 1  # it went back to a checkpoint
    assert strikes.out(0, SERVER, KILLED)


@pytest.mark.parametrize("how", [CRASHED, "exit status 1", "left"])
def test_three_ends_of_its_own_count_whatever_it_did(how: str) -> None:
    progress = Progress()
    strikes = LossCounter(progress)
    for passed in range(2):
        progress.passed = passed
        assert not strikes.out(0, (passed, 0), how)
    assert strikes.out(0, SERVER, how)


def test_a_host_that_comes_and_goes_fails_its_jobs_only_if_they_get_nowhere_for_long() -> None:
    progress = Progress()
    strikes = LossCounter(progress)
    assert not any(strikes.out(0, SERVER, AWAY) for _ in range(19))
    progress.passed = 1
    assert not any(strikes.out(0, SERVER, AWAY) for _ in range(19))
    assert strikes.out(0, (1, 0), AWAY)
    # Nor does it make other losses worse.
    assert not strikes.out(0, SERVER, KILLED)
