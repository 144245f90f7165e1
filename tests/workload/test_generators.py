"""Generated workloads: what is drawn how, and how much of it a cluster gets."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_files import reader

from warren.model.errors import SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.profile.cost_table import cost_table
from warren.profile.published import TABLE
from warren.workload.generators.cluster_shapes import parts_of
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run

CV = ("vgg19", "resnet50", "inception-v3")
NLP = ("bert-base", "transformer")
REC = ("fastgcn", "graphsage")
RATES = {
    "v100": {
        "('A (batch size 4)', 1)": {"null": 10.0},
        "('A (batch size 4)', 2)": {"null": 8.0},
        "('A (batch size 4)', 4)": {"null": 6.0},
        "('B', 1)": {"null": 2.0},
    },
    "k80": {
        "('A (batch size 4)', 1)": {"null": 2.0},
        "('A (batch size 4)', 2)": {"null": 0.0},
        "('A (batch size 4)', 4)": {"null": 0.0},
        "('B', 1)": {"null": 1.0},
    },
}
SHAPE = {"generate": "hare", "devices": 160}


def mix(hosts: object = SHAPE, seed: int = 7, **options: object) -> Run:
    workload = {"generate": "hare-mix", "jobs": 200, **options}
    data = {"cluster": {"hosts": hosts}, "workload": workload, "seed": seed}
    return run_from_dict(data, "d", reader({}), rows=TABLE)


def gavel(hosts: object = None, rates: object = RATES, **options: object) -> Run:
    workload = {"generate": "gavel-mix", "jobs": 400, "throughputs": "r.json", **options}
    listed = hosts or [{"name": "a", "devices": {"V100": 8, "K80": 4}}]
    files = {"d/r.json": json.dumps(rates)}
    data = {"cluster": {"hosts": listed}, "workload": workload, "seed": 7}
    return run_from_dict(data, "d", reader(files))


def domains(run: Run) -> tuple[int, ...]:
    models = Counter(job.model for job in run.workload.jobs)
    groups = (CV, NLP, ("deepspeech",), REC)
    return tuple(sum(models[name] for name in group) for group in groups)


def drawn(run: Run) -> list[tuple[object, ...]]:
    return [(job.model, job.scale, job.rounds, job.weight, job.batch) for job in run.workload.jobs]


def offered(run: Run) -> float:
    """Work in seconds of the whole cluster over the window of arrivals, from the cost matrices."""
    costs = cost_table(run)
    count_T = np.bincount(run.cluster.type_of_device)
    speed_J = np.where(costs.fits_JT, count_T / costs.comp_ns_JT, 0).sum(axis=1)
    tasks_J = np.array([job.scale * (job.rounds or 0) for job in run.workload.jobs])
    return float((tasks_J / speed_J).sum()) / 1e9


def test_a_quarter_of_the_jobs_is_of_each_domain_and_its_models_take_turns() -> None:
    run = mix()
    assert domains(run) == (50, 50, 50, 50)
    assert Counter(job.model for job in run.workload.jobs)["vgg19"] == 17
    assert {job.batch for job in run.workload.jobs if job.model == "bert-base"} == {32}
    assert all(job.sync == "ps" for job in run.workload.jobs)


def test_shares_are_relative_and_25_where_not_named() -> None:
    assert domains(mix(shares={"nlp": 50})) == (40, 80, 40, 40)
    assert domains(mix(jobs=7, shares={"cv": 0, "rec": 50})) == (0, 2, 2, 3)


def test_language_jobs_have_more_work_and_recommendation_jobs_less() -> None:
    run = mix(jobs=2000)
    work = Counter[str]()
    for job in run.workload.jobs:
        assert job.model is not None
        work[job.model] += job.scale * (job.rounds or 0) * TABLE[job.model].comp_s["V100"]
    cv, nlp, rec = (sum(work[name] for name in group) for group in (CV, NLP, REC))
    assert nlp > max(cv, work["deepspeech"]) > min(cv, work["deepspeech"]) > rec


@pytest.mark.parametrize("load", [0.5, 1.0, 2.0])
def test_offered_work_over_capacity_is_the_load(load: float) -> None:
    run = mix(jobs=3000, load=load)
    window_s = offered(run) / load
    times_s = np.array([job.arrival_ns / 1e9 for job in run.workload.jobs])
    assert times_s.max() < window_s < times_s.max() * 1.005
    apart = np.abs(times_s / window_s - (np.arange(3000) + 0.5) / 3000).max()
    assert apart < 1.63 / np.sqrt(3000), "uniform over the window (Kolmogorov-Smirnov, 1 %)"


def test_without_a_load_all_jobs_arrive_at_time_0() -> None:
    assert {job.arrival_ns for job in mix(load=None).workload.jobs} == {0}


def test_load_and_cluster_change_arrivals_and_nothing_else() -> None:
    one, other = mix(load=1.0), mix(load=2.0)
    low = mix({**SHAPE, "heterogeneity": "low"})
    assert drawn(one) == drawn(other) == drawn(low)
    twice = [2 * job.arrival_ns for job in other.workload.jobs]
    assert np.abs(np.array(twice) - [job.arrival_ns for job in one.workload.jobs]).max() <= 2e6


def test_a_batch_factor_trains_the_same_items_in_longer_tasks() -> None:
    one, four = mix(), mix(batch_factor=4.0)
    for before, after in zip(one.workload.jobs, four.workload.jobs, strict=True):
        assert after.batch == 4 * before.batch
        assert abs((after.rounds or 0) - (before.rounds or 0) / 4) <= 0.5
    ratio = cost_table(four).comp_ns_JT / cost_table(one).comp_ns_JT
    assert np.allclose(ratio, 4)
    assert np.isclose(offered(four), offered(one), rtol=0.01)


def test_rounds_can_be_multiplied() -> None:
    one, ten = mix(), mix(rounds_factor=10.0)
    assert [job.rounds for job in ten.workload.jobs] == [
        10 * (job.rounds or 0) for job in one.workload.jobs
    ]


def test_scales_and_weights_are_drawn_evenly() -> None:
    found = mix(jobs=8000, scales=[1, 3]).workload.jobs
    assert abs(Counter(job.scale for job in found)[3] - 4000) < 4 * np.sqrt(2000)
    weights = Counter(job.weight for job in found)
    assert sorted(weights) == [1.0, 2.0, 3.0, 4.0]
    assert all(abs(count - 2000) < 4 * np.sqrt(1500) for count in weights.values())


def test_the_seed_is_the_runs_unless_one_is_stated() -> None:
    stated = run_from_dict(
        {
            "cluster": {"hosts": SHAPE},
            "workload": {"generate": "hare-mix", "jobs": 200, "seed": 3},
            "seed": 9,
        },
        "d",
        reader({}),
        rows=TABLE,
    )
    assert drawn(stated) == drawn(mix(seed=3)) != drawn(mix(seed=9))


def test_the_same_seed_gives_the_same_jobs_on_every_machine() -> None:
    """Pinned: a change of this hash changes every experiment that was made."""
    run = mix()
    arrivals = [job.arrival_ns for job in run.workload.jobs]
    jobs = [(*one, at) for one, at in zip(drawn(run), arrivals, strict=True)]
    digest = hashlib.sha256(json.dumps(jobs).encode()).hexdigest()
    assert digest[:16] == "e8c49ad753385078"


def test_costs_of_the_run_file_go_before_the_shipped_ones() -> None:
    data = {
        "cluster": {"hosts": [{"name": "a", "devices": {"X": 2}}]},
        "workload": {"generate": "hare-mix", "jobs": 40, "shares": {"cv": 0, "nlp": 0, "rec": 0}},
        "profiles": {"deepspeech": {"model": "1 MB", "batch": 8, "comp": {"X": "1 s"}}},
    }
    run = run_from_dict(data, "d", reader({}), rows=TABLE)
    tasks = sum(job.scale * (job.rounds or 0) for job in run.workload.jobs)
    assert max(job.arrival_ns for job in run.workload.jobs) / 1e9 < tasks / 2
    data["profiles"] = {}
    with pytest.raises(SpecError, match="no device can run deepspeech; types of the cluster: X"):
        run_from_dict(data, "d", reader({}), rows=TABLE)


def test_a_generated_run_is_the_same_when_it_is_written_down_and_read_again() -> None:
    for run in (mix(), gavel()):
        assert load_run("r.yaml", reader({"r.yaml": dump_run(run)})) == run


@pytest.mark.parametrize(
    ("level", "counts"),
    [
        ("low", {"V100": 10}),
        ("mid", {"V100": 5, "K80": 5}),
        ("high", {"V100": 3, "T4": 3, "K80": 2, "M60": 2}),
    ],
)
def test_heterogeneity_is_the_papers_types_in_equal_parts(
    level: str, counts: dict[str, int]
) -> None:
    hosts = {"generate": "hare", "devices": 10, "heterogeneity": level, "nic": "10 Gbps"}
    cluster = mix(hosts, jobs=4).cluster
    assert Counter(device.type for device in cluster.devices) == counts
    assert {host.nic_bps for host in cluster.hosts} == {10e9}
    assert max(len(host.devices) for host in cluster.hosts) <= 4
    assert cluster.devices[0].name == "v100-0/V100-0"


@given(
    st.integers(0, 500),
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9), min_size=1).filter(
        lambda parts: any(parts.values())
    ),
)
def test_parts_add_up_and_are_off_by_less_than_one(total: int, parts: dict[str, int]) -> None:
    counts = parts_of(total, parts)
    assert sum(counts.values()) == total
    whole = sum(parts.values())
    assert all(abs(counts[name] - total * part / whole) < 1 for name, part in parts.items())


def test_a_shape_can_have_the_testbeds_parts() -> None:
    hosts = {"generate": "hare", "devices": 15, "mix": {"V100": 8, "T4": 4, "K80": 1, "M60": 2}}
    counts = Counter(device.type for device in mix(hosts, jobs=4).cluster.devices)
    assert counts == {"V100": 8, "T4": 4, "K80": 1, "M60": 2}


def hours(job: Job) -> float:
    """Run time on V100s in Gavel's own terms."""
    rate = RATES["v100"][f"('{job.model}', {job.scale})"]["null"]
    return (job.rounds or 0) / rate / 3600


