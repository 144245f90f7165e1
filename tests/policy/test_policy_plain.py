"""The order of the plain engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warren.core.scheduling_rules import check_assignment
from warren.core.state import State
from warren.model.decision import ENDLESS, Assignment
from warren.model.events import JobArrived
from warren.policy.registry import place_policy

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


@pytest.mark.parametrize(("rounds", "given"), [(7, 7), (None, ENDLESS)])
def test_the_plain_engine_is_handed_a_job_whole_however_long_it_is(
    rounds: int | None, given: int
) -> None:
    run = worlds.run(worlds.cluster(["V100"]), [worlds.job(0, scale=3, rounds=rounds)])
    state = State(run, worlds.costs([[1.0]], [[0.1]]))
    arrived = JobArrived(0, 0)
    state.apply(arrived)
    policy = place_policy("plain")
    view = state.view((arrived,))
    decision, _ = policy.decide(view, policy.initial(view))
    assert decision.assign == (Assignment(0, 0, 0, given, (0, 1, 2)),)
    check_assignment(state, policy.name, decision.assign[0])
