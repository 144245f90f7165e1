"""What the runs of a check have shown: steps, files, stops. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from warren.serve.records.jobs import ResumeLevel

Level = ResumeLevel

LEVELS: tuple[Level, ...] = ("exact", "equal order", "restarts", "loses")
"""Levels of a command that resumes, best first."""


class CheckedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One optimizer step, as the probe noted it; hashes are texts.

    ``before`` and ``after`` are the parameters around the step, ``state`` is the optimizer's state
    before it (empty if it has none), ``norm`` the length of the gradient, ``rng`` the random states
    before the batch went into the model, and ``rng_at_step`` those when the gradients were there.
    ``buffers`` are what the model holds beside trained weights, ``others`` what each module holds
    that was called beside it and is not trained. ``inputs`` has name, hash and hashes of rows of
    each tensor of the batch. ``finite`` says whether the parameters after it are numbers.
    ``folder`` changes with the checkpoint folder; ``changed`` names its files that changed since
    the step before, and ``writes`` counts files opened and renamed there. ``time`` is in seconds
    since the epoch.
    """

    before: str
    after: str
    optimizer: int = 0
    types: list[str] = []
    state: str = ""
    state_kinds: list[str] = []
    grads: str = ""
    norm: float = 0.0
    lr: list[float] = []
    settings: str = ""
    rng: dict[str, str] = {}
    rng_at_step: dict[str, str] = {}
    buffers: str = ""
    others: list[str] = []
    inputs: list[tuple[str, str, list[str]]] = []
    scale: float | None = None
    finite: bool = True
    folder: str = ""
    changed: list[str] = []
    writes: int = 0
    time: float = 0.0

    @property
    def batch(self) -> tuple[tuple[str, str], ...]:
        """Name and hash of each tensor of the batch."""
        return tuple((name, digest) for name, digest, _ in self.inputs)


class CheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the checkpoint folder, or a folder of PyTorch's distributed checkpoints.

    ``values`` has kind, shape, and hash or value by name. ``error`` says why the file cannot be
    read. ``written`` is in seconds since the epoch.
    """

    written: float
    format: str
    values: dict[str, list[Any]] = {}
    error: str = ""


class Save(msgspec.Struct, frozen=True):
    """One save of a whole run: the steps that were done when it began and when it ended.

    ``writes`` is the number of files opened and renamed, as far as they are known.
    """

    begun: int
    ended: int
    seconds: float = 0.0
    writes: int = 0


class CheckedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to its end. ``lanes`` are the steps by rank; ``status`` is the exit status."""

    lanes: Mapping[str, list[CheckedStep]]
    files: Mapping[str, CheckpointFile]
    saves: tuple[Save, ...] = ()
    status: int = 0
    seconds: float = 0.0
    last_line: str = ""

    @property
    def steps(self) -> int:
        """Number of optimizer steps of the first rank."""
        return len(self.first)

    @property
    def first(self) -> list[CheckedStep]:
        """Steps of the first rank."""
        return self.lanes[min(self.lanes)] if self.lanes else []


class StoppedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was stopped after ``steps`` steps and ``saves`` saves, and resumed once.

    ``files`` are the files at the stop, ``status`` is the exit status of the part before it.
    ``newest`` are the steps after which each kind of checkpoint file was last saved whole;
    ``written`` are the steps that were done when each file at the stop was written.
    """

    by: Literal["signal", "kill"]
    place: str
    steps: int
    files: Mapping[str, CheckpointFile]
    resumed: CheckedRun
    newest: tuple[int, ...] = ()
    written: Mapping[str, int] = {}
    saves: int = 0
    status: int = 0


class Cause(msgspec.Struct, frozen=True):
    """A reason why a resumed run is not a whole one, and the level that it alone would give."""

    level: Level
    kind: str
    text: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first value that differs, and the step from which on it does."""

    tensor: str
    file: str
    step: int | None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What one stop and its resume have shown. ``began`` is the step after which it went on."""

    level: Level
    began: int | None
    difference: Difference | None = None
    causes: tuple[Cause, ...] = ()
