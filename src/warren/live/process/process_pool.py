"""The controller's handle on processes: one zygote for each host, and everything they fork."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from warren.live.own_programs import own_program
from warren.live.process import cleanup_guard as guard
from warren.live.process.host_placement import ALONE, HostPlacement
from warren.live.process.linux import (
    FULL_CODE,
    end_all_children,
    end_all_marked,
    in_words,
    no_more_processes,
)
from warren.live.process.pipe import Pipe
from warren.live.process.preload import ALWAYS
from warren.live.process.specs import (
    Close,
    End,
    Exited,
    Fork,
    Forked,
    Role,
    ZygoteMessage,
    ZygoteReady,
)
from warren.live.training.numerics import clean_environment
from warren.model.cluster import LOG_BYTES
from warren.model.errors import EngineError, printable


class ZygoteLost(EngineError):
    """A zygote has ended, and with it everything that it forked.

    ``killed``: from outside, as far as is known.
    """

    def __init__(self, text: str, *, killed: bool = True) -> None:
        super().__init__(text)
        self.killed = killed


class NoMoreProcesses(EngineError):
    """No process can be started, for as many are there as are allowed.

    ``needed``: about how many the run has at a time; 0: not known.
    """

    def __init__(self, needed: int = 0) -> None:
        more = f"; this run needs about {needed}: allow more, or use fewer devices or jobs"
        super().__init__(no_more_processes() + (more if needed else ""))


_KILLS: Final = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT)
"""Exit codes of a zygote that was killed from outside."""
_STARTS: Final = 10
"""Number of zygotes that may be killed while they start, before the run ends."""

_LEAVE_S: Final = 6.0
"""Longest time in seconds in which the zygote must end everything before it is killed."""
_LINES: Final = 3
"""Last lines of a lost zygote's output that an error quotes: of a traceback, place and error."""
_CHARS: Final = 500
"""Last characters of these lines that an error quotes."""


class ZygoteStarts:
    """Decides whether a zygote is started again that was lost while it started.

    A kill from outside says nothing of the next start. A zygote that ends by itself is started once
    more, without the libraries that are loaded ahead only to save time.

    Parameters
    ----------
    libraries : sequence of str
        The libraries to load.

    Attributes
    ----------
    libraries
        The libraries that the next zygote loads.
    """

    def __init__(self, libraries: Sequence[str]) -> None:
        self.libraries = tuple(libraries)
        self._killed = self._ended = 0

    def lost(self, error: ZygoteLost) -> None:
        """Note a zygote that was lost.

        Raises
        ------
        ZygoteLost
            ``error`` itself, if another start would not help.
        """
        if error.killed:
            self._killed += 1
        else:
            self._ended += 1
            self.libraries = ALWAYS
        if self._killed > _STARTS or self._ended > 1:
            raise error


