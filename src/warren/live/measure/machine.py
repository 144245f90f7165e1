"""Readings of this machine: processor times of a run's processes, a bare step, facts."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warren.live.control.engine import LiveEngine
from warren.live.process.specs import TrainerRole

_STEP_BYTES: Final = 16 << 20
"""The parameters of a measured step."""
_STEPS: Final = 20
"""Steps of which the median counts."""
_LOOK_S: Final = 0.3
"""Seconds for which the machine's cores are observed."""


@dataclass(frozen=True, slots=True)
class ProcessorTimes:
    """Nanoseconds on a core since their start: of Warren's own processes and of trainers.

    Warren's own are the controller (this process), executors and servers; trainers run user code.
    ``of_trainers_ns``: (job, ns) of each living trainer except verifying ones.
    """

    own_ns: int
    trainers_ns: int
    of_trainers_ns: tuple[tuple[int, int], ...]


def processor_times(port: LiveEngine) -> ProcessorTimes:
    """Read the processor times of the processes of a run so far."""
    own_ns, trainers_ns = time.process_time_ns(), 0
    each: list[tuple[int, int]] = []
    for pid, role in port.processes().items():
        on_core_ns = _on_core_ns(pid)
        if isinstance(role, TrainerRole):
            trainers_ns += on_core_ns
            if not role.verifies:
                each.append((role.job.index, on_core_ns))
        else:
            own_ns += on_core_ns
    return ProcessorTimes(own_ns, trainers_ns, tuple(each))


def _on_core_ns(pid: int) -> int:
    """Return the ns on a core of all threads of a process; 0 once it is gone."""
    total = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            # schedstat: ns on a core, ns waiting for one, time slices.
            text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
            total += int(text.split()[0])
    return total


def busy_share() -> float:
    """Measure the share of this machine's cores that others keep busy just now, 0 to 1."""
    before = _jiffies()
    time.sleep(_LOOK_S)
    after = _jiffies()
    total = sum(after) - sum(before)
    idle = sum(after[3:5]) - sum(before[3:5])  # idle, and idle while a disk works
    return 0.0 if total <= 0 else 1.0 - idle / total


def _jiffies() -> list[int]:
    """Read how long all cores together were in each state: user, nice, system, idle and so on."""
    # Without guest times, which are counted in user and nice as well.
    with open("/proc/stat") as file:
        return [int(part) for part in file.readline().split()[1:9]]


def step_bytes_per_s() -> float:
    """Measure how many bytes of parameters a second one core steps with plain SGD.

    In this process, outside the engine.
    """
    import torch

    torch.set_num_threads(1)
    values = torch.nn.Parameter(torch.zeros(_STEP_BYTES // 4))
    values.grad = torch.ones_like(values)
    optimizer = torch.optim.SGD([values], lr=0.1, fused=False)
    optimizer.step()  # the first one touches memory for the first time
    times_ns = []
    for _ in range(_STEPS):
        begin_ns = time.perf_counter_ns()
        optimizer.step()
        times_ns.append(time.perf_counter_ns() - begin_ns)
    return _STEP_BYTES * 1e9 / sorted(times_ns)[_STEPS // 2]


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine_facts(numerics: str) -> Mapping[str, str]:
    """Describe this machine in words for people, by kind of fact."""
    return {
        "processor": processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numerics": numerics,
    }


def processor() -> str:
    """Return the name of this machine's processor, or of its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
