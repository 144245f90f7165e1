"""The allowed content of a job file, and a sorted ``Workload`` made of checked job files."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from warren.model.errors import Problem
from warren.model.job import Checkpoint, EpochCost, Evaluate, Job, RateSchedule, Stop, Workload
from warren.workload.specs.types import (
    Count,
    FilePath,
    Format,
    Free,
    Line,
    Name,
    PositiveTimeNs,
    PositiveTimeS,
    Seed,
    Size,
    Spec,
    TimeNs,
    choice,
)
from warren.workload.text import hint
from warren.workload.yaml_document import Document, Path

MAX_SCALE = 1_000_000
MAX_WORKERS = 256


def _cost_kind(value: object) -> str | None:
    if isinstance(value, Mapping):
        return "<inline>"
    return "<word>" if isinstance(value, str) else None


def _workers_kind(value: object) -> str:
    return "<word>" if isinstance(value, int | float | str) else "<inline>"


class EvaluateSpec(Spec):
    """When the job is evaluated."""

    every: Count = Field(
        description="Number of rounds between two evaluations. An evaluation is part of a barrier."
    )


class StopSpec(Spec):
    """When the job ends early."""

    metric: Line = Field(description="Name of a metric that evaluate() returns.")
    reaches: float | None = Field(
        None, description="The job ends when the metric is at least this value."
    )
    falls_to: float | None = Field(
        None, description="The job ends when the metric is at most this value."
    )

    @model_validator(mode="after")
    def _one_target(self) -> StopSpec:
        # Equal: both are given or neither is.
        if (self.reaches is None) == (self.falls_to is None):
            raise ValueError("needs exactly one of reaches and falls_to")
        return self


class RateScheduleSpec(Spec):
    """When the learning rate is lowered, for predictions of the job's curve."""

    steps: list[Count] = Field(
        max_length=1000,
        description="Rounds after which the learning rate is lower, in rising order. An empty "
        "list: it is never lowered.",
    )

    @model_validator(mode="after")
    def _rising(self) -> RateScheduleSpec:
        for one, after in pairwise(self.steps):
            if after <= one:
                raise ValueError(f"needs steps that rise, got {after} after {one}")
        return self


class CheckpointSpec(Spec):
    """When the job is checkpointed."""

    every: Count = Field(description="Number of rounds between two checkpoints.")


class JobServersSpec(Spec):
    """Where a job has its parameter servers, under shape ``fixed``."""

    hosts: list[Line] = Field(
        min_length=1,
        max_length=64,
        description="The host of each server. A host may be named twice.",
    )
    bytes: list[Size] | None = Field(
        None, description="Bytes of the model on each server; default: equal parts."
    )

    @model_validator(mode="after")
    def _one_each(self) -> JobServersSpec:
        if self.bytes is not None and len(self.bytes) != len(self.hosts):
            raise ValueError(f"needs {len(self.hosts)} bytes, one for each of hosts")
        return self


class JobWorkersSpec(Spec):
    """Where the tasks of a job may run, under shape ``fixed``; and what ``workers: N`` states."""

    hosts: list[Line] = Field(min_length=1, description="The hosts, each named once.")
    processes: int | None = Field(
        None, ge=0, le=MAX_WORKERS, description="Number of processes, as `workers: N` states it."
    )

    @model_validator(mode="after")
    def _each_once(self) -> JobWorkersSpec:
        if len(set(self.hosts)) < len(self.hosts):
            raise ValueError("names a host twice")
        return self


class EpochCostSpec(Spec):
    """The content of a job's epoch, for ``warren shape``."""

    items: Count = Field(description="Number of items in the data set.")
    item: dict[Line, PositiveTimeS] = Field(
        min_length=1, description="Time to compute one item, by device type."
    )
    model: Size = Field(
        gt=0, description="Bytes of the model, which each mini-batch pulls and pushes."
    )
    batch: Count = Field(description="Number of items in a mini-batch.")
    data: Size | None = Field(None, gt=0, description="Bytes of all items. Only plans use it.")


