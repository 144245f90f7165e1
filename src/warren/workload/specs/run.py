"""The allowed content of a run file, and its smaller parts: scheduler, grain, truth, rows.

``cluster``, ``profiles`` and jobs may stand in it or be a path. ``grain`` is 1, ``N rounds`` or a
time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.run import VERIFY, Grain, HostAbsence, Losses, Scheduler, Truth
from warren.model.units import parse_time_s, seconds_to_ns
from warren.workload.specs.cluster import ClusterSpec
from warren.workload.specs.types import (
    Format,
    Free,
    Line,
    Name,
    PathTag,
    PositiveTimeNs,
    PositiveTimeS,
    Seed,
    Share,
    Size,
    Spec,
    TimeNs,
    TimeS,
    path_or,
)
from warren.workload.specs.workload import Workload
from warren.workload.text import shown
from warren.workload.yaml_document import Path

_NAMED_FOR: Final = ("place", "flow", "group", "shape", "joint")
# A number, or a number and the word ``round`` or ``rounds``.
_ROUNDS: Final = re.compile(r"([0-9]{1,12}) *(rounds?)?")
_ALLOWED: Final = 'allowed: 1, "N rounds", or a time like "60 s"'


def parse_grain(value: object) -> Grain:
    """Parse the grain a user wrote.

    Raises ValueError if it is none of the forms, or a bare number other than 1 (rounds or
    seconds?).
    """
    # YAML gives ``1`` as a number; True, which equals it, is no grain.
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{shown(value)} is not a grain; {_ALLOWED}")
    text = shown(value) if isinstance(value, int) else value.strip()
    # Bounds the search of the patterns below, and the text that a message repeats.
    if len(text) > 100:
        raise ValueError(f"{shown(value)} is not a grain; {_ALLOWED}")
    rounds = _ROUNDS.fullmatch(text)
    if rounds is None:
        return _time(text)
    count = int(rounds[1])
    # A bare 5 may be 5 rounds or 5 seconds, so it is asked for; a bare 1 is one round.
    if count < 1 or (rounds[2] is None and count != 1):
        raise ValueError(f'{text} is unclear; write "{text} rounds" or "{text} s"; {_ALLOWED}')
    return Grain(text=text, rounds=count, time_ns=None)


def _time(text: str) -> Grain:
    """Parse a grain that is a time."""
    try:
        time_ns = seconds_to_ns(parse_time_s(text))
    except ValueError as error:
        raise ValueError(f"{error}; {_ALLOWED}") from None
    # A time above 0 may still round to no nanosecond.
    if time_ns < 1:
        raise ValueError(f"{shown(text)} is no time at all; {_ALLOWED}")
    return Grain(text=text, rounds=None, time_ns=time_ns)


def _grain(value: object) -> object:
    """Check a grain, and keep it as the text that was written."""
    parse_grain(value)
    return str(value)


def _scheduler(value: object) -> object:
    """Refuse a policy's name alone, and show the mapping that is meant."""
    if isinstance(value, str):
        raise ValueError(f"expected a mapping, such as {{place: hare}}, got {shown(value)}")
    return value


