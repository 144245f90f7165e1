"""The command of a job that trains apps: where it begins, and where it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.serve.app_run import run_command


def test_a_first_attempt_begins_a_run_on_the_processors_that_it_was_given(tmp_path: Path) -> None:
    found = run_command(["run.yaml", "--place", "hare"], tmp_path, {"CUDA_VISIBLE_DEVICES": ""}, 3)
    assert found == [
        "run", "run.yaml", "--set", "cluster={hosts: [{name: here, devices: {CPU: 3}}]}",
        "--place", "hare", "--out", str(tmp_path / "run"),
    ]  # fmt: skip


def test_a_job_with_gpus_trains_on_as_many_gpus_as_it_was_given(tmp_path: Path) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    found = run_command(["run.yaml"], tmp_path, environment, 64)
    assert "cluster={hosts: [{name: here, devices: {cuda: 2}}]}" in found


INPUTS = ("run.yaml", "profile.csv", "devices.csv", "journal")


def test_a_later_attempt_goes_on_with_the_run_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in INPUTS:
        (tmp_path / "run" / name).touch()
    found = run_command(["run.yaml", "--place", "hare"], tmp_path, {}, 1)
    assert found == ["run", "--resume", str(tmp_path / "run")]


@pytest.mark.parametrize("count", range(len(INPUTS)))
def test_a_run_that_was_killed_before_it_had_its_inputs_begins_again(
    tmp_path: Path, count: int
) -> None:
    (tmp_path / "run").mkdir()
    for name in INPUTS[:count]:
        (tmp_path / "run" / name).touch()
    assert run_command(["run.yaml"], tmp_path, {}, 1)[:2] == ["run", "run.yaml"]
    assert not (tmp_path / "run").exists()
