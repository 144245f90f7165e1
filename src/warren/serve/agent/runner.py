"""The runner: one small process an attempt, which outlives agent and daemon.

It starts the command, ends it when it is asked to or at its time limit, kills all that is left of
it, and writes how it ended. It is forked from the agent, belongs to it no longer, and is alive as
long as it holds the lock of the attempt's folder.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Final

import msgspec

from warren.serve.agent import cgroups, processes
from warren.serve.agent.command import CannotStart, Place, place_of, rights_of, spawn
from warren.serve.agent.folders import AgentHome, AttemptFolder, this_process
from warren.serve.agent.log_limit import LogLimit
from warren.serve.agent.shells import Shells
from warren.serve.hosts.port import CommandEnded, CommandStarted, StartOrder
from warren.serve.records.jobs import NO_STRIKE, EndCause
from warren.serve.resume import starts

CANCEL_SIGNAL: Final = signal.SIGUSR1
"""Signal that cancels an attempt whose agent cannot write the order into its folder."""
_REST_GRACE_S: Final = 2.0
"""Longest time for processes that are left when a command ends by itself, in seconds."""
_SHELLS_S: Final = 0.05
"""Time after the start of a command until shells may come beside it, in seconds."""
_MARK_S: Final = 0.5
"""Time between two looks whether the command has called ``scontrol requeue``, in seconds."""
_STUCK_S: Final = 5.0
"""Time after SIGKILL when a process that still lives is named in the log, in seconds."""


class Runner:
    """One attempt, in the process that runs it.

    Parameters
    ----------
    home
        The agent's home.
    folder
        The attempt's folder, whose lock this process holds.
    order
        What to start.
    limits
        How jobs are held together here.
    notices
        Open file to which the runner writes a line when the command runs.
    """

    def __init__(
        self,
        home: AgentHome,
        folder: AttemptFolder,
        order: StartOrder,
        limits: cgroups.Limits,
        notices: int,
    ) -> None:
        self._home, self._folder, self._order, self._limits = home, folder, order, limits
        self._notices = notices
        self._group = limits.group(order.attempt)
        self._leader = 0
        self._status: int | None = None
        self._cause: EndCause | None = None
        self._limit_at = self._kill_at = float("inf")
        self._started = self._out_of_memory = False
        self._output = -1
        self._log = LogLimit(folder.file("output"), order.log_limit_bytes, self._say)
        self._wake = -1
        self._poll = select.poll()
        self._place: Place | None = None
        self._shells: Shells | None = None
        self._shells_at = self._mark_at = float("inf")
        self._signal: int = signal.SIGTERM
        self._begun_s = self._signalled_s = 0.0

    def run(self) -> CommandEnded:
        """Run the attempt to its end."""
        self._listen_for_signals()
        processes.adopt_orphans()
        processes.set_name(f"warren {self._order.attempt}")
        try:
            self._begin()
        except CannotStart as error:
            self._kill_all()
            return self._end("start", reason=str(error), ran=False)
        except OSError as error:
            self._kill_all()
            reason = f"the attempt's folder cannot be written: {error.strerror or error}"
            return self._end("start", reason=reason, ran=self._started)
        if self._leader:
            self._watch()
        self._kill_all()
        self._log.finish()
        return self._how_it_ended()

    def _listen_for_signals(self) -> None:
        self._wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._wake, select.POLLIN)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGCHLD, CANCEL_SIGNAL):
            signal.signal(signum, lambda *_: None)
        for signum in (signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _begin(self) -> None:
        """Start the command, unless the attempt is to end already."""
        order, folder = self._order, self._folder
        place = place_of(order, folder.path, f"{self._home.path}/checkpoints", self._limits)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._output = os.open(folder.file("output"), flags, 0o600)
        if place.account is not None:
            os.fchown(self._output, place.account.uid, place.account.gid)
        if self._group:
            self._make_group()
        # After a loss of power the disk must still say that the command may have run. The folders
        # that a new file is in are on disk with it.
        folder.add(this_process(self._group), sync=True)
        if folder.stop_grace_s() is not None:
            self._cause = "preempt" if folder.is_preempted() else "cancel"
            return
        self._start(place)

    def _make_group(self) -> None:
        memory = self._order.memory_bytes if self._limits.memory else None
        try:
            cgroups.make(self._group, memory)
        except OSError as error:
            raise CannotStart(f"the cgroup of the job cannot be made: {error}") from None

    def _start(self, place: Place) -> None:
        place, command = self._prepared(place)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._leader = spawn(command, place, (null, self._output, self._output))
        os.close(null)
        self._started = True
        now_ns = time.time_ns()
        self._begun_s = now_ns / 1e9
        if self._order.time_limit_s is not None:
            self._limit_at = time.monotonic() + self._order.time_limit_s
        with contextlib.suppress(OSError):  # the disk is full; the agent hears of it
            self._folder.add(CommandStarted("", self._order.attempt, now_ns))
        self._place = place
        self._shells_at = time.monotonic() + _SHELLS_S
        with contextlib.suppress(OSError):  # the agent has ended, or is busy
            os.write(self._notices, f"{self._order.attempt} {now_ns}\n".encode())

    def _prepared(self, place: Place) -> tuple[Place, tuple[str, ...]]:
        """Return where the command runs, and the command itself; both have more if it comes back.

        Raises CannotStart if what it gets cannot be written.
        """
        order, given = self._order, self._order.resume
        if given is None:
            return place, order.command
        place = starts.with_libraries(place, order.attempt)
        if given.compat == "slurm":
            place = starts.with_slurm(place, self._home.path, self._folder)
            self._mark_at = time.monotonic() + _MARK_S
        if order.attempt.endswith(".1"):
            return place, order.command
        folder = place.environment["WARREN_CHECKPOINT_DIR"]
        with rights_of(place.account):
            command, checkpoint = starts.again(order.command, given.template, folder)
        if checkpoint:
            self._say(f"the command goes on from {checkpoint}")
        return place, command

    def _watch(self) -> None:
        """Wait until nothing of the command is left, or what is left must be killed."""
        while True:
            led = self._status is None
            left = self._reap()
            now = time.monotonic()
            if not left or now >= self._kill_at:
                return
            if led and self._status is not None:
                self._end_rest()
                continue
            if self._status is None and now >= self._limit_at:
                self._ask_to_end("time", self._order.grace_s)
                continue
            if now >= self._shells_at:
                self._open_to_shells()
            if now >= self._mark_at:
                self._look_for_mark(now)
                continue
            if now >= self._log.due_s:
                self._log.look(now)
            until = min(self._kill_at, self._shells_at, self._mark_at, self._log.due_s)
            if self._status is None:
                until = min(until, self._limit_at)
            ready = self._poll.poll(
                None if until == float("inf") else max(0, until - now) * 1000 + 1
            )
            self._take_signals()
            for fd, _ in ready:
                if self._shells is not None:
                    self._shells.ready(fd)

    def _open_to_shells(self) -> None:
        """Let shells come; a command that ends at once never has any."""
        self._shells_at = float("inf")
        if self._place is not None:
            with contextlib.suppress(OSError):  # it runs on without shells
                self._shells = Shells(self._folder, self._place, self._poll)

    def _look_for_mark(self, now: float) -> None:
        """End the command if it has asked Slurm to start it again, as Slurm does."""
        self._mark_at = now + _MARK_S
        if self._status is not None:
            self._mark_at = float("inf")
        elif self._folder.is_requeued():
            self._mark_at = float("inf")
            self._ask_to_end("requeue", self._order.grace_s)

    def _take_signals(self) -> None:
        """End the command if a signal asked for it."""
        try:
            came = os.read(self._wake, 4096)
        except BlockingIOError:
            return
        if CANCEL_SIGNAL in came:
            self._ask_to_end("cancel", self._order.grace_s)
        if signal.SIGTERM in came:
            self._stop()

    def _reap(self) -> bool:
        """Wait for what has ended; tell whether processes are left."""
        ended, left = processes.reap()
        if self._status is None:
            self._status = ended.get(self._leader)
        if self._shells is not None:
            for pid, status in ended.items():
                self._shells.ended(pid, status)
        return left

    def _stop(self) -> None:
        """End the command: the agent asked for it, or the machine shuts down."""
        grace_s = self._folder.stop_grace_s()
        if grace_s is None:
            self._ask_to_end("host", self._order.grace_s)
        elif not self._folder.is_preempted():
            self._ask_to_end("cancel", grace_s)
        elif self._cause is None and self._status is None:  # the order may come twice
            given = self._order.resume
            self._signal = signal.Signals[f"SIG{given.signal}"] if given else signal.SIGTERM
            self._signalled_s = time.time()
            self._ask_to_end("preempt", grace_s, self._signal)

    def _ask_to_end(self, cause: EndCause, grace_s: float, signum: int = signal.SIGTERM) -> None:
        """Ask the leader to end; all is killed when the grace is over."""
        self._kill_at = min(self._kill_at, time.monotonic() + max(0.0, grace_s))
        if self._status is not None:
            return
        if self._cause is None or (cause == "cancel" and self._cause in NO_STRIKE):
            self._cause = cause
            self._limit_at = float("inf")
        for one in (signal.SIGCONT, signum):
            with contextlib.suppress(PermissionError):  # it has another account's rights
                os.kill(self._leader, one)

    def _end_rest(self) -> None:
        """Ask what the leader has left behind to end, too."""
        if self._shells is not None:
            self._shells.hang_up()
        if self._cause == "preempt" and self._status == self._signal:
            # A shell dies of the signal at once, and does not hand it on: the command is below it.
            for pid in processes.children(os.getpid()):
                processes.signal_if(pid, self._signal, (os.getpid(),))
            return
        if self._cause is None:
            rest_s = min(self._order.grace_s, _REST_GRACE_S)
            self._kill_at = min(self._kill_at, time.monotonic() + rest_s)
        for signum in (signal.SIGTERM, signal.SIGCONT):
            processes.signal_descendants(signum)

    def _kill_all(self) -> None:
        """Kill all processes of the attempt, and return when none is left."""
        if self._shells is not None:
            self._shells.hang_up()
        begun = time.monotonic()
        said = False
        rounds = 0
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        while self._reap():
            if self._group:
                cgroups.kill(self._group)
            processes.kill_once(processes.children(os.getpid()), rounds)
            rounds += 1
            if not said and time.monotonic() - begun > _STUCK_S:
                said = True
                self._say_what_lives()
            if self._reap():
                poll.poll(1 if rounds < 20 else 50)
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
        with contextlib.suppress(OSError):  # it holds checkpoints, or was never made
            os.rmdir(f"{self._home.path}/checkpoints/{self._order.attempt.rpartition('.')[0]}")
        self._out_of_memory = bool(self._group) and cgroups.ran_out_of_memory(self._group)
        if self._group and not cgroups.remove(self._group):
            self._say("the cgroup of the job is not empty; it stays")

    def _say_what_lives(self) -> None:
        me = os.getpid()
        lives = [f"{pid} ({processes.name_of(pid)})" for pid in processes.descendants(me)]
        self._say(f"these processes live on after SIGKILL: {', '.join(lives)}; the devices wait")

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._output, f"warren: {line}\n".encode())

    def _how_it_ended(self) -> CommandEnded:
        if not self._leader:
            cause = self._cause or "cancel"
            what = "preempted" if cause == "preempt" else "cancelled"
            return self._end(cause, reason=f"{what} before it started", ran=False)
        status = self._status or 0
        number = os.waitstatus_to_exitcode(status)
        code, signum = (number, None) if number >= 0 else (None, -number)
        cause = self._cause or "exit"
        if cause == "exit" and self._order.resume is not None and self._folder.is_requeued():
            cause = "requeue"
        reason = ""
        if cause == "time":
            reason = f"it reached its time limit of {self._order.time_limit_s:g} s"
        elif cause == "host":
            reason = "its machine is shutting down, or its runner was asked to end"
        elif signum is not None and cause == "exit":
            reason = f"ended by {_signal_name(signum)}"
        if self._out_of_memory and cause == "exit":
            cause = "memory"
            reason = (
                f"it used more than its memory limit of {self._order.memory_bytes or 0:,} bytes"
            )
        end = self._end(cause, code, signum, reason)
        return end if cause != "preempt" else self._with_save(end)

    def _with_save(self, end: CommandEnded) -> CommandEnded:
        """Return the end of a preempted command with whether it has saved."""
        if self._place is None or self._order.resume is None:  # a run of apps loses nothing
            return end
        folder = self._place.environment["WARREN_CHECKPOINT_DIR"]
        ended_s = end.time_ns / 1e9
        with contextlib.suppress(OSError), rights_of(self._place.account):  # the end counts more
            found = starts.measured(folder, self._begun_s, self._signalled_s, ended_s)
            return msgspec.structs.replace(end, **found._asdict())
        return end

    def _end(
        self,
        cause: EndCause,
        code: int | None = None,
        signum: int | None = None,
        reason: str = "",
        ran: bool = True,
    ) -> CommandEnded:
        return CommandEnded(
            "", self._order.attempt, time.time_ns(), cause, code, signum, reason, ran
        )


def _signal_name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
