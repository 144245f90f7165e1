"""The allowed ``workload`` of a run file: jobs, a trace, or a generator and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from warren.workload.specs.job import JobSpec
from warren.workload.specs.types import (
    Count,
    FilePath,
    Line,
    PathTag,
    PositiveTimeS,
    Seed,
    Spec,
    choice,
    path_or,
)
from warren.workload.traces.formats.any_table import (
    CLOCK,
    DATE,
    FIELDS,
    SEPARATORS,
    TIMES,
    UNITS,
    mapping_problem,
)
from warren.workload.traces.registry import TRACES
from warren.workload.traces.rows import JOBS, WINDOWS

GENERATORS: Final = ("hare-mix", "gavel-mix", "sjf-bco")


_MAX_JOBS = 1_000_000
_DOMAINS = ("cv", "nlp", "speech", "rec")

Factor = Annotated[float, Field(gt=0, le=1e6)]
Load = Annotated[float, Field(gt=0, le=1e6)]


class TraceSpec(Spec):
    """A public trace as workload."""

    format: Annotated[str, *choice("auto", *TRACES)] = Field(
        "auto", description="Format of the trace; auto: recognized by its first lines."
    )
    path: FilePath = Field(description="Path of the trace. It may be gzipped.")
    round_s: Annotated[PositiveTimeS, Field(ge=0.001)] = Field(
        60.0,
        description="Seconds of a round. A job with only a run time T has ceil(T / round_s) "
        "rounds.",
    )
    throughputs: FilePath | None = Field(
        None, description="Gavel: path of its simulation_throughputs.json."
    )
    gang: bool = Field(
        default=False,
        description="Gavel: whether a task takes the time of a step on all GPUs of its job.",
    )
    limit: Count | None = Field(None, description="Number of jobs to use: those that arrive first.")
    gpus_max: Count | None = Field(
        None, description="Most GPUs of a job. Larger jobs are left out."
    )
    leave_out: list[Line] = Field(
        default_factory=list, description="Philly and Helios: virtual clusters to leave out."
    )
    models: list[Line] = Field(
        default_factory=list,
        description="Models of jobs with only a run time. Each job trains one of them, drawn "
        "evenly.",
    )
    resample: Annotated[str, *choice(JOBS, WINDOWS)] | None = Field(
        None,
        description="What each seed draws from the trace, with replacement: jobs, or windows "
        "of time.",
    )
    window: PositiveTimeS | None = Field(
        None,
        description="Length of a window, for `resample: windows`; default: a tenth of the trace.",
    )
    columns: dict[Annotated[str, *choice(*FIELDS)], Line] = Field(
        default_factory=dict, description="Table: the column of each property of a job."
    )
    units: dict[Annotated[str, *choice(*TIMES)], Annotated[str, *choice(*UNITS, DATE, CLOCK)]] = (
        Field(
            default_factory=dict,
            description="Table: units of the columns of times; default: seconds.",
        )
    )
    separator: Annotated[str, *choice(*SEPARATORS)] = Field(
        "comma", description="Table: the character between two cells."
    )

    @model_validator(mode="after")
    def _of_windows(self) -> TraceSpec:
        if self.window is not None and self.resample != WINDOWS:
            raise ValueError("window needs resample: windows")
        return self

    @model_validator(mode="after")
    def _of_a_table(self) -> TraceSpec:
        stated = [
            name for name in ("columns", "units", "separator") if name in self.model_fields_set
        ]
        # Only ``table`` asks for the meaning of its columns; all other formats know theirs.
        if self.format != "table" and stated:
            raise ValueError(f"{stated[0]} needs format: table")
        if self.format == "table" and (problem := mapping_problem(self.columns, self.units)):
            raise ValueError(problem)
        # Virtual clusters to leave out are those of the column ``pool``.
        if self.format == "table" and self.leave_out and "pool" not in self.columns:
            raise ValueError("leave_out needs columns: {pool: ...}")
        return self


class GeneratorSpec(Spec):
    """The options that all generators take."""

    generate: Annotated[str, *choice(*GENERATORS)] = Field(description="Name of the generator.")
    jobs: int = Field(ge=1, le=_MAX_JOBS, description="Number of jobs.")
    load: Load | None = Field(
        1.0, description="Offered work over the cluster's capacity; null: all arrive at time 0."
    )
    seed: Seed | None = Field(None, description="Seed of the draws; default: the run's seed.")


class HareMixSpec(GeneratorSpec):
    """Jobs of the eight models of Hare's Table 2."""

    shares: dict[Annotated[str, *choice(*_DOMAINS)], Annotated[float, Field(ge=0, le=1e6)]] = Field(
        default_factory=dict,
        description="Parts of the jobs by domain (cv, nlp, speech, rec); default: 25 for each "
        "domain.",
    )
    scales: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1)] = Field(
        default=[1, 2, 4, 8], description="Numbers of tasks in a round, drawn evenly."
    )
    rounds_factor: Factor = Field(1.0, description="Factor on the rounds of every job.")
    tail: float = Field(
        0.0,
        ge=0,
        le=3,
        description="Standard deviation of the logarithm of a random factor on rounds.",
    )
    together: Annotated[float, Field(ge=1, le=_MAX_JOBS)] = Field(
        1.0, description="Mean number of jobs that arrive at one instant."
    )
    batch_factor: Factor = Field(
        1.0, description="Factor on the batch of every task. The rounds are divided by it."
    )
    targets: bool = Field(
        default=False,
        description="Whether every job has evaluate and `stop: {metric: loss, falls_to: 0.1}`.",
    )
    searches: float = Field(
        0.0,
        ge=0,
        le=100,
        description="Percentage of the jobs that belong to searches of eight jobs.",
    )
    repeats: int = Field(
        0,
        ge=0,
        le=_MAX_JOBS,
        description="Number of recurring kinds of jobs; 0: each job is of its own kind.",
    )
    kinds_seed: Seed = Field(
        0, description="Seed of the kinds, so that other runs can have the same kinds."
    )
    spread: float = Field(
        0.3,
        ge=0,
        le=3,
        description="Standard deviation of the logarithm of rounds among jobs of a kind.",
    )

    @model_validator(mode="after")
    def _of_kinds(self) -> HareMixSpec:
        # Without repeats there are no kinds, and these options would do nothing unnoticed.
        stated = sorted({"kinds_seed", "spread"} & self.model_fields_set)
        if stated and not self.repeats:
            raise ValueError(f"{stated[0]} needs repeats: it is of recurring kinds")
        if self.tail and self.repeats:
            raise ValueError("tail needs no repeats: runs of a kind have a spread")
        return self