def test_gavel_jobs_run_whole_hours_on_a_v100() -> None:
    found = Counter(hours(job) for job in gavel().workload.jobs)
    assert sorted(found) == [1.0, 2.0, 3.0, 4.0]
    assert all(abs(count - 100) < 4 * np.sqrt(75) for count in found.values())


def test_gavel_jobs_of_several_gpus_are_of_types_that_the_table_has_on_several() -> None:
    run = gavel(jobs=6000)
    found = Counter((job.model, job.scale) for job in run.workload.jobs)
    several = [found["A (batch size 4)", gpus] for gpus in (1, 2, 4)]
    assert sum(several) + found["B", 1] == 6000
    parts = np.array(several) / sum(several)
    assert np.abs(parts - [0.7, 0.1, 0.2]).max() < 0.03
    assert {job.scale for job in gavel(multi_gpu=False).workload.jobs} == {1}


def test_gavel_costs_are_those_of_a_trace() -> None:
    run = gavel()
    rows = {row.model: row for row in run.profiles}
    two = next(job for job in run.workload.jobs if job.scale == 2)
    assert rows[two.cost or ""].comp_s == {"V100": 0.1}, "0 steps a second: not on the K80"
    assert np.isclose(rows[two.cost or ""].sync_s["V100"], 1 / 8.0 - 0.1)
    gang = {row.model: row for row in gavel(gang=True).profiles}
    assert (gang[two.cost or ""].comp_s["V100"], gang[two.cost or ""].sync_s["V100"]) == (0.125, 0)


