"""One run: everything a schedule depends on, resolved and checked. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.job import Sources, Workload

VERIFY: Final = 0.01
"""The share of tasks that a live run computes again, unless its file states one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """The four answers, by policy name; ``options`` are the place policy's own settings.

    ``joint`` names one policy that answers several questions, and then stands in ``place``, too,
    unless another one places. ``other_options``: settings of the other policies, by their key:
    ``flow``, ``group``, ``shape`` or ``joint``.

    ``servers``: parameter servers of each job under shape ``static``. ``copies_after``: a task
    under way for more than this multiple of its expected time may be started once more on another
    device; None: never.
    """

    place: str = "hare"
    flow: str = "fair"
    group: str = "isolated"
    shape: str = "static"
    servers: int = 1
    copies_after: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    joint: str | None = None
    other_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """Finest interleaving of a policy: ``rounds`` rounds, or the rounds that fit in ``time_ns``.

    Exactly one is set. ``text`` is the user's text, which the summary repeats.
    """

    text: str = "1"
    rounds: int | None = 1
    time_ns: int | None = None

    def rounds_for(self, round_ns: int, remaining: int) -> int:
        """Return the rounds of one stretch, at least one where the grain is a time.

        Parameters
        ----------
        round_ns
            Time of a round of the job, in nanoseconds.
        remaining
            Rounds that the job has left.
        """
        if self.rounds is not None:
            return min(self.rounds, remaining)
        # A grain of time: as many rounds as fit, and one even if a single round takes longer.
        # A round of 0 ns must not divide by zero.
        assert self.time_ns is not None
        return max(1, min(remaining, self.time_ns // max(1, round_ns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Hidden loss curves of a simulation; ``noise``: of one value, in parts of a curve's span.

    ``share_to_95``: the part of a job's rounds after which its curve has 95 % of its final value;
    None: curves bend as they are drawn.
    """

    noise: float = 0.01
    share_to_95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAbsence:
    """A time in which an opportunistic host, by name, is not there; ``until_ns`` None: for ever."""

    host: str
    from_ns: int
    until_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Hidden truth of a simulation: task times differ from the profile by seeded noise.

    ``task_cv`` is the coefficient of variation of one task's time, ``job_cv`` that of a factor
    shared by all tasks of a job on one device type (a wrong profile). Zero: the profile is true.
    ``losses``: jobs with a stop rule show values on their way to it; None: they show none.
    ``metrics``: values of jobs in an earlier run, by name: pairs of the rounds done and the value
    of the metric of their stop rule, in order. They show it again, whatever ``losses`` says.
    ``absences``: when opportunistic hosts are not there, in order of time; policies learn of it
    when it happens. ``after``: jobs, by name, that arrive only once all these others have ended.
    """

    task_cv: float = 0.0
    job_cv: float = 0.0
    seed: int = 0
    losses: Losses | None = None
    metrics: Mapping[str, tuple[tuple[int, float], ...]] | None = None
    absences: tuple[HostAbsence, ...] = ()
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run file after all it names was read and checked: everything a schedule depends on."""

    name: str
    cluster: Cluster
    workload: Workload
    history: Workload | None = None
    """Jobs that have ended before, all with ``rounds``; None: nothing is known of any."""
    scheduler: Scheduler = field(default_factory=Scheduler)
    profiles: tuple[ProfileRow, ...] = ()
    grain: Grain = field(default_factory=Grain)
    truth: Truth = field(default_factory=Truth)
    seed: int = 0
    verify: float = VERIFY
    """Share of the tasks of a live run that are computed again, in another process."""
    base: str = ""
    """Folder that relative app paths refer to."""
    sources: Sources | None = field(default=None, compare=False, repr=False)
    """The texts of the apps, read once for all that is done with the run; None: not read yet."""

    @property
    def stated_tasks(self) -> int:
        """Return how many tasks the jobs have that state their rounds."""
        return sum((job.rounds or 0) * job.scale for job in self.workload.jobs)

    @property
    def live_place(self) -> str:
        """Return the place policy of a live run: ``plain`` under the plain engine."""
        return self.scheduler.place if self.cluster.is_scheduled else "plain"

    @property
    def app_sha256_J(self) -> tuple[str, ...]:
        """Return the hash of each job's app; empty for a job whose app was not read."""
        # Hashed once a file, not once a job: many jobs may share an app.
        hashes = {file: source.sha256 for file, source in (self.sources or {}).items()}
        return tuple(hashes.get(job.app_file, "") for job in self.workload.jobs)
