"""Rigid jobs of Pollux's and Sia's workloads: times of steps by hand, and a run of a few."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import warren
from warren.workload.traces.formats import pollux

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _sia
from _sia import placement, rounds, step_s

STEPS = {
    "2": [(10.0, 0.3, 0.1), (20.0, 0.5, 0.1)],
    "24": [(10.0, 0.6, 0.2)],
    "6x24": [(10.0, 0.9, 0.5)],
}


@pytest.mark.parametrize(
    ("gpus", "node_gpus", "name"),
    [(1, 4, "1"), (6, 4, "24"), (10, 4, "244"), (16, 4, "4444"), (12, 8, "48"), (14, 8, "68")],
)
def test_a_job_is_on_the_fewest_nodes(gpus: int, node_gpus: int, name: str) -> None:
    assert placement(gpus, node_gpus) == name


def test_times_lie_between_measured_batches() -> None:
    assert step_s(STEPS, 2, 4, 30) == pytest.approx((0.3, 0.1))


def test_a_batch_too_large_for_a_gpu_is_accumulated() -> None:
    assert step_s(STEPS, 2, 4, 80) == pytest.approx((2 * 0.4, 0.1))


def test_large_jobs_are_looked_up_by_nodes_and_gpus() -> None:
    assert step_s(STEPS, 24, 4, 240) == pytest.approx((0.4, 0.5))
    assert step_s(STEPS, 32, 4, 240) is None


def test_steps_come_from_the_curve_of_the_batch_or_from_items() -> None:
    assert rounds("cifar10", 2048, {2048: 3178}) == 3178
    assert rounds("yolov3", 64, {}) == -(-50 * 16_551 // 64)


def test_epochs_and_items_are_those_of_the_packages_reader() -> None:
    known = pollux._EPOCHS_ITEMS
    assert {name: epochs for name, (epochs, _) in known.items()} == _sia.EPOCHS
    assert {name: known[name][1] for name in _sia.ITEMS} == _sia.ITEMS


@pytest.mark.parametrize("rings", [False, True])
def test_all_jobs_of_a_workload_end(data_dir: Path, rings: bool) -> None:
    rows = _sia.read_rows(data_dir / "traces" / "sia" / "philly" / "workload-1.csv")[:6]
    run = _sia.run_of(rows, {"T4": 6, "A100": 2, "2080Ti": 3}, data_dir, rings=rings)
    found = warren.simulate(run, place="fifo" if rings else "srtf").summary
    assert found["finished"] == found["jobs"] == 6


def test_rigid_jobs_hold_their_gpus_during_the_all_reduce() -> None:
    assert _sia.priced({"T4": (0.3, 0.1)}, rings=False)["comp"] == {"T4": "0.400000 s"}
    ring = _sia.priced({"T4": (0.3, 0.1)}, rings=True)
    assert (ring["comp"], ring["sync"]) == ({"T4": "0.300000 s"}, {"T4": "0.100000 s"})