class GavelMixSpec(GeneratorSpec):
    """Jobs as Gavel's own generator draws them, priced from its throughputs."""

    throughputs: FilePath = Field(description="Path of Gavel's simulation_throughputs.json.")
    gap: PositiveTimeS | None = Field(
        None, description="Mean time between arrivals, in place of load."
    )
    multi_gpu: bool = Field(default=True, description="Whether jobs of 2 and 4 GPUs are drawn.")
    gang: bool = Field(
        default=False, description="Whether a task takes the time of a step on all GPUs of its job."
    )

    @model_validator(mode="after")
    def _one_pace(self) -> GavelMixSpec:
        # ``load`` has a default, so the question is whether the user wrote it.
        if self.gap is not None and "load" in self.model_fields_set:
            raise ValueError("needs at most one of: load, gap")
        return self


class SjfBcoSpec(GeneratorSpec):
    """Rings of 1 to 32 GPUs, as the simulations of SJF-BCO draw them."""

    load: Load | None = Field(
        None, description="Offered work over the cluster's capacity; null: all arrive at time 0."
    )
    exchange: float = Field(
        0.015,
        ge=0,
        lt=1,
        description="Share of a round, run alone, in which its gradients are on the NIC.",
    )


class OtherSpec(Spec):
    """A generator that there is not; only its name is looked at."""

    model_config = ConfigDict(extra="ignore")

    generate: Annotated[str, *choice(*GENERATORS)]


class WorkloadSpec(Spec):
    """Source of the jobs: exactly one of the fields beside ``notes``."""

    ALSO: ClassVar[tuple[str, ...]] = ("generate",)
    jobs: (
        Annotated[
            PathTag | Annotated[list[JobSpec], Tag("<inline>")],
            path_or("list"),
        ]
        | None
    ) = Field(None, description="A jobs file (YAML, or .csv), or a list of jobs.")
    trace: TraceSpec | None = Field(None, description="A public trace, to simulate.")
    database: Line | None = Field(
        None,
        description="Path of a history database, or `default` for your own. Only a history "
        "reads it.",
    )
    notes: list[str] = Field(
        default_factory=list, description="Remarks of the program that read the jobs."
    )

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadSpec:
        # Of three sources two must be absent.
        if [self.jobs, self.trace, self.database].count(None) != 2:
            raise ValueError(
                "needs exactly one of: jobs, trace, generate; a history may also name a database"
            )
        return self


def _kind(value: Any) -> str | None:
    """Return the tag of the schema that a value of ``workload`` is checked with; None: none."""
    if isinstance(value, str):
        return "<path>"
    if isinstance(value, list):
        return "<inline>"
    if not isinstance(value, Mapping):
        return None
    if "generate" not in value:
        return "<workload>"
    # A generator that is unknown gets the schema that says which ones there are.
    name = value["generate"]
    return f"<{name}>" if isinstance(name, str) and name in GENERATORS else "<generate>"


Workload = Annotated[
    PathTag
    | Annotated[list[JobSpec], Tag("<inline>")]
    | Annotated[HareMixSpec, Tag("<hare-mix>")]
    | Annotated[GavelMixSpec, Tag("<gavel-mix>")]
    | Annotated[SjfBcoSpec, Tag("<sjf-bco>")]
    | Annotated[OtherSpec, Tag("<generate>")]
    | Annotated[WorkloadSpec, Tag("<workload>")],
    Discriminator(
        _kind,
        custom_error_type="path_or",
        custom_error_message="expected {jobs: ...}, {trace: ...}, {generate: ...}, a list of jobs "
        "or a path",
    ),
]
"""The value of ``workload`` in a run file."""
