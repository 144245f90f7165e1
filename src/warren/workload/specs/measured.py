"""The allowed content of a file of measured overheads, and of switching in a cluster file."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from warren.model.measured import PCIE3_X16_BYTES_PER_S, SCHEMES
from warren.workload.specs.types import DiskRate, Format, Free, Name, Spec, TimeNs, choice

# An hour: anything longer is taken for a slip of the unit.
MAX_NS: Final = 3600 * 10**9


def _short(value: int) -> int:
    if value > MAX_NS:
        raise ValueError("must be at most 1 h")
    return value


Short = Annotated[TimeNs, AfterValidator(_short)]


class ConstantsSpec(Spec):
    """The constants, in real time. The simulator does not use those marked *Report*."""

    cores: int = Field(ge=1, le=10_000, description="Processor cores of the machine.")
    dispatch: Short = Field(
        default=0,
        description="Time from the end of a task to the start of the next one on a device "
        "with work.",
    )
    task_cpu: Short = Field(
        default=0,
        description="Processor time of Warren's own processes for a task that moves no bytes.",
    )
    round_cpu: Short = Field(
        default=0, description="Processor time of Warren's own processes for a barrier."
    )
    task_cpu_rate: DiskRate | None = Field(
        default=None,
        description="Bytes of the model that one second of processor time moves, in a task.",
    )
    round_cpu_rate: DiskRate | None = Field(
        default=None,
        description="Bytes of the model that one second of processor time moves, in a barrier.",
    )
    slowdown: float = Field(
        default=1.0,
        ge=1,
        le=100,
        description="Factor by which a task takes longer when all cores compute.",
    )
    ring_start: Short = Field(
        default=0,
        description="Time from the assignment of a ring until its ranks have met, with idle cores.",
    )
    ring_rank: Short = Field(
        default=0,
        description="Processor time of each rank until the ranks have met. Ranks that start "
        "together share the cores.",
    )
    ring_move: Short = Field(
        default=0, description="Time added to the start of a ring that ran on other devices before."
    )
    task_alone: Short | None = Field(
        default=None,
        description="Report: wall time of a task that computes nothing, on one device.",
    )
    task_busy: Short | None = Field(
        default=None,
        description="Report: wall time of such a task when all devices, one on each core, are "
        "busy.",
    )
    barrier: Short | None = Field(
        default=None,
        description="Report: time from the last COMP of a round to the start of the next "
        "round, if that is queued.",
    )
    barrier_decided: Short | None = Field(
        default=None, description="Report: the same time when a policy decides in between."
    )
    transport: DiskRate | None = Field(
        default=None, description="Report: bytes per second from a trainer to its server and back."
    )
    step: DiskRate | None = Field(
        default=None,
        description="Report: bytes of parameters that plain SGD updates per second on one core.",
    )


class OverheadsSpec(Spec):
    """The costs of the live engine on one machine, beside the tasks themselves."""

    format: Format = 1
    machine: Free = Field(
        default_factory=dict, description="Description of the machine, for people."
    )
    constants: ConstantsSpec = Field(description="The medians of what was measured.")
    ranges: Free = Field(
        default_factory=dict, description="Least and largest value of each constant, for people."
    )
    how: Free = Field(
        default_factory=dict, description="How each constant was measured, for people."
    )


class SwitchingSpec(Spec):
    """The cost that a simulation charges a device for a change from one job to another."""

    scheme: Annotated[str, *choice(*SCHEMES)] | None = Field(
        None,
        description="Measured way of switching, by its name. Its time follows from the size of the "
        "job's model.",
    )
    bus: DiskRate | None = Field(
        None,
        description="Rate from main memory to a device, for scheme; default: "
        f"{PCIE3_X16_BYTES_PER_S / 1e9:g} GB/s (PCIe 3 x16).",
    )
    time: Short | None = Field(None, description="One time for every job and device.")
    times: dict[Name, Short] | None = Field(
        None, description="Time by device type, such as {V100: 3 s}, for every type of the cluster."
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> SwitchingSpec:
        # A scheme, one time for all types, or a time by type.
        if sum(value is not None for value in (self.scheme, self.time, self.times)) != 1:
            raise ValueError("needs exactly one of: scheme, time, times")
        # Only a scheme computes its times from a bus.
        if self.bus is not None and self.scheme is None:
            raise ValueError("bus goes with scheme only")
        return self
