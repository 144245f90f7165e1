"""Jobs that share GPUs in turns: times of groups and of runs, by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
from _muri import Trace, in_lanes, in_stages, sharing, shortest_first, simulate


def trace(iterations: list[float], gpus: list[int], submit: list[float] | None = None) -> Trace:
    """Jobs that take 4 s alone: 3 s of one resource and 1 s of the other, or turned round."""
    kinds = ((4.0, 3.0, 1.0, 0.0), (4.0, 1.0, 3.0, 0.0))
    return Trace(
        submit_s=np.array(submit or [0.0] * len(gpus)),
        iterations=np.array(iterations),
        gpus=np.array(gpus),
        kind=np.arange(len(gpus)) % 2,
        kinds=kinds,
    )


def test_an_iteration_of_a_group_in_stages_and_in_lanes() -> None:
    one = trace([1, 1], [1, 1])
    # One has (3, 1, 0); the other begins at the second resource, (3, 0, 1), or the third.
    assert in_stages(one)((0, 1)) == 3 + 1 + 1
    assert in_stages(one)((0, 0)) == 3 + 1 + 3
    assert in_lanes(one)((0, 0)) == 6.0
    assert in_lanes(one)((0, 1)) == in_lanes(one)((0,)) == 4.0


def test_jobs_that_share_end_at_the_time_of_their_group() -> None:
    one = trace([10, 20], [8, 8])
    stages = in_stages(one)
    end_s = simulate(one, sharing(8, 3, stages), stages)
    assert end_s.tolist() == pytest.approx([10 * 5, 10 * 5 + 10 * 4])
    # In turns the short one goes first.
    assert simulate(one, shortest_first(8), stages).tolist() == pytest.approx([40, 120])


def test_a_shorter_job_that_comes_goes_before() -> None:
    one = trace([10, 1], [8, 8], [0.0, 8.0])
    end_s = simulate(one, shortest_first(8), in_stages(one))
    assert end_s.tolist() == pytest.approx([44, 12])


def test_a_job_that_fits_passes_one_that_does_not() -> None:
    one = trace([1, 2, 3], [6, 4, 2])
    end_s = simulate(one, shortest_first(8), in_stages(one))
    assert end_s.tolist() == pytest.approx([4, 12, 12])
