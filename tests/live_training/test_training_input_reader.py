"""Batches are read ahead where a task is known or guessed to come, and are right either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from warren.live.training.data_order import Batches
from warren.live.training.input_data.input_reader import InputReader
from warren.live.training.input_data.spilled_data import SpilledData
from warren.model.job import Job

ROWS = torch.arange(4000.0).view(400, 10)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[InputReader]:
    """A reader of data that are all on disk, whose items are counted in ``read``."""
    data = SpilledData(ROWS, str(tmp_path))
    reader = InputReader(data, lambda times: False)
    yield reader
    reader.close()


def items(task: int) -> np.ndarray:
    """The items of a task."""
    return np.arange(10) + 10 * task


def right(batch: torch.Tensor, task: int) -> bool:
    """Whether a batch is that of its task."""
    return torch.equal(batch, ROWS[10 * task : 10 * task + 10])


def test_a_task_gets_its_own_batch_whatever_was_read_ahead(reader: InputReader) -> None:
    for known, task in ((0, 0), (2, 1), (2, 2), (7, 3), (8, 3), (9, 3)):
        reader.ahead((known, 0), items(known))
        assert right(reader.take((task, 0), items(task)), task)
    assert len(reader._batches) <= 2


def test_a_wrong_guess_is_not_made_again_for_some_tasks(reader: InputReader) -> None:
    reader.guess((1, 0), items(1))
    assert (1, 0) in reader._batches
    assert right(reader.take((5, 0), items(5)), 5)  # another one came
    made = []
    for task in range(6, 20):
        before = set(reader._batches)
        reader.guess((task, 0), items(task))
        made.append(bool(set(reader._batches) - before))
        assert right(reader.take((task, 0), items(task)), task)
    assert made == [False] * 8 + [True] * 6


def test_times_are_measured_by_items(reader: InputReader) -> None:
    for task in range(8):
        reader.take((task, 0), items(task))
    times = reader.times
    assert times.tasks == 7
    assert 0 < times.stop_ppm <= 1e6
    assert times.use_ns > 0
    assert times.load_ns > 0


def test_batches_of_spilled_data_are_those_of_the_order(tmp_path: Path) -> None:
    job = Job(index=0, name="j", app="a.py:A", scale=3, rounds=9, batch=7, seed=5, user="ana")
    reader = InputReader(SpilledData(ROWS, str(tmp_path)), lambda times: False)
    spilled, whole = Batches(ROWS, job, reader), Batches(ROWS, job)
    assert (spilled.spilled, whole.spilled) == (True, False)
    for round_no in (0, 40, 2):
        spilled.ahead(round_no, 1)
        assert torch.equal(spilled.of(round_no, 1), whole.of(round_no, 1))
    reader.close()
