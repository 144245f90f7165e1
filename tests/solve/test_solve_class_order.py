"""Classes on links against Pseudocode 1 of JPAS, written out once more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.solve.flows.class_order import host_orders, ordered_classes


def pseudocode_1(order: dict[int, int], on_host: set[int]) -> dict[int, int]:
    """GenerateLocalOrder: take the job with the smallest global order until none is left."""
    jobs, local = set(on_host), {}
    while jobs:
        first = min(jobs, key=lambda job: order[job])
        local[first] = len(local) + 1
        jobs.remove(first)
    return local


def test_the_orders_4_9_20_21_on_a_host_become_1_2_3_4() -> None:
    order = {9: 0, 4: 1, 20: 2, 21: 3}
    assert pseudocode_1({4: 4, 9: 9, 20: 20, 21: 21}, {4, 9, 20, 21}) == {4: 1, 9: 2, 20: 3, 21: 4}
    turns = [(job,) for job in (4, 9, 20, 21)]
    assert ordered_classes(turns, dict.fromkeys(order, (0,)), 7) == {4: 1, 9: 2, 20: 3, 21: 4}


@given(
    st.permutations(range(7)),
    st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=7, max_size=7),
)
def test_on_each_host_classes_order_jobs_as_pseudocode_1_does(
    ranked: list[int], used: list[set[int]]
) -> None:
    hosts = dict(enumerate(used))
    found = ordered_classes([(job,) for job in ranked], hosts, 7)
    order = {job: at for at, job in enumerate(ranked)}
    for host in range(5):
        here = {job for job in hosts if host in hosts[job]}
        local = pseudocode_1(order, here)
        assert sorted(here, key=found.__getitem__) == sorted(here, key=local.__getitem__)
        assert len({found[job] for job in here}) == len(here)


@given(st.integers(1, 7))
def test_jobs_beyond_the_last_class_share_it(classes: int) -> None:
    found = ordered_classes([(job,) for job in range(9)], dict.fromkeys(range(9), (0,)), classes)
    assert [found[job] for job in range(9)] == [min(job + 1, classes) for job in range(9)]


def test_jobs_of_one_turn_share_a_class_and_apart_jobs_need_no_second() -> None:
    hosts = {0: (0,), 1: (0,), 2: (1,), 3: (0, 1)}
    assert ordered_classes([(0, 1), (2,), (3,)], hosts, 7) == {0: 1, 1: 1, 2: 1, 3: 2}


@given(
    st.permutations(range(12)),
    st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=12, max_size=12),
)
def test_orders_of_single_hosts_are_those_of_pseudocode_1_whatever_meets_elsewhere(
    ranked: list[int], used: list[set[int]]
) -> None:
    hosts = dict(enumerate(used))
    found = host_orders([(job,) for job in ranked], hosts, 7)
    order = {job: at for at, job in enumerate(ranked)}
    for host in range(5):
        local = pseudocode_1(order, {job for job in hosts if host in hosts[job]})
        assert {job: min(7, at) for job, at in local.items()} == {
            job: kind for (where, job), kind in found.items() if where == host
        }
