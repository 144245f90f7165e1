"""HLAS-P and HLAS-L: the paper's toy, the order in queues, what is predicted, and how often."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.run import Grain, Losses, Run, Truth
from warren.model.view import Progress
from warren.policy.place.hlas import hlas_l, hlas_p
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds
from told import STOP, S, Told, alike, past, ran


def fig_12(**fields: object) -> tuple[Run, CostTable]:
    """J1, J2 and J3 are j0, j1 and j2: 2, 3 and 4 rounds of one unit task on one GPU."""
    return alike([worlds.job(index, rounds=2 + index, **fields) for index in range(3)])


THREE = "1 s, 2 s, 3 s"


def test_fig_12_c_with_partial_knowledge_the_mean_jct_is_17_thirds() -> None:
    """One job like J3 has ended, after 3 rounds: J3 will run at least 3."""
    found = ran(*fig_12(), "hlas-p", past(j2=(3,)), thresholds=THREE)
    assert found.jct_s == [3.0, 5.0, 9.0]
    assert found.turns == [0, 1, 0, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("name", ["hlas-p", "hlas-l"])
def test_where_nothing_can_be_predicted_both_decide_as_hlas(name: str) -> None:
    assert ran(*fig_12(), name, thresholds=THREE).jct_s == [4.0, 7.0, 9.0]
    for seed in range(6):
        grain = Grain(text="3 rounds", rounds=3) if seed % 2 else Grain()
        run, costs = worlds.random_world(seed, jobs=8, grain=grain)
        plain = ran(run, costs, "hlas", age="4 s")
        assert ran(run, costs, name, age="4 s").turns == plain.turns


def test_sizes_are_r_while_r_p_is_consumed_and_a_new_prediction_is_made_after_it() -> None:
    run, costs = alike([worlds.job(0, rounds=9)])
    (ahead,) = ran(run, costs, "hlas-p", past(j0=(4, 8))).ahead
    assert ahead == {0: 4, 1: 3, 2: 2, 3: 1, 4: 4, 5: 3, 6: 2, 7: 1, 8: 0}


def test_in_a_queue_the_largest_r_p_goes_first_and_jobs_without_one_by_arrival_after_them() -> None:
    run, costs = alike([worlds.job(k, rounds=rounds) for k, rounds in enumerate((2, 3, 5, 1))])
    found = ran(run, costs, "hlas-p", past(j1=(3,), j2=(5,)), thresholds="100 s")
    assert found.turns == [2, 2, 1, 2, 1, 2, 1, 2, 0, 0, 3]


def test_a_job_of_r_p_in_a_later_queue_waits_for_those_of_earlier_queues() -> None:
    run, costs = alike([worlds.job(0, rounds=3), worlds.job(1, rounds=3)])
    found = ran(run, costs, "hlas-p", past(j0=(3,)), thresholds="3 s")
    assert found.turns == [1, 1, 1, 0, 0, 0]


def test_jobs_that_ended_in_this_run_are_history_for_later_ones() -> None:
    jobs = [worlds.job(0, rounds=3), worlds.job(1, rounds=5, arrival_ns=10 * S)]
    jobs = [replace(one, name=f"{one.index}-net") for one in jobs]
    first, second = ran(*alike(jobs), "hlas-p").ahead
    assert set(first.values()) == {0}
    assert second == {0: 3, 1: 2, 2: 1, 3: 0, 4: 0}


def test_the_steps_of_fig_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alpha is 6; 12 rounds more than 4 in history: 9; four times as slow as j0: half of it."""
    # It dares nothing at first, so that a prediction is due after four rounds.
    monkeypatch.setattr(hlas_p, "sure_rounds", lambda seen, *_, **__: 6 if len(seen) >= 4 else 0)
    losses = {0: lambda r: 1 / (1 + r), 1: lambda r: 1 / (1 + r / 4)}
    cases = [
        ("", {}, {}, 0, "no curve to fit"),
        ("", losses, {}, 6, "its curve says 6"),
        ("", losses, {"j1": (4, 16)}, 9, "its curve says 6, 2 jobs of the same name 12"),
        ("search", losses, {"j1": (4, 16)}, 4,
         "its curve says 6, 2 jobs of the same name 12, 50% of that, far behind in its search"),
    ]  # fmt: skip
    for group, seen, known, ahead, why in cases:
        jobs = [worlds.job(k, rounds=20, group=group, stop=STOP) for k in range(2)]
        found = ran(*alike(jobs, devices=2), "hlas-p", past(**known), seen, groups=2)
        assert found.ahead[1][4] == ahead, why
        assert why in found.said[1, 4]


def test_who_stops_by_another_metric_is_no_measure_of_standing() -> None:
    losses = {0: lambda r: 1 / (1 + r), 1: lambda r: 1 / (1 + r / 4)}
    for metric, told in (("loss", True), ("error", False)):
        stops = replace(STOP, metric=metric), STOP
        jobs = [worlds.job(k, rounds=9, group="search", stop=stops[k]) for k in range(2)]
        found = ran(*alike(jobs, devices=2), "hlas-p", losses=losses, groups=2)
        assert ("far behind in its search" in found.said[1, 4]) == told


