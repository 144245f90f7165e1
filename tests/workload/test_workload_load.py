"""Run and job files: every field arrives, defaults hold, paths follow the file that names them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from workload_files import reader

from warren.model.errors import SpecError
from warren.model.job import Checkpoint, Evaluate, Stop
from warren.model.run import Grain, Scheduler, Truth
from warren.workload.run_file import load_jobs, load_run, run_from_dict
from warren.workload.specs.write import dump_run

HOST = {"name": "a", "devices": {"V100": 1}}
JOB = {"name": "j", "model": "resnet50", "batch": 64}


def minimal(**more: object) -> dict[str, object]:
    return {"cluster": {"hosts": [HOST]}, "workload": [JOB], **more}


def test_a_run_file_with_all_its_files_is_resolved() -> None:
    run = load_run("d/run.yaml", reader())
    assert (run.name, run.seed, run.base) == ("d", 1, "d")
    assert run.scheduler == Scheduler(place="hare", servers=2, options={"kappa": 2})
    assert run.truth == Truth(task_cv=0.05, job_cv=0.1, seed=3)
    assert run.grain == Grain(text="60 s", rounds=None, time_ns=60 * 10**9)
    assert run.cluster.type_names == ("V100", "T4", "K80")
    assert [job.name for job in run.workload.jobs] == ["own", "early", "late"]
    (row,) = run.profiles
    assert (row.model, row.model_bytes, row.memory_bytes, row.batch) == (
        "my-model", 98_000_000, 6 * 10**9, 32,
    )  # fmt: skip
    assert row.comp_s == {"V100": 0.152, "T4": 0.5}
    assert row.sync_s == {"V100": 0.02}


def test_hosts_that_are_this_machine_are_written_out_by_who_looks_at_it() -> None:
    files = {"d/run.yaml": "cluster: c.yaml\nworkload: [{name: j, model: resnet50, batch: 64}]\n",
             "d/c.yaml": "hosts: local\n"}  # fmt: skip
    here = [{"name": "local", "devices": {"V100": 2}}]
    run = load_run("d/run.yaml", reader(files), here=lambda: here)
    assert [device.name for device in run.cluster.devices] == ["local/V100-0", "local/V100-1"]
    again = load_run("r.yaml", reader({"r.yaml": dump_run(run)}))
    assert again.cluster == run.cluster
    inline = minimal(cluster={"hosts": "local"})
    assert run_from_dict(inline, "d", reader({}), here=lambda: here).cluster.hosts == (
        run.cluster.hosts
    )
    with pytest.raises(SpecError, match=r"d/c.yaml:1: hosts: local is this machine, which is not"):
        load_run("d/run.yaml", reader(files))


def test_every_field_of_a_job_arrives() -> None:
    second, first = load_jobs("d/jobs.yaml", reader(), batches={"vgg19": 128}).jobs
    assert second.name == "second"
    assert (first.app, first.model, first.sync) == ("apps/digits.py:Digits", "resnet50", "ps")
    assert (first.scale, first.rounds, first.batch, first.weight) == (4, 600, 32, 2.0)
    assert (first.arrival_ns, first.user, first.group) == (10 * 10**9, "ana", "lr-search")
    assert (first.seed, first.numerics) == (7, "strict")
    assert first.evaluate == Evaluate(every=50)
    assert first.stop == Stop(metric="accuracy", reaches=0.97)
    assert first.checkpoint == Checkpoint(every=100)
    assert (first.task_limit_ns, second.task_limit_ns) == (20 * 10**9, 600 * 10**9)
    assert first.params == {"lr": 0.1, "layers": [64, 32], "note": "é \u2028"}


def test_jobs_are_sorted_by_arrival_then_file_order_and_numbered_so() -> None:
    jobs = [{**JOB, "name": name, "arrival": at} for name, at in zip("abcd", (3, 1, 3, 1))]  # noqa: B905
    run = run_from_dict(minimal(workload=jobs), "", reader())
    assert [(job.index, job.name) for job in run.workload.jobs] == [
        (0, "b"), (1, "d"), (2, "a"), (3, "c"),
    ]  # fmt: skip


def test_a_default_seed_is_the_hash_of_run_seed_and_name() -> None:
    (job,) = run_from_dict(minimal(seed=5), "", reader()).workload.jobs
    expected = int.from_bytes(hashlib.sha256(b"5:j").digest()[:8], "big") % 2**63
    assert job.seed == expected
    (other,) = run_from_dict(minimal(seed=6), "", reader()).workload.jobs
    assert other.seed != job.seed


def test_an_app_path_is_relative_to_the_jobs_file_that_names_it() -> None:
    files = {
        "d/run.yaml": "cluster: {hosts: [{name: a, devices: {T4: 1}}]}\nworkload: {jobs: s/j.yaml}",
        "d/s/j.yaml": "[{name: x, app: 'apps/x.py:X'}, {name: y, app: nmf}]",
    }
    run = load_run("d/run.yaml", reader(files))
    assert [job.app for job in run.workload.jobs] == ["s/apps/x.py:X", "nmf"]
    assert run.base == "d"


def test_one_job_a_list_and_a_mapping_of_jobs_are_all_job_files() -> None:
    files = {
        "a.yaml": "{name: a, model: m, batch: 1}",
        "b.yaml": "[{name: a, model: m, batch: 1}]",
        "c.yaml": "{format: 1, jobs: [{name: a, model: m, batch: 1}]}",
        "d.csv": "job,model,batch\na,m,1\n",
    }
    first, *others = [load_jobs(name, reader(files)) for name in files]
    assert all(other == first for other in others)


def test_the_batch_of_a_model_is_that_of_its_row_unless_stated() -> None:
    job = {"name": "j", "model": "mine"}
    profiles = {"mine": {"model": 1, "batch": 16, "comp": {"V100": 1}}}
    run = run_from_dict(minimal(workload=[job], profiles=profiles), "", reader())
    assert run.workload.jobs[0].batch == 16
    files = {"j.csv": "job,model\nj,vgg19\n"}
    assert load_jobs("j.csv", reader(files), batches={"vgg19": 9}).jobs[0].batch == 9


def test_the_batch_of_an_app_does_not_depend_on_a_profile() -> None:
    files = {"j.csv": "job,model,app\nj,vgg19,x.py:X\n"}
    assert load_jobs("j.csv", reader(files), batches={"vgg19": 9}).jobs[0].batch == 1


def test_a_model_without_a_known_batch_must_state_one() -> None:
    with pytest.raises(SpecError, match=r"^j\.csv:2: batch: is required"):
        load_jobs("j.csv", reader({"j.csv": "job,model\nj,vgg19\n"}))


@pytest.mark.parametrize(
    ("grain", "rounds", "time_ns"),
    [(1, 1, None), ("1", 1, None), ("7 rounds", 7, None), ("1 round", 1, None), ("1 s", None, 1e9)],
)  # fmt: skip
def test_a_grain_is_one_some_rounds_or_a_time(
    grain: object, rounds: int | None, time_ns: float | None
) -> None:
    run = run_from_dict(minimal(grain=grain), "", reader())
    assert (run.grain.rounds, run.grain.time_ns, run.grain.text) == (rounds, time_ns, str(grain))


def test_overrides_reach_the_run_and_the_files_it_names() -> None:
    overrides = {
        "scheduler.place": "srtf",
        "grain": "5 rounds",
        "seed": "3",
        "policy.kappa": "[1, 2]",
        "truth.task_cv": "0",
        "cluster.network.model": "lane",
        "profiles.my-model.batch": "4",
    }
    run = load_run("d/run.yaml", reader(), overrides)
    assert run.scheduler == Scheduler(place="srtf", servers=2, options={"kappa": [1, 2]})
    assert (run.grain.rounds, run.seed, run.truth.task_cv) == (5, 3, 0.0)
    assert run.cluster.network.model == "lane"
    assert run.profiles[0].batch == 4


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("scheduler.plce", "x", "d/run.yaml: scheduler.plce: unknown field; did you mean place?"),
        ("seed.x", "1", "d/run.yaml: seed.x: cannot be set"),
        ("seed", "[", "d/run.yaml: seed: '[' cannot be read as a value"),
        ("seed", "-1", "d/run.yaml: seed: must be at least 0, got -1"),
        ("", "1", "d/run.yaml: "),
        ("cluster.netwrk.model", "lane", "d/cluster.yaml:1: netwrk: unknown field; did you mean"),
        ("cluster", "none.yaml", "d/none.yaml: cannot be read: No such file"),
    ],
)
def test_a_wrong_override_names_its_key(key: str, value: str, line: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_run("d/run.yaml", reader(), {key: value})
    assert str(caught.value).startswith(line)


def test_the_same_object_works_from_python() -> None:
    text = "cluster: {hosts: [{name: a, devices: {V100: 1}}]}\nworkload: [{name: j, model: resnet50, batch: 64}]"  # noqa: E501
    assert run_from_dict(minimal(), "d", reader(), name="d") == load_run(
        "d/run.yaml", reader({"d/run.yaml": text})
    )


@pytest.mark.parametrize("value", [{1: 2}, float("nan"), object(), {"a": {1}}, 10**500])
def test_a_python_object_that_no_file_can_hold_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"^run: "):
        run_from_dict(minimal(policy=value), "", reader())


def test_numbers_of_numpy_count_as_numbers() -> None:
    job = {**JOB, "scale": np.int64(3), "weight": np.float32(0.5), "arrival": np.float64(2.0)}
    (loaded,) = run_from_dict(minimal(workload=(job,)), "", reader()).workload.jobs
    assert (loaded.scale, loaded.weight, loaded.arrival_ns) == (3, 0.5, 2 * 10**9)
    assert type(loaded.weight) is float