class JobSpec(Spec):
    """One training job: its computation, never its place or time."""

    INSTEAD: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("command", "cmd", "script", "entrypoint"),
        "Warren trains classes, not commands: `app: FILE.py:Class`; see docs/guides/porting.md",
    )
    format: Format = 1
    name: Name = Field(
        description="Name of the job, unique in the run: 1 to 80 characters of A-Z a-z 0-9 . _ -"
    )
    app: FilePath | None = Field(
        None,
        description="The class to train, as path/file.py:Class. The path is relative to the "
        "file that holds the job.",
    )
    model: Line | None = Field(
        None, description="Name of a row of the profile table; default: task times are measured."
    )
    sync: Annotated[str, *choice("ps", "ring")] = Field(
        "ps",
        description="How tasks synchronize: ps, through a parameter server; ring, by an all-"
        "reduce among as many devices as there are tasks.",
    )
    scale: int = Field(1, ge=1, le=MAX_SCALE, description="Number of tasks in a round.")
    rounds: Count | None = Field(
        None, description="Number of rounds; default: unknown, which only online policies accept."
    )
    batch: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Number of items in a task; default: the batch of the model's row, or 1 "
        "with an app.",
    )
    weight: float = Field(
        1.0,
        gt=0,
        le=1e12,
        description="Weight of the job's completion time (JCT) in the weighted sum.",
    )
    arrival: TimeNs = 0
    user: Line | Literal[""] = Field("", description="Owner of the job, for tables by user.")
    group: Line | Literal[""] = Field(
        "", description="The hyperparameter search that the job belongs to."
    )
    seed: Seed | None = Field(
        None,
        description="Seed of the training; default: made of the run's seed and the job's name.",
    )
    numerics: Annotated[str, *choice("strict", "mixed")] = Field(
        "strict",
        description="strict: all devices that the job may use have one numerics class (the same "
        "arithmetic). mixed: they may differ.",
    )
    types: list[Line] | None = Field(
        None, min_length=1, description="Device types on which the job may run; default: all."
    )
    evaluate: EvaluateSpec | None = Field(
        None, description="When the job is evaluated; default: never."
    )
    stop: StopSpec | None = Field(
        None,
        description="When the job ends early. It needs evaluate; default: the job runs all "
        "its rounds.",
    )
    schedule: RateScheduleSpec | None = Field(
        None, description="When the app lowers its learning rate; default: not stated."
    )
    checkpoint: CheckpointSpec | None = Field(
        None, description="When the job is checkpointed; default: as often as it costs little time."
    )
    task_limit: PositiveTimeNs = Field(
        600 * 10**9,
        description="Longest real time of one task or barrier. The job fails when one takes "
        "longer.",
        json_schema_extra={"default": "10 min"},
    )
    nan_loss: Annotated[str, *choice("fail", "train")] = Field(
        "fail",
        description="What happens when the loss is NaN after a round: fail, the job fails; "
        "train, it goes on.",
    )
    params: Free = Field(default_factory=dict, description="Parameters of the app.")
    cost: (
        Annotated[
            Annotated[Line, Tag("<word>")] | Annotated[EpochCostSpec, Tag("<inline>")],
            Discriminator(
                _cost_kind,
                custom_error_type="word_or",
                custom_error_message="expected the name of a row, or {items: ..., item: ...}",
            ),
        ]
        | None
    ) = Field(
        None,
        description="Name of a profile row that holds for this job alone; or the content of "
        "an epoch, for `warren shape`.",
    )
    flow_class: int | None = Field(
        None,
        alias="class",
        ge=1,
        le=7,
        description="Priority class of the job's bytes under `flow: fixed`; 1 goes first.",
    )
    servers: JobServersSpec | None = Field(
        None, description="Where the job has its servers, under `shape: fixed`."
    )
    workers: (
        Annotated[
            Annotated[int, Field(ge=0, le=MAX_WORKERS), Tag("<word>")]
            | Annotated[JobWorkersSpec, Tag("<inline>")],
            Discriminator(_workers_kind),
        ]
        | None
    ) = Field(
        None,
        description="Number of processes of each trainer that build batches (0 on processors "
        "unless stated); or `{hosts: ...}`, where the job's tasks may run under `shape: fixed`.",
    )

    @model_validator(mode="after")
    def _complete(self) -> JobSpec:
        if self.stop is not None and self.evaluate is None:
            raise ValueError("stop needs evaluate: {every: N}")
        if self.app is None and self.model is None and self.cost is None:
            raise ValueError("needs app (code to train) or model (a row of the profile table)")
        if self.servers is not None and self.sync == "ring":
            raise ValueError("a ring has no servers; leave servers out, or sync: ps")
        if len(set(self.types or ())) < len(self.types or ()):
            raise ValueError("types names a type twice")
        return self


class JobsSpec(Spec):
    """A file of several jobs."""

    format: Format = 1
    jobs: list[JobSpec] = Field(min_length=1)


_SEED_MASK: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The values that a job's defaults depend on.

    ``batches`` gives the batch of a model's profile row; ``app_folder`` is put before the paths
    of apps, which are relative to the file that names them. ``same_names``: jobs may have
    equal names, as those of a history that recur.
    """

    run_seed: int = 0
    batches: Mapping[str, int] = field(default_factory=dict)
    app_folder: str = ""
    same_names: bool = False


def job_seed(run_seed: int, name: str) -> int:
    """Return a job's default seed: 63 bits of SHA-256 of run seed and job name."""
    digest = hashlib.sha256(f"{run_seed}:{name}".encode()).digest()
    # By name and not by place: a job keeps its seed when others are added before it.
    return int.from_bytes(digest[:8], "big") & _SEED_MASK


