"""The past of a run: every policy sees it whole, and nothing of it can be changed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from journal_replay import replay

from warren.core.loop import Core
from warren.model.past import NO_PAST, Past, stem
from warren.model.view import View
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

PAST = Past(
    jobs=tuple(worlds.job(k, rounds=5 + k) for k in range(3)),
    costs=worlds.costs([[1.0]] * 3, [[0.0]] * 3),
)


def seen(place: str, past: Past = NO_PAST) -> View:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0, rounds=2, arrival_ns=7)])
    costs = worlds.costs([[1.0]], [[0.0]])
    core = Core(
        run=run, costs=costs, policy=place_policy(place), port=SimPort(run, costs), sink=len,
        world="sim", past=past,
    )  # fmt: skip
    return core.state.view()


@pytest.mark.parametrize("place", ["hlas", "srtf", "hare"])
def test_a_policy_blind_or_not_sees_how_long_past_jobs_ran(place: str) -> None:
    view = seen(place, PAST)
    assert [job.rounds for job in view.past.jobs] == [5, 6, 7]
    assert len(view.past.costs.comp_ns_JT) == 3


def test_a_blind_policy_sees_no_job_of_the_run_by_the_past() -> None:
    assert len(seen("hlas", PAST).jobs) == 0


def test_without_a_history_the_past_is_empty() -> None:
    view = seen("hlas")
    assert view.past is NO_PAST
    assert (len(view.past.jobs), view.past.costs.comp_ns_JT.size) == (0, 0)


def test_the_costs_of_the_past_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(seen("hlas", PAST).past.costs.comp_ns_JT)[0, 0] = 1


def test_a_replayed_state_has_the_past_it_is_given() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0)])
    costs, journal = worlds.costs([[1.0]], [[0.0]]), bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy("hlas"), port=SimPort(run, costs),
        sink=journal.extend, world="sim", past=PAST,
    )  # fmt: skip
    core.execute()
    assert replay(bytes(journal), run, costs, past=PAST, blind=True).view().past is PAST


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("017-resnet50", "resnet50"),
        ("resnet50", "resnet50"),
        ("bert-4", "bert"),
        ("2024_11_03.bert-k7", "bert-k7"),
        ("digits-mlp-3.12", "digits-mlp"),
        ("a1-2-b", "a1-2-b"),
        ("17", "17"),
        ("1-2-3", "1-2-3"),
        ("-7", "-7"),
        ("7.", "7."),
        ("v2", "v2"),
    ],
)
def test_numbers_at_the_ends_of_a_name_are_of_the_run_and_not_of_the_job(
    name: str, alike: str
) -> None:
    assert stem(name) == alike
