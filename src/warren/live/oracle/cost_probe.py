"""A child that times a job's first task with deterministic kernels and without, for ``--cost``."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import torch

from warren.live.oracle.kernel_costs import TaskCost, dearest
from warren.live.process.linux import direct_output, own_temporary_folder, set_name
from warren.live.process.specs import CostRole, Role
from warren.live.training import numerics
from warren.live.training.app.app_errors import print_traceback, reason_of
from warren.live.training.app.app_loader import build_app
from warren.live.training.checkpoints.files import write_whole
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import MemoryOf, TaskRunner, in_main_memory
from warren.model.job import Job

_WARM: Final = 2
"""Number of tasks that are not timed: the first ones load kernels, or choose among them."""
_LEAST: Final = 3
_MOST: Final = 50
_ENOUGH_MS: Final = 500.0
"""Tasks are timed for that long, if they are neither fewer than ``_LEAST`` nor as many as
``_MOST``."""
_PROFILED: Final = 5
_WITHOUT: Final = re.compile(r"(\S+) does not have a deterministic implementation")


def main(role: Role, lifeline: int) -> None:
    """Time a task, and write the outcome; an error of the app goes into the file too."""
    assert isinstance(role, CostRole)
    set_name("warren-cost")
    direct_output(role.log)
    own_temporary_folder(f"{role.result}-files")
    try:
        cost = cost_of(role.job, role.base, _memory_on(role))
    except BaseException as error:  # user code may raise anything, SystemExit too
        print_traceback(error)
        cost = TaskCost(error=reason_of(error))
    write_whole(role.result, msgspec.json.encode(cost))


def _memory_on(role: CostRole) -> MemoryOf:
    if role.gpu is None:
        return in_main_memory
    # Its code is loaded only where it is used.
    from warren.live.gpu.trainer_device import trainer_device

    return trainer_device(role.gpu, str(Path(role.result).parent)).memory_of


def cost_of(job: Job, base: str, memory: MemoryOf = in_main_memory) -> TaskCost:
    """Time the job's first task in both ways, in turns, since a machine may become slower."""
    state = b"".join(ParameterStore(build_app(job, base), job).state())
    runner = TaskRunner(build_app(job, base), job, memory)

    def task() -> None:
        runner.run(state, 0, 0)
        if _on_gpu():
            torch.cuda.synchronize()

    taken = [_Taken(_free), _Taken(_deterministic)]
    free, deterministic = taken
    try:
        while not deterministic.enough:
            for one in taken:
                one.time(task)
        # Apart: a profile leaves the next task with cold caches.
        for _ in range(_PROFILED):
            for one in taken:
                one.profile(task)
    finally:
        numerics.pin()
    return TaskCost(
        free_ms=free.least_ms,
        deterministic_ms=deterministic.least_ms,
        operators=dearest(
            free.operators_ms, deterministic.operators_ms, free.least_ms, deterministic.least_ms
        ),
        without=tuple(deterministic.without),
    )


class _Taken:
    """The least times of a task and of its operators in one way of computing."""

    def __init__(self, way: Callable[[], None]) -> None:
        self._way = way
        self._times_ms: list[float] = []
        self.operators_ms: dict[str, float] = {}
        self.without: dict[str, None] = {}
        """Operators without a deterministic kernel, in the order in which they ran."""

    @property
    def least_ms(self) -> float:
        """The time of the fastest task."""
        return min(self._times_ms[_WARM:])

    @property
    def enough(self) -> bool:
        """Whether more tasks need not be timed."""
        timed = self._times_ms[_WARM:]
        return len(timed) >= _LEAST and (len(timed) >= _MOST or sum(timed) > _ENOUGH_MS)

    def time(self, task: Callable[[], None]) -> None:
        """Time a task, and note what it warns of."""
        self._way()  # each time, since user code may change any setting
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            begin_s = _now_s()
            task()
            self._times_ms.append(1000 * (_now_s() - begin_s))
        for one in said:
            self.without.update(dict.fromkeys(_WITHOUT.findall(str(one.message))))

    def profile(self, task: Callable[[], None]) -> None:
        """Time the operators of a task."""
        self._way()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _profiled(task)
        for name, taken_ms in found.items():
            self.operators_ms[name] = min(taken_ms, self.operators_ms.get(name, taken_ms))


def _on_gpu() -> bool:
    """Tell whether this process has used a GPU."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _now_s() -> float:
    """Return the time of this process; on a GPU real time, which it waits for."""
    # Other programs of the machine lengthen real time.
    return time.perf_counter() if _on_gpu() else time.process_time()


def _free() -> None:
    """Let libraries choose the fastest kernels; precision and threads stay as pinned."""
    numerics.pin()
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.benchmark = True


def _deterministic() -> None:
    """Pin, but let an operator without a deterministic kernel run: it is named."""
    numerics.pin()
    torch.use_deterministic_algorithms(True, warn_only=True)


def _profiled(task: Callable[[], None]) -> dict[str, float]:
    """Return the time of each operator's own work in a task, in ms: on the GPU, if it has one."""
    # Imported here: each zygote loads this module.
    from torch.profiler import ProfilerActivity, profile

    cuda = _on_gpu()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as found:
        task()
    # Kernels have rows of their own beside the operators that began them.
    rows = [row for row in found.key_averages() if row.device_type.name == "CPU"]
    return {
        row.key: (row.self_device_time_total if cuda else row.self_cpu_time_total) / 1000
        for row in rows
    }
