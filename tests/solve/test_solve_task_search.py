"""Single tasks moved: what an order is worth, and how near to the optimum moves come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_solve_rules import random_instance

from warren.solve.bounds.exhaustive import TinyInstance, least_makespan, least_weighted_jct
from warren.solve.common.instance import Instance
from warren.solve.common.schedule_rows import rows_of_tasks
from warren.solve.lists.task_search import TaskOrder, order_of, walk_tasks, walked


def instance_of(seed: int, most: int = 8) -> Instance:
    """Two or three devices of two types, jobs of few tasks."""
    random = np.random.default_rng(seed)
    jobs = int(random.integers(2, 4))
    scale_J, rounds_J = random.integers(1, 3, (2, jobs))
    while (scale_J * rounds_J).sum() > most:
        scale_J, rounds_J = random.integers(1, 3, (2, jobs))
    comp_ns_JT = random.integers(1, 10, (jobs, 2))
    type_D = np.concatenate([[0, 1], random.integers(0, 2, random.integers(0, 2))])
    return Instance(
        arrival_ns_J=np.sort(random.choice([0, 0, 3], jobs)),
        weight_J=random.choice([0.5, 1.0, 4.0], jobs), scale_J=scale_J, rounds_J=rounds_J,
        comp_ns_JT=comp_ns_JT, sync_ns_JT=random.integers(1, comp_ns_JT + 1),
        fits_JT=np.ones((jobs, 2), np.bool_), type_D=type_D,
        stretch_rounds_J=np.ones(jobs, np.int64),
    )  # fmt: skip


def file_order(instance: Instance) -> TaskOrder:
    """All tasks on the first device that fits, job after job."""
    job_I = np.repeat(np.arange(len(instance.scale_J)), instance.scale_J * instance.rounds_J)
    first_J = instance.fits_JT[:, instance.type_D].argmax(axis=1)
    return TaskOrder(job_I.astype(np.int64), first_J[job_I])


def finish_ns(instance: Instance, rows: np.ndarray) -> list[int]:
    """When jobs end, one row after the other, by the rounds that the rows name."""
    free = [0] * len(instance.type_D)
    ends: dict[tuple[int, int], int] = {}  # of a job that is left out: none
    for job, round_, _, _, device in rows.T.tolist():
        kind = instance.type_D[device]
        ready = ends.get((job, round_ - 1), int(instance.arrival_ns_J[job]))
        free[device] = max(free[device], ready) + int(instance.comp_ns_JT[job, kind])
        end = free[device] + int(instance.sync_ns_JT[job, kind])
        ends[job, round_] = max(ends.get((job, round_), 0), end)
    return [ends.get((job, int(last) - 1), 0) for job, last in enumerate(instance.rounds_J)]


def weighted_ns(instance: Instance, order: TaskOrder) -> float:
    finish_ns_J = np.array(finish_ns(instance, rows_of_tasks(*order, instance.scale_J)))
    return float(instance.weight_J @ (finish_ns_J - instance.arrival_ns_J))


@pytest.mark.parametrize("seed", range(25))
def test_moves_find_the_optimum_of_tiny_instances(seed: int) -> None:
    instance = instance_of(seed)
    columns = {k: v for k, v in instance._asdict().items() if k != "stretch_rounds_J"}
    order = file_order(instance)
    for worse in (0.3, 0.1, 0.0):
        order = walk_tasks(instance, order, makespan=False, trials=4000, threshold=worse, seed=seed)
    assert weighted_ns(instance, order) == pytest.approx(
        least_weighted_jct(TinyInstance(**columns))
    )
    order = walk_tasks(instance, order, makespan=True, trials=4000, threshold=0.2, seed=seed)
    latest_ns = max(finish_ns(instance, rows_of_tasks(*order, instance.scale_J)))
    assert latest_ns - instance.arrival_ns_J.min() == least_makespan(TinyInstance(**columns))


@given(st.integers(0, 10**6), st.integers(0, 2**62))
def test_moves_keep_every_task_where_it_fits_and_make_nothing_worse(case: int, seed: int) -> None:
    instance, _ = random_instance(case, 1)
    usable_JD = instance.fits_JT[:, instance.type_D]
    instance = instance._replace(
        rounds_J=np.where(usable_JD.any(axis=1), instance.rounds_J, 0),
    )
    order = file_order(instance)
    found = walk_tasks(instance, order, makespan=False, trials=60, threshold=0.1, seed=seed)
    assert sorted(found.job_I.tolist()) == sorted(order.job_I.tolist())
    assert usable_JD[found.job_I, found.device_I].all()
    rows = rows_of_tasks(*found, instance.scale_J)
    back = order_of(rows)
    assert back is not None
    assert (back.job_I.tolist(), back.device_I.tolist()) == (
        found.job_I.tolist(), found.device_I.tolist()
    )  # fmt: skip
    if len(order.job_I):
        assert weighted_ns(instance, found) <= weighted_ns(instance, order)
    again = walk_tasks(instance, order, makespan=False, trials=60, threshold=0.1, seed=seed)
    assert again.device_I.tolist() == found.device_I.tolist()


def test_rows_that_are_no_single_tasks_in_order_are_left_alone() -> None:
    instance = instance_of(0)._replace(rounds_J=np.array([2, 2]), scale_J=np.array([1, 2]))
    rows = rows_of_tasks(*file_order(instance), instance.scale_J)
    assert walked(instance, rows, False, 1, np.random.default_rng(7))[1] > 0
    stretch = rows.copy()
    stretch[2, 0] = 2
    backwards = rows[:, ::-1]
    assert (backwards[1] != 0).any()
    for other in (stretch, backwards):
        found, looked = walked(instance, other, False, 1, np.random.default_rng(7))
        assert found is other
        assert looked == 0
