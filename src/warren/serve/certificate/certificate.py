"""The check of a command: whole twice, stopped and resumed, killed and resumed, and the verdict."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
from numpy.random import Generator, default_rng

from warren.model.errors import Problem, SpecError
from warren.serve.certificate import verdict
from warren.serve.certificate.command_run import INJECTED, CommandRun
from warren.serve.certificate.evidence import (
    CheckedRun,
    CheckpointFile,
    Difference,
    Judgement,
    Level,
    StoppedRun,
)
from warren.serve.certificate.injected.sitecustomize import (
    folder_files,
    state_of_files,
)
from warren.serve.certificate.saves import PlannedStop, drawn_stop, newest_saves, saves_of

GRACE_S: Final = 30.0
"""Usual time between the signal and SIGKILL, in seconds."""
_TRIES: Final = 5
"""Most draws of one stop: a stop that comes after the run's own end is drawn again."""
_PATIENT: Final = 1
"""Number of a draw after which a late one shortens the grace."""
_QUICK_S: Final = 0.01
"""Time below which a run is stopped where it waits, in seconds."""
_START_S: Final = 60.0
"""Time that a resumed run may take beyond five times a whole one, in seconds."""


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """One stop: how, where, after which step, where the resume began, and what that showed."""

    by: Literal["signal", "kill"]
    place: str
    step: int
    began: int | None
    level: Level
    tensor: str | None
    differs_at: int | None
    causes: tuple[str, ...]


