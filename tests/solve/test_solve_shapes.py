"""The best shape of a parameter-server job, against everything that could be chosen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from shape_brute_force import Drawn, drawn, least_epoch_s, least_published_s

from warren.cost.parameter_server import (
    RATE_READINGS,
    RateReading,
    ServerLinks,
    best_workers,
    epoch_s_W,
    equal_item_s,
    transfer_s_W,
)
from warren.model.costs import FloatArray, IntArray
from warren.solve.shapes.data_kernels import Rounds
from warren.solve.shapes.data_kernels import least_epoch_s as compiled_epoch_s
from warren.solve.shapes.data_split import DataCost, least_epochs_s, split_items
from warren.solve.shapes.kinds import MachineKinds, kinds_of
from warren.solve.shapes.published_search import PROVED
from warren.solve.shapes.published_split import holds
from warren.solve.shapes.shape_search import Epoch, KindShape, best_shape


def takes_s(
    one: Drawn, reading: RateReading, servers: list[int], held: FloatArray, works: list[int],
    items: IntArray, *, whole: bool, ways: int,
) -> float:  # fmt: skip
    """What a shape takes by the cost model, machine by machine: (3.4)."""
    links = ServerLinks(
        server_bytes_P=held, server_rate_P=one.rate_N[servers], worker_rate_W=one.rate_N[works]
    )
    sent_s_W, item_s_W = ways * transfer_s_W(links, reading), one.item_s_N[works]
    if whole:
        return float(epoch_s_W(items, item_s_W, sent_s_W, one.batch).max())
    return float((items * (item_s_W + sent_s_W / one.batch)).max())


def found_s(one: Drawn, reading: RateReading, *, whole: bool, ways: int = 1) -> tuple[float, float]:
    """The epoch that is said of the best shape, and what that shape takes machine by machine."""
    kinds, kind_N = kinds_of(one.item_s_N, one.rate_N, np.ones(len(one.rate_N), dtype=int))
    epoch = Epoch(
        items=one.items, model_bytes=one.model_bytes, batch=one.batch, whole=whole,
        ways=ways, reading=reading,
    )  # fmt: skip
    shape = best_shape(kinds, epoch)
    servers, works, items, held = [], [], [], []
    for kind, count in enumerate(shape.servers_K.tolist()):
        machines = np.flatnonzero(kind_N == kind).tolist()
        servers += machines[:count]
        held += [shape.server_bytes_K[kind] * (at < shape.holding_K[kind]) for at in range(count)]
        works += machines[count:]
        items += shape.items[kind].tolist()
    assert sorted(servers + works) == list(range(len(kind_N)))
    assert sum(items) == one.items
    assert sum(held) == pytest.approx(one.model_bytes)
    took_s = takes_s(
        one, reading, servers, np.array(held), works, np.array(items), whole=whole, ways=ways
    )
    return shape.epoch_s, took_s


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("reading", RATE_READINGS)
@pytest.mark.parametrize("kinds", [1, 2, 3, 4])
def test_no_shape_that_can_be_tried_is_better(
    kinds: int, reading: RateReading, whole: bool
) -> None:
    for seed in range(15):
        one, ways = drawn(seed, kinds), 1 + seed % 2
        said_s, took_s = found_s(one, reading, whole=whole, ways=ways)
        assert took_s == pytest.approx(said_s, rel=1e-9)
        assert said_s <= least_epoch_s(one, reading, whole=whole, ways=ways) * (1 + 1e-9)


@pytest.mark.parametrize("reading", RATE_READINGS)
def test_of_equal_epochs_the_one_with_fewest_workers_is_taken(reading: RateReading) -> None:
    """One item: one of four works, or more of them in vain."""
    kinds, _ = kinds_of(np.ones(4), np.full(4, 2.0), np.ones(4, dtype=int))
    shape = best_shape(kinds, Epoch(items=1, model_bytes=1.0, batch=5, ways=1, reading=reading))
    assert int(shape.machines_K.sum()) == 1


def exact_split_s(cost: DataCost, items: int) -> float:
    """The least epoch in fractions, by the ends that a worker of each kind may have."""
    item_s = [Fraction(one) for one in cost.item_s_K.tolist()]
    sent_s = [Fraction(one) for one in cost.exchange_s_CK[0].tolist()]
    count: list[int] = cost.count_CK[0].tolist()

    def takes(kind: int, of: int) -> Fraction:
        batches = -(-of // cost.batch) if cost.whole else Fraction(of, cost.batch)
        return item_s[kind] * of + batches * sent_s[kind]

    def most(kind: int, until: Fraction) -> int:
        low, high = 0, items
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if takes(kind, middle) <= until else (low, middle - 1)
        return low

    def enough(until: Fraction) -> bool:
        return items <= sum(most(kind, until) * one for kind, one in enumerate(count) if one)

    ends = []
    for kind, one in enumerate(count):
        low, high = 1, items
        if not one or not enough(takes(kind, high)):
            continue
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(takes(kind, middle)) else (middle + 1, high)
        ends.append(takes(kind, low))
    return float(min(ends))


@given(st.data())
def test_data_of_any_size_is_split_exactly_and_all_of_it(data: st.DataObject) -> None:
    """Of real magnitudes: microseconds to minutes an item, a byte to terabytes a model."""
    kinds = data.draw(st.integers(1, 4))
    count = data.draw(
        st.lists(st.integers(0, 40), min_size=kinds, max_size=kinds).filter(lambda one: any(one))
    )
    times = st.floats(-6, 2).map(lambda power: 10**power)
    cost = DataCost(
        np.array([count]),
        np.array(data.draw(st.lists(times, min_size=kinds, max_size=kinds))),
        np.array([data.draw(st.lists(times, min_size=kinds, max_size=kinds))]),
        data.draw(st.integers(1, 10**6)),
        data.draw(st.booleans()),
    )
    items = data.draw(st.integers(1, 10**9))
    parts = split_items(cost, items)
    assert [len(part) for part in parts] == count
    assert sum(int(part.sum()) for part in parts) == items
    assert min(int(part.min()) for part in parts if len(part)) >= 0
    most_K = np.array([part.max(initial=0) for part in parts])
    took_s = float(cost.time_s(most_K[None]).max())
    assert took_s == pytest.approx(exact_split_s(cost, items), rel=1e-9)
    assert float(least_epochs_s(cost, items)[0]) == pytest.approx(took_s, rel=1e-9)
    rounds = Rounds(
        item_s_K=cost.item_s_K, rate_of_K=np.arange(kinds), items_R=np.array([float(items)]),
        often_R=np.ones(1), batch=float(cost.batch), ways=1.0, whole=cost.whole,
    )  # fmt: skip
    compiled_s = compiled_epoch_s(rounds, cost.count_CK[0], cost.exchange_s_CK[0])
    assert compiled_s == pytest.approx(took_s, rel=1e-9)


def test_the_last_round_has_what_is_left_and_counts_as_such() -> None:
    """101 items in rounds of 100, one worker: 1 s and 10 ms of items, 80 ms each way twice."""
    kinds, _ = kinds_of(np.full(2, 0.01), np.full(2, 125e6), np.ones(2, dtype=int))
    epoch = Epoch(items=101, model_bytes=10e6, batch=100, round_items=100)
    shape = best_shape(kinds, epoch)
    assert shape.epoch_s == pytest.approx(1.01 + 2 * 2 * 0.08)
    assert [part.tolist() for part in shape.items] == [[101]]


def test_each_device_of_a_machine_pulls_and_pushes_and_some_machines_only_serve() -> None:
    """Four devices over one link of 1 byte/s, 4 s each way; the machine without a device serves."""
    kinds, _ = kinds_of(np.array([1.0, np.inf]), np.array([1.0, 100.0]), np.array([4, 1]))
    shape = best_shape(kinds, Epoch(items=8, model_bytes=1.0, batch=2))
    assert (shape.servers_K.tolist(), shape.machines_K.tolist()) == ([0, 1], [1, 0])
    assert shape.epoch_s == pytest.approx(2 + 2 * 4)
    assert [part.tolist() for part in shape.items] == [[2] * 4, []]


def test_the_counterexample_of_readings() -> None:
    """b = (10, 10, 1), c = (.01, .1, .1), M = 1, B = 10, D = 100, parts of mini-batches: 2.0."""
    item_s, rate = np.array([0.01, 0.1, 0.1]), np.array([10.0, 10.0, 1.0])
    kinds, _ = kinds_of(item_s, rate, np.ones(3, dtype=int))
    for reading in RATE_READINGS:
        epoch = Epoch(items=100, model_bytes=1.0, batch=10, whole=False, ways=1, reading=reading)
        assert best_shape(kinds, epoch).epoch_s == pytest.approx(2.0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kinds", [1, 2, 3, 4])
def test_by_published_an_epoch_is_that_of_linear_programs(kinds: int, whole: bool) -> None:
    """One for each choice of servers and items, with the model in parts of any size."""
    for seed in (*range(100, 106), 3011):
        one, ways = drawn(seed, kinds), 1 + seed % 2
        said_s, _ = found_s(one, "published", whole=whole, ways=ways)
        assert said_s == pytest.approx(least_published_s(one, whole=whole, ways=ways), rel=2e-9)


@pytest.mark.parametrize("whole", [True, False])
def test_by_published_rounds_of_two_sizes_share_one_split(whole: bool) -> None:
    """Twice three items and then two: what is best for the last round alone counts once."""
    for seed in range(4):
        one = drawn(seed, 2)._replace(items=8, batch=3)
        kinds, _ = kinds_of(one.item_s_N, one.rate_N, np.ones(len(one.rate_N), dtype=int))
        epoch = Epoch(
            items=8, model_bytes=one.model_bytes, batch=3, round_items=3, whole=whole,
            reading="published",
        )  # fmt: skip
        optimum_s = least_published_s(one, whole=whole, ways=2, rounds=epoch.rounds)
        assert best_shape(kinds, epoch).epoch_s == pytest.approx(optimum_s, rel=2e-9)


def test_by_published_a_shape_is_proved_and_an_early_end_leaves_a_bound() -> None:
    """Where no box may be halved the optimum lies between the bound and the epoch."""
    left = 0
    for seed in range(40):
        one = drawn(seed, 4)
        kinds, _ = kinds_of(one.item_s_N, one.rate_N, np.ones(len(one.rate_N), dtype=int))
        epoch = Epoch(
            items=one.items, model_bytes=one.model_bytes, batch=one.batch, reading="published"
        )
        proved, early = best_shape(kinds, epoch), best_shape(kinds, epoch, most_boxes=0)
        assert proved.bound_s == pytest.approx(proved.epoch_s, rel=2e-9)
        assert early.bound_s <= proved.epoch_s <= early.epoch_s * (1 + PROVED)
        left += early.bound_s < early.epoch_s * (1 - 2 * PROVED)
    assert left


def test_by_published_an_optimum_between_corners_is_found() -> None:
    """Four of the first six serve; 3 items on one of the others, 2 on one, and 3 on two.

    42.75 where servers hold what is best for data that may be cut anywhere.
    """
    item_s = np.array([5.0, 5, 5, 5, 5, 5, 2, 2])
    one = Drawn(item_s, np.array([4.0, 4, 4, 1, 1, 1, 1, 1]), 5.0, 11, 1)
    better_s = takes_s(
        one, "published", [0, 1, 3, 4], np.array([1.4375, 1.4375, 1.0625, 1.0625]), [2, 5, 6, 7],
        np.array([3, 2, 3, 3]), whole=True, ways=2,
    )  # fmt: skip
    said_s, took_s = found_s(one, "published", whole=True, ways=2)
    assert (said_s, took_s, better_s) == (pytest.approx(40.5),) * 3


@given(st.data())
def test_a_split_is_reported_to_be_there_just_if_a_linear_program_finds_one(
    data: st.DataObject,
) -> None:
    """By ``published``, server by server; workers of each rate wait so long at most."""
    numbers = st.integers(1, 12).map(float)
    rate_K = np.sort(data.draw(st.lists(numbers, min_size=1, max_size=4, unique=True)))
    rate_A = np.sort(data.draw(st.lists(numbers, min_size=1, max_size=3, unique=True)))
    servers_K = np.array([data.draw(st.integers(1, 3)) for _ in rate_K])
    workers = data.draw(st.integers(1, 8))
    rate_P = np.repeat(rate_K, servers_K)
    between_AP = np.minimum(rate_A[:, None], rate_P)
    most_s = max(workers, 1) / float(rate_P.sum())
    wait_s_A = np.array([most_s * data.draw(st.floats(0.5, 4)) for _ in rate_A])
    # All that servers can hold so that nobody waits longer.
    terms = [np.vstack([workers * np.diag(1 / of_P), 1 / of_P]) for of_P in between_AP]
    found = linprog(
        -np.ones(len(rate_P)), A_ub=np.vstack(terms), b_ub=np.repeat(wait_s_A, len(rate_P) + 1)
    )
    held_K = np.zeros(len(rate_K))
    for model_bytes, there in ((-found.fun * (1 - 1e-6), True), (-found.fun * (1 + 1e-6), False)):
        told = holds(rate_K, rate_A, servers_K, workers, model_bytes, wait_s_A, held_K)
        assert told == there


def test_by_published_devices_of_a_machine_are_workers_with_a_link_each() -> None:
    """Two machines of two devices wait as four of one do, where others serve."""

    def takes_s(count: int, devices: int) -> float:
        kinds = MachineKinds(
            count_K=np.array([count, 1, 2]), item_s_K=np.array([1.0, np.inf, np.inf]),
            rate_K=np.array([2.0, 1.0, 4.0]), devices_K=np.array([devices, 1, 1]),
        )  # fmt: skip
        epoch = Epoch(items=9, model_bytes=3.0, batch=2, reading="published")
        return best_shape(kinds, epoch, servers_K=np.array([0, 1, 2])).epoch_s

    assert takes_s(2, 2) == pytest.approx(takes_s(4, 1), rel=1e-9)
    assert takes_s(2, 1) > takes_s(2, 2)


def of_the_paper(best: float) -> dict[RateReading, KindShape]:
    """3.4.5: 28 machines and 4 that compute twice as fast, on links of 5 Gbit/s in place of 1.25.

    An item's time is that with which 32 equal machines have ``best`` workers.
    """
    model_bytes, batch, rate = 284e6, 10_000, 1.25e9 / 8
    item_s = model_bytes / (rate * batch) / (32 / best - 1) ** 2
    kinds = MachineKinds(
        count_K=np.array([28, 4]), item_s_K=np.array([item_s, item_s / 2]),
        rate_K=np.array([rate, 4 * rate]), devices_K=np.array([1, 1]),
    )  # fmt: skip
    readings: tuple[RateReading, ...] = ("nic", "published")
    return {
        one: best_shape(
            kinds,
            Epoch(
                items=1_900_000, model_bytes=model_bytes, batch=batch, whole=False, ways=1,
                reading=one,
            ),
        )
        for one in readings
    }  # fmt: skip


@pytest.mark.parametrize(("best", "servers"), [(24.0, [9, 0]), (24.6, [8, 0]), (25.3, [8, 0])])
def test_of_28_machines_and_4_fast_ones_those_of_the_paper_serve(
    best: float, servers: list[int]
) -> None:
    """(W:19+4, S:9+0); with a little more to compute (20+4, 8+0)."""
    assert of_the_paper(best)["published"].servers_K.tolist() == servers


def test_by_what_links_carry_fast_ones_serve_and_an_epoch_is_15_to_18_percent_shorter() -> None:
    for best in (23.5, 24.0):
        found = of_the_paper(best)
        slow, fast = found["nic"].servers_K.tolist()
        assert (slow, fast >= 3) == (0, True)
        assert 0.82 <= found["nic"].epoch_s / found["published"].epoch_s <= 0.85


@given(
    machines=st.integers(2, 60), item_s=st.floats(1e-4, 10), model_bytes=st.floats(1, 1e4),
    batch=st.integers(1, 100),
)  # fmt: skip
def test_equal_machines_have_the_workers_of_the_closed_form(
    machines: int, item_s: float, model_bytes: float, batch: int
) -> None:
    """(3.5), with so many items that a whole one does not matter."""
    kinds = MachineKinds(
        count_K=np.array([machines]),
        item_s_K=np.array([item_s]),
        rate_K=np.array([1.0]),
        devices_K=np.array([1]),
    )
    items = 10**9
    shape = best_shape(
        kinds, Epoch(items=items, model_bytes=model_bytes, batch=batch, whole=False, ways=1)
    )
    workers = best_workers(
        machines=machines, item_s=item_s, model_bytes=model_bytes, rate=1.0, batch=batch
    )
    closed_s = (
        items
        / workers
        * equal_item_s(
            workers,
            machines=machines,
            item_s=item_s,
            model_bytes=model_bytes,
            rate=1.0,
            batch=batch,
        )
    )
    assert shape.epoch_s == pytest.approx(closed_s, rel=1e-6)
