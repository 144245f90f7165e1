"""The flow policies by hand: who goes first of jobs that are seen on one link."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from immutables import Map

from warren.model.errors import SpecError
from warren.model.job import Stop
from warren.model.view import Progress
from warren.policy.common.job_traffic import JobTraffic
from warren.policy.flow.baraat import Baraat
from warren.policy.flow.intensity import Intensity
from warren.policy.flow.maif import Maif
from warren.policy.flow.sincronia import Sincronia
from warren.policy.registry import policy_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q

PERIOD_S = 10.0


class Seen:
    """What the metric of each job has come to."""

    def __init__(self, *curves: tuple[list[int], list[float]]) -> None:
        self.curves = curves

    def of(self, job: int) -> Progress:
        rounds, values = self.curves[job]
        return Progress(np.array(rounds, dtype=np.int64), np.array(values))


def shown(policy: Any, jobs: int = 3, **columns: Any) -> Any:
    """A view of jobs that have arrived, with these columns."""
    run, costs = q.small_world(jobs=jobs)
    stopped = tuple(
        replace(job, stop=Stop(metric="accuracy", reaches=0.99)) for job in run.workload.jobs
    )
    run = replace(run, workload=replace(run.workload, jobs=stopped))
    core, _, _ = q.core_of(run, costs, q.Bound(), (policy,))
    view = core.state.view(())
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    there = np.ones(jobs, dtype=bool)
    stated = {"arrived_J": there, "jobs": stopped, "costs": costs}
    stated |= {"servers_J": ((),) * jobs, "shape_J": (None,) * jobs}
    stated["scale_J"] = np.array([job.scale for job in stopped])
    # Columns of a blind view end with the last job that has arrived.
    zeros = {one: np.zeros(jobs, dtype=np.int64) for one in ("class_J", "arrival_ns_J")}
    not_done = {"done_J": np.zeros(jobs, dtype=bool)}
    return type(view)(**(fields | stated | zeros | not_done | columns))


def rising(gap: float, points: int) -> tuple[list[int], list[float]]:
    """An accuracy that misses 0.9 by less and less."""
    rounds = list(range(1, points + 1))
    return rounds, [0.9 - gap / (1 + at / 3) for at in rounds]


def traffic(jobs: int, fastest_s: float = 1.0) -> JobTraffic:
    return JobTraffic(
        tasks={job: {0: 1} for job in range(jobs)},
        fastest_ns=dict.fromkeys(range(jobs), fastest_s * q.S),
    )


def decided(policy: Maif, view: Any, seen: JobTraffic) -> dict[int, int]:
    memory = replace(policy.initial(view), traffic=seen)
    return dict(policy.decide(view, memory)[0].classes)


def test_maif_puts_the_job_that_has_most_to_learn_first() -> None:
    policy = Maif(period_s=PERIOD_S)
    late, early, middle = rising(0.8, 60), rising(0.8, 5), rising(0.8, 15)
    view = shown(policy, progress=Seen(late, early, middle))
    assert decided(policy, view, traffic(3)) == {1: 1, 2: 2, 0: 3}


def test_maif_counts_the_steps_that_a_period_has_room_for() -> None:
    """Of two jobs with one curve the faster gains more."""
    policy = Maif(period_s=PERIOD_S)
    view = shown(policy, jobs=2, progress=Seen(rising(0.8, 8), rising(0.8, 8)))
    seen = replace(traffic(2), fastest_ns=Map({0: 4.0 * q.S, 1: 0.5 * q.S}))
    assert decided(policy, view, seen) == {1: 1, 0: 2}


def test_maif_leaves_jobs_in_class_0_of_which_it_knows_too_little() -> None:
    policy = Maif(period_s=PERIOD_S)
    view = shown(policy, progress=Seen(rising(0.8, 8), ([1], [0.1]), rising(0.8, 8)))
    seen = replace(traffic(3), fastest_ns=Map({0: float(q.S), 1: float(q.S)}))
    assert decided(policy, view, seen) == {0: 1}


def test_maif_has_an_order_for_a_period_and_wakes_at_its_end() -> None:
    policy = Maif(period_s=PERIOD_S)
    view = shown(policy, progress=Seen(*[rising(0.8, 8)] * 3))
    decision, memory = policy.decide(view, policy.initial(view))
    assert decision.wake_ns == view.now_ns + 10 * q.S
    again, _ = policy.decide(view, memory)
    assert again.is_empty
    assert again.wake_ns is None


def test_baraat_goes_by_arrival_and_a_heavy_job_shares_with_the_next() -> None:
    policy = Baraat()
    jobs = 4
    columns = {
        "done_J": np.array([True, False, False, False]),
        "round_J": np.array([5, 6, 4, 1]),
        "round_bytes_J": np.full(jobs, 100),
        "arrival_ns_J": np.array([0, 1, 2, 3]),
    }
    view = shown(policy, jobs=jobs, **columns)
    memory = replace(policy.initial(view), traffic=traffic(jobs))
    assert policy.decide(view, memory)[0].classes == {1: 1, 2: 1, 3: 2}
    light = shown(policy, jobs=jobs, **(columns | {"round_J": np.array([9, 6, 4, 1])}))
    assert policy.decide(light, memory)[0].classes == {1: 1, 2: 2, 3: 3}
    # A stated size needs no job that has ended: all above it share from the beginning.
    stated = Baraat(heavy_bytes=350)
    first = shown(stated, jobs=jobs, **(columns | {"done_J": np.zeros(jobs, dtype=bool)}))
    assert policy.decide(first, memory)[0].classes == {0: 1, 1: 2, 2: 3, 3: 4}
    assert stated.decide(first, memory)[0].classes == {0: 1, 1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("policy", [Intensity(), Sincronia()])
def test_of_rounds_that_compute_alike_the_one_with_fewest_bytes_goes_first(policy: Any) -> None:
    """On one link: the most GPU time a byte, and the coflow that is over soonest."""
    view = shown(policy, round_bytes_J=np.array([300, 100, 200]))
    memory = replace(policy.initial(view), traffic=traffic(3))
    decision, after = policy.decide(view, memory)
    assert decision.classes == {1: 1, 2: 2, 0: 3}
    assert after.order == (1, 2, 0)
    again, _ = policy.decide(view, after)
    assert again.is_empty


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("maif", "period_s", 0.0),
        ("maif", "classes", 8),
        ("maif", "gain", "best"),
        ("maif", "error", 2.0),
        ("baraat", "heavy", 101.0),
        ("baraat", "heavy_bytes", -1.0),
        ("sincronia", "classes", 0),
        ("intensity", "classes", 0),
        ("shift", "drift", 0.0),
        ("shift", "drift", 0.6),
        ("shift", "slices", 1),
        ("shift", "budget", 1.5),
    ],
)
def test_options_out_of_range_are_refused(name: str, option: str, value: object) -> None:
    with pytest.raises(SpecError, match=option):
        policy_of("flow", name, {option: value})
