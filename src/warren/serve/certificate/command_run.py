"""One run of the checked command: started with the probe, watched, stopped, and all of it ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from warren.model.errors import EngineError
from warren.serve.agent import processes
from warren.serve.certificate.evidence import CheckedStep
from warren.serve.certificate.folder_events import FolderEvent, FolderEvents

INJECTED: Final = Path(__file__).parent / "injected"
"""Folder of the programs that run in the interpreter of the command."""
_LOOK_S: Final = 0.01
"""Time between two looks at a run, in seconds."""
_RANKS_S: Final = 2.0
"""Longest time that the first rank at a stop waits for the others, in seconds."""
_LEFT_S: Final = 10.0
"""Longest time to end what is left of a run, in seconds."""


class CommandRun:
    """A started command, and its processes.

    Parameters
    ----------
    command
        The program and its arguments.
    checkpoints
        The folder that ``WARREN_CHECKPOINT_DIR`` names.
    folder
        A new folder for notes and output.
    extra
        Further variables of the command.
    pause
        Number of the optimizer step after which the command waits for ``go`` (0: none), and of the
        write of a checkpoint after it (0: at the step).
    """

    def __init__(
        self,
        command: Sequence[str],
        checkpoints: Path,
        folder: Path,
        extra: Mapping[str, str],
        pause: tuple[int, int] = (0, 0),
    ) -> None:
        self.notes = folder / "notes"
        self.notes.mkdir(parents=True)
        probe = folder / "probe"
        probe.mkdir()
        # Alone in its folder: nothing else of that folder may be found by the command.
        shutil.copy(INJECTED / "sitecustomize.py", probe)
        self._mark = f"WARREN_CHECK_RUN={uuid.uuid4().hex}"
        paths = [str(probe), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            **extra,
            "PYTHONPATH": os.pathsep.join(paths),
            "WARREN_CHECKPOINT_DIR": str(checkpoints),
            "WARREN_CHECK_NOTES": str(self.notes),
            "WARREN_CHECK_PAUSE": f"{pause[0]}:{pause[1]}",
            "WARREN_CHECK_RUN": self._mark.partition("=")[2],
        }
        self._known: set[tuple[int, int | None]] = set()
        self.output = folder / "output"
        self.begun = time.time()
        self.events: list[FolderEvent] = []
        self._watch = FolderEvents(checkpoints)
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> CommandRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            self.end()
        finally:
            self._watch.__exit__(kind, error, where)

    def wait(self, limit_s: float = float("inf"), until: Callable[[], bool] | None = None) -> bool:
        """Wait until the command ends, or ``until`` holds; return whether it has ended."""
        last = time.monotonic() + limit_s
        while self._process.poll() is None:
            self.events += self._watch.read()
            if (until is not None and until()) or time.monotonic() >= last:
                return False
            time.sleep(_LOOK_S)
        self.events += self._watch.read()
        return True

    @property
    def status(self) -> int:
        """Exit status of the leader; negative: the signal that ended it."""
        return self._process.returncode if self._process.returncode is not None else 0

    def go(self) -> None:
        """Let the command go on after its pause."""
        (self.notes / "go").touch()

    def is_paused(self) -> bool:
        """Tell whether all processes with steps wait for ``go``, or one has waited for a while."""
        paused = [path.stat().st_mtime for path in self.notes.glob("paused-*")]
        if not paused:
            return False
        return len(paused) >= len(list(self.notes.glob("*.jsonl"))) or (
            time.time() - min(paused) > _RANKS_S
        )

    def steps_seen(self) -> int:
        """Return the fewest steps that a process with steps has made."""
        return min((len(steps) for steps in self.lanes().values()), default=0)

    def lanes(self) -> dict[str, list[CheckedStep]]:
        """Return the steps so far, by rank."""
        found: dict[str, list[CheckedStep]] = {}
        for path in sorted(self.notes.glob("*.jsonl")):
            lines = path.read_bytes().split(b"\n")[:-1]
            rank = "0"
            for line in lines[:2]:
                rank = msgspec.json.decode(line).get("rank", rank)
            steps = [msgspec.json.decode(one, type=CheckedStep) for one in lines[2:]]
            if steps:
                number = next(k for k in range(len(found) + 1) if _lane(rank, k) not in found)
                found[_lane(rank, number)] = steps
        return found

    def interpreter(self) -> tuple[str, list[str]] | None:
        """Return the interpreter of a process with steps and its search path."""
        for path in sorted(self.notes.glob("*.jsonl")):
            head = msgspec.json.decode(path.read_bytes().partition(b"\n")[0])
            return str(head["executable"]), [str(one) for one in head["path"]]
        return None

    def last_line(self) -> str:
        """Return the last line of the output that is not empty."""
        with self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def processes(self) -> list[int]:
        """Return the living processes of this run.

        These are descendants of its leader, others with the mark of the run in their environment,
        and what was one of these at an earlier look.
        """
        found = processes.marked(self._mark.encode())
        if self._process.returncode is None:  # else its number may be another process's
            found += [self._process.pid, *processes.descendants(self._process.pid)]
        # With the time of its start: the number may be given to another process.
        self._known.update((pid, processes.start_ticks(pid)) for pid in found)
        return [pid for pid, ticks in self._known if _lives(pid, ticks)]

    def ask(self, signum: int) -> None:
        """Send a signal to the leader alone, and let all processes go on."""
        found = self.processes()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signum)
        _send(found, signal.SIGCONT)

    def end(self) -> None:
        """Kill all processes of the run, and wait until none is left.

        Raises
        ------
        EngineError
            If a process does not end, for example because it waits for a disk.
        """
        last = time.monotonic() + _LEFT_S
        while True:
            found = self.processes()
            _send(found, signal.SIGKILL)
            self._process.poll()
            if not found and not self.processes():
                break
            if time.monotonic() > last:
                raise EngineError(f"process {found[:1]} of the checked command does not end")
            time.sleep(0.002)
        self._process.wait()
        self.events += self._watch.read()


def _lane(rank: str, number: int) -> str:
    """Return the name of a rank's steps; a second process of the rank has a number."""
    return f"{rank:>4}" if number == 0 else f"{rank:>4} #{number}"


def _send(pids: Sequence[int], signum: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)


def _lives(pid: int, ticks: int | None) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in (b"Z", b"X") and int(fields[19]) == ticks
