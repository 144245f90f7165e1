"""Jobs of a trace that knows run times only, given models so that device types differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from trace_samples import PHILLY
from workload_files import reader

from warren.model.costs import ProfileRow
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.workload.run_file import run_from_dict

TWO: Final = {
    name: ProfileRow(
        model=name,
        batch=batch,
        model_bytes=8,
        memory_bytes=8,
        comp_s={"V100": comp_s, "T4": 5 * comp_s},
        sync_s={},
        source={},
    )
    for name, batch, comp_s in (("fast", 32, 0.25), ("slow", 8, 4.0))
}


def run_of(rows: dict[str, ProfileRow] = TWO, seed: int = 1, **trace: object) -> Run:
    hosts = [{"name": "h", "devices": {"V100": 2, "T4": 2}, "nic": "25 Gbps"}]
    workload = {"trace": {"format": "philly", "path": "p.csv", **trace}}
    data = {"cluster": {"hosts": hosts}, "workload": workload, "seed": seed}
    return run_from_dict(data, "d", reader({"d/p.csv": PHILLY}), rows=rows)


def test_jobs_of_a_modeled_trace_take_their_run_time_on_the_fastest_type() -> None:
    run, plain = run_of(models=["fast", "slow"]), run_of(round_s="1 ms")
    for job, known in zip(run.workload.jobs, plain.workload.jobs, strict=True):
        assert (job.name, job.arrival_ns, job.scale) == (known.name, known.arrival_ns, known.scale)
        assert job.cost is None
        row, run_s = TWO[job.model or ""], (known.rounds or 0) / 1000
        assert job.batch == row.batch
        assert run_s <= (job.rounds or 0) * row.comp_s["V100"] < run_s + row.comp_s["V100"]


def test_the_models_of_a_trace_follow_from_the_seed_and_the_job_alone() -> None:
    drawn = {seed: [job.model for job in run_of(seed=seed, models=["fast", "slow"]).workload.jobs]
             for seed in range(8)}  # fmt: skip
    assert drawn[3] == [job.model for job in run_of(seed=3, models=["fast", "slow"]).workload.jobs]
    assert {model for models in drawn.values() for model in models} == {"fast", "slow"}
    assert len({tuple(models) for models in drawn.values()}) > 1


@pytest.mark.parametrize(
    ("names", "rows", "message"),
    [
        (["fats"], TWO, "no profile row 'fats'; there are fast, slow"),
        (["far"], {"far": replace(TWO["fast"], model="far", comp_s={"A100": 1.0})},
         "model far has no cost on V100, T4"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_price_a_trace_is_refused(
    names: list[str], rows: dict[str, ProfileRow], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        run_of(rows, models=names)
