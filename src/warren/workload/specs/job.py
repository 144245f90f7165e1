"""What a job file may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from warren.workload.specs.types import (
    Count,
    Format,
    Free,
    Line,
    Name,
    Path,
    PositiveTimeNs,
    Seed,
    Spec,
    TimeNs,
    choice,
)

MAX_SCALE = 1_000_000


def _cost(value: object) -> object:
    if isinstance(value, dict):
        raise ValueError("a mapping (for shape advice) is not available yet; allowed: a row's name")
    return value


class EvaluateSpec(Spec):
    """When the job is evaluated."""

    every: Count = Field(description="Evaluate inside the barrier of every so many rounds.")


class StopSpec(Spec):
    """When the job ends early."""

    metric: Line = Field(description="Name of a number that evaluate() returns.")
    reaches: float | None = Field(None, description="Stop once the metric is at least this.")
    falls_to: float | None = Field(None, description="Stop once the metric is at most this.")

    @model_validator(mode="after")
    def _one_target(self) -> StopSpec:
        if (self.reaches is None) == (self.falls_to is None):
            raise ValueError("needs exactly one of reaches and falls_to")
        return self


class CheckpointSpec(Spec):
    """When the job is checkpointed."""

    every: Count = Field(description="Keep a copy every so many rounds.")


class JobSpec(Spec):
    """One training job: what it computes, never where or when."""

    format: Format = 1
    name: Name = Field(description="1 to 80 of A-Z a-z 0-9 . _ -; differs from other jobs.")
    app: Path | None = Field(
        None, description="path/file.py:Class, relative to the file that holds the job."
    )
    model: Line | None = Field(None, description="A row of the profile table; omit to measure.")
    sync: Annotated[str, *choice("ps", "ring")] = Field(
        "ps",
        description="ps: a parameter server; ring: an all-reduce among as many devices as tasks.",
    )
    scale: int = Field(1, ge=1, le=MAX_SCALE, description="Tasks a round.")
    rounds: Count | None = Field(None, description="Omit when unknown (online policies only).")
    batch: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Items a task; default: the batch of the model's row; 1 with an app.",
    )
    weight: float = Field(1.0, gt=0, le=1e12, description="Of its JCT in the sum.")
    arrival: TimeNs = 0
    user: Line | Literal[""] = Field("", description="Whose job it is, for tables.")
    group: Line | Literal[""] = Field("", description="The search it belongs to.")
    seed: Seed | None = Field(None, description="Default: from the run's seed and the job's name.")
    numerics: Annotated[str, *choice("strict", "mixed")] = Field(
        "strict", description="Whether the job must stay in one numerics class."
    )
    evaluate: EvaluateSpec | None = Field(None, description="Default: never.")
    stop: StopSpec | None = Field(None, description="End early; needs evaluate.")
    checkpoint: CheckpointSpec | None = Field(
        None, description="When its state is kept on disk; default: as often as costs little."
    )
    task_limit: PositiveTimeNs = Field(
        600 * 10**9,
        description="Real time after which a task or barrier that has not ended ends the job.",
        json_schema_extra={"default": "10 min"},
    )
    nan_loss: Annotated[str, *choice("fail", "train")] = Field(
        "fail", description="What becomes of a job whose loss is NaN after a round."
    )
    params: Free = Field(default_factory=dict, description="Parameters of the app.")
    cost: Annotated[
        Line | None, BeforeValidator(_cost), WithJsonSchema({"type": ["string", "null"]})
    ] = Field(None, description="A profile row of this job alone, taken as it is.")

    @model_validator(mode="after")
    def _complete(self) -> JobSpec:
        if self.stop is not None and self.evaluate is None:
            raise ValueError("stop needs evaluate: {every: N}")
        if self.app is None and self.model is None and self.cost is None:
            raise ValueError("needs app (code to train) or model (a row of the profile table)")
        return self


class JobsSpec(Spec):
    """A file of several jobs."""

    format: Format = 1
    jobs: list[JobSpec] = Field(min_length=1)