class ProcessPool:
    """The processes of a run, by ticket, on the hosts of a placement. Closing the pipes ends them.

    ``pipes`` lead to the zygotes of the hosts, in their order. The first zygote is the parent of
    the others.

    Parameters
    ----------
    folder : Path
        The run's private folder.
    log : Path
        The file that the zygotes print to.
    preload : sequence of str
        The libraries that they load.
    watch : CleanupGuard, optional
        The guard that cleans up after this process and the zygotes.
    cgroups : str
        The path, without ``.PID``, of the cgroups of limited processes; empty: there are none.
    placement : HostPlacement
        The host of each process.
    log_bytes : int
        Most bytes that the processes of one job may print to its log.
    """

    def __init__(
        self,
        folder: Path,
        log: Path,
        preload: Sequence[str] = ALWAYS,
        watch: CleanupGuard | None = None,
        cgroups: str = "",
        placement: HostPlacement = ALONE,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self._placement = placement
        self._log = log
        self._cgroups = cgroups
        # By ticket: the role of a process that nothing has ended on purpose, the pipe to its
        # zygote, and its process id once it has been forked.
        self._roles: dict[int, Role] = {}
        self._at: dict[int, Pipe] = {}
        self._pids: dict[int, int] = {}
        self._tickets = 0
        self._warm = False
        self._mark = mark_of(folder)
        guard_fd = -1 if watch is None else watch.fd
        # PyTorch makes this folder on import; it goes with the run's own.
        own = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        with ExitStack() as ends:
            output = ends.enter_context(log.open("ab"))
            self._log_from = output.tell()
            # The zygotes' ends are closed here when they are started: only so is their end seen.
            pairs = [socket.socketpair() for _ in placement.places_H]
            self.pipes = tuple(Pipe(mine) for mine, _ in pairs)
            theirs = [ends.enter_context(end).fileno() for _, end in pairs]
            hosts = list(zip(theirs, placement.places_H, strict=True))
            self._zygote = _start_zygote(
                [
                    msgspec.json.encode(hosts).decode(),
                    str(guard_fd),
                    str(folder),
                    str(os.getpid()),
                    str(log_bytes),
                    *preload,
                ],
                clean_environment(os.environ) | self._mark | own,
                output,
                [fd for fd in (*theirs, guard_fd) if fd >= 0],
            )

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors to poll: those of the pipes."""
        return tuple(pipe.fileno() for pipe in self.pipes)

    @property
    def session(self) -> int:
        """The id of the process session that all processes of the run are in, unless they leave."""
        return self._zygote.pid

    def pids(self) -> dict[int, Role]:
        """Return the living processes and their roles, without those that are being ended."""
        pids = self._pids.items()
        return {pid: self._roles[ticket] for ticket, pid in pids if ticket in self._roles}

    @property
    def stale_messages(self) -> int:
        """None: without leases nothing is out of date."""
        return 0

    @property
    def strangers(self) -> int:
        """Always 0: this pool accepts no connections."""
        return 0

    def await_zygote(self) -> ZygoteReady:
        """Wait until all zygotes are warm; the first one's message holds for all.

        Raises
        ------
        ZygoteLost
            If a zygote ended instead.
        EngineError
            If a zygote is not single-threaded and must not fork.
        """
        said = [self._receive(pipe) for pipe in self.pipes]
        for message in said:
            assert isinstance(message, ZygoteReady)
            if len(message.threads) != 1:
                named = ", ".join(sorted(message.threads))
                raise EngineError(
                    f"a library that the apps name starts threads when it is loaded, and what has "
                    f"threads cannot be forked safely; threads: {named}"
                )
        self._warm = True
        assert isinstance(said[0], ZygoteReady)
        return said[0]

    def fork(self, role: Role) -> int:
        """Ask the zygote of a role's host for a process, and return the ticket of the process.

        A zygote that is lost is noticed by ``hear``, not here.
        """
        self._tickets += 1
        pipe = self.pipes[self._placement.of(role)]
        self._roles[self._tickets], self._at[self._tickets] = role, pipe
        pipe.send(Fork(self._tickets, self._placement.with_identity(role)))
        return self._tickets

    def kill(self, ticket: int) -> None:
        """Kill a process; its exit is reported."""
        if (pipe := self._at.get(ticket)) is not None:
            pipe.send(End(ticket))

    def end(self, ticket: int) -> None:
        """Kill a process; its exit is not reported."""
        if self._roles.pop(ticket, None) is not None:
            self.kill(ticket)

    def hear(self, fd: int) -> Iterator[tuple[int, Role, Exited]]:
        """Read one message of a host's zygote; yield a process that ended without an order to end.

        ``fd`` is one of ``fds``.

        Raises
        ------
        ZygoteLost
            If the zygote of this host is gone.
        """
        (pipe,) = (one for one in self.pipes if one.fileno() == fd)
        match self._receive(pipe):
            case Forked(ticket=ticket, pid=pid):
                if ticket in self._roles:
                    self._pids[ticket] = pid
            case Exited(ticket=ticket) as exited:
                self._pids.pop(ticket, None)
                self._at.pop(ticket, None)
                role = self._roles.pop(ticket, None)
                if role is not None:
                    yield ticket, role, exited
            case _:
                pass

    def close(self, *, last: bool) -> None:
        """End every process and wait for it; ``last``: the folder is not needed any more."""
        for pipe in self.pipes:
            pipe.send(Close(last))
            pipe.close()
        # Before it is warm it has no children yet, and loads libraries for seconds.
        if not self._warm:
            self._zygote.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._zygote.wait(_LEAVE_S)
        if self._zygote.poll() is None:
            self._zygote.kill()
            self._zygote.wait()
        # Nothing is left, unless the zygote was killed while user code had forked.
        end_all_marked(_text(self._mark).encode())
        guard.end_cgroups(self._cgroups)

    def end_all(self, keep: int) -> None:
        """End every process by force except the child ``keep``, and wait for their ends.

        This process must be the adopter of orphans: a child that user code started with another
        environment is found only as a child.
        """
        end_all_marked(_text(self._mark).encode())
        self._warm = False
        self.close(last=False)
        end_all_children(keep=(keep,))

    def note_warm(self) -> None:
        """Note that the zygote is warm, as another process has read."""
        self._warm = True

    def changed_hosts(self) -> list[tuple[int, bool]]:
        """Return none: its hosts are this machine, which stays."""
        return []

    def how_lost(self) -> str:
        """Say how the zygote of the first host has ended, with the last lines that it printed."""
        return str(self._lost(self.pipes[0]))

    def _receive(self, pipe: Pipe) -> ZygoteMessage:
        """Wait for the next message of a zygote; raises ``ZygoteLost`` if it has ended."""
        message = pipe.receive()
        if message is None:
            raise self._lost(pipe)
        return message

    def _lost(self, pipe: Pipe) -> EngineError:
        """Return the error that says how a zygote ended, with the last lines that it printed.

        It quotes the log, since the log may be in a folder that is removed with the run.
        """
        # The zygote of another host is no child of this process: how it ended is not known here.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._zygote.wait(1.0 if pipe is self.pipes[0] else 0.1)
        code = self._zygote.returncode
        if code == FULL_CODE:
            return NoMoreProcesses()
        how = "that of one host" if code is None else in_words(code) or "exit status 0"
        when = "ended" if self._warm else "ended while it started"
        lines = [line.strip() for line in self._printed().splitlines() if line.strip()]
        last = "; ".join(lines[-_LINES:]) or "nothing"
        message = f"the zygote {when} ({how}); it printed last: {printable(last[-_CHARS:])}"
        return ZygoteLost(message, killed=code is None or code in _KILLS)

    def _printed(self) -> str:
        """Return the end of the output since the zygote was started."""
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            file.seek(max(self._log_from, file.seek(0, os.SEEK_END) - _CHARS * _LINES))
            return file.read().decode(errors="replace")
        return ""


def _start_zygote(
    arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes], fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    """Start the process that ``live.process.zygote`` describes, in a session of its own."""
    return _start(
        own_program("warren.live.process.zygote", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        pass_fds=fds,
        start_new_session=True,
    )


def _start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process. Raises ``NoMoreProcesses`` where there may be no further one."""
    try:
        return subprocess.Popen(command, **options)
    except BlockingIOError:
        raise NoMoreProcesses from None


class CleanupGuard:
    """The handle of a ``cleanup_guard``, which cleans up when controller and zygote are killed.

    Parameters
    ----------
    folder : Path
        The folder that it removes; its name marks the processes that it kills.
    cgroups : sequence of str
        Paths, without ``.PID``, of the cgroups that it removes.
    keep : sequence of int
        File descriptors that it keeps open to its end, such as that of a lock.
    """

    def __init__(self, folder: Path, cgroups: Sequence[str] = (), keep: Sequence[int] = ()) -> None:
        theirs, self.fd = os.pipe()
        try:
            # Isolated and without site packages, with an empty environment: it starts fast, and
            # does not have the mark of the processes that it kills.
            self._process = _start(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    guard.__file__,
                    str(theirs),
                    _text(mark_of(folder)),
                    str(folder),
                    *cgroups,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                pass_fds=[theirs, *keep],
                start_new_session=True,
            )
        finally:
            os.close(theirs)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self) -> None:
        """Let the guard end: everything has ended well, so it finds nothing to clean up."""
        os.close(self.fd)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def mark_of(folder: Path) -> dict[str, str]:
    """Return the entry of the environment by which all processes of a run are known."""
    return {"WARREN_RUN": folder.name}


def _text(entry: dict[str, str]) -> str:
    """Return an entry of an environment as the kernel shows it."""
    return "".join(f"{key}={value}" for key, value in entry.items())
