"""Cost matrices: scaling by batch, T^s from sizes and NICs, memory, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import ProfileRow
from warren.model.errors import SpecError
from warren.model.job import Job, Workload
from warren.model.past import NO_PAST
from warren.model.run import Run
from warren.model.units import NEVER_NS
from warren.profile.cost_table import cost_table, kind_key, measured_key, missing, past_of

MINE = ProfileRow(
    model="mine",
    batch=32,
    model_bytes=100_000_000,
    memory_bytes=6 * 10**9,
    comp_s={"V100": 0.1, "T4": 0.25},
    sync_s={"V100": 0.02},
    source={},
)


def cluster(memory: dict[str, int | None], nics: list[tuple[str, float | None]]) -> Cluster:
    """One device a host; ``nics`` is (type, NIC) by host."""
    devices = tuple(
        Device(index=index, name=f"h{index}/{kind}-0", type=kind, host=f"h{index}")
        for index, (kind, _) in enumerate(nics)
    )
    hosts = tuple(
        Host(name=f"h{index}", devices=(devices[index].name,), nic_bps=nic)
        for index, (_, nic) in enumerate(nics)
    )
    types = tuple(DeviceType(name=kind, memory_bytes=size) for kind, size in memory.items())
    return Cluster(hosts=hosts, devices=devices, types=types)


def run_of(*jobs: dict[str, Any], where: Cluster | None = None, rows: Any = (MINE,)) -> Run:
    made = tuple(
        Job(**{"index": i, "name": f"j{i}", "scale": 2, "rounds": 3, "batch": 32, **job})
        for i, job in enumerate(jobs)
    )
    nics: list[tuple[str, float | None]] = [("V100", 25e9), ("T4", 10e9), ("T4", 5e9)]
    where = where or cluster({"V100": None, "T4": 16 * 10**9}, nics)
    return Run(name="run.yaml", cluster=where, workload=Workload(jobs=made), profiles=tuple(rows))


def test_comp_grows_with_the_batch_and_sync_does_not() -> None:
    costs = cost_table(run_of({"model": "mine"}, {"model": "mine", "batch": 96}))
    assert costs.comp_ns_JT.tolist() == [[10**8, 25 * 10**7], [3 * 10**8, 75 * 10**7]]
    assert costs.sync_ns_JT[0].tolist() == costs.sync_ns_JT[1].tolist()


def test_sync_is_as_stated_else_twice_the_model_over_the_slowest_nic_of_the_type() -> None:
    costs = cost_table(run_of({"model": "mine"}))
    assert costs.sync_ns_JT.tolist() == [[2 * 10**7, 2 * 8 * 10**8 * 10**9 // (5 * 10**9)]]


def test_a_host_that_states_no_nic_counts_as_25_gbit() -> None:
    where = cluster({"T4": None}, [("T4", None), ("T4", 100e9)])
    costs = cost_table(run_of({"model": "mine"}, where=where))
    assert costs.sync_ns_JT.tolist() == [[64_000_000]]


def test_a_type_without_a_figure_or_with_too_little_memory_does_not_fit() -> None:
    where = cluster({"V100": 5 * 10**9, "T4": None, "A100": None}, [("T4", 1e9), ("V100", 1e9)])
    costs = cost_table(run_of({"model": "mine"}, where=where))
    assert costs.fits_JT.tolist() == [[False, True, False]]
    assert costs.comp_ns_JT[0, 0] == costs.sync_ns_JT[0, 2] == NEVER_NS


def test_a_job_fits_the_types_that_it_names_alone() -> None:
    jobs = [{"model": "mine", **named} for named in ({}, {"types": ("T4",)}, {"types": ("V100",)})]
    costs = cost_table(run_of(*jobs))
    assert costs.fits_JT.tolist() == [[True, True], [False, True], [True, False]]
    assert costs.comp_ns_JT[1, 1] == costs.comp_ns_JT[0, 1]
    with pytest.raises(SpecError) as caught:
        cost_table(run_of({"model": "mine", "types": ("A100", "H100")}))
    assert str(caught.value) == (
        "run.yaml: job j0: fits no device: profile mine: V100 is not of its types (A100, H100); "
        "T4 is not of its types (A100, H100)"
    )


def test_a_job_that_fits_nowhere_is_refused_with_its_reasons() -> None:
    where = cluster({"V100": 5 * 10**9, "A100": None}, [("V100", 1e9), ("A100", 1e9)])
    with pytest.raises(SpecError) as caught:
        cost_table(run_of({"model": "mine"}, where=where))
    assert str(caught.value) == (
        "run.yaml: job j0: fits no device: profile mine: needs 6 GB, V100 has 5 GB; "
        "no time on A100 (it has V100, T4)"
    )


def test_a_gpu_that_the_shipped_table_does_not_know_is_refused_with_a_way_to_add_it() -> None:
    where = cluster({"H100": None}, [("H100", 1e9)])
    with pytest.raises(SpecError) as caught:
        cost_table(run_of({"model": "resnet50"}, where=where))
    assert str(caught.value) == (
        "run.yaml: job j0: fits no device: profile resnet50: no time on H100 (it has K80, M60, T4, "
        "P100, V100); the shipped table knows GPUs of 2014 to 2018; measure an app with warren "
        "profile, or add a row with your own time under `profiles:`"
    )


def test_all_jobs_without_a_row_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        cost_table(run_of({"model": "mein"}, {"cost": "vgg19"}, {"app": "x.py:X"}))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(
        "run.yaml: job j0: model 'mein' has no profile row; did you mean mine? allowed: vgg19"
    )
    assert lines[1] == (
        "run.yaml: job j1: cost 'vgg19' has no profile row; allowed: mine; `profiles:` adds rows"
    )
    assert lines[2].startswith("run.yaml: job j2: has no model and was not measured")


def test_a_row_that_many_jobs_lack_is_reported_once_and_every_such_row_is() -> None:
    jobs = [{"model": "mein"}, {"model": "mine"}, {"model": "dein"}, *[{"model": "mein"}] * 7]
    with pytest.raises(SpecError) as caught:
        cost_table(run_of(*jobs))
    lines = [line.partition(" has no profile row")[0] for line in str(caught.value).splitlines()]
    assert lines == [
        "run.yaml: job j0 and 7 more: model 'mein'",
        "run.yaml: job j2: model 'dein'",
    ]


def test_a_row_of_the_run_file_comes_before_the_shipped_one() -> None:
    own = ProfileRow(**{**_fields(MINE), "model": "vgg19"})
    shipped = cost_table(run_of({"model": "vgg19"}, rows=()))
    assert cost_table(run_of({"model": "vgg19"}, rows=(own,))).comp_ns_JT[0, 0] == 10**8
    assert shipped.comp_ns_JT[0, 0] == pytest.approx(149.4e6 * 32 / 128, rel=1e-3)


def test_a_row_of_its_own_is_taken_as_it_is() -> None:
    jobs = ({"cost": "mine", "batch": 1}, {"cost": "mine", "batch": 999, "model": "vgg19"})
    costs = cost_table(run_of(*jobs))
    assert costs.comp_ns_JT.tolist() == [[10**8, 25 * 10**7]] * 2


def test_a_row_without_a_batch_holds_for_any() -> None:
    row = ProfileRow(**{**_fields(MINE), "batch": 0})
    costs = cost_table(run_of({"model": "mine", "batch": 7}, rows=(row,)))
    assert costs.comp_ns_JT[0, 0] == 10**8


def test_only_jobs_with_an_app_and_no_row_are_missing_and_measured_rows_price_them() -> None:
    run = run_of({"app": "x.py:X", "batch": 4}, {"model": "mine"}, {"app": "x", "model": "mine"})
    assert missing(run) == (0,)
    job = run.workload.jobs[0]
    costs = cost_table(run, {measured_key(job): ProfileRow(**{**_fields(MINE), "batch": 4})})
    assert costs.comp_ns_JT[0].tolist() == [10**8, 25 * 10**7]


def test_a_job_longer_than_the_clock_can_count_is_refused() -> None:
    with pytest.raises(SpecError, match="more than 146 years"):
        cost_table(run_of({"model": "mine", "rounds": 10**12}))


def test_a_cost_of_nothing_still_takes_a_nanosecond() -> None:
    row = ProfileRow(**{**_fields(MINE), "comp_s": {"V100": 1e-12}})
    costs = cost_table(run_of({"model": "mine"}, rows=(row,)))
    assert costs.comp_ns_JT[0, 0] == 1
    assert np.array_equal(costs.fits_JT, [[True, False]])


def _fields(row: ProfileRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ProfileRow.__slots__}


def test_a_measured_row_of_the_run_file_stands_for_measuring() -> None:
    job = {"app": "a.py:A", "name": "net"}
    row = replace(MINE, model="measured:net", sync_s={"V100": 0.02, "T4": 0.03})
    run = run_of(job, rows=(row,))
    assert missing(run) == ()
    assert missing(run_of(job)) == (0,)
    costs = cost_table(run)
    assert costs.comp_ns_JT.tolist() == [[10**8, 25 * 10**7]]
    other = replace(row, comp_s={"V100": 9.0})
    assert cost_table(run, {measured_key(run.workload.jobs[0]): other}).comp_ns_JT[0, 0] == 10**8


def test_a_row_named_after_the_kind_prices_its_jobs_but_for_those_with_a_row_of_their_own() -> None:
    kind = replace(MINE, model=kind_key("x/a.py:A", 32, "ps", '{"lr":1}'), comp_s={"V100": 7.0})
    own = [replace(MINE, model=f"measured:{name}") for name in ("own", "other-batch")]
    own[1] = replace(own[1], batch=64)
    job = {"app": "a.py:A", "params": {"lr": 1}}
    run = run_of(
        *({**job, "name": name} for name in ("own", "other-batch", "none")),
        {**job, "name": "alike-but-for-params", "params": {"lr": 2}},
        {**job, "name": "alike-but-for-batch", "batch": 8},
        rows=(kind, *own),
    )
    assert missing(run) == (3, 4)
    priced = replace(run, workload=replace(run.workload, jobs=run.workload.jobs[:3]))
    assert cost_table(priced).comp_ns_JT[:, 0].tolist() == [10**8, 7 * 10**9, 7 * 10**9]


def test_a_measured_row_of_another_batch_is_refused() -> None:
    run = run_of(
        {"app": "a.py:A", "name": "net", "batch": 64}, rows=(replace(MINE, model="measured:net"),)
    )
    with pytest.raises(SpecError, match="was measured with batch 32, the job has 64; measure it"):
        cost_table(run)


def test_measured_processor_time_stands_beside_its_row_and_is_unknown_elsewhere() -> None:
    row = replace(MINE, model="timed", overhead_s={"T4": 0.002})
    costs = cost_table(run_of({"model": "mine"}, {"model": "timed"}, rows=(MINE, row)))
    assert costs.overhead_ns_JT is not None
    assert costs.overhead_ns_JT.tolist() == [[-1, -1], [-1, 2_000_000]]


def test_what_an_app_takes_to_be_built_stands_beside_its_row_and_is_nothing_elsewhere() -> None:
    row = replace(MINE, model="timed", build_s={"T4": 0.25})
    costs = cost_table(run_of({"model": "mine"}, {"model": "timed"}, rows=(MINE, row)))
    assert costs.build_ns_JT is not None
    assert costs.build_ns_JT.tolist() == [[0, 0], [0, 250_000_000]]


def test_a_measured_switch_stands_beside_its_row_and_is_nothing_elsewhere() -> None:
    row = replace(MINE, model="timed", switch_s={"T4": 0.002})
    costs = cost_table(run_of({"model": "mine"}, {"model": "timed"}, rows=(MINE, row)))
    assert costs.turn_ns_JT is not None
    assert costs.turn_ns_JT.tolist() == [[0, 0], [0, 2_000_000]]
    assert costs.switch_ns_JT is None


def test_the_bytes_of_every_jobs_model_stand_beside_its_times() -> None:
    free = replace(MINE, model="free", model_bytes=10**30, sync_s={"V100": 0.0, "T4": 0.0})
    costs = cost_table(run_of({"model": "mine"}, {"model": "free"}, rows=(MINE, free)))
    assert costs.model_bytes_J is not None
    assert costs.model_bytes_J.tolist() == [100_000_000, NEVER_NS]


def test_jobs_of_the_history_are_priced_as_the_runs_own_are() -> None:
    one = run_of({"model": "mine"}, {"model": "mine", "batch": 96, "rounds": 50})
    run = replace(run_of({"model": "mine"}), history=one.workload)
    past = past_of(run)
    assert past.jobs == one.workload.jobs
    assert past.costs.comp_ns_JT.tolist() == cost_table(one).comp_ns_JT.tolist()
    assert past.costs.sync_ns_JT.tolist() == cost_table(one).sync_ns_JT.tolist()
    assert past_of(one) is NO_PAST


def test_a_job_of_the_history_without_costs_is_named_as_such() -> None:
    ended = run_of({"model": "mein"}, {"app": "x.py:X", "source": "old.csv:7"}).workload
    with pytest.raises(SpecError) as error:
        past_of(replace(run_of({"model": "mine"}), history=ended))
    first, second = str(error.value).splitlines()
    assert first.startswith("run.yaml: job of the history j0: model 'mein' has no profile row;")
    assert second.startswith("old.csv:7: job of the history j1: has no model and was not measured")