def fits_asked(monkeypatch: pytest.MonkeyPatch, name: str, fit: Callable[[int], int]) -> list[int]:
    """After which rounds of a job of 400 a fit was asked for."""
    asked: list[int] = []

    def told(progress: Progress, target: float, **_: object) -> int:
        assert target == 0.1
        asked.append(len(progress))
        return fit(len(progress))

    monkeypatch.setattr(hlas_p, "sure_rounds", told)
    monkeypatch.setattr(hlas_l, "optimus_rounds", told)
    ran(*alike([worlds.job(0, rounds=400, stop=STOP)]), name, losses={0: lambda r: 1 / r})
    return asked


def test_predictions_are_made_so_often_as_the_logarithm_of_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    often = [1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94, 118, 148, 185, 232, 290]
    often += [363]
    assert fits_asked(monkeypatch, "hlas-p", lambda rounds: 0) == often
    assert fits_asked(monkeypatch, "hlas-l", lambda rounds: 0) == often
    # What is not consumed is not predicted anew by hlas-p; hlas-l expects, and looks again.
    assert fits_asked(monkeypatch, "hlas-p", lambda rounds: rounds) == [2**k for k in range(9)]
    assert fits_asked(monkeypatch, "hlas-l", lambda rounds: rounds) == often


def test_hlas_l_takes_expected_sizes_and_in_a_queue_the_order_of_arrival(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each runs one round unseen, then its fit is exact: J1 is in Q3, J2 and J3 in Q4."""
    sizes = {0.2: 2, 0.3: 3, 0.4: 4}

    def exact(progress: Progress, target: float) -> float:
        return sizes[progress.values_P[0].item()] - len(progress)

    monkeypatch.setattr(hlas_l, "optimus_rounds", exact)
    losses = {k: lambda r, loss=loss: loss for k, loss in enumerate(sizes)}
    found = ran(*fig_12(stop=STOP), "hlas-l", losses=losses, thresholds=THREE)
    assert found.turns == [0, 1, 2, 0, 1, 1, 2, 2, 2]
    assert found.jct_s == [4.0, 6.0, 9.0]
    assert found.said[1, 1] == "is expected to run 2 rounds more (fitted after 1)"


def endless(monkeypatch: pytest.MonkeyPatch, name: str, rounds: float) -> list[int]:
    """Turns of a job whose fit expects so many rounds, and of one of nine rounds without a fit."""
    for module, fit in ((hlas_p, "sure_rounds"), (hlas_l, "optimus_rounds")):
        monkeypatch.setattr(module, fit, lambda progress, target, **_: rounds)
    jobs = [worlds.job(0, rounds=3, stop=STOP), worlds.job(1, rounds=9)]
    return ran(*alike(jobs), name, losses={0: lambda r: 0.5}).turns


def test_of_very_many_sure_rounds_hlas_p_puts_a_job_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert endless(monkeypatch, "hlas-p", 2**50) == [0, *[1] * 9, 0, 0]


def test_a_fit_that_never_comes_to_its_target_tells_hlas_l_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = endless(monkeypatch, "hlas-l", 0)
    assert endless(monkeypatch, "hlas-l", float("inf")) == unknown


@pytest.mark.parametrize("name", ["hlas-p", "hlas-l"])
def test_who_has_waited_too_long_goes_first_whatever_is_predicted(name: str) -> None:
    jobs = [worlds.job(0, rounds=10)]
    jobs += [worlds.job(k, arrival_ns=(k - 1) * S) for k in range(1, 61)]
    run, costs = alike(sorted(jobs, key=lambda one: one.arrival_ns))
    known = past(j0=(10,))
    starved = ran(run, costs, name, known, thresholds="1 s, 10 s").jct_s[0]
    assert starved == 70
    aged = ran(run, costs, name, known, thresholds="1 s, 10 s", age="20 s").jct_s[0]
    assert aged <= 20 + 10


@pytest.mark.parametrize("name", ["hlas-p", "hlas-l"])
def test_of_values_that_a_run_shows_hlas_p_expects_no_more_rounds_than_come(name: str) -> None:
    run, costs = alike([worlds.job(k, rounds=90, stop=STOP) for k in range(8)], devices=8)
    run = replace(run, truth=Truth(losses=Losses(noise=0.01)))
    size_J = np.zeros(8)

    def observe(state: Any, _: object) -> None:
        view = state.view()
        for job in np.flatnonzero(view.open_J).tolist():
            ahead = core.memory.foresight.ahead(view, job)  # type: ignore[attr-defined]
            size_J[job] = max(size_J[job], view.round_J[job] + ahead if ahead else 0)

    policy = place_policy(name, {"groups": 8})
    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="sim",
        observe=observe,
    )  # fmt: skip
    core.execute()
    assert (size_J > 0).all()  # of each something was expected
    assert name == "hlas-l" or (size_J <= 90).all()  # and by hlas-p not more than came


def test_a_sentence_tells_what_is_predicted_and_why() -> None:
    run, costs = alike([worlds.job(k, rounds=9) for k in range(3)])
    policy = Told("hlas-p", {}, thresholds="2 s")
    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs), past=past(j1=(4, 8)),
        sink=len, world="sim",
    )  # fmt: skip
    core.begin()
    core.step(core.port.next_events())
    assert core.explain(1) == (
        "has attained 0.0 s, will run at least 4 rounds more (predicted after 0: "
        "no curve to fit, 2 jobs of the same name 4), queue 2 of 2; "
        "1 jobs go first when a device is idle"
    )
    assert core.explain(2) == (
        "has attained 0.0 s, may end any time (predicted after 0: no curve to fit), "
        "queue 1 of 2; 0 jobs go first when a device is idle"
    )
