"""What a cluster file may say of switching between jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from warren.model.switching import PCIE3_X16_BYTES_PER_S, SCHEMES
from warren.workload.specs.overheads import Short
from warren.workload.specs.types import DiskRate, Name, Spec, choice


class SwitchingSpec(Spec):
    """What a simulation charges a device that goes from one job's task to another job's."""

    scheme: Annotated[str, *choice(*SCHEMES)] | None = Field(
        None, description="By the size of the job's model, as the Hare paper measured it."
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
        if sum(value is not None for value in (self.scheme, self.time, self.times)) != 1:
            raise ValueError("needs exactly one of: scheme, time, times")
        if self.bus is not None and self.scheme is None:
            raise ValueError("bus goes with scheme only")
        return self
