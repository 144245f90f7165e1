"""Pairs of jobs on one GPU: rules by hand, and pairings against all that there are."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import lucid_pairs
from _lucid import (
    Pairs,
    Singles,
    best_pairing,
    fair,
    features,
    fitted,
    in_step,
    labels,
    muri,
    random_pairing,
)

SINGLES = Singles(
    network_J=np.array(["a", "b", "c"]),
    gpu_J=np.array([0.3, 0.9, 0.6]),
    memory_J=np.array([0.1, 0.2, 0.7]),
    label_J=np.array([0, 2, 1]),
)
JOBS = np.array([[0, 1], [1, 2]])


def test_lanes_in_step_take_the_longest_sum_and_no_less_than_alone() -> None:
    one = in_step(SINGLES, np.array([[0, 1], [1, 2], [0, 0]]))
    assert one == pytest.approx(np.array([[1 / 1.2] * 2, [1 / 1.5] * 2, [1, 1]]))


def test_of_fair_lanes_a_job_keeps_its_half_and_what_the_other_leaves() -> None:
    # 0.3 is below a half, and leaves 0.7 of the GPU to 0.9; 0.9 and 0.6 have a half each.
    expected = [[1, 0.7 / 0.9], [0.5 / 0.9, 0.5 / 0.6]]
    assert fair(SINGLES, JOBS) == pytest.approx(np.array(expected))


def test_jobs_wait_for_each_other_at_muris_stages() -> None:
    # 0.7 and 0.3 of CPU and GPU beside 0.9 of GPU and 0.1 of CPU.
    assert muri(SINGLES, JOBS[:1]) == pytest.approx(1 / (0.9 + 0.3))
    assert muri(SINGLES, np.array([[2, 2]])) == pytest.approx(1 / (0.6 + 0.6))


def test_labels_order_pairs() -> None:
    assert labels(SINGLES, JOBS).tolist() == [[-2, -2], [-3, -3]]


def all_pairings(jobs: list[list[int]]) -> list[tuple[int, ...]]:
    return [
        chosen
        for count in range(len(jobs) + 1)
        for chosen in combinations(range(len(jobs)), count)
        if len({job for pair in chosen for job in jobs[pair]}) == 2 * count
    ]


@pytest.mark.parametrize("seed", range(8))
def test_no_pairing_has_more_worth_than_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = np.array(list(combinations(range(6), 2)))
    jobs = every[np.sort(rng.permutation(len(every))[:10])]
    worth = rng.random(len(jobs)) + 0.1
    most = max(sum(worth[pair] for pair in one) for one in all_pairings(jobs.tolist()))
    chosen = best_pairing(jobs, worth)
    assert len(set(jobs[chosen].reshape(-1).tolist())) == 2 * len(chosen)
    assert worth[chosen].sum() == pytest.approx(most)


def test_a_drawn_pairing_has_each_job_once_and_leaves_no_pair_free() -> None:
    jobs = np.array(list(combinations(range(7), 2)))
    chosen = random_pairing(jobs, np.random.default_rng(1))
    assert len(chosen) == 3
    assert len(set(jobs[chosen].reshape(-1).tolist())) == 6


def test_a_linear_law_is_found_from_pairs_of_other_jobs() -> None:
    rng = np.random.default_rng(2)
    many = Singles(
        network_J=np.arange(40), gpu_J=rng.random(40), memory_J=rng.random(40), label_J=np.zeros(40)
    )
    jobs = np.array(list(combinations(range(40), 2)))
    law = rng.random(features(many, jobs).shape[1])
    speed = (features(many, jobs) @ law).reshape(2, -1).T
    pairs = Pairs(jobs=jobs, speed=speed)
    train = pairs.where((jobs < 20).all(axis=1))
    test = pairs.where((jobs >= 20).all(axis=1))
    assert fitted(many, train, test.jobs) == pytest.approx(test.speed)


def test_errors_are_of_the_speed_alone_and_ranks_of_totals() -> None:
    pairs = Pairs(jobs=JOBS, speed=np.array([[1.0, 0.8], [0.7, 0.7]]))
    found = lucid_pairs.errors(np.array([[0.9, 0.9], [0.7, 0.5]]), pairs)
    assert found == {"error_pct": pytest.approx(10), "rank": pytest.approx(1)}
    assert lucid_pairs.errors(labels(SINGLES, JOBS), pairs, predicts=False)["error_pct"] is None
