"""Jobs: the user's part (the logical round), never where or when it runs. Immutable.

The text of an app belongs to it: its file, and the files that it imports from its own folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Sync = Literal["ps", "ring"]
Numerics = Literal["strict", "mixed"]
NanLoss = Literal["fail", "train"]


ROUND_COLUMNS: Final = ("round", "time_s", "loss")
"""Columns of a round that was not evaluated; ``loss`` is the mean of its tasks."""
_EVALUATED: Final = "evaluate."


def metric_column(name: str) -> str:
    """Return the column of a metric that an app evaluates, beside the columns of a round."""
    # A metric with the name of a column gets the prefix. So does a metric that has the prefix
    # already, since two metrics could otherwise have one name.
    taken = name in ROUND_COLUMNS or name.startswith(_EVALUATED)
    return f"{_EVALUATED}{name}" if taken else name


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCost:
    """An epoch of a job, for advice on its shape.

    ``item_s``: seconds of one of ``items`` items, by device type. ``batch``: items of a mini-batch,
    in which the model of ``model_bytes`` is pulled and pushed. ``data_bytes``: of all items, if
    stated.
    """

    items: int
    item_s: Mapping[str, float]
    model_bytes: int
    batch: int
    data_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """When a job is evaluated: inside the barrier of every ``every``-th round and the last one."""

    every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The rule that ends a job at the first evaluation whose ``metric`` reaches a value.

    ``reaches``: from below; ``falls_to``: from above.
    """

    metric: str
    reaches: float | None = None
    falls_to: float | None = None

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Tell whether these evaluated metrics end the job. A metric that is absent never does."""
        value = metrics.get(self.metric)
        # Rounds without an evaluation report no metrics.
        if value is None:
            return False
        if self.reaches is not None:
            return value >= self.reaches
        return self.falls_to is not None and value <= self.falls_to


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSchedule:
    """A job's stated learning rate schedule: it is lowered after each of these rounds.

    ``steps`` rise; round ``steps[0] + 1`` is the first round that trains with a lower rate. Empty:
    the rate is never lowered.
    """

    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Interval of consistent copies of a job: every ``every`` rounds."""

    every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A sequence of rounds of ``scale`` tasks each. ``index`` is its row in ``Workload.jobs``.

    ``app`` is ``None`` for jobs that are only simulated (a trace row). ``model`` names a row of the
    profile table; ``None`` asks for measuring. ``rounds`` None: unknown to the scheduler. ``cost``
    names a row of costs that belongs to this job alone (a trace priced by its reader).
    ``checkpoint`` None: as often as it costs little. ``task_limit_ns``: real time after which a
    task or a barrier that has not ended ends the job. ``nan_loss``: treatment of a job whose loss
    is NaN after a round. ``flow_class`` is the class of its bytes that flow ``fixed`` gives it (0:
    not stated); shape ``fixed`` uses ``server_hosts``, ``server_bytes`` and ``worker_hosts``; other
    policies of these questions need not look at them. ``workers``: processes of each trainer that
    build batches of a data set; None: as ``workers_of`` says. ``schedule`` None: the learning rate
    is not stated; predictions of the curve use the schedule. ``types`` are the device types on
    which its tasks may run, empty: all. ``source`` is where the user wrote it (``FILE:LINE``, for
    messages); empty: unknown.
    """

    index: int
    name: str
    scale: int
    rounds: int | None
    batch: int = 1
    app: str | None = None
    model: str | None = None
    sync: Sync = "ps"
    weight: float = 1.0
    arrival_ns: int = 0
    user: str = ""
    group: str = ""
    seed: int = 0
    numerics: Numerics = "strict"
    evaluate: Evaluate | None = None
    stop: Stop | None = None
    schedule: RateSchedule | None = None
    checkpoint: Checkpoint | None = None
    # Ten minutes.
    task_limit_ns: int = 600 * 10**9
    nan_loss: NanLoss = "fail"
    params: Mapping[str, Any] = field(default_factory=dict)
    cost: str | None = None
    epoch_cost: EpochCost | None = None
    types: tuple[str, ...] = ()
    flow_class: int = 0
    server_hosts: tuple[str, ...] = ()
    server_bytes: tuple[int, ...] = ()
    worker_hosts: tuple[str, ...] = ()
    workers: int | None = None
    # Jobs that differ in where they were written only are equal.
    source: str = field(default="", compare=False, repr=False)

    @property
    def evaluates_every(self) -> int | None:
        """Return after how many rounds it evaluates, and after the last one; None: never.

        A job with a stop rule that does not say does after every round.
        """
        if self.evaluate is not None:
            return self.evaluate.every
        return None if self.stop is None else 1

    def evaluates_after(self, rounds_done: int) -> bool:
        """Tell whether the barrier after which ``rounds_done`` rounds are done evaluates."""
        every = self.evaluates_every
        return every is not None and (rounds_done % every == 0 or rounds_done == self.rounds)

    def may_use(self, type_name: str) -> bool:
        """Tell whether its tasks may run on devices of a type."""
        return not self.types or type_name in self.types

    @property
    def app_file(self) -> str:
        """Return the file of ``app``, as the job names it; empty without an app."""
        return (self.app or "").rpartition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs sorted by (arrival, order in the file). ``notes`` are the reader's remarks.

    A reader that meets rows it cannot use counts them in ``notes``; it never drops one silently.
    """

    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSource:
    """The text of one app: its file and its imports from its folder, as they were read once.

    ``folder`` is the absolute path of their folder; ``main`` names the app's own file; ``texts``
    are bytes by path relative to ``folder``, ``main`` among them.
    """

    folder: str
    main: str
    texts: Mapping[str, bytes]

    @property
    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file, in order of path."""
        return {path: hashlib.sha256(self.texts[path]).hexdigest() for path in sorted(self.texts)}

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the only file; of several, that of their ``sha256sum`` lines."""
        # So that a user can compare it with the output of ``sha256sum``.
        hashes = self.hashes
        if len(hashes) == 1:
            return hashes[self.main]
        lines = "".join(f"{digest}  {path}\n" for path, digest in hashes.items())
        return hashlib.sha256(lines.encode()).hexdigest()


Sources: TypeAlias = Mapping[str, AppSource]
"""The texts of apps, by their file as jobs name it (``Job.app_file``)."""
