"""The check of a command: whole twice, stopped and resumed, killed and resumed, and the verdict."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
from numpy.random import Generator, default_rng

from warren.model.errors import Problem, SpecError
from warren.serve.certificate import verdict
from warren.serve.certificate.causes import aligned
from warren.serve.certificate.command_run import INJECTED, CommandRun
from warren.serve.certificate.evidence import (
    CheckedRun,
    CheckedStep,
    CheckpointFile,
    Difference,
    Judgement,
    StoppedRun,
)
from warren.serve.certificate.files import saved_after
from warren.serve.certificate.injected.sitecustomize import (
    folder_files,
    state_of_files,
)
from warren.serve.certificate.report import (
    Certificate,
    shown_difference,
    stop_line,
    stop_report,
    worst_of,
)
from warren.serve.certificate.saves import PlannedStop, drawn_stop, newest_saves, saves_of

GRACE_S: Final = 30.0
"""Usual time between the signal and SIGKILL, in seconds."""
_TRIES: Final = 5
"""Most draws of one stop: a stop that comes after the run's own end is drawn again."""
_PATIENT: Final = 1
"""Number of a draw from which on a late one shortens the grace."""
_EARLY: Final = 0.3
"""Share of the time from a signal to the own end of a run after which the next one is killed."""
_QUICK_S: Final = 0.01
"""Time below which a run is stopped where it waits, in seconds."""
_START_S: Final = 60.0
"""Time that a resumed run may take beyond five times a whole one, in seconds."""


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


