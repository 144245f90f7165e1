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
        default=0, description="A task's end to the next one's start on a device that has work."
    )
    task_cpu: Short = Field(
        default=0, description="Processor time of Warren's own processes for a task of no bytes."
    )
    round_cpu: Short = Field(default=0, description="The same for a barrier.")
    task_cpu_rate: DiskRate | None = Field(
        default=None, description="Bytes of the model a second of such processor time, for a task."
    )
    round_cpu_rate: DiskRate | None = Field(default=None, description="The same for a barrier.")
    slowdown: float = Field(
        default=1.0,
        ge=1,
        le=100,
        description="How much longer a task computes when all cores compute.",
    )
    ring_start: Short = Field(
        default=0, description="From a ring's assignment until its ranks have met, no core busy."
    )
    ring_rank: Short = Field(
        default=0, description="Processor time of each rank for it; those of one instant share."
    )
    ring_move: Short = Field(
        default=0, description="How much longer it takes where the gang was on other devices."
    )
    task_alone: Short | None = Field(
        default=None, description="Report: wall time a task that computes nothing, one device."
    )
    task_busy: Short | None = Field(
        default=None, description="Report: the same a task of all devices, one a core, all busy."
    )
    barrier: Short | None = Field(
        default=None, description="Report: a round's last COMP to the next one's start, if queued."
    )
    barrier_decided: Short | None = Field(
        default=None, description="Report: the same where a policy decides in between."
    )
    transport: DiskRate | None = Field(
        default=None, description="Report: bytes a second from trainer to server and back."
    )
    step: DiskRate | None = Field(
        default=None, description="Report: bytes of parameters a second of plain SGD on one core."
    )


class OverheadsSpec(Spec):
    """The costs of the live engine on one machine, beside the tasks themselves."""

    format: Format = 1
    machine: Free = Field(default_factory=dict, description="Which machine; for people.")
    constants: ConstantsSpec = Field(description="Medians.")
    ranges: Free = Field(default_factory=dict, description="Least and most; for people.")
    how: Free = Field(default_factory=dict, description="How each was measured; for people.")


class SwitchingSpec(Spec):
    """The cost that a simulation charges a device for a change from one job to another."""

    scheme: Annotated[str, *choice(*SCHEMES)] | None = Field(
        None,
        description="By the size of the job's model, as the Hare paper or we measured.",
    )
    bus: DiskRate | None = Field(
        None,
        description="With scheme: from main memory to a device; default: "
        f"{PCIE3_X16_BYTES_PER_S / 1e9:g} GB/s (PCIe 3 x16).",
    )
    time: Short | None = Field(None, description="The same for every job and device.")
    times: dict[Name, Short] | None = Field(
        None, description="By device type, {V100: 3 s}; names every type of the cluster."
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
