"""Measuring the live engine's overheads on this machine: the workload, its phases, the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from warren import apps
from warren.live.measure import machine
from warren.live.process.scratch import ScratchFolder
from warren.model.cluster import Cluster, Device, DeviceType, Host, Local
from warren.model.events import TasksDone
from warren.model.job import Checkpoint, Job, Workload
from warren.model.run import Run
from warren.profile.overheads import Constant, Repeat, Sizes, constants
from warren.runs.calibration.phases import CalibrationPhase, Sample, run_phases

REPEATS: Final = 5
"""Number of measurements of all phases, after a repeat that warms up."""
DEVICES_MAX: Final = 8
"""More cores than this are not all kept busy at once."""
SCALE: Final = 4
"""Tasks a round of the jobs that tell a barrier's cost from a task's."""
SMALL: Final = 1 << 8
LARGE: Final = 1 << 20
"""Parameters of the two models, four bytes each."""
PRODUCTS: Final = 30
"""Makes a task some ten milliseconds long: processes that sleep in between spend more on waking."""
RANKS: Final = 3
"""Ranks of the wide ring on each core, on devices that nothing else uses; other rings have one."""
_AHEAD: Final = 4
"""Jobs of the phase in which a device always has its next task."""
_ENDLESS: Final = 10**6
"""More rounds than all phases together ask of a job: no job may end before the last phase."""
_ROUNDS: Final = 2
"""Rounds of a ring: after them it ends, and its processes with it."""
_KINDS: Final[Mapping[str, Mapping[str, int | str]]] = {
    "empty": {"app": "Vector", "floats": SMALL, "scale": 1},
    "empty-large": {"app": "Vector", "floats": LARGE, "scale": 1},
    "small": {"app": "Vector", "floats": SMALL, "scale": 1, "products": PRODUCTS},
    "small4": {"app": "Vector", "floats": SMALL, "scale": SCALE, "products": PRODUCTS},
    "large": {"app": "Vector", "floats": LARGE, "scale": 1, "products": PRODUCTS},
    "large4": {"app": "Vector", "floats": LARGE, "scale": SCALE, "products": PRODUCTS},
    "net": {"app": "Perceptron", "scale": 1},
    "ring": {"app": "Perceptron", "scale": 1},
    "wide": {"app": "Perceptron", "scale": RANKS},
}
_RINGS: Final = ("ring", "wide")
"""Kinds that are rings; their scales are ranks a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCalibration:
    """The constants that were measured, and facts of the machine they are of."""

    found: Mapping[str, Constant]
    cores: int
    facts: Mapping[str, str | float]


