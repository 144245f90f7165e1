"""A key changes with everything a measurement depends on, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

from warren.model.job import Job
from warren.profile.measured import MeasuredCost, measured_row, task_kind

JOB = Job(index=0, name="j", scale=1, rounds=1, app="a.py:A", batch=8, params={"lr": 0.1})


def test_a_key_changes_with_source_class_params_batch_sync_numerics_and_machine_alone() -> None:
    def key(job: Job = JOB, source: str = "s", numerics: str = "n", machine: str = "m") -> str:
        return task_kind(job, source, numerics, machine).key

    others = [
        key(source="t"),
        key(replace(JOB, app="a.py:B")),
        key(replace(JOB, params={"lr": 0.2})),
        key(replace(JOB, batch=9)),
        key(replace(JOB, sync="ring")),
        key(numerics="o"),
        key(machine="p"),
    ]
    assert len({key(), *others}) == 8
    same = replace(JOB, name="k", app="elsewhere/b.py:A", model="x", seed=5, scale=9, index=3)
    assert key(same) == key()


def test_a_measured_row_holds_the_largest_sizes_and_all_times() -> None:
    row = measured_row(
        JOB,
        {
            "V100": MeasuredCost(comp_s=0.1, sync_s=0.01, model_bytes=10, memory_bytes=7),
            "T4": MeasuredCost(comp_s=0.2, model_bytes=10, memory_bytes=9),
        },
    )
    assert (row.model, row.batch, row.model_bytes, row.memory_bytes) == ("measured:j", 8, 10, 9)
    assert row.comp_s == {"V100": 0.1, "T4": 0.2}
    assert row.sync_s == {"V100": 0.01}