def build_jobs(
    specs: Sequence[JobSpec],
    document: Document,
    at: Path,
    context: JobContext,
    problems: list[Problem],
) -> tuple[Job, ...]:
    """Build jobs in file order; problems where names are equal or a batch is missing.

    ``at`` is where the list of jobs stands in the document.
    """
    if not context.same_names:
        problems += _same_names(specs, document, at)
    jobs = []
    for index, spec in enumerate(specs):
        batch = _batch(spec, context)
        if batch is None and not context.batches:
            message = f"is required: the cost of model {spec.model} follows from it"
            problems.append(document.problem((*at, index, "batch"), message))
        elif batch is None:
            known = sorted(context.batches)
            message = (
                f"unknown model {spec.model!r}; {hint(str(spec.model), known)}"
                f"allowed: {', '.join(known)}; `profiles:` of the run adds rows, and a "
                "job of such a row states its batch"
            )
            problems.append(document.problem((*at, index, "model"), message))
        else:
            # Where the job stands, for messages about it later on.
            line = document.line((*at, index, "name"))
            source = "" if line is None else f"{document.file}:{line}"
            jobs.append(_job(spec, index, batch, context, source))
    return tuple(jobs)


def sort_jobs(jobs: Iterable[Job], notes: Iterable[str] = ()) -> Workload:
    """Sort jobs by (arrival, order in the file), and number them in that order."""
    ordered = sorted(jobs, key=lambda job: (job.arrival_ns, job.index))
    # Sorting is stable by (arrival, index), and the new index is the place in that order.
    numbered = tuple(replace(job, index=index) for index, job in enumerate(ordered))
    return Workload(jobs=numbered, notes=tuple(notes))


def _same_names(specs: Sequence[JobSpec], document: Document, at: Path) -> Iterable[Problem]:
    """Yield a problem for each job whose name an earlier one has."""
    first: dict[str, int] = {}
    for index, spec in enumerate(specs):
        before = first.setdefault(spec.name, index)
        if before != index:
            line = document.line((*at, before, "name"))
            where = f"job {before + 1}" if line is None else f"line {line}"
            message = f"{spec.name} is also the name of {where}; names must differ"
            yield document.problem((*at, index, "name"), message)


def _batch(spec: JobSpec, context: JobContext) -> int | None:
    """Return a job's batch; None if its model has no row to take one from."""
    if spec.batch is not None:
        return spec.batch
    if isinstance(spec.cost, str) or spec.model is None or spec.app is not None:
        # The results of an app must not depend on a profile.
        return 1
    known = context.batches.get(spec.model)
    # A row of batch 0 holds for any batch.
    return None if known is None else max(1, known)


def _app(spec: JobSpec, folder: str) -> str | None:
    """Return a job's app with its path relative to the run file; registered names stay."""
    if spec.app is None or ":" not in spec.app or not folder:
        return spec.app
    return posixpath.join(folder, spec.app)


def _epoch_cost(spec: JobSpec) -> EpochCost | None:
    cost = spec.cost
    if not isinstance(cost, EpochCostSpec):
        return None
    return EpochCost(
        items=cost.items, item_s=cost.item, model_bytes=cost.model, batch=cost.batch,
        data_bytes=cost.data,
    )  # fmt: skip


def _job(spec: JobSpec, index: int, batch: int, context: JobContext, source: str) -> Job:
    seed = job_seed(context.run_seed, spec.name) if spec.seed is None else spec.seed
    stop, servers, workers = spec.stop, spec.servers, spec.workers
    return Job(
        index=index,
        name=spec.name,
        scale=spec.scale,
        rounds=spec.rounds,
        batch=batch,
        app=_app(spec, context.app_folder),
        model=spec.model,
        sync=spec.sync,  # type: ignore[arg-type]
        weight=spec.weight,
        arrival_ns=spec.arrival,
        user=spec.user,
        group=spec.group,
        seed=seed,
        numerics=spec.numerics,  # type: ignore[arg-type]
        evaluate=Evaluate(every=spec.evaluate.every) if spec.evaluate else None,
        stop=Stop(metric=stop.metric, reaches=stop.reaches, falls_to=stop.falls_to)
        if stop
        else None,
        schedule=RateSchedule(steps=tuple(spec.schedule.steps)) if spec.schedule else None,
        checkpoint=Checkpoint(every=spec.checkpoint.every) if spec.checkpoint else None,
        task_limit_ns=spec.task_limit,
        nan_loss=spec.nan_loss,  # type: ignore[arg-type]
        params=spec.params,
        cost=spec.cost if isinstance(spec.cost, str) else None,
        epoch_cost=_epoch_cost(spec),
        types=tuple(spec.types or ()),
        flow_class=spec.flow_class or 0,
        server_hosts=tuple(servers.hosts) if servers else (),
        server_bytes=tuple(servers.bytes or ()) if servers else (),
        worker_hosts=tuple(workers.hosts) if isinstance(workers, JobWorkersSpec) else (),
        workers=workers.processes if isinstance(workers, JobWorkersSpec) else workers,
        source=source,
    )
