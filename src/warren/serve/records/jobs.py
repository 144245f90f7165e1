"""Jobs of the service: what was asked for, and what became of it."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec


class JobState(StrEnum):
    """The state of a job, as users read it."""

    QUEUED = "queued"
    HELD = "held"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Tell whether a job in this state never runs again."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)


class Dependency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job waits until another has ended.

    ``job`` is the id of a job or array, or a name. A name means the user's jobs of that name that
    have not ended when this job is submitted; if all have ended, the last one. ``when``: ``ok``
    asks that it finished; ``any`` is content with any end. A dependency that can no longer hold
    fails the job.
    """

    job: str
    when: Literal["ok", "any"] = "ok"


ResumeLevel: TypeAlias = Literal["exact", "equal order", "restarts", "loses"]
"""What ``warren check --resume`` can find out about a command that comes back."""


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a command stops and comes back: a job that has this can do both.

    ``signal`` asks the leader of the command to save and leave; ``grace_s`` seconds later all of it
    is killed. ``template`` holds words that are appended to the command from its second attempt
    on; ``{latest}`` in them is the newest complete checkpoint. ``checkpoints`` is a folder that all
    hosts see, in which each job has its own; without it a job comes back on the host that has its
    checkpoints. ``certificate`` is the level that ``warren check --resume`` has measured.
    ``compat``: ``slurm`` gives the command the variables of Slurm, and ``scontrol requeue``.
    """

    signal: Literal["TERM", "INT", "HUP", "USR1", "USR2"] = "TERM"
    grace_s: float = 60.0
    template: str = ""
    checkpoints: str = ""
    certificate: ResumeLevel | None = None
    compat: Literal["", "slurm"] = ""


class CommandSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command, and what it needs.

    ``folder`` and ``environment`` are those it was submitted from. It holds ``devices`` whole
    devices of one host from start to end: of any type, of kind ``gpu`` or ``cpu``, or of the type
    named in ``device_type``; with ``share`` other jobs that share may have them, too.
    ``time_limit_s`` counts running time alone. ``retries``: how often it is started again after it
    failed. ``grace_s``: time between SIGTERM and SIGKILL. ``key``: a second submission of the
    same user and key is answered with the first one's id. ``notify``: the URL, a secret, to which
    notices of it go, or ``off``; empty: where its user has said.
    """

    command: tuple[str, ...]
    folder: str
    environment: dict[str, str] = {}
    name: str = ""
    devices: int = 1
    device_type: str | None = None
    share: bool = False
    host: str | None = None
    time_limit_s: float | None = None
    memory_bytes: int | None = None
    after: tuple[Dependency, ...] = ()
    priority: int = 0
    retries: int = 0
    grace_s: float = 10.0
    held: bool = False
    key: str | None = None
    resume: Resume | None = None
    notify: str = ""


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of ``warren submit``: a job, an array of jobs, or a sweep over values.

    ``array`` is the first and the last index, both included; each job has its index in the
    variable ``WARREN_ARRAY_INDEX`` and in ``{index}`` of its command. ``sweep`` has a job for each
    combination of values; ``{name}`` in the command becomes the value.
    """

    spec: CommandSpec
    array: tuple[int, int] | None = None
    sweep: dict[str, tuple[str, ...]] | None = None


EndCause: TypeAlias = Literal[
    "exit", "time", "cancel", "memory", "host", "start", "preempt", "requeue", "idle"
]
"""Why an attempt ended; ``AttemptEnded`` says what each means."""
NO_STRIKE: Final = ("preempt", "requeue")
"""Ends after which a job waits again, and which count as no failure."""


class Attempt(msgspec.Struct, omit_defaults=True):
    """One start of a job: where, when, and how it ended.

    ``number`` counts from 1. ``begun_ns`` is when the scheduler chose host and devices,
    ``started_ns`` when the command ran. ``reason`` says why it ended, where the exit code does not;
    ``cause``, ``ran``, ``saved``, ``save_s`` and ``lost_s`` are those of ``AttemptEnded``;
    ``preempt_*`` those of ``PreemptAsked``, with the time at which it was asked for. ``xid``: the
    worst error that the driver of its GPUs reported meanwhile.
    """

    number: int
    host: str
    devices: tuple[str, ...]
    begun_ns: int
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    cause: str = ""
    ran: bool = True
    saved: bool | None = None
    save_s: float | None = None
    lost_s: float | None = None
    preempt_ns: int | None = None
    preempt_by: str = ""
    preempt_reason: str = ""
    preempt_for: str | None = None
    xid: int | None = None


class Idleness(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the service knows about a running job that does nothing. Times are ns since 1970.

    Its devices do nothing since ``since_ns``, and it is ended at ``ends_ns``; None while they work.
    It is left alone until ``extended_ns``. ``end_reason``: it was asked to end, and why.
    """

    since_ns: int | None = None
    ends_ns: int | None = None
    extended_ns: int = 0
    end_reason: str = ""


NOT_IDLE: Final = Idleness()
"""What is known about a job whose devices work."""


class ServiceJob(msgspec.Struct, omit_defaults=True):
    """A job of the queue, as its events have left it. Times are nanoseconds since 1970.

    ``tied_to`` is the host that has its checkpoints, where the job cannot go on elsewhere.
    """

    id: str
    order: int
    user: str
    spec: CommandSpec
    submitted_ns: int
    state: JobState = JobState.QUEUED
    priority: int = 0
    array: str | None = None
    attempts: list[Attempt] = []
    cancelled_by: str | None = None
    ended_ns: int | None = None
    reason: str = ""
    tied_to: str | None = None
    idle: Idleness = NOT_IDLE

    @property
    def attempt(self) -> Attempt | None:
        """The last attempt; None before the first."""
        return self.attempts[-1] if self.attempts else None


def attempt_id(job: str, number: int) -> str:
    """Return the name of an attempt, of the job's folder on its host, too: ``12.1``."""
    return f"{job}.{number}"


def resume_of(spec: CommandSpec) -> Resume | None:
    """Return how a command stops and comes back; None if it cannot.

    A run of apps can without a word: it goes on from its own checkpoints.
    """
    return _OF_APPS if spec.resume is None and is_app_run(spec) else spec.resume


def keeps_checkpoints_on_host(spec: CommandSpec) -> bool:
    """Tell whether a job can go on only where it ran: its checkpoints are on that host alone."""
    resume = resume_of(spec)
    return (
        resume is not None
        and not resume.checkpoints
        and "WARREN_CHECKPOINT_DIR" not in spec.environment
    )


def is_app_run(spec: CommandSpec) -> bool:
    """Tell whether a command is a run of apps, as ``warren submit RUN.yaml`` submits it."""
    return any(pair == ("-m", "warren.serve.app_run") for pair in pairwise(spec.command))


_OF_APPS: Final = Resume()