def split_options(policy: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the options of policies by the question they are named for; flat ones as place's.

    A key that is named as a question (or ``joint``) and holds a mapping makes it nested. Raises
    ValueError if other keys stand beside it.
    """
    nested = [key for key in _NAMED_FOR if isinstance(policy.get(key), Mapping)]
    flat = [shown(key) for key in policy if key not in nested]
    if nested and flat:
        raise ValueError(
            f"holds options of {', '.join(nested)}, and {', '.join(flat)} beside them; "
            f"put these under place, as in {{place: {{...}}, {nested[0]}: {{...}}}}"
        )
    return {key: policy[key] for key in nested} if nested else {"place": policy}


def _options(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse options whose policy is not clear."""
    split_options(value)
    return value


class ProfileSpec(Spec):
    """Cost of one task of a model, by device type."""

    model: Size = Field(description="Bytes of the parameters that a synchronization moves.")
    memory: Size = Field(0, description="Device memory of a task; 0: it fits everywhere.")
    batch: int = Field(
        0, ge=0, le=10**9, description="Batch for which these times hold; 0: any batch."
    )
    comp: dict[Line, PositiveTimeS] = Field(
        description="Computing time T^c of a task by device type. A type that is absent "
        "cannot run it."
    )
    sync: dict[Line, TimeS] = Field(
        default_factory=dict,
        description="Synchronization time T^s of a task by device type; default: from model "
        "and the NIC.",
    )
    overhead: dict[Line, TimeS] = Field(
        default_factory=dict,
        description="Processor time of Warren's own processes per task of a live run, by "
        "device type.",
    )
    switch: dict[Line, TimeS] = Field(
        default_factory=dict,
        description="Time added to a task after a task of another job, in live runs, by "
        "device type.",
    )
    build: dict[Line, TimeS] = Field(
        default_factory=dict,
        description="Processor time of a process before its first task, in live runs, by "
        "device type.",
    )
    step: TimeS = Field(
        0,
        description="Time of the servers from a round's last update to its next state, over links.",
    )
    source: dict[Line, str] = Field(default_factory=dict, description="Source of the figures.")


Profiles = dict[Line, ProfileSpec]


class SchedulerSpec(Spec):
    """The four answers, by policy name."""

    place: Line = Field(
        default="hare",
        description="Policy that decides which task runs where and when: a name, or FILE.py:Class.",
    )
    flow: Line = Field(
        default="fair", description="Policy that decides whose bytes go first on a busy link."
    )
    group: Line = Field(
        default="isolated", description="Policy that decides which jobs share hosts."
    )
    shape: Line = Field(
        default="static",
        description="Policy that decides how many workers and servers a job gets, and where.",
    )
    joint: Line | None = Field(
        default=None,
        description="One policy that answers several of these questions.",
    )
    servers: int = Field(
        default=1, ge=1, le=64, description="Number of parameter servers of each job."
    )
    copies_after: float | None = Field(
        default=None,
        ge=1.1,
        le=1000,
        description="Multiple of its expected time after which a task may start once more on "
        "another device; default: never.",
    )


class LossesSpec(Spec):
    """Hidden loss curves of jobs with a stop rule."""

    noise: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Noise of single values, in parts of the way from start to target.",
    )
    share_to_95: float | None = Field(
        None,
        gt=0,
        le=0.8,
        description="Share of a job's rounds after which its curve has gone 95 % of its way; "
        "default: as drawn.",
    )


RecordedSpec = dict[Line, list[Annotated[list[int | float], Field(min_length=2, max_length=2)]]]


class AbsenceSpec(Spec):
    """A time in which an opportunistic host is not there."""

    host: Name = Field(description="Name of an opportunistic host of the cluster.")
    from_: TimeNs = Field(0, alias="from", description="Time at which the host goes.")
    until: PositiveTimeNs | None = Field(
        None, description="Time at which the host is back; default: never."
    )

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> AbsenceSpec:
        if self.until is not None and self.until <= self.from_:
            raise ValueError("until must come after from")
        return self


class TruthSpec(Spec):
    """Hidden truth of a simulation."""

    task_cv: float = Field(
        0.0, ge=0, le=10, description="Coefficient of variation of the times of single tasks."
    )
    job_cv: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Coefficient of variation of a factor that all tasks of a job share on "
        "one device type.",
    )
    seed: Seed = Field(default=0, description="Seed of the noise and of the curves.")
    losses: LossesSpec | None = Field(
        None,
        description="Values that jobs with a stop rule show before they reach it; default: none.",
    )
    metrics: (
        Annotated[PathTag | Annotated[RecordedSpec, Tag("<inline>")], path_or("mapping")] | None
    ) = Field(
        None,
        description="Values that jobs showed in an earlier run: its folder metrics, or pairs "
        "of rounds and value by job; default: none.",
    )
    absences: list[AbsenceSpec] = Field(
        default_factory=list,
        description="Times in which opportunistic hosts are away. Policies learn of them when "
        "they begin.",
    )
    after: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Jobs, by name, each with those that must have ended before it arrives.",
    )


class RunSpec(Spec):
    """One run: a cluster, a workload and a scheduler."""

    format: Format = 1
    name: str | None = Field(
        None,
        min_length=1,
        description="Name of the run; default: the name of the file, or that of its folder if "
        "the file is run.yaml.",
    )
    base: str | None = Field(
        None,
        description="Folder to which paths of apps are relative; default: the folder of the file.",
    )
    # Tags tell a path from an inline value, so that problems of one alternative alone are shown.
    cluster: Annotated[PathTag | Annotated[ClusterSpec, Tag("<inline>")], path_or("mapping")] = (
        Field(description="A cluster file, or its content.")
    )
    workload: Workload = Field(
        description="{jobs: ...}, {trace: ...}, {generate: ...}, a jobs file, or a list of jobs."
    )
    history: Workload | None = Field(
        None,
        description="Jobs that have ended before, in the form of workload. All state their rounds.",
    )
    scheduler: Annotated[SchedulerSpec, BeforeValidator(_scheduler)] = Field(
        SchedulerSpec(), description="The policies, by name."
    )
    policy: Annotated[Free, AfterValidator(_options)] = Field(
        default_factory=dict,
        description="Options of the place policy; or options of several policies, each under "
        "its question.",
    )
    profiles: (
        Annotated[PathTag | Annotated[Profiles, Tag("<inline>")], path_or("mapping")] | None
    ) = Field(None, description="More rows of the profile table, by model: a file, or its content.")
    grain: Annotated[
        str, BeforeValidator(_grain), WithJsonSchema({"type": ["integer", "string"]})
    ] = Field(
        "1",
        description='Shortest stretch that a policy places: 1 round, "N rounds", or a time '
        'like "60 s".',
    )
    truth: TruthSpec = Field(
        # Each run has a truth; this one has no noise, so the profile's times happen.
        default_factory=lambda: TruthSpec(
            task_cv=0.0, job_cv=0.0, losses=None, metrics=None, absences=[], after={}
        ),
        description="Noise of a simulation; default: none.",
    )
    seed: Seed = Field(0, description="Seed of the policies, and of jobs that state no seed.")
    verify: Share = Field(
        VERIFY,
        description="Share of the tasks of a live run that another process computes again, as "
        "a check.",
    )