def calibrate(*, pin: bool, progress: Callable[[int, int], None]) -> EngineCalibration:
    """Measure this machine; ``progress`` is called with the repeat that begins and their number.

    Raises EngineError if a process of Warren's own does not come up.
    """
    # All repeats are one live run, so that processes are started once; samples are cut into
    # repeats afterwards, ``count`` phases each.
    cores = machine.cores()
    devices = min(cores, DEVICES_MAX)
    run, of_kind = _run(devices, pin=pin)
    repeated = [_phases(devices, of_kind, repeat) for repeat in range(REPEATS + 1)]
    every, count = [phase for phases in repeated for phase in phases], len(repeated[0])

    def begun(phase: int) -> None:
        if phase % count == 1:
            progress(1 + phase // count, REPEATS + 1)

    with ScratchFolder("warren-calibrate-") as above:
        samples, numerics, _ = run_phases(run, every, begun, f"{above}/run", warm=False)
    repeats = [
        _repeat(samples[at : at + count], machine.step_bytes_per_s())
        for at in range(count, len(every), count)  # the first repeat warms up
    ]
    facts = {
        **machine.machine_facts(numerics),
        "devices": devices,
        "pinned": "yes" if pin else "no",
    }
    sizes = Sizes(
        small_bytes=4 * SMALL,
        large_bytes=4 * LARGE,
        scale=SCALE,
        ranks=devices,
        wide_ranks=RANKS * devices,
        cores=cores,
    )
    return EngineCalibration(found=constants(repeats, sizes), cores=cores, facts=facts)


def _run(devices: int, *, pin: bool) -> tuple[Run, Mapping[str, tuple[int, ...]]]:
    """Make the run, and return the indices of its jobs by kind."""
    # Only the wide ring uses the devices beyond the first ``devices``.
    names = tuple(f"h/CPU-{index}" for index in range(RANKS * devices))
    cluster = Cluster(
        hosts=(Host(name="h", devices=names),),
        devices=tuple(
            Device(index=index, name=name, type="CPU", host="h") for index, name in enumerate(names)
        ),
        types=(DeviceType(name="CPU"),),
        local=Local(pin=pin),
    )
    # Jobs of each kind: two a device keep it busy while one of them waits for its barrier. A ring
    # runs once, so every repeat, the first included, has two of its own: a ring alone, and a ring
    # that moves.
    many = {"empty": max(_AHEAD, 2 * devices), "empty-large": 1, "small4": 2, "large4": 2}
    many |= {"ring": 2 * (REPEATS + 1), "wide": REPEATS + 1}
    jobs: list[Job] = []
    of_kind = {}
    for kind in _KINDS:
        count = many.get(kind, 2 * devices)
        of_kind[kind] = tuple(range(len(jobs), len(jobs) + count))
        jobs += [_job(index, kind, devices) for index in of_kind[kind]]
    folder = os.path.dirname(apps.__file__)
    work = Workload(jobs=tuple(jobs))
    return Run(name="calibrate", cluster=cluster, workload=work, base=folder, verify=0.0), of_kind


def _job(index: int, kind: str, devices: int) -> Job:
    """Make a job of a kind; the params of its app are the other values in ``_KINDS``."""
    stated = dict(_KINDS[kind])
    app = stated.pop("app")
    scale = int(stated.pop("scale"))
    ring = kind in _RINGS
    # Checkpoints would take processor time, so there are none as long as phases run.
    return Job(
        index=index,
        name=f"{kind}-{index}",
        app=f"calibration.py:{app}",
        scale=scale * devices if ring else scale,
        sync="ring" if ring else "ps",
        rounds=_ROUNDS if ring else _ENDLESS,
        batch=1 if app == "Vector" else 64,
        checkpoint=Checkpoint(every=10**12),
        params=stated,
    )


def _phases(devices: int, of: Mapping[str, tuple[int, ...]], repeat: int) -> list[CalibrationPhase]:
    """Return the phases of a repeat, which has rings of its own, since a ring starts once."""

    def phase(name: str, jobs: Sequence[int], over: int, rounds: int) -> CalibrationPhase:
        """Make a phase of ``rounds`` of these jobs over ``over`` devices."""
        return CalibrationPhase(name=name, jobs=tuple(jobs), devices=over, rounds=rounds)

    empty, net = of["empty"], of["net"]
    alone, moved = of["ring"][2 * repeat : 2 * repeat + 2]
    return [
        phase("alone", empty[:1], 1, 40),
        phase("alone large", of["empty-large"], 1, 15),
        CalibrationPhase(name="decided", jobs=empty[:1], devices=1, rounds=40, decided=True),
        phase("ahead", empty[:_AHEAD], 1, 40),
        phase("busy", empty[: 2 * devices], devices, 40),
        phase("small", of["small"], devices, 10),
        phase("small scaled", of["small4"], devices, 5),
        phase("large", of["large"], devices, 10),
        phase("large scaled", of["large4"], devices, 5),
        phase("net alone", net[:1], 1, 15),
        phase("net busy", net, devices, 10),
        phase("ring", [alone], devices, _ROUNDS),
        phase("wide ring", [of["wide"][repeat]], RANKS * devices, _ROUNDS),
        CalibrationPhase(
            name="moved", jobs=(moved,), devices=devices, rounds=_ROUNDS, decided=True, turning=True
        ),
    ]


def _repeat(samples: Sequence[Sample], step_bytes_per_s: float) -> Repeat:
    """Return the figures of one repeat, from which ``constants`` computes the overheads."""
    by_name = {one.phase.name: one for one in samples}

    def own_ns(name: str) -> float:
        """Return the processor time of Warren's own processes for a task of a phase."""
        return by_name[name].own_ns / len(by_name[name].tasks)

    def trainers_ns(name: str) -> float:
        """Return the processor time of the trainers for a task of a phase."""
        return by_name[name].trainers_ns / len(by_name[name].tasks)

    gang_ns, wide_gang_ns, moved_ns = _starts(
        by_name["ring"], by_name["wide ring"], by_name["moved"]
    )
    return Repeat(
        gang_ns=gang_ns,
        wide_gang_ns=wide_gang_ns,
        moved_ns=moved_ns,
        dispatch_ns=median(_gaps(by_name["ahead"].tasks)),
        task_alone_ns=_wall(by_name["ahead"].tasks),
        task_busy_ns=_wall(by_name["busy"].tasks),
        barrier_ns=median(_gaps(by_name["alone"].tasks)),
        barrier_large_ns=median(_gaps(by_name["alone large"].tasks)),
        barrier_decided_ns=median(_gaps(by_name["decided"].tasks)),
        own_ns=own_ns("small"),
        own_scaled_ns=own_ns("small scaled"),
        own_large_ns=own_ns("large"),
        own_large_scaled_ns=own_ns("large scaled"),
        compute_alone_ns=trainers_ns("net alone"),
        compute_busy_ns=trainers_ns("net busy"),
        step_bytes_per_s=step_bytes_per_s,
    )


def _starts(one: Sample, wide: Sample, moved: Sample) -> tuple[float, float, float]:
    """Return the times of three rings from assignment to first COMP, in nanoseconds.

    Each is the time to the first COMP's end, less that COMP: for a ring with a rank a core, one
    with ``RANKS``, whose COMPs share the cores, and a ring that was on other devices before.
    """
    # The first round includes the start, so a COMP is timed by later rounds.
    comp_ns = median(task.comp_end_ns - task.start_ns for task in one.tasks if task.round)

    def first_ns(sample: Sample, round_: int) -> int:
        """Return when the last COMP of a round ended: a gang computes together."""
        return max(task.comp_end_ns for task in sample.tasks if task.round == round_)

    # The ring that moves is assigned its second round when the first one's barrier has passed.
    barrier_ns = max(task.end_ns for task in moved.tasks if not task.round)
    return (
        first_ns(one, 0) - one.begin_ns - comp_ns,
        first_ns(wide, 0) - wide.begin_ns - RANKS * comp_ns,
        first_ns(moved, 1) - barrier_ns - comp_ns,
    )


def _gaps(tasks: Sequence[TasksDone]) -> list[int]:
    """Return the times from each COMP's end to the next start, on one device."""
    ordered = sorted(tasks, key=lambda task: task.start_ns)
    return [after.start_ns - before.comp_end_ns for before, after in pairwise(ordered)]


def _wall(tasks: Sequence[TasksDone]) -> float:
    """Return the time from the first start to the last COMP end, divided by the tasks."""
    begin_ns = min(task.start_ns for task in tasks)
    return (max(task.comp_end_ns for task in tasks) - begin_ns) / len(tasks)
