"""The controller's hand on processes: one zygote a host, and everything forked from it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from warren.live.framing import Pipe
from warren.live.preload import ALWAYS
from warren.live.processes import end_all_marked
from warren.live.roles import End, Exited, Fork, Forked, Role, ZygoteMessage, ZygoteReady
from warren.live.training.numerics import clean_environment
from warren.model.errors import EngineError

_LEAVE_S: Final = 6.0
"""How long the zygote may take to end everything before it is killed itself."""


class Fleet:
    """Processes of a run on this host, by ticket. Closing the pipe ends all of them."""

    def __init__(self, folder: Path, log: Path, preload: Sequence[str] = ALWAYS) -> None:
        mine, theirs = socket.socketpair()
        self.pipe = Pipe(mine)
        self._log = log
        self._roles: dict[int, Role] = {}
        self._pids: dict[int, int] = {}
        self._tickets = 0
        self._warm = False
        self._mark = {"WARREN_RUN": folder.name}
        # PyTorch makes this folder on import; it goes with the run's own.
        own = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        with theirs, log.open("ab") as output:
            self._zygote = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "warren.live.zygote",
                    str(theirs.fileno()),
                    str(folder),
                    str(os.getpid()),
                    *preload,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=clean_environment(os.environ) | self._mark | own,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """The process session all processes of the run are in (unless they leave it)."""
        return self._zygote.pid

    def pids(self) -> dict[int, Role]:
        """Living children and what they are; not those that were told to end."""
        pids = self._pids.items()
        return {pid: self._roles[ticket] for ticket, pid in pids if ticket in self._roles}

    def await_zygote(self) -> ZygoteReady:
        """Wait until the zygote is warm.

        Raises
        ------
        EngineError
            If it ended instead, or if it is not single-threaded and must not fork.
        """
        message = self._receive()
        assert isinstance(message, ZygoteReady)
        if message.threads != 1:
            raise EngineError(f"the zygote has {message.threads} threads after warming up, not 1")
        self._warm = True
        return message

    def fork(self, role: Role) -> int:
        """Ask for a process; gives its ticket."""
        self._tickets += 1
        self._roles[self._tickets] = role
        if not self.pipe.send(Fork(self._tickets, role)):
            raise self._lost()
        return self._tickets

    def end(self, ticket: int) -> None:
        """Kill a process; its exit is not reported."""
        if self._roles.pop(ticket, None) is not None:
            self.pipe.send(End(ticket))

    def hear(self) -> Iterator[tuple[int, Role, Exited]]:
        """Read one message that is here; yields a process that ended without being told to."""
        match self._receive():
            case Forked(ticket=ticket, pid=pid):
                if ticket in self._roles:
                    self._pids[ticket] = pid
            case Exited(ticket=ticket) as exited:
                self._pids.pop(ticket, None)
                role = self._roles.pop(ticket, None)
                if role is not None:
                    yield ticket, role, exited
            case _:
                pass

    def close(self) -> None:
        """End every process and wait for it."""
        self.pipe.close()
        if not self._warm:
            self._zygote.kill()  # it has no children yet, and loads libraries for seconds
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._zygote.wait(_LEAVE_S)
        if self._zygote.poll() is None:
            self._zygote.kill()
            self._zygote.wait()
        # Nothing is left, unless the zygote was killed while user code had forked.
        end_all_marked("".join(f"{k}={v}" for k, v in self._mark.items()).encode())

    def _receive(self) -> ZygoteMessage:
        message = self.pipe.receive()
        if message is None:
            raise self._lost()
        return message

    def _lost(self) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._zygote.wait(1.0)
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return EngineError(f"the zygote ended ({self._zygote.returncode}), see {self._log}{last}")
