"""GPU groups: the best by every partition, every multiset of groups, the program as printed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from grouping_cases import drawn, lists, mixed, optimum, value_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.gpu_groups import branch_and_bound as grouping_exact
from warren.solve.gpu_groups.bound import least_spread, patterns
from warren.solve.gpu_groups.branch_and_bound import exact
from warren.solve.gpu_groups.local_search import constructions
from warren.solve.gpu_groups.problem import (
    GroupingProblem,
    ReducedProblem,
    reduced,
    spread,
)
from warren.solve.gpu_groups.solve import grouped

pytestmark = pytest.mark.slow


def test_no_partition_of_a_few_gpus_is_better() -> None:
    for seed in range(150):
        problem = drawn(seed, raw=seed % 2 == 0)
        found, least = grouped(problem), optimum(problem)
        assert found.spread == pytest.approx(value_of(problem, lists(found)), abs=1e-12)
        assert found.spread == pytest.approx(least, abs=1e-8), seed
        assert found.bound <= least + 1e-8
        assert found.gap == 0.0


def test_the_programs_alone_find_the_best_from_any_grouping() -> None:
    improved = 0
    for seed in range(80):
        problem = drawn(seed)
        least = reduced(problem)
        for count_GK in constructions(least) if len(least.count_K) else ():
            value = spread(count_GK, least.speed_NK)
            proof = exact(least, value, 0.0, programs=1000)
            if proof.count_GK is not None:
                improved += 1
                assert (proof.count_GK.sum(axis=0) == least.count_K).all()
                value = spread(proof.count_GK, least.speed_NK)
            assert value * least.unit == pytest.approx(optimum(problem), abs=1e-8)
            assert value == pytest.approx(proof.bound, abs=1e-8)
    assert improved > 20


def is_beaten(least: ReducedProblem, value: float) -> bool:
    """Whether some grouping has less, by trying one group after another, the largest first."""
    ranges = [range(count, -1, -1) for count in least.count_K.tolist()]
    near = [
        (group, speed_N)
        for group in product(*ranges)
        if any(group) and (np.abs((speed_N := least.speed_NK @ group) - least.mean_N) < value).all()
    ]

    def go_on(
        left: tuple[int, ...], groups: int, first: int, low_N: FloatArray, high_N: FloatArray
    ) -> bool:
        if not groups:
            return not any(left)
        for place in range(first, len(near)):
            group, speed_N = near[place]
            rest = tuple(a - b for a, b in zip(left, group, strict=True))
            slow_N, fast_N = np.minimum(low_N, speed_N), np.maximum(high_N, speed_N)
            is_open = min(rest) >= 0 and float((fast_N - slow_N).max()) < value
            if is_open and go_on(rest, groups - 1, place, slow_N, fast_N):
                return True
        return False

    # The mean of all groups is between the slowest and the fastest.
    return go_on(tuple(least.count_K.tolist()), least.groups, 0, least.mean_N, least.mean_N)


def test_windows_of_speed_lead_to_the_best_of_more_gpus() -> None:
    improved = 0
    for seed in range(24):
        problem = mixed(seed, 20 + seed % 7, 4 + seed % 3, types=2 + seed % 3, jobs=1 + seed % 3)
        least = reduced(problem)
        value = spread(next(constructions(least)), least.speed_NK)
        proof = exact(least, value, 0.0, programs=1000)
        if proof.count_GK is not None:
            improved += 1
            assert (proof.count_GK.sum(axis=0) == least.count_K).all()
            value = spread(proof.count_GK, least.speed_NK)
        assert proof.bound == pytest.approx(value, abs=1e-8)
        assert not is_beaten(least, value - 1e-7)
    assert improved > 12


@pytest.mark.parametrize("most", [4, 12, 30])
def test_what_is_found_below_a_limit_is_the_best_and_if_nothing_is_the_limit_is_a_bound(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(12):
        least = reduced(mixed(seed, 30, 6))
        value = spread(next(constructions(least)), least.speed_NK)
        monkeypatch.setattr(grouping_exact, "PATTERNS", (1500,))
        best = exact(least, value, 0.0, programs=1000).bound
        monkeypatch.setattr(grouping_exact, "PATTERNS", (most,))
        proof = exact(least, value, 0.0, programs=1000)
        assert proof.bound <= best + 1e-8
        if proof.count_GK is not None:
            assert spread(proof.count_GK, least.speed_NK) == pytest.approx(best, abs=1e-8)


def test_a_search_that_is_cut_off_proves_nothing_wrong() -> None:
    for seed in range(12):
        least = reduced(mixed(seed, 30, 6))
        value = spread(next(constructions(least)), least.speed_NK)
        best = exact(least, value, 0.0, programs=1000).bound
        for programs in (0, 1, 3, 6):
            proof = exact(least, value, 0.0, programs)
            assert proof.bound <= best + 1e-8
            found = value if proof.count_GK is None else spread(proof.count_GK, least.speed_NK)
            assert best - 1e-8 <= found <= value


def letter(problem: GroupingProblem) -> float:
    """(4)-(6) as printed, with z_mu, by HiGHS: another way to the optimum."""
    gpus, groups, jobs = len(problem.type_D), problem.groups, len(problem.speed_JT)
    speed_JD = problem.speed_JT[:, problem.type_D]
    columns = gpus * groups + 2 * jobs + 1  # z, p_max, p_min, the value
    rows, least, most = [], [], []
    for gpu in range(gpus):
        row = np.zeros(columns)
        row[gpu * groups : (gpu + 1) * groups] = 1
        rows, least, most = [*rows, row], [*least, 1.0], [*most, 1.0]
    for job in range(jobs):
        p_max, p_min = gpus * groups + job, gpus * groups + jobs + job
        for group in range(groups):
            for column, low, high in ((p_max, -np.inf, 0.0), (p_min, 0.0, np.inf)):
                row = np.zeros(columns)
                row[group : gpus * groups : groups] = speed_JD[job]
                row[column] = -1
                rows, least, most = [*rows, row], [*least, low], [*most, high]
        row = np.zeros(columns)
        row[[p_max, p_min, -1]] = (1, -1, -1)
        rows, least, most = [*rows, row], [*least, -np.inf], [*most, 0.0]
    is_whole = np.arange(columns) < gpus * groups
    answer = milp(
        (np.arange(columns) == columns - 1).astype(float),
        integrality=is_whole.astype(int),
        bounds=Bounds(0, np.where(is_whole, 1, np.inf)),
        constraints=LinearConstraint(np.array(rows), least, most),
        options={"mip_rel_gap": 0.0},
    )
    return float(answer.fun)


@pytest.mark.parametrize("seed", range(4))
def test_the_program_as_printed_has_the_same_optimum(seed: int) -> None:
    problem = mixed(seed, 11 + seed % 2, 3, types=3, jobs=3)
    found = grouped(problem)
    assert found.gap == 0.0
    assert found.spread == pytest.approx(letter(problem), abs=1e-5)


@given(st.integers(0, 10**6))
def test_the_bound_is_at_most_the_best_and_the_search_at_least(seed: int) -> None:
    problem = drawn(seed, most=7)
    found, least = grouped(problem, programs=0), optimum(problem)
    assert found.bound <= least + 1e-8
    assert least <= found.spread + 1e-12
    assert found.bound <= found.spread


def test_the_bound_for_two_groups_is_the_best_itself() -> None:
    exceptions = 0
    for seed in range(100):
        drawn_ = drawn(seed)
        problem = GroupingProblem(speed_JT=drawn_.speed_JT, type_D=drawn_.type_D, groups=2)
        least = reduced(problem)
        if not len(least.count_K):
            continue
        value = optimum(problem) / least.unit
        exceptions += abs(least_spread(least, max(value, 1e-6) * 1.2) - value) > 1e-7
    assert exceptions == 0


@pytest.mark.parametrize("seed", range(5))
def test_no_larger_grouping_that_is_known_is_below_the_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    patterns_QT = random.integers(0, 3, (3, 4)) + np.eye(3, 4, dtype=np.int64)
    count_GT = patterns_QT[random.integers(0, 3, 30)]
    type_D = np.repeat(np.arange(4), count_GT.sum(axis=0))
    # Speeds for which these patterns are nearly equal: orthogonal to their differences.
    differences = patterns_QT[1:] - patterns_QT[:1]
    null = np.linalg.svd(differences.astype(float))[2][2:]
    speed_JT = np.abs(random.normal(size=(6, 2)) @ null) + 0.01 * random.random((6, 4))
    problem = GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=30)
    found = grouped(problem)
    assert found.bound <= spread(count_GT, speed_JT) + 1e-9
    assert found.bound <= found.spread


def test_all_patterns_within_a_radius_are_there_and_no_others() -> None:
    for seed in range(40):
        least = reduced(drawn(seed))
        ranges = [np.arange(count + 1) for count in least.count_K]
        every: IntArray = np.array(np.meshgrid(*ranges)).reshape(len(ranges), -1).T
        off = np.abs(every @ least.speed_NK.T - least.mean_N).max(axis=1, initial=0.0)
        for radius in (0.0, 0.3, 0.8):
            found = patterns(least, radius, 10**6)
            assert found is not None
            wanted = [tuple(one) for one in every[off <= radius + 1e-9].tolist() if any(one)]
            kept = [tuple(one) for one in found.tolist() if any(one)]
            assert sorted(kept) == sorted(wanted)
    assert patterns(reduced(mixed(1, 30, 6)), 10.0, most=3) is None