def build_profiles(specs: Mapping[str, ProfileSpec]) -> tuple[ProfileRow, ...]:
    """Build extra profile rows, in file order. ``batch`` 0: the times hold for any batch."""
    return tuple(
        ProfileRow(
            model=name,
            batch=spec.batch,
            model_bytes=spec.model,
            memory_bytes=spec.memory,
            comp_s=spec.comp,
            sync_s=spec.sync,
            source=spec.source,
            overhead_s=spec.overhead,
            switch_s=spec.switch,
            build_s=spec.build,
            step_s=spec.step,
        )
        for name, spec in specs.items()
    )


def build_scheduler(spec: RunSpec) -> Scheduler:
    """Build the scheduler: the names of the policies, and their options."""
    names = spec.scheduler
    options = split_options(spec.policy)
    placed = "place" in names.model_fields_set or names.joint is None
    return Scheduler(
        place=names.place if placed else str(names.joint),
        flow=names.flow,
        group=names.group,
        shape=names.shape,
        servers=names.servers,
        copies_after=names.copies_after,
        options=options.pop("place", {}),
        joint=names.joint,
        other_options={key: own for key, own in options.items() if own},
    )


def wrong_absences(spec: RunSpec, cluster: Cluster) -> Iterator[tuple[Path, str]]:
    """Yield absences of hosts that are not there to go, or that are gone then already."""
    hosts = {host.name: host for host in cluster.hosts}
    away: dict[str, list[tuple[int, float]]] = {}
    for at, one in enumerate(spec.truth.absences):
        host, place = hosts.get(one.host), ("truth", "absences", at, "host")
        if host is None:
            yield place, f"there is no host {one.host!r}; allowed: {', '.join(list(hosts)[:20])}"
            continue
        if not host.opportunistic:
            yield place, f"{one.host} is not opportunistic; allowed: hosts with opportunistic: true"
        until = inf if one.until is None else one.until
        known = away.setdefault(one.host, [])
        if any(one.from_ <= end and begin <= until for begin, end in known):
            yield place, f"{one.host} is gone then already; its absences must not meet or touch"
        known.append((one.from_, until))


def wrong_after(spec: RunSpec, jobs: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield jobs that wait for others although there are no such jobs, or for themselves."""
    after, known = spec.truth.after, set(jobs)
    for name, others in after.items():
        unknown = [one for one in (name, *others) if one not in known]
        if unknown:
            yield ("truth", "after", name), f"there is no job {unknown[0]!r}"
    # Jobs whose others come all earlier are taken out, again and again; a cycle is left.
    left = {name: {one for one in others if one in after} for name, others in after.items()}
    while free := [name for name, others in left.items() if not others.intersection(left)]:
        for name in free:
            del left[name]
    if left:
        names = ", ".join(list(left)[:5])
        yield ("truth", "after"), f"jobs wait for each other, so none of them comes: {names}"


def build_truth(
    spec: RunSpec, metrics: Mapping[str, tuple[tuple[int, float], ...]] | None = None
) -> Truth:
    """Build the hidden truth of a simulation; ``metrics``: the recorded ones, if given."""
    truth, losses = spec.truth, spec.truth.losses
    return Truth(
        task_cv=truth.task_cv,
        job_cv=truth.job_cv,
        seed=truth.seed,
        losses=Losses(noise=losses.noise, share_to_95=losses.share_to_95) if losses else None,
        metrics=metrics,
        absences=tuple(
            HostAbsence(host=one.host, from_ns=one.from_, until_ns=one.until)
            for one in sorted(truth.absences, key=lambda one: (one.from_, one.host))
        ),
        after={name: tuple(others) for name, others in truth.after.items()},
    )
