"""Groups of jobs that share devices: none is counted twice, and few are worth more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.job_groups.priced_groups import SharingJobs, groups_that_run

SECONDS = ((3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (1.0, 0.5))
"""What an iteration of each kind takes of two resources."""


def group_s(kinds: tuple[int, ...]) -> float:
    """The longer of what is taken of each resource, and no less than one job alone."""
    sums = [sum(SECONDS[kind][at] for kind in kinds) for at in (0, 1)]
    return max(*sums, *(sum(SECONDS[kind]) for kind in kinds))


def sharing(
    weights: list[float], kinds: list[int], needs: list[int], devices: int, most: int = 3
) -> SharingJobs:
    return SharingJobs(
        weight_J=np.array(weights, float),
        kind_J=np.array(kinds),
        devices_J=np.array(needs),
        devices=devices,
        most=most,
        group_s=group_s,
    )


def every_choice(
    jobs: SharingJobs, left: tuple[int, ...], free: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All sets of groups that fit."""
    if not left:
        yield ()
        return
    first, *rest = left
    yield from every_choice(jobs, tuple(rest), free)
    need = int(jobs.devices_J[first])
    if need > free:
        return
    same = [job for job in rest if jobs.devices_J[job] == need]
    for size in range(jobs.most):
        for others in combinations(same, size):
            remain = tuple(job for job in rest if job not in others)
            for choice in every_choice(jobs, remain, free - need):
                yield ((first, *others), *choice)


def worth(jobs: SharingJobs, groups: list[tuple[int, ...]] | tuple[tuple[int, ...], ...]) -> float:
    return sum(jobs.worth(group) for group in groups)


def test_no_job_shares_where_all_have_devices() -> None:
    jobs = sharing([1, 1, 1], [0, 1, 2], [1, 2, 1], 4)
    assert sorted(groups_that_run(jobs)) == [(0,), (1,), (2,)]


def test_jobs_that_complete_each_other_share_where_devices_are_short() -> None:
    jobs = sharing([1, 1, 1], [0, 0, 1], [2, 2, 2], 2)
    (group,) = groups_that_run(jobs)
    assert sorted(jobs.kind_J[list(group)].tolist()) == [0, 1]


def test_jobs_of_unequal_numbers_of_devices_never_share() -> None:
    jobs = sharing([1, 1], [0, 1], [1, 2], 2)
    assert len(groups_that_run(jobs)) == 1


@given(
    st.lists(
        st.tuples(st.floats(0.1, 10), st.integers(0, 3), st.sampled_from([1, 2, 4])),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 8),
    st.integers(1, 3),
)
def test_groups_fit_name_each_job_once_and_are_worth_no_less_than_any_job_alone(
    drawn: list[tuple[float, int, int]], devices: int, most: int
) -> None:
    jobs = sharing(*map(list, zip(*drawn, strict=True)), devices, most)  # type: ignore[arg-type]
    found = groups_that_run(jobs)
    named = [job for group in found for job in group]
    assert len(named) == len(set(named))
    assert sum(int(jobs.devices_J[group[0]]) for group in found) <= devices
    for group in found:
        assert len(group) <= most
        assert len(set(jobs.devices_J[list(group)].tolist())) == 1
    alone = [jobs.worth([job]) for job in range(len(drawn)) if jobs.devices_J[job] <= devices]
    assert worth(jobs, found) >= max(alone, default=0.0) - 1e-9


def test_over_many_cases_little_is_lost_to_the_best() -> None:
    random = np.random.default_rng(0)
    parts = []
    for _ in range(150):
        count = int(random.integers(3, 7))
        jobs = sharing(
            random.uniform(0.2, 5, count).tolist(),
            random.integers(0, 4, count).tolist(),
            random.choice([1, 2], count).tolist(),
            int(random.integers(2, 5)),
        )
        best = max(
            worth(jobs, choice) for choice in every_choice(jobs, tuple(range(count)), jobs.devices)
        )
        parts.append(worth(jobs, groups_that_run(jobs)) / best)
    assert np.mean(parts) > 0.97
    assert min(parts) > 0.75
