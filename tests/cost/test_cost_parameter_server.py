"""Closed forms of parameter servers against numbers by hand, a brute force, and the papers'."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.max_min import max_min_rates_F
from warren.cost.parameter_server import (
    RATE_READINGS,
    RateReading,
    ServerLinks,
    StepTimes,
    balanced_epoch_s,
    best_workers,
    epoch_s_W,
    equal_item_s,
    equal_parts_P,
    equal_transfer_s,
    net_s,
    parts_by_rate_P,
    round_s,
    transfer_s_W,
)
from warren.model.costs import FloatArray

RATE = st.floats(0.1, 1e3)
COUNT = st.integers(1, 12)


def links(sizes: list[float], servers: list[float], workers: list[float]) -> ServerLinks:
    return ServerLinks(
        server_bytes_P=np.array(sizes),
        server_rate_P=np.array(servers),
        worker_rate_W=np.array(workers),
    )


def equal(model: float, workers: int, servers: int, at_w: float, at_ps: float) -> ServerLinks:
    return links([model / servers] * servers, [at_ps] * servers, [at_w] * workers)


@given(RATE, COUNT, COUNT, RATE, RATE, st.floats(0, 2))
def test_eq_16_is_reading_nic_of_3_4_on_equal_machines(
    model: float, workers: int, servers: int, at_w: float, at_ps: float, latency_s: float
) -> None:
    printed = equal_transfer_s(
        model, workers=workers, servers=servers, worker_rate=at_w, server_rate=at_ps,
        latency_s=latency_s,
    )  # fmt: skip
    found = transfer_s_W(equal(model, workers, servers, at_w, at_ps), "nic", latency_s)
    assert found == pytest.approx([printed] * workers)


@given(RATE, COUNT, COUNT, RATE)
def test_3_4_has_one_reading_where_all_links_are_equal(
    model: float, workers: int, servers: int, rate: float
) -> None:
    one = equal(model, workers, servers, rate, rate)
    assert [transfer_s_W(one, reading)[0] for reading in RATE_READINGS] == pytest.approx(
        [model / rate * max(1, workers / servers)] * 3
    )


@given(RATE, COUNT, RATE)
def test_t_net_of_4_1_is_eq_16_at_equal_numbers_of_workers_and_servers(
    model: float, machines: int, rate: float
) -> None:
    one = equal(model, machines, machines, rate, rate)
    assert net_s(model, rate) == pytest.approx(2 * transfer_s_W(one)[0])
    assert net_s(model, rate, ways=1) == pytest.approx(transfer_s_W(one)[0])


def test_3_4_by_hand_in_each_reading() -> None:
    """Servers of 6 and 2 bytes at 3 and 2 a second; workers at 1 and 4 a second."""
    one = links([6.0, 2.0], [3.0, 2.0], [1.0, 4.0])
    assert transfer_s_W(one, "nic").tolist() == [8.0, 4.0]  # 8 / 1; 6 * 2 / 3
    assert transfer_s_W(one, "server").tolist() == [4.0, 4.0]
    assert transfer_s_W(one, "published").tolist() == [12.0, 4.0]  # 6 * 2 / 1; 6 * 2 / 3
    assert round_s(one, np.array([1.0, 2.0]), latency_s=0.5) == 1 + 2 * 8.5
    assert round_s(one, np.array([1.0, 9.0]), "server", ways=1) == 13.0


@given(RATE, st.lists(RATE, min_size=1, max_size=5), st.lists(RATE, min_size=1, max_size=5))
def test_with_the_model_split_by_rate_nic_is_m_max_w_over_sum_b_and_1_over_b_i(
    model: float, servers: list[float], workers: list[float]
) -> None:
    parts_P = parts_by_rate_P(model, np.array(servers))
    one = links(parts_P.tolist(), servers, workers)
    by_hand = [model * max(len(workers) / sum(servers), 1 / rate) for rate in workers]
    assert transfer_s_W(one, "nic") == pytest.approx(by_hand)
    even = links(equal_parts_P(model, len(servers)).tolist(), servers, workers)
    assert np.all(transfer_s_W(even, "nic") >= transfer_s_W(one, "nic") * (1 - 1e-12))


def pull_s(one: ServerLinks) -> float:
    """When the last byte is there if each server sends each worker its part, max-min fair."""
    servers, workers = len(one.server_rate_P), len(one.worker_rate_W)
    crosses_FL = np.zeros((servers * workers, servers + workers), dtype=np.bool_)
    for flow, (server, worker) in enumerate(product(range(servers), range(workers))):
        crosses_FL[flow, [server, servers + worker]] = True
    left_F: FloatArray = np.repeat(one.server_bytes_P, workers)
    capacity_L, now_s = np.concatenate((one.server_rate_P, one.worker_rate_W)), 0.0
    while (on_F := left_F > 1e-9 * one.model_bytes).any():
        rate_F = np.zeros(len(left_F))
        rate_F[on_F] = max_min_rates_F(capacity_L, crosses_FL[on_F], np.full(on_F.sum(), math.inf))
        step_s = float((left_F[on_F] / rate_F[on_F]).min())
        left_F, now_s = left_F - rate_F * step_s, now_s + step_s
    return now_s


@given(RATE, COUNT, COUNT, RATE, RATE)
def test_fair_flows_over_equal_links_take_eq_16(
    model: float, workers: int, servers: int, at_w: float, at_ps: float
) -> None:
    one = equal(model, workers, servers, at_w, at_ps)
    assert pull_s(one) == pytest.approx(transfer_s_W(one).max(), rel=1e-6)


@given(RATE, st.lists(RATE, min_size=1, max_size=4), st.lists(RATE, min_size=1, max_size=4))
def test_no_fair_flows_over_unequal_links_are_faster_than_reading_nic(
    model: float, servers: list[float], workers: list[float]
) -> None:
    one = links(equal_parts_P(model, len(servers)).tolist(), servers, workers)
    assert pull_s(one) >= transfer_s_W(one, "nic").max() * (1 - 1e-6)


def test_eq_13_to_20_by_hand() -> None:
    """2 s a transfer, 3 s of computation, 1 s at the servers."""
    one = StepTimes(transfer_s=2.0, compute_s=3.0, sync_s=1.0)
    assert (one.most_s, one.least_s) == (8.0, 4.0)
    gamma = 2 / 5 * 8 / 12
    assert one.overlap == pytest.approx(gamma)
    assert one.step_s == pytest.approx((1 - gamma) * 8 + gamma * 4)
    assert one.steps_per_s == pytest.approx(1 / one.step_s)


@given(RATE)
def test_eq_19_without_computation_is_four_thirds_of_a_transfer(transfer_s: float) -> None:
    one = StepTimes(transfer_s=transfer_s, compute_s=0.0)
    assert one.step_s == pytest.approx(4 / 3 * transfer_s)


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_eq_19_lies_between_eq_17_and_eq_18(pull: float, compute: float, sync: float) -> None:
    one = StepTimes(transfer_s=pull, compute_s=compute, sync_s=sync)
    assert 0 <= one.overlap <= 1
    assert one.least_s <= one.step_s * (1 + 1e-12) <= one.most_s * (1 + 1e-11)


def test_a_step_of_no_time_has_no_overlap_and_no_end_of_speed() -> None:
    nothing = StepTimes(transfer_s=0.0, compute_s=0.0)
    assert (nothing.overlap, nothing.step_s, nothing.steps_per_s) == (0.0, 0.0, math.inf)


def test_eq_3_4_counts_whole_mini_batches() -> None:
    found = epoch_s_W(np.array([20, 21, 0]), np.full(3, 0.1), np.full(3, 2.0), batch=10)
    assert found == pytest.approx([2 + 4, 2.1 + 6, 0])


def shapes(count: int) -> Iterator[list[bool]]:
    """All ways in which machines may be workers (True) and servers, some of each."""
    for roles in product([True, False], repeat=count):
        if any(roles) and not all(roles):
            yield list(roles)


@pytest.mark.parametrize(
    ("reading", "best_s"), [("server", 2.4), ("published", 30 / 11), ("nic", 2.0)]
)
def test_splitting_the_model_by_rate_reaches_the_optimum_in_reading_nic_alone(
    reading: RateReading, best_s: float
) -> None:
    """Machines of 10, 10 and 1 a second; an item takes .01, .1, .1 s. The best there is: 2 s."""
    rates, item_s = np.array([10.0, 10.0, 1.0]), np.array([0.01, 0.1, 0.1])
    found = []
    for roles in shapes(3):
        works = np.array(roles)
        one = ServerLinks(
            server_bytes_P=parts_by_rate_P(1.0, rates[~works]),
            server_rate_P=rates[~works],
            worker_rate_W=rates[works],
        )
        exchange_s_W = transfer_s_W(one, reading)
        found.append(balanced_epoch_s(100, item_s[works], exchange_s_W, batch=10))
    assert min(found) == pytest.approx(best_s)


def cruise_epochs(equal_best: float, reading: RateReading) -> dict[tuple[int, int], float]:
    """Epochs of 3.4.4's 28 slow and 4 fast machines by (slow, fast) workers; the others serve.

    A fast one computes twice, and sends 4 times as fast. Where all were slow, ``equal_best`` of 32
    would be workers (3.5), which gives the model's bytes.
    """
    model = (32 / equal_best - 1) ** 2
    found = {}
    for slow, fast in product(range(29), range(5)):
        if 0 < slow + fast < 32:
            rates = np.array([1.0] * (28 - slow) + [4.0] * (4 - fast))
            one = ServerLinks(
                server_bytes_P=parts_by_rate_P(model, rates),
                server_rate_P=rates,
                worker_rate_W=np.array([1.0] * slow + [4.0] * fast),
            )
            item_s_W = np.array([1.0] * slow + [0.5] * fast)
            found[slow, fast] = balanced_epoch_s(1, item_s_W, transfer_s_W(one, reading), 1)
    return found


@pytest.mark.parametrize(
    ("equal_best", "paper"), [(24.0, (19, 4)), (24.6, (20, 4)), (25.3, (20, 4))]
)
def test_reading_published_gives_the_shapes_of_3_4_4(
    equal_best: float, paper: tuple[int, int]
) -> None:
    found = cruise_epochs(equal_best, "published")
    assert min(found, key=lambda shape: found[shape]) == paper


def test_reading_nic_wants_the_fast_machines_as_servers_and_15_percent_less_time() -> None:
    found = cruise_epochs(24.0, "nic")
    assert min(found, key=lambda shape: found[shape]) == (28, 0)
    assert found[28, 0] / found[19, 4] == pytest.approx(0.85, abs=0.005)


@given(st.integers(2, 40), RATE, RATE, RATE, st.integers(1, 50))
def test_the_closed_form_of_3_5_is_the_best_of_all_numbers_of_workers(
    machines: int, item_s: float, model: float, rate: float, batch: int
) -> None:
    known = {"item_s": item_s, "model_bytes": model, "rate": rate, "batch": batch}
    each = {
        workers: equal_item_s(workers, machines=machines, **known) / workers  # type: ignore[arg-type]
        for workers in range(1, machines)
    }
    best = best_workers(machines=machines, **known)  # type: ignore[arg-type]
    assert each[best] <= min(each.values()) * (1 + 1e-12)


def test_3_5_gives_24_of_32_where_the_model_is_a_ninth_of_what_computes() -> None:
    assert best_workers(machines=32, item_s=1.0, model_bytes=1 / 9, rate=1.0, batch=1) == 24
    assert best_workers(machines=64, item_s=1.0, model_bytes=1 / 9, rate=1.0, batch=1) == 48
    assert best_workers(machines=32, item_s=0.0, model_bytes=1.0, rate=1.0, batch=1) == 16


@pytest.mark.parametrize(
    ("sizes", "servers", "workers", "message"),
    [
        ([1.0], [1.0, 2.0], [1.0], "not of one length"),
        ([], [], [1.0], "needs a server and a worker"),
        ([1.0], [1.0], [], "needs a server and a worker"),
        ([1.0], [0.0], [1.0], "no rate above 0"),
        ([1.0], [1.0], [0.0], "no rate above 0"),
        ([-1.0], [1.0], [1.0], "negative or not finite"),
        ([math.inf], [1.0], [1.0], "negative or not finite"),
    ],
)
def test_links_that_cannot_be_are_refused(
    sizes: list[float], servers: list[float], workers: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        links(sizes, servers, workers)


def test_one_machine_is_too_few_for_a_worker_and_a_server() -> None:
    with pytest.raises(ValueError, match="two machines"):
        best_workers(machines=1, item_s=1.0, model_bytes=1.0, rate=1.0, batch=1)
