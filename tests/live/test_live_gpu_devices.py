"""Which devices of a cluster are GPUs, and what that does to the numerics class of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from live_worlds import job, virtual

from warren.live.gpu import discovery
from warren.live.gpu.discovery import Gpu, class_of, classes_of, gpus_here, gpus_of
from warren.live.measure.task_times import by_one_device
from warren.live.training.numerics import clean_environment
from warren.model.cluster import Cluster, Device, DeviceType, Emulate, Host
from warren.model.errors import SpecError
from warren.model.job import Sync
from warren.runs import machine
from warren.runs.profiles.measured_rows import by_first_device

H100 = Gpu(0, "NVIDIA H100 80GB HBM3", 85 * 10**9, "CUDA 13.0, cuDNN 91900")
OTHER = replace(H100, index=1)
T4 = Gpu(2, "Tesla T4", 16 * 10**9, "CUDA 13.0, cuDNN 91900")


def devices(*types: str) -> tuple[Device, ...]:
    return tuple(
        Device(index=at, name=f"h/{t}-{at}", type=t, host="h") for at, t in enumerate(types)
    )


def cluster(*types: str) -> Cluster:
    found = devices(*types)
    kinds = tuple(DeviceType(name=name) for name in dict.fromkeys(types))
    host = Host(name="h", devices=tuple(one.name for one in found))
    return Cluster(hosts=(host,), devices=found, types=kinds)


@pytest.mark.parametrize("name", ["cuda", "CUDA", "h100", "H100", "NVIDIA-H100-80GB-HBM3"])
def test_a_gpu_is_called_cuda_by_its_name_or_by_a_word_of_it(name: str) -> None:
    assert gpus_of(devices(name), [H100]) == (H100,)
    assert gpus_of(devices("V100", "cpu"), [H100]) == (None, None)


def test_words_of_the_name_of_a_gpu_are_also_set_apart_by_dashes() -> None:
    # Ray calls this one A100.
    parted = replace(H100, name="NVIDIA A100-SXM4-40GB")
    assert gpus_of(devices("A100"), [parted]) == (parted,)
    assert gpus_of(devices("a100-sxm4-40gb"), [parted]) == (parted,)
    assert gpus_of(devices("A10"), [parted]) == (None,)


def test_each_device_has_a_gpu_of_its_own() -> None:
    assert gpus_of(devices("H100", "cpu", "cuda", "T4"), [H100, OTHER, T4]) == (
        H100,
        None,
        OTHER,
        T4,
    )
    with pytest.raises(SpecError, match="3 devices of type H100; GPUs of this machine: NVIDIA"):
        gpus_of(devices("H100", "H100", "H100"), [H100, OTHER, T4])


def test_cuda_takes_what_devices_that_name_a_gpu_leave() -> None:
    assert gpus_of(devices("cuda", "T4"), [T4, H100]) == (H100, T4)


def test_gpus_are_numbered_as_trainers_number_them() -> None:
    assert "CUDA_DEVICE_ORDER" in clean_environment({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


def test_an_emulated_run_is_measured_on_a_processor() -> None:
    played = by_one_device(replace(cluster("T4", "T4"), emulate=Emulate()))
    assert gpus_of(played.devices, [T4]) == (None,)
    assert (played.type_names, played.emulate) == (("CPU",), None)
    assert by_one_device(cluster("T4", "cpu")).devices == devices("T4")


def test_gpus_are_not_looked_for_where_all_devices_are_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "gpus_here", lambda: pytest.fail("looked for GPUs"))
    assert gpus_of(devices("cpu", "CPU-fast")) == (None, None)


def test_without_a_driver_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_DRIVER", "/nowhere")
    monkeypatch.setattr(discovery.subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    gpus_here.cache_clear()
    assert gpus_here() == ()


def test_a_gpu_is_part_of_the_numerics_class() -> None:
    assert class_of((None, None)) == ""
    assert class_of((H100, OTHER)) == H100.numerics
    assert class_of((None, H100)) == f"{H100.numerics} | processors"


@pytest.mark.parametrize("sync", ["ps", "ring"])
def test_jobs_that_stay_in_one_class_are_refused_where_there_are_two(sync: Sync) -> None:
    two = devices("cpu", "cuda")
    strict = job(0, sync=sync)
    with pytest.raises(
        SpecError,
        match=r"job job-0 \(numerics: strict\).* HBM3 \(h/cuda-1\), processors \(h/cpu-0\);",
    ):
        classes_of(two, (None, H100), [strict])
    mixed = replace(strict, numerics="mixed")
    assert classes_of(two, (None, H100), [mixed]) == (f"{H100.numerics} | processors",)


def test_a_job_has_the_class_of_the_types_that_it_names() -> None:
    three = devices("cpu", "cuda", "H100")
    jobs = [job(0, types=("cpu",)), job(1, types=("H100", "cuda"))]
    assert classes_of(three, (None, H100, OTHER), jobs) == ("", H100.numerics)
    with pytest.raises(
        SpecError, match=r"HBM3 \(h/cuda-1\), Tesla T4 \(h/cuda-2\); allowed: .*`types`"
    ):
        classes_of(devices("cpu", "cuda", "cuda"), (None, H100, T4), jobs)


def test_a_type_that_no_gpu_here_has_is_refused_unless_it_is_emulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "gpus_here", lambda: (T4,))
    machine.check_device_types(cluster("T4", "cpu", "cuda"), "run.yaml", "cluster.hosts")
    with pytest.raises(
        SpecError, match=r"this machine has no V100; allowed: CPU.*Tesla-T4 or cuda"
    ):
        machine.check_device_types(cluster("V100"), "run.yaml", "cluster.hosts")
    played = replace(cluster("V100"), emulate=Emulate())
    machine.check_device_types(played, "run.yaml", "cluster.hosts")


def test_this_machine_is_a_host_with_its_gpus_or_else_its_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "gpus_here", lambda: (H100, OTHER, T4))
    (host,) = machine.hosts_here()
    assert host == {"name": "local", "devices": {"NVIDIA-H100-80GB-HBM3": 2, "Tesla-T4": 1}}
    named = devices(*(kind for kind, count in host["devices"].items() for _ in range(count)))
    assert gpus_of(named, [H100, OTHER, T4]) == (H100, OTHER, T4)
    odd = replace(T4, name="Quadro RTX 6000/8000")
    monkeypatch.setattr(machine, "gpus_here", lambda: (odd,))
    assert machine.hosts_here() == [{"name": "local", "devices": {"cuda": 1}}]
    monkeypatch.setattr(machine, "gpus_here", lambda: ())
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {1, 2, 5})
    assert machine.hosts_here() == [{"name": "local", "devices": {"CPU": 3}}]


def test_costs_are_measured_on_the_first_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus_of", lambda found: gpus_of(found, [T4]))
    assert machine.measured_device(cluster("cpu")) == ("", "", [])
    assert machine.measured_device(cluster("T4", "cpu")) == (T4.name, T4.libraries, ["cpu"])
    assert machine.measured_device(cluster("cpu", "T4")) == ("", "", ["T4"])
    assert machine.measured_device(replace(cluster("T4"), emulate=Emulate())) == ("", "", [])


def test_a_job_is_measured_on_the_first_device_that_it_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "gpus_of", lambda found: gpus_of(found, [T4]))
    jobs = [job(0), job(1, types=("T4",)), job(2, types=("cpu", "T4")), job(3, types=("none",))]
    run = replace(virtual(jobs, 1)[0], cluster=cluster("cpu", "T4"))
    (all_types, first), (on_gpu, second) = by_first_device(run, jobs)
    assert ([one.index for one in first], [one.index for one in second]) == ([0, 2, 3], [1])
    assert all_types == run
    assert machine.measured_device(on_gpu.cluster) == (T4.name, T4.libraries, ["cpu"])
    alone = by_one_device(on_gpu.cluster).devices
    assert [(one.index, one.type) for one in alone] == [(0, "T4")]
    emulated = replace(run, cluster=replace(run.cluster, emulate=Emulate()))
    assert [len(mine) for _, mine in by_first_device(emulated, jobs)] == [4]