class _Part(NamedTuple):
    """A part of a run that was stopped; ``before`` is the number of steps before its own."""

    ended: _Ended
    before: int = 0

    @property
    def steps(self) -> list[CheckedStep]:
        """Steps of the first rank."""
        lanes = self.ended.run.lanes()
        return lanes[min(lanes)] if lanes else []

    @property
    def done(self) -> int:
        """Number of steps that were done at the stop."""
        return self.before + self.ended.run.steps_seen()

    def follows(self, whole: CheckedRun) -> bool:
        """Tell whether its steps are those of a whole run."""
        pairs = zip(whole.first[self.before :], self.steps, strict=False)
        return all(one.after == other.after for one, other in pairs)

    def newest(self, files: Mapping[str, CheckpointFile]) -> tuple[int, ...]:
        """Return after which steps checkpoints were saved last."""
        return tuple(self.before + step for step in newest_saves(self.steps, files))


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
        self._asked_s = float("inf")
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
                # A second stop says something where one alone loses nothing.
                twice = all(one.level == "exact" for stop, one in found if stop.by == by)
                stop = self._one_stop(whole, by, number, chance, twice=twice)
                if stop is None:
                    continue
                judgement = verdict.judged(whole, stop, volatile)
                found.append((stop, judgement))
                self._say(stop_line(stop, judgement))
        return self._certificate(whole, found)

    def _one_stop(
        self,
        whole: CheckedRun,
        by: Literal["signal", "kill"],
        number: int,
        chance: Generator,
        *,
        twice: bool,
    ) -> StoppedRun | None:
        for tries in range(_TRIES):
            plan = drawn_stop(whole, number, tries, chance)
            if plan is None:
                break
            stop = self._try_stop(whole, by, plan if twice else plan._replace(again=0))
            if stop is not None:
                return stop
            # A command may need the whole grace; a command that ignores the signal gets less.
            if self._grace_s is None and by == "signal" and tries >= _PATIENT:
                self._grace_now_s = min(self._grace_now_s, _EARLY * self._asked_s)
            self._say(f"a stop by {by} tested nothing: another is drawn")
        self._note(f"a stop by {by} could not be made before the run's own end")
        return None

    def _try_stop(
        self, whole: CheckedRun, by: Literal["signal", "kill"], plan: PlannedStop
    ) -> StoppedRun | None:
        """Stop a run, once or twice, and resume it; None if it had reached its own end."""
        self._fresh()
        with self._start(by, 1, pause=(plan.step, plan.write)) as run:
            if not self._stop(run, whole, by, plan):
                return None
        first = part = _Part(self._ended(run))
        files = None if whole.steps else self._read([part.ended.checkpoints])[0]
        if self._came_too_late(whole, run, files):
            return None
        final, hangs = None, False
        if plan.again:
            second, is_stopped = self._once_more(whole, by, plan, first.done)
            if is_stopped and not second.follows(whole):
                return self._apart_already(whole, by, plan, first, second)
            if is_stopped and second.done >= whole.steps:
                return None
            part, final = (second, None) if is_stopped else (first, second.ended)
        if final is None:
            with self._start("resumed", 2 if part is first else 3) as resumed:
                hangs = not resumed.wait(5 * whole.seconds + _START_S)
            final = self._ended(resumed)
        waiting = [final] if files is not None else [part.ended, final]
        *rest, at_end = self._read([one.checkpoints for one in waiting])
        result = final.result(at_end)
        if hangs:
            result = msgspec.structs.replace(result, last_line="it did not end and was killed")
        left = rest[0] if files is None else files
        known = {**whole.files, **left}
        written = {name: saved_after(name, one, part.steps) or 0 for name, one in left.items()}
        return StoppedRun(
            by=by,
            place=plan.place if part is first else f"{plan.place}, and again after the resume",
            steps=part.done,
            newest=part.newest(known) or first.newest(known),
            written=written if part is first else {},
            files=left,
            resumed=result,
            saves=len(saves_of(part.ended.run.events, [])),
            status=part.ended.run.status,
        )

    def _apart_already(
        self,
        whole: CheckedRun,
        by: Literal["signal", "kill"],
        plan: PlannedStop,
        first: _Part,
        second: _Part,
    ) -> StoppedRun:
        """Return a run whose resumed part was stopped after it had left the way of a whole run.

        Steps of the whole run stand for those that it had not made yet.
        """
        lanes = {
            lane: [*steps, *whole.lanes.get(lane, [])[second.before + len(steps) :]]
            for lane, steps in second.ended.run.lanes().items()
        }
        return StoppedRun(
            by=by,
            place=plan.place,
            steps=first.done,
            newest=first.newest(whole.files),
            files=self._read([first.ended.checkpoints])[0],
            resumed=CheckedRun(lanes=lanes, files=whole.files, status=whole.status),
            status=first.ended.run.status,
        )

    def _once_more(
        self, whole: CheckedRun, by: Literal["signal", "kill"], plan: PlannedStop, done: int
    ) -> tuple[_Part, bool]:
        """Resume a run that was stopped after some steps, and stop it, too.

        Returns that part of the run, and whether it was stopped before its own end.
        """
        with self._start(f"{by}-again", 2, pause=(plan.again, 0)) as run:
            is_stopped = self._stop(run, whole, by, PlannedStop(plan.again, False, plan.delay_s))
        part = _Part(self._ended(run))
        if part.steps and whole.first:
            part = part._replace(before=aligned(whole.first, part.steps, done).began)
        return part, is_stopped

    def _stop(
        self, run: CommandRun, whole: CheckedRun, by: Literal["signal", "kill"], plan: PlannedStop
    ) -> bool:
        """Let a run go on to its stop, and end it there; return whether it got there."""
        if self._reach(run, whole, plan):
            return False
        if by == "signal":
            asked = time.monotonic()
            run.ask(self._signum)
            run.go()
            if not run.wait(self._grace_now_s):
                self._note_once(
                    f"the command goes on for {self._grace_now_s:.2g} s after the signal, and is "
                    "killed then"
                )
            self._asked_s = time.monotonic() - asked
        run.end()
        return True

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
            first_difference=shown_difference(difference),
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
            by: worst_of([judgement for stop, judgement in found if stop.by == by])
            for by in ("signal", "kill")
        }
        total = worst_of([judgement for _, judgement in found])
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
            stops=[stop_report(stop, judgement) for stop, judgement in found],
            notes=self._notes,
        )
