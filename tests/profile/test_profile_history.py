"""Ended jobs become jobs with known rounds and rows that price them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_rows import BLANK, ended

from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.history_rows import EndedJob
from warren.model.job import Workload
from warren.model.run import Run
from warren.profile.cost_table import cost_table
from warren.profile.history import exported, on_types, snapshot, with_own_names


def test_jobs_keep_what_they_were_and_run_as_many_rounds_as_they_did() -> None:
    late = ended("b", position=1, began_at=160.0, arrival_s=2.5, ended_at=300.0, rounds=7)
    past = snapshot([late, ended(), ended("c", status="failed"), ended("d", rounds=0)])
    assert [(job.name, job.rounds, job.arrival_ns) for job in past.jobs] == [
        ("a", 5, 0),
        ("b", 7, 62_500_000_000),
    ]
    job = past.jobs[0]
    assert (job.user, job.group, job.batch, job.scale, job.app) == ("ana", "g", 8, 2, "a.py:A")
    assert past.jobs[0].cost == past.jobs[1].cost  # the same costs are one row
    assert len(past.rows) == 1


def test_a_job_of_the_past_costs_in_a_run_what_it_took() -> None:
    past = snapshot([ended(), ended("b", model_bytes=8, rounds=2)])
    device = Device(index=0, name="h/CPU-0", type="CPU", host="h")
    cluster = Cluster(
        hosts=(Host(name="h", devices=("h/CPU-0",)),),
        devices=(device,),
        types=(DeviceType(name="CPU"),),
    )
    run = Run(name="r", cluster=cluster, workload=Workload(jobs=past.jobs), profiles=past.rows)
    costs = cost_table(run)
    assert np.array_equal(costs.comp_ns_JT, [[5 * 10**8]] * 2)
    assert np.array_equal(costs.sync_ns_JT, [[25 * 10**7]] * 2)
    assert costs.model_bytes_J is not None
    assert costs.model_bytes_J.tolist() == [40, 8]


@given(st.permutations([ended(), ended("b", position=1), ended("c", run="s", ended_at=150.0)]))
def test_a_snapshot_is_the_same_in_whatever_order_its_jobs_are_read(rows: list[EndedJob]) -> None:
    assert snapshot(rows) == snapshot(sorted(rows, key=lambda one: one.name))
    assert [job.name for job in snapshot(rows).jobs] == ["c", "a", "b"]


@pytest.mark.parametrize(
    "change", [{"rounds": 6}, {"user": "ben"}, {"ended_at": 201.0}, {"model_bytes": 41}]
)
def test_the_hash_of_a_snapshot_changes_with_what_is_in_it(change: dict[str, object]) -> None:
    assert snapshot([ended(**change)]).digest != snapshot([ended()]).digest
    assert snapshot([ended(), ended("x", status="failed")]).digest == snapshot([ended()]).digest
    assert snapshot([ended(), ended("x", costs="{}")]).digest == snapshot([ended()]).digest


@pytest.mark.parametrize(
    "costs",
    [
        "",
        "[]",
        "[1]",
        '{"CPU": 1}',
        '{"CPU": {"comp_s": 0, "sync_s": 1}}',
        '{"CPU": {"comp_s": NaN, "sync_s": 1}}',
        '{"CPU": {"comp_s": Infinity, "sync_s": 1}}',
    ],
)
def test_damaged_costs_are_reported_with_their_job(costs: str) -> None:
    with pytest.raises(ValueError, match="job a of run night: costs are damaged"):
        snapshot([ended(costs=costs)])


@given(st.lists(st.sampled_from(["a", "a-2", "a-3", "b", "x" * 80]), max_size=12))
def test_names_of_a_jobs_file_differ_and_the_first_of_a_kind_keeps_its_own(
    names: list[str],
) -> None:
    jobs = snapshot(
        ended(name, position=index, ended_at=200.0 + index) for index, name in enumerate(names)
    ).jobs
    named = [job.name for job in with_own_names(jobs)]
    assert len(set(named)) == len(named)
    assert all(len(name) <= 80 for name in named)
    assert all(named[names.index(name)] == name for name in names)


def test_an_exported_row_is_named_after_its_kind_and_an_older_app_of_that_name_is_spare() -> None:
    alone = replace(BLANK, job="a", comp_s=0.5, sync_s=0.25, samples=3, comp_avg_s=0.75,
                    sync_avg_s=1.0, avg_tasks=9, model_bytes=40)  # fmt: skip
    older = replace(alone, key="0123456789", updated_at=1.0, comp_s=None)
    nothing = replace(BLANK, key="f", job="z")
    found = exported([alone, older, nothing])
    rows = found.rows
    own = "measured:a.py:A, batch 8, ps"
    assert [row.model for row in rows] == [own, f"{own}, 0123456789"]
    assert found.spare == (rows[1].model,)
    assert [dict(row.comp_s) for row in rows] == [{"CPU": 0.5}, {"CPU": 0.75}]
    assert rows[0].source == {"job": "a", "comp.CPU": "alone, 3 tasks; m"}
    (average, _) = exported([alone, older], averages=True).rows
    assert (average.comp_s, average.sync_s) == ({"CPU": 0.75}, {"CPU": 1.0})
    played = on_types(rows[0], ("V100", "K80"), 0.5)
    assert played.comp_s == {"V100": 1.0, "K80": 1.0}
    assert math.isclose(played.sync_s["K80"], 0.5)
    assert played.source == dict.fromkeys(("comp.V100", "comp.K80"), "alone, 3 tasks; m") | {
        "job": "a"
    }
