"""GPUs that differ: bins, rules of placement and rounds, by hand."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _pal
from _pal import RULES, Devices, Jobs, Placed, State, bins, least_slow, pal, pm_first, simulate


def devices(*factor: float, node_gpus: int = 2) -> Devices:
    """GPUs of the same factors for each class, by node."""
    row = np.array(factor)
    every = np.tile(row, (len(_pal.CLASSES), 1))
    return Devices(factor=every, binned=every, node=np.arange(len(row)) // node_gpus)


def jobs(gpus: list[int], work: list[float], submit: list[float] | None = None) -> Jobs:
    return Jobs(
        submit_s=np.array(submit or [0.0] * len(gpus)),
        gpus=np.array(gpus),
        work_s=np.array(work),
        kind=np.zeros(len(gpus), dtype=int),
    )


def test_outliers_are_bins_of_their_own() -> None:
    factor = np.array([5.0] + [1.0] * 30 + [1.2] * 30)
    assert bins(factor).tolist() == pytest.approx([5 / 1.2] + [1 / 1.2] * 30 + [1.0] * 30)


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_no_cuts_have_a_smaller_sum_of_squares(clusters: int) -> None:
    values = np.sort(np.random.default_rng(clusters).random(9))

    def spread(cuts: tuple[int, ...]) -> float:
        return sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(values, cuts))

    found = tuple(_pal._optimal_clusters(values, clusters))
    assert len(found) == clusters - 1
    least = min(spread(cuts) for cuts in combinations(range(1, 9), clusters - 1))
    assert spread(found) == pytest.approx(least)


def test_a_gang_on_two_nodes_is_slower_by_its_slowest_gpu_and_by_the_network() -> None:
    two = devices(1.0, 1.1, 1.0, 3.0)
    assert _pal.slowness(two, 0, (0, 1)) == pytest.approx(1.1)
    assert _pal.slowness(two, 0, (0, 2)) == pytest.approx(_pal.ACROSS)


@pytest.mark.parametrize(("slow", "chosen"), [(1.5, (0, 1)), (3.0, (0, 2))])
def test_one_node_is_taken_unless_its_gpus_are_slower_than_the_network(
    slow: float, chosen: tuple[int, ...]
) -> None:
    two = devices(1.0, slow, 1.0, slow + 0.1)
    assert pal(two, 0, {0, 1, 2, 3}, 2) == chosen
    assert least_slow(two, 0, {0, 1, 2, 3}, 2) == chosen
    assert pm_first(two, 0, {0, 1, 2, 3}, 2) == (0, 2)


def test_a_job_alone_ends_with_the_round_in_which_its_work_is_done() -> None:
    found = simulate(jobs([1], [300.0]), devices(2.0, 2.0), RULES["PAL"])
    assert found.tolist() == [2 * _pal.ROUND_S]


def test_packed_jobs_wait_in_order_and_keep_their_gpus() -> None:
    work = 2 * _pal.ROUND_S
    found = simulate(jobs([3, 4, 1], [work, 1.0, 1.0]), devices(1, 1, 1, 1), RULES["Packed-Sticky"])
    # The second needs all four, and the third may not pass it. Three GPUs are of two nodes.
    ended = np.ceil(_pal.ACROSS * 2) * _pal.ROUND_S
    assert found.tolist() == [ended, ended + _pal.ROUND_S, ended + 2 * _pal.ROUND_S]


def test_ours_lets_short_jobs_pass_where_lengths_are_known() -> None:
    long = 10 * _pal.ROUND_S
    one = jobs([4, 1], [long, 1.0])
    assert simulate(one, devices(1, 1, 1, 1), RULES["ours, least left first"])[1] == _pal.ROUND_S
    assert simulate(one, devices(1, 1, 1, 1), RULES["ours, in order of arrival"])[1] > long


@pytest.mark.parametrize("rule", RULES)
def test_no_gpu_has_two_jobs_and_no_gang_is_short_of_one(rule: str) -> None:
    rng = np.random.default_rng(3)
    measured = {name: 1 + rng.random(40) for name in _pal.CLASSES}
    some = Jobs(
        submit_s=np.sort(rng.random(12) * 3000),
        gpus=rng.choice([1, 2, 6, 24], 12),
        work_s=rng.random(12) * 2000,
        kind=rng.integers(0, 4, 12),
    )

    def checked(state: State) -> Placed:
        placed = RULES[rule](state)
        used = [gpu for gpus in placed.values() for gpu in gpus]
        assert len(used) == len(set(used))
        assert all(len(gpus) == state.jobs.gpus[job] for job, gpus in placed.items())
        assert set(placed) <= set(state.present)
        return placed

    found = simulate(some, _pal.draw_devices(measured, rng), checked)
    assert np.isfinite(found).all()