class KindReport(msgspec.Struct, frozen=True, kw_only=True):
    """The worst that stops of one kind have shown; no level without a stop."""

    level: Level | None
    first_difference: dict[str, str | int | None] | None
    likely_cause: str | None
    stops: int


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a command; its fields are those of ``warren check --resume --json``.

    ``level`` is None if two whole runs differ already, if weights are not finite, or if no stop
    could be made.
    ``steps`` and ``saves`` are those of a whole run.
    """

    level: Level | None
    first_difference: dict[str, str | int | None] | None
    likely_cause: str | None
    by_signal: KindReport | None
    by_kill: KindReport | None
    signal: str
    seed: int
    steps: int
    saves: int
    stops: list[StopReport]
    notes: list[str]


class _Ended(NamedTuple):
    """A run that has ended, a copy of its checkpoints, and the state of their folder."""

    run: CommandRun
    checkpoints: Path
    state: str
    seconds: float

    def result(self, files: dict[str, CheckpointFile]) -> CheckedRun:
        """Return what the run has shown, with its files."""
        lanes = self.run.lanes()
        steps = lanes[min(lanes)] if lanes else []
        return CheckedRun(
            lanes=lanes,
            files=files,
            saves=saves_of(self.run.events, steps, self.state, files),
            status=self.run.status,
            seconds=self.seconds,
            last_line=self.run.last_line(),
        )


class CertificateCheck:
    """The check of one command.

    Parameters
    ----------
    command
        The program and its arguments.
    signum
        The signal that asks the command to stop.
    grace_s
        Time between the signal and SIGKILL, in seconds. None: ``GRACE_S``, and less for a command
        that would end by itself meanwhile.
    stops
        Number of stops by the signal, and of those by SIGKILL.
    seed
        Seed of the stops.
    keep
        A new or empty folder for the checkpoints and output of all runs. None: a folder that is
        removed.
    say
        Called with a line for a person at each stage.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        signum: int = signal.SIGTERM,
        grace_s: float | None = None,
        stops: int = 3,
        seed: int = 0,
        keep: Path | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._command = list(command)
        self._signum, self._grace_s, self._stops, self._seed = signum, grace_s, stops, seed
        self._keep, self._say = keep, say
        self._base = Path()
        self._interpreter: tuple[str, list[str]] | None = None
        self._grace_now_s = GRACE_S if grace_s is None else grace_s
        self._notes: list[str] = []
        self._number = 0

    def run(self) -> Certificate:
        """Return the certificate.

        Raises
        ------
        SpecError
            If the command cannot be started, or fails without a stop.
        """
        if not self._command or shutil.which(self._command[0]) is None:
            program = self._command[0] if self._command else ""
            raise SpecError(Problem(file="command", message=f"no program {program!r}"))
        with self._folder() as self._base:
            ended = [self._whole(f"whole run {number} of 2") for number in (1, 2)]
            files = self._read([run.checkpoints for run in ended])
            one, other = (run.result(found) for run, found in zip(ended, files, strict=True))
            difference = verdict.difference_of_whole_runs(one, other)
            if difference is not None:
                self._note("two whole runs differ, so no level can be given")
                order = "the same" if verdict.order_of_whole_runs(one, other) else "not the same"
                self._note(f"batches and learning rates of the two whole runs are {order}")
                cause = verdict.why_whole_runs_differ(one, other)
                return self._without_level(one, cause, difference)
            broken = verdict.not_finite_from(one)
            if broken is not None:
                cause = (
                    f"weights are not finite from step {broken} on: equal bits would say nothing"
                )
                return self._without_level(one, cause, None)
            if not one.steps:
                self._note("no optimizer step of PyTorch was seen: the files alone are compared")
            if not one.files:
                self._note("no checkpoint was found in the folder WARREN_CHECKPOINT_DIR")
            return self._stopped(one, verdict.volatile_values(one, other))

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
            if any(self._keep.iterdir()):
                raise SpecError(Problem(file=str(self._keep), message="the folder is not empty"))
            yield self._keep.resolve()
            return
        with tempfile.TemporaryDirectory(prefix="warren-check-") as folder:
            yield Path(folder).resolve()

    def _note(self, line: str) -> None:
        self._notes.append(line)
        self._say(line)

    def _start(self, name: str, number: int, pause: tuple[int, int] = (0, 0)) -> CommandRun:
        self._number += 1
        folder = self._base / "runs" / f"{self._number:02d}-{name}"
        extra = {"WARREN_ATTEMPT": str(number), "WARREN_GRACE_S": f"{self._grace_now_s:g}"}
        if number > 1:
            extra["WARREN_RESUME"] = "1"
        return CommandRun(self._command, self._checkpoints, folder, extra, pause)

    @property
    def _checkpoints(self) -> Path:
        """The folder of the command, which has the same path in each run."""
        return self._base / "checkpoints"

    def _fresh(self) -> None:
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        self._checkpoints.mkdir()

    def _whole(self, title: str) -> _Ended:
        self._fresh()
        with self._start("whole", 1) as run:
            run.wait()
        if run.status:
            line = run.last_line()
            message = f"fails without a stop (exit status {run.status}): {line}"
            raise SpecError(Problem(file=" ".join(self._command), message=message))
        self._interpreter = run.interpreter()
        ended = self._ended(run)
        self._say(f"{title}: {run.steps_seen()} steps, {ended.seconds:.0f} s")
        return ended

    def _ended(self, run: CommandRun) -> _Ended:
        """Copy the checkpoints as a run has left them."""
        copy = run.output.parent / "checkpoints"
        shutil.copytree(self._checkpoints, copy, symlinks=True)
        last = max([run.output.stat().st_mtime, *(one.time for one in run.events[-1:])])
        return _Ended(
            run,
            copy,
            state_of_files(folder_files(str(self._checkpoints))),
            max(0, last - run.begun),
        )

    def _read(self, folders: Sequence[Path]) -> list[dict[str, CheckpointFile]]:
        """Return the checkpoints of copied folders, and remove these if they are not to be kept.

        They are read in the interpreter of the command, which has its libraries.
        """
        program, path = self._interpreter or (self._python(), [])
        search = os.pathsep.join(one for one in path if one and "probe" not in Path(one).name)
        done = subprocess.run(
            [program, str(INJECTED / "read_checkpoints.py"), *map(str, folders)],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": search} if search else None,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            message = f"the checkpoints cannot be read: {lines[-1]}"
            raise SpecError(Problem(file=program, message=message))
        if self._keep is None:
            for folder in folders:
                shutil.rmtree(folder)
        return msgspec.convert(json.loads(done.stdout), list[dict[str, CheckpointFile]])

    def _python(self) -> str:
        name = shutil.which(self._command[0]) or ""
        return name if Path(name).name.startswith("python") else sys.executable

    def _stopped(self, whole: CheckedRun, volatile: frozenset[tuple[str, str]]) -> Certificate:
        found: list[tuple[StoppedRun, Judgement]] = []
        kinds: tuple[Literal["signal", "kill"], ...] = ("signal", "kill")
        if self._signum == signal.SIGKILL:
            kinds = ("kill",)
        for by in kinds:
            for number in range(self._stops):
                chance = default_rng([self._seed, kinds.index(by), number])
                stop = self._one_stop(whole, by, number, chance)
                if stop is None:
                    continue
                judgement = verdict.judged(whole, stop, volatile)
                found.append((stop, judgement))
                self._say(_line(stop, judgement))
        return self._certificate(whole, found)

    def _one_stop(
        self, whole: CheckedRun, by: Literal["signal", "kill"], number: int, chance: Generator
    ) -> StoppedRun | None:
        for tries in range(_TRIES):
            plan = drawn_stop(whole, number, tries, chance)
            if plan is None:
                break
            stop = self._try_stop(whole, by, plan)
            if stop is not None:
                return stop
            # A command may need the whole grace; one that never ends by the signal gets less.
            if self._grace_s is None and by == "signal" and tries >= _PATIENT:
                self._grace_now_s = max(0.5, min(self._grace_now_s, 0.25 * whole.seconds))
            self._say(f"a stop by {by} came after the run's own end: another is drawn")
        self._note(f"a stop by {by} could not be made before the run's own end")
        return None

    def _try_stop(
        self, whole: CheckedRun, by: Literal["signal", "kill"], plan: PlannedStop
    ) -> StoppedRun | None:
        """Stop a run and resume it; None if it had reached its own end."""
        self._fresh()
        with self._start(by, 1, pause=(plan.step, plan.write)) as run:
            if self._reach(run, whole, plan):
                return None
            if by == "signal":
                run.ask(self._signum)
                run.go()
                if not run.wait(self._grace_now_s):
                    self._note_once(
                        f"the command goes on for {self._grace_now_s:g} s after the signal, and is "
                        "killed then"
                    )
            run.end()
        stopped = self._ended(run)
        files = None if whole.steps else self._read([stopped.checkpoints])[0]
        if self._came_too_late(whole, run, files):
            return None
        with self._start("resumed", 2) as resumed:
            hangs = not resumed.wait(5 * whole.seconds + _START_S)
        ended = self._ended(resumed)
        waiting = [ended] if files is not None else [stopped, ended]
        *rest, at_end = self._read([one.checkpoints for one in waiting])
        result = ended.result(at_end)
        if hangs:
            result = msgspec.structs.replace(result, last_line="it did not end and was killed")
        lanes = run.lanes()
        return StoppedRun(
            by=by,
            place=plan.place,
            steps=run.steps_seen(),
            newest=newest_saves(lanes[min(lanes)], whole.files) if lanes else (),
            files=rest[0] if files is None else files,
            resumed=result,
            saves=len(saves_of(run.events, [])),
            status=run.status,
        )

    def _reach(self, run: CommandRun, whole: CheckedRun, plan: PlannedStop) -> bool:
        """Let a run go on to the place of its stop; return whether it has ended before."""
        limit_s = 5 * whole.seconds + _START_S
        if not plan.step:
            if plan.after_saves and run.wait(
                limit_s, lambda: len(saves_of(run.events, [])) >= plan.after_saves
            ):
                return True
            return run.wait(plan.delay_s)
        if run.wait(limit_s, run.is_paused):
            return True
        if plan.delay_s < _QUICK_S:
            return False  # it is stopped where it waits: it would be far from there at once
        run.go()
        return run.wait(plan.delay_s)

    def _came_too_late(
        self, whole: CheckedRun, run: CommandRun, files: dict[str, CheckpointFile] | None
    ) -> bool:
        """Tell whether a run had reached its own end before it was stopped."""
        if files is None:
            return run.steps_seen() >= whole.steps
        done = msgspec.structs.replace(whole, files=files)
        return run.status == whole.status and not verdict.changed_at_end(whole, done)

    def _note_once(self, line: str) -> None:
        if line not in self._notes:
            self._note(line)

    def _without_level(
        self, whole: CheckedRun, cause: str, difference: Difference | None
    ) -> Certificate:
        return Certificate(
            level=None,
            first_difference=_shown(difference),
            likely_cause=cause,
            by_signal=None,
            by_kill=None,
            signal=signal.Signals(self._signum).name,
            seed=self._seed,
            steps=whole.steps,
            saves=len(whole.saves),
            stops=[],
            notes=self._notes,
        )

    def _certificate(
        self, whole: CheckedRun, found: Sequence[tuple[StoppedRun, Judgement]]
    ) -> Certificate:
        by_kind = {
            by: _worst([judgement for stop, judgement in found if stop.by == by])
            for by in ("signal", "kill")
        }
        total = _worst([judgement for _, judgement in found])
        return Certificate(
            level=total.level,
            first_difference=total.first_difference,
            likely_cause=total.likely_cause,
            by_signal=by_kind["signal"],
            by_kill=by_kind["kill"],
            signal=signal.Signals(self._signum).name,
            seed=self._seed,
            steps=whole.steps,
            saves=len(whole.saves),
            stops=[_report(stop, judgement) for stop, judgement in found],
            notes=self._notes,
        )


def _worst(found: Sequence[Judgement]) -> KindReport:
    if not found:
        return KindReport(level=None, first_difference=None, likely_cause=None, stops=0)
    level = verdict.worst([judgement.level for judgement in found])
    shown = next(judgement for judgement in found if judgement.level == level)
    return KindReport(
        level=level,
        first_difference=_shown(shown.difference),
        likely_cause="; ".join(cause.text for cause in shown.causes) or None,
        stops=len(found),
    )


def _shown(found: Difference | None) -> dict[str, str | int | None] | None:
    if found is None:
        return None
    return {"tensor": found.tensor, "step": found.step, "file": found.file}


def _report(stop: StoppedRun, judgement: Judgement) -> StopReport:
    found = judgement.difference
    return StopReport(
        by=stop.by,
        place=stop.place,
        step=stop.steps,
        began=judgement.began,
        level=judgement.level,
        tensor=None if found is None else found.tensor,
        differs_at=None if found is None else found.step,
        causes=tuple(cause.text for cause in judgement.causes),
    )


def _line(stop: StoppedRun, judgement: Judgement) -> str:
    began = "" if judgement.began is None else f", resumed after step {judgement.began}"
    causes = "".join(f"; {cause.text}" for cause in judgement.causes[:1])
    return f"{stop.by} {stop.place}, at step {stop.steps}{began}: {judgement.level}{causes}"


def as_mapping(certificate: Certificate) -> Mapping[str, object]:
    """Return a certificate as JSON holds it."""
    found: dict[str, object] = msgspec.to_builtins(certificate)
    return found
