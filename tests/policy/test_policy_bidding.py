"""Types of device by price: what gittins does with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from warren.core.journal import Step
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.policy.place.gittins.type_market import new_market
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

S = 10**9


def journal(run: Run, costs: CostTable, **options: object) -> bytes:
    written = bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy("gittins", options), port=SimPort(run, costs),
        sink=written.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return bytes(written)


def world(
    types: Sequence[str], comp_s: Sequence[Sequence[float]], rounds: int = 1, **fields: int
) -> tuple[Run, CostTable]:
    """A job a row of ``comp_s``, all there from the beginning; no time to synchronize."""
    jobs = [worlds.job(k, rounds=rounds, **fields) for k in range(len(comp_s))]
    costs = worlds.costs(comp_s, [[0.0] * len(comp_s[0])] * len(comp_s))
    return worlds.run(worlds.cluster(types), jobs), costs


def ends_s(run: Run, costs: CostTable, **options: object) -> list[float]:
    found: list[float] = (read_history(journal(run, costs, **options)).finish_ns_J / S).tolist()
    return found


def devices_of(run: Run, costs: CostTable, job: int, **options: object) -> set[int]:
    steps = (one for one in decode(journal(run, costs, **options)) if isinstance(one, Step))
    return {one.device for step in steps for one in step.assign if one.job == job}


@pytest.mark.parametrize("gains", [0, 1])
def test_the_fast_device_goes_to_the_job_that_gains_most_by_it_whoever_comes_first(
    gains: int,
) -> None:
    comp_s = [[1.0, 1.1], [1.0, 1.1]]
    comp_s[gains] = [1.0, 8.0]
    found = ends_s(*world(["V", "K"], comp_s, rounds=20))
    assert found[gains] == 20
    assert found[1 - gains] == pytest.approx(21.9), "its last round on the fast one, free by then"


def test_a_job_with_four_times_as_much_left_bids_half() -> None:
    """The root of the time left: 16 rounds of 1 s on the V are worth 1/4, 64 are worth 1/8."""
    run, costs = world(["V", "K"], [[1.0, 4.0], [1.0, 4.0]], rounds=64)
    view = State(run, costs).view()
    market = new_market(view).bid(view, 0, 16.0).bid(view, 1, 64.0)
    short, long = market.bids.get(0), market.bids.get(1)
    assert short is not None
    assert long is not None
    assert short.value_T == pytest.approx((1 / 4, 1 / 16))
    assert long.value_T == pytest.approx((1 / 8, 1 / 32))


def test_of_jobs_that_are_alike_in_all_each_type_has_as_many_as_it_has_devices() -> None:
    """At the price of the V all six are indifferent; if all went to the V, the K would idle."""
    run, costs = world(["V", "V", "K", "K", "K", "K"], [[1.0, 3.0]] * 6)
    assert sorted(ends_s(run, costs)) == [1, 1, 3, 3, 3, 3]


def test_a_job_waits_for_its_type_but_takes_one_that_is_slower_by_its_patience_at_most() -> None:
    """Two tasks a round; the V is worth more than the K, but there is one."""
    run, costs = world(["V", "K"], [[1.0, 3.0]], rounds=4, scale=2)
    assert (ends_s(run, costs), devices_of(run, costs, 0)) == ([8.0], {0})
    assert (ends_s(run, costs, patience=3), devices_of(run, costs, 0, patience=3)) == (
        [12.0],
        {0, 1},
    )


def test_a_job_to_which_no_type_is_worth_its_price_takes_what_is_free() -> None:
    """Four short jobs pay more for the four V than the long one, which then has the K."""
    jobs = [worlds.job(k, rounds=1) for k in range(4)] + [worlds.job(4, rounds=50)]
    run = worlds.run(worlds.cluster(["V"] * 4 + ["K"]), jobs)
    found = ends_s(run, worlds.costs([[1.0, 9.0]] * 5, [[0.0, 0.0]] * 5))
    assert found[:4] == [1, 1, 1, 1]


def test_jobs_run_where_they_fit_and_nowhere_else() -> None:
    inf = float("inf")
    run, costs = world(["V", "K"], [[inf, 2.0], [1.0, inf], [1.0, 1.5]], rounds=3)
    assert devices_of(run, costs, 0) == {1}
    assert devices_of(run, costs, 1) == {0}


def test_weights_count_if_asked_for() -> None:
    jobs = [worlds.job(k, rounds=9, weight=weight) for k, weight in enumerate((1.0, 10.0))]
    run = worlds.run(worlds.cluster(["V"]), jobs)
    costs = worlds.costs([[1.0]] * 2, [[0.0]] * 2)
    assert ends_s(run, costs)[1] == 18
    assert ends_s(run, costs, weighted=True)[1] < 12


def test_without_prices_the_first_job_takes_what_is_free() -> None:
    """Job 0 gains little by the V and job 1 much: with prices job 1 has it from the first."""
    run, costs = world(["V", "K"], [[1.0, 1.1], [1.0, 8.0]], rounds=20)
    assert ends_s(run, costs) == [pytest.approx(21.9), 20]
    assert ends_s(run, costs, prices=False)[1] > 20
    assert devices_of(run, costs, 1, prices=False) == {0, 1}


@pytest.mark.parametrize("patience", [0.9, float("nan"), -1])
def test_patience_below_one_is_refused(patience: float) -> None:
    with pytest.raises(SpecError, match="patience is a number, 1 or more"):
        place_policy("gittins", {"patience": patience})
