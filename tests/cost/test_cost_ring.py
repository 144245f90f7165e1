"""The closed forms of ring all-reduce against numbers by hand, a brute force, and the paper's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.ring import (
    READINGS,
    Reading,
    RingJobs,
    RingNetwork,
    bandwidth_J,
    contenders_J,
    contention_J,
    degradation,
    least_round_s_J,
    most_round_s_J,
    round_s_J,
    servers_J,
)
from warren.model.costs import IntArray

NET = RingNetwork(
    inner_bytes_per_s=1000.0,
    outer_bytes_per_s=100.0,
    xi1=0.5,
    xi2_s=0.25,
    alpha=0.2,
    reduce_bytes_per_s=400.0,
)
SHARED = np.array([[2, 2, 0], [0, 1, 1], [0, 3, 0], [0, 1, 3], [0, 0, 0]])
"""Jobs 0, 1 and 3 cross server 1; job 2 lies within it; job 4 does not run."""
JOBS = RingJobs(
    model_bytes_J=np.array([80.0, 80.0, 90.0, 80.0, 10.0]),
    workers_J=np.array([4, 2, 3, 4, 2]),
    comp_s_J=np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
)
PLACED = st.integers(1, 5).flatmap(
    lambda servers: st.lists(
        st.lists(st.integers(0, 3), min_size=servers, max_size=servers), min_size=1, max_size=6
    )
)
NETWORKS = st.builds(
    RingNetwork,
    inner_bytes_per_s=st.floats(1, 1e12),
    outer_bytes_per_s=st.floats(1, 1e12),
    xi1=st.floats(0, 1),
    xi2_s=st.floats(0, 10),
    alpha=st.floats(0, 5),
    reading=st.sampled_from(READINGS),
    reduce_bytes_per_s=st.floats(1, 1e12),
)


def by_hand(workers_JS: IntArray, job: int) -> int:
    """Eq. (6), word by word."""
    jobs, servers = workers_JS.shape
    most = 0
    for server in range(servers):
        crossing = 0
        for other in range(jobs):
            if 0 < workers_JS[other, server] < sum(workers_JS[other]):
                crossing += 1
        if 0 < workers_JS[job, server] < sum(workers_JS[job]):
            most = max(most, crossing)
    return most


def test_eq_6_counts_the_jobs_that_cross_the_busiest_server_and_the_job_itself() -> None:
    assert contenders_J(SHARED).tolist() == [3, 3, 0, 3, 0]
    assert servers_J(SHARED).tolist() == [2, 2, 1, 2, 0]


@given(PLACED)
def test_eq_6_is_the_brute_force_one(placed: list[list[int]]) -> None:
    workers_JS = np.array(placed)
    expected = [by_hand(workers_JS, job) for job in range(len(placed))]
    assert contenders_J(workers_JS).tolist() == expected


def test_eq_7_in_both_readings() -> None:
    p_J = np.arange(7)
    published = replace(NET, reading="published")
    assert contention_J(published, p_J).tolist() == [1, 1, 1, 1.5, 2, 2.5, 3]
    assert contention_J(NET, p_J).tolist() == [1, 1, 1.5, 2, 2.5, 3, 3.5]


def test_eq_7_printed_without_a_clamp_gives_a_negative_factor() -> None:
    k = 0.2 * 1
    assert degradation(0.5, np.array([k]))[0] == pytest.approx(-0.2)
    for reading in READINGS:
        network = replace(NET, xi1=0.2, alpha=0.5, reading=reading)
        assert bandwidth_J(network, np.array([1]))[0] == NET.outer_bytes_per_s


@given(st.floats(0, 10), st.floats(1, 100), st.floats(1e-6, 100))
def test_f_is_1_at_1_and_increasing(alpha: float, k: float, more: float) -> None:
    one, low, high = degradation(alpha, np.array([1.0, k, k + more]))
    assert one == 1
    assert low < high


@pytest.mark.parametrize("reading", READINGS)
@given(st.floats(0, 1), st.floats(0, 10))
def test_a_job_alone_has_the_whole_link_and_each_contender_takes_some(
    reading: Reading, xi1: float, alpha: float
) -> None:
    network = replace(NET, xi1=xi1, alpha=alpha, reading=reading)
    shares = bandwidth_J(network, np.arange(9))
    assert shares[0] == NET.inner_bytes_per_s
    assert shares[1] == NET.outer_bytes_per_s
    assert np.all(np.diff(shares[1:]) <= 0)


def test_eq_8_by_hand() -> None:
    """p = 3: k = 2 and f = 2.2 in ours, k = 1.5 and f = 1.6 as published; sent is 2 m (w-1)/w."""
    ours = round_s_J(NET, JOBS, SHARED)
    sent_J = np.array([120.0, 80.0, 120.0, 120.0])
    rest_J = sent_J / 2 / 400 + 0.25 * np.array([2, 2, 1, 2]) + np.array([1, 2, 3, 4])
    assert ours[:4] == pytest.approx(rest_J + sent_J * [0.022, 0.022, 0.001, 0.022])
    assert ours[4] == np.inf
    published = round_s_J(replace(NET, reading="published"), JOBS, SHARED)
    assert published[:4] == pytest.approx(rest_J + sent_J * [0.016, 0.016, 0.001, 0.016])
    assert ours[0] == pytest.approx(120 / (100 / 2.2) + 60 / 400 + 0.5 + 1)


def test_one_worker_sends_nothing() -> None:
    job = RingJobs(model_bytes_J=np.array([1e9]), workers_J=np.array([1]), comp_s_J=np.array([2.0]))
    assert round_s_J(NET, job, np.array([[0, 1]])).tolist() == [2.25]
    assert least_round_s_J(NET, job) == most_round_s_J(NET, job, 8) == [2.25]


def test_a_ring_runs_with_all_its_workers_or_none() -> None:
    with pytest.raises(ValueError, match="all its workers"):
        round_s_J(NET, JOBS, np.minimum(SHARED, 1))


@given(PLACED, NETWORKS, st.floats(0, 1e9))
def test_eq_8_lies_in_its_range(
    placed: list[list[int]], network: RingNetwork, model_bytes: float
) -> None:
    workers_JS = np.array([row for row in placed if any(row)] or [[1]])
    workers_J = workers_JS.sum(axis=1)
    jobs = RingJobs(
        model_bytes_J=np.full(len(workers_J), model_bytes),
        workers_J=workers_J,
        comp_s_J=np.linspace(0, 1, len(workers_J)),
    )
    gpus = int(workers_JS.sum(axis=0).max())
    taken_J = round_s_J(network, jobs, workers_JS)
    assert np.all(taken_J >= least_round_s_J(network, jobs) * (1 - 1e-12))
    assert np.all(taken_J <= most_round_s_J(network, jobs, gpus) * (1 + 1e-12))


def test_the_range_of_eq_8_by_hand() -> None:
    """Four GPUs in the largest server: k = 4 and f = 4.6 as published; k = 2.5, f = 2.8 in ours."""
    first = RingJobs(
        model_bytes_J=np.array([80.0]), workers_J=np.array([4]), comp_s_J=np.array([1.0])
    )
    assert least_round_s_J(NET, first) == pytest.approx([0.12 + 0.15 + 0.25 + 1])
    assert most_round_s_J(NET, first, 4) == pytest.approx([1.2 * 2.8 + 0.15 + 1 + 1])
    published = replace(NET, reading="published")
    assert most_round_s_J(published, first, 4) == pytest.approx([1.2 * 4.6 + 0.15 + 1 + 1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inner_bytes_per_s", 0.0),
        ("outer_bytes_per_s", np.inf),
        ("xi1", 1.5),
        ("xi2_s", -1.0),
        ("alpha", -0.1),
        ("alpha", np.nan),
        ("reading", "mine"),
        ("reduce_bytes_per_s", 0.0),
    ],
)
def test_a_parameter_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        replace(NET, **{name: value})