def test_gavel_arrivals_follow_a_gap_or_a_load() -> None:
    gap = gavel(jobs=3000, gap="400 s").workload.jobs
    assert np.isclose(gap[-1].arrival_ns / 1e9, 3000 * 400, rtol=0.01)
    run = gavel(jobs=3000, load=2.0)
    assert np.isclose(run.workload.jobs[-1].arrival_ns / 1e9, offered(run) / 2, rtol=0.01)
    assert gavel(load=None).workload.jobs[-1].arrival_ns == 0


def test_gavel_says_which_job_no_device_of_the_cluster_runs() -> None:
    with pytest.raises(SpecError, match=r"^d/r.json: has no throughput of A .* GPUs of K80"):
        gavel([{"name": "a", "devices": {"K80": 4}}])
    with pytest.raises(SpecError, match="has no throughput of a v100"):
        gavel(rates={"k80": RATES["k80"]})


def test_generated_like_gavels_trace_has_its_sizes_and_run_times(data_dir: Path) -> None:
    """The 120 published jobs and 2,000 of ours have the same shares within sampling error."""
    table = (data_dir / "profiles/gavel/simulation_throughputs.json").read_bytes()
    rates = json.loads(table)["v100"]
    lines = (data_dir / "traces/gavel/generated_t120.trace").read_text().splitlines()
    theirs = [(line.split("\t")[0], int(line.split("\t")[6])) for line in lines]
    hosts = [{"name": "a", "devices": {"V100": 16, "P100": 16, "K80": 16}}]
    data = {
        "cluster": {"hosts": hosts},
        "workload": {"generate": "gavel-mix", "jobs": 2000, "throughputs": "t.json"},
    }
    run = run_from_dict(data, "d", reader({"d/t.json": table}))
    ours = [(job.model, job.scale) for job in run.workload.jobs]
    for gpus in (1, 2, 4):
        share = sum(scale == gpus for _, scale in ours) / 2000
        theirs_share = sum(scale == gpus for _, scale in theirs) / 120
        assert abs(share - theirs_share) < 3 * np.sqrt(share * (1 - share) / 120)
    assert {model for model, _ in theirs} == {model for model, _ in ours}
    run_h = [
        (job.rounds or 0) / rates[str((job.model, job.scale))]["null"] / 3600
        for job in run.workload.jobs
    ]
    assert np.allclose(run_h, np.round(run_h), atol=0.01)
