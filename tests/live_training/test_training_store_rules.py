"""Rules of a server's store, each with the one case that needs it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from training_bench import Points, a_job, whole

from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import TaskResult
from warren.live.training.task_runner import TaskRunner
from warren.model.errors import SpecError
from warren.model.job import Evaluate, Job


def _results(job: Job, store: ParameterStore) -> list[TaskResult]:
    runner = TaskRunner(Points(), job)
    return [runner.run(whole(store), store.version, shard) for shard in range(job.scale)]


def _other(result: TaskResult) -> TaskResult:
    """Another result of the same task."""
    update = bytes(reversed(bytes(result.update[0])))
    return replace(result, marks=bytes(len(result.marks)), update=(update,))


def test_a_state_is_not_saved_between_its_step_and_its_evaluation() -> None:
    """The evaluation may still change buffers; neither is it given to other servers."""
    job = a_job(evaluate=Evaluate(every=1))
    store = ParameterStore(Points(), job)
    for shard, result in enumerate(_results(job, store)):
        store.add(shard, result)
    store.step()
    with pytest.raises(ValueError, match="conclude round 0 first"):
        store.checkpoint_part()
    with pytest.raises(ValueError, match="conclude round 0 first"):
        store.piece_for(0, 1, ())
    store.conclude()
    assert store.checkpoint_part()


def test_a_store_that_goes_back_forgets_what_tasks_gave_since() -> None:
    job = a_job()
    store = ParameterStore(Points(), job)
    saved = store.checkpoint_part()
    first = _results(job, store)[0]
    store.add(0, first)
    with pytest.raises(SpecError, match="ran twice"):
        store.add(0, _other(first))
    store.restore([saved])
    assert store.results.have(0) == ()
    store.add(0, _other(first))
    assert store.results.have(0) == (0,)


def test_of_a_task_that_ran_twice_the_first_result_counts() -> None:
    """Also where the two may differ: on two kinds of device, in a job of mixed numerics."""
    job = a_job(numerics="mixed")
    once, twice = (ParameterStore(Points(), job) for _ in range(2))
    results = _results(job, once)
    for shard, result in enumerate(results):
        once.add(shard, result)
        twice.add(shard, result)
        twice.add(shard, _other(result))
    once.step()
    twice.step()
    assert whole(once) == whole(twice)
