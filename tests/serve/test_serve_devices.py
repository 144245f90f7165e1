"""The devices of a machine: GPUs as NVML shows them, or processors."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import fake_nvml
import pytest
from agent_world import HOST, world

from warren.serve.agent.devices import Devices, short_name
from warren.serve.agent.folders import AttemptFolder
from warren.serve.agent.gpu_watch import GpuWatch
from warren.serve.agent.loop import Loop
from warren.serve.hosts.port import DevicesSeen
from warren.serve.records.machines import DeviceUse, HostDevice

GIB = 1 << 30
UUIDS = ("GPU-aaaa0000", "GPU-bbbb1111")


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two GPUs, in a file that may be changed."""
    path = tmp_path / "gpus.json"
    write(path)
    monkeypatch.setenv("FAKE_NVML", str(path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return path


def write(path: Path, used: int = 0, pids: tuple[int, ...] = ()) -> None:
    first = {"uuid": UUIDS[0], "name": "NVIDIA H100 80GB HBM3", "total": 80 * GIB}
    second = {"uuid": UUIDS[1], "name": "NVIDIA GeForce RTX 4090", "total": 24 * GIB}
    state = [
        {**first, "used": used, "pids": pids},
        {**second, "used": 0, "pids": ()},
    ]
    path.with_suffix(".part").write_text(json.dumps(state))
    path.with_suffix(".part").rename(path)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA GeForce RTX 3080 Ti", "RTX3080Ti"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA Graphics Device", "GPU"),
    ],
)
def test_the_type_of_a_gpu_is_short(name: str, short: str) -> None:
    assert short_name(name) == short


def test_gpus_are_devices_by_uuid_and_without_them_processors_are(gpus: Path) -> None:
    assert Devices(fake_nvml).devices == (
        HostDevice(UUIDS[0], "gpu", "H100", 80 * GIB),
        HostDevice(UUIDS[1], "gpu", "RTX4090", 24 * GIB),
    )
    processors = [HostDevice(f"cpu:{one}", "cpu", "CPU") for one in sorted(os.sched_getaffinity(0))]
    assert Devices(None).devices == tuple(processors)


def test_the_instances_of_a_divided_gpu_are_devices(gpus: Path) -> None:
    part = {"name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "total": 5 * GIB, "used": 0, "pids": ()}
    parts = [{**part, "uuid": "MIG-1"}, {**part, "uuid": "MIG-2"}]
    whole = {"uuid": "GPU-1", "name": "NVIDIA A100-SXM4-40GB", "total": 40 * GIB, "parts": parts}
    gpus.write_text(json.dumps([whole]))
    assert Devices(fake_nvml).devices == (
        HostDevice("MIG-1", "gpu", "A100MIG1g.5gb", 5 * GIB),
        HostDevice("MIG-2", "gpu", "A100MIG1g.5gb", 5 * GIB),
    )


@pytest.mark.parametrize("visible", ["1", "GPU-bbbb", "1,7"])
def test_an_agent_offers_only_the_gpus_that_it_may_see(
    gpus: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [device.id for device in Devices(fake_nvml).devices] == [UUIDS[1]]


def test_a_process_of_no_job_is_foreign_and_one_of_a_job_is_not(gpus: Path) -> None:
    write(gpus, GIB, (os.getpid(),))
    seen: list[tuple[DeviceUse, ...]] = []
    GpuWatch(Loop(), Devices(fake_nvml), lambda: (), seen.append)
    (foreign,) = seen[0][0].foreign
    assert foreign.endswith(f"({os.getpid()})")
    assert seen[0][0].used_bytes == GIB
    seen.clear()
    GpuWatch(Loop(), Devices(fake_nvml), lambda: (os.getppid(),), seen.append)
    assert seen[0][0].foreign == ()


def test_a_device_is_free_when_its_memory_is_back(gpus: Path) -> None:
    loop = Loop()
    watch = GpuWatch(loop, Devices(fake_nvml), lambda: (), lambda _: None)
    watch.begins("1.1", UUIDS)
    write(gpus, GIB)
    freed: list[str] = []
    watch.when_back("1.1", UUIDS, (), lambda: (freed.append("memory is back"), loop.end(0))[0])
    assert not freed
    loop.call_later(0.01, lambda: write(gpus))
    loop.run()
    assert freed == ["memory is back"]


def test_memory_of_other_jobs_on_a_shared_device_is_not_waited_for(gpus: Path) -> None:
    watch = GpuWatch(Loop(), Devices(fake_nvml), lambda: (), lambda _: None)
    watch.begins("1.1", UUIDS)
    write(gpus, GIB)
    freed: list[str] = []
    watch.when_back("1.1", UUIDS, UUIDS[:1], lambda: freed.append("at once"))
    assert freed == ["at once"]


@pytest.mark.live
def test_a_job_has_its_gpus_by_uuid_until_their_memory_is_back_and_their_use_is_reported(
    gpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_NVML", "fake_nvml")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    write(gpus, GIB, (os.getpid(),))

    async def test() -> None:
        async with world(tmp_path) as here:
            joined = await here.joined(1)
            assert [device.type for device in joined.machine.devices] == ["H100", "RTX4090"]
            await here.run("1.1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", devices=(UUIDS[1],))
            assert await here.log("1.1") == f"{UUIDS[1]}\n"
            here.start("2.1", "sleep", "1000", devices=(UUIDS[0],))
            await here.started("2.1")
            write(gpus, 9 * GIB)
            here.hosts.stop(HOST, "2.1", 0.0)
            folder = AttemptFolder(str(here.attempt_folder("2.1")))
            await here.until(lambda: folder.record().end is not None)
            assert not here.ends("2.1")
            write(gpus, GIB)
            assert (await here.ended("2.1")).cause == "cancel"
            seen = [one for one in here.reports if isinstance(one, DevicesSeen)]
            assert seen[0].host == HOST
            assert len(seen[0].devices[0].foreign) == 1

    asyncio.run(test())
