"""The agent of a machine: it starts, watches and ends attempts as the daemon orders.

It holds nothing that is not in its home, too, so it may be killed at any time: a new agent of the
same home finds all attempts again. An attempt starts at most once, since its folder is made once.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from warren.serve.agent import cgroups, processes
from warren.serve.agent.care.activity import IdleWatch, RunningAttempt
from warren.serve.agent.care.self_test import SelfTests
from warren.serve.agent.care.xids import XidWatch
from warren.serve.agent.devices import Devices, machine
from warren.serve.agent.folders import AgentHome, AttemptFolder, closed_folders
from warren.serve.agent.forks import fork_cleaner, fork_runner
from warren.serve.agent.gpu_watch import GpuWatch
from warren.serve.agent.link import DaemonLink, Target
from warren.serve.agent.loop import Loop
from warren.serve.agent.runner import CANCEL_SIGNAL
from warren.serve.hosts.messages import (
    PIECE_BYTES,
    ForgetRecord,
    Hello,
    LogPiece,
    ReadLog,
    StartAttempt,
    StopAttempt,
    TestDevice,
    ToAgent,
    Welcome,
)
from warren.serve.hosts.port import (
    AttemptIdle,
    CommandEnded,
    CommandStarted,
    DevicesSeen,
    DeviceTested,
    StartOrder,
    XidSeen,
)
from warren.serve.records.machines import DeviceUse

_REPEAT_S: Final = 5.0
"""Time between two reports of ends that the daemon has not confirmed, in seconds."""
_RETRY_S: Final = 1.0
"""Time between two tries at what the system had no room for, in seconds."""
_LOOK_S: Final = 0.05
"""Time between two looks at what is about to change, in seconds."""


class Live:
    """An attempt that has a record."""

    def __init__(self, folder: AttemptFolder, devices: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.devices = devices
        self.runner = 0
        """The process that holds the lock; 0 where it is not known yet, or has ended."""
        self.pidfd = -1
        self.started_ns: int | None = None
        self.start_sent = False
        """Whether the daemon was sent the start on this connection."""
        self.end: CommandEnded | None = None
        self.reported_s = 0.0


class Agent:
    """One agent.

    Parameters
    ----------
    home
        Its folder.
    target
        Where the daemon is.
    name
        Name of this machine.
    devices
        Its devices.
    self_test
        The command that tests a GPU; empty: none can be tested.
    """

    def __init__(
        self,
        home: AgentHome,
        target: Target,
        name: str,
        devices: Devices,
        self_test: tuple[str, ...] = (),
    ) -> None:
        self._home, self._name, self._devices = home, name, devices
        self._limits = cgroups.find_limits(home.path)
        self._live: dict[str, Live] = {}
        self._loop = Loop()
        self._notices, self._notices_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._rest = b""
        self._repeats = self._said_closed = False
        self._kill_rounds = 0
        self._link = DaemonLink(self._loop, target, self)
        self._tests = SelfTests(self._loop, self_test, self._tested)
        self._gpus = GpuWatch(self._loop, devices, self._runners, self._uses_changed)
        self._idle = IdleWatch(self._loop, devices, self._running, self._idles)
        self._xids = XidWatch(self._loop, devices.xid_events(), self._on, self._has_xid)

    def run(self) -> int:
        """Work until the daemon of this machine has gone, or a signal comes; attempts go on.

        Returns 0, or 2 if the daemon refuses this agent.
        """
        processes.adopt_orphans()
        loop = self._loop
        loop.on_signal(signal.SIGCHLD, self._reap)
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.on_signal(signum, lambda: loop.end(0))
        loop.watch(self._notices, self._read_notices)
        for folder in self._home.live():
            order = self._home.order(folder.name)
            self._live[folder.name] = live = Live(folder, order.devices if order else ())
            self._look(live)
        # Runners share what the agent has in memory, as long as nothing writes to it.
        gc.collect()
        gc.freeze()
        self._link.connect()
        try:
            return loop.run()
        finally:
            self._tests.close()
            self._link.close()

    # What the link asks for.

    def hello(self) -> Hello:
        """Return the description of this machine, and the names of all attempts with a record."""
        described = machine(self._name, self._devices, self._limits.text, self._tests.works)
        return Hello(described, tuple(self._live), self._home.id)

    def welcomed(self, welcome: Welcome) -> None:
        """Repeat all reports."""
        self._check_home()
        self._idle.watch(welcome.idle_s)
        self._xids.watch(welcome.xids)
        if self._gpus.uses:
            self._uses_changed(self._gpus.uses)
        for live in list(self._live.values()):
            live.start_sent = False
            self._report_again(live)

    def _check_home(self) -> None:
        """Say once if accounts of jobs cannot reach their folders in the home."""
        closed = closed_folders(self._home.path) if os.geteuid() == 0 else []
        if closed and not self._said_closed:
            self._said_closed = True
            _say(
                f"jobs of users cannot enter {closed[0]}, so they cannot write checkpoints; name a "
                "home that all may enter, such as --home /var/lib/warren"
            )

    def take(self, message: ToAgent) -> None:
        """Do what the daemon orders."""
        match message:
            case StartAttempt(order):
                self._start(order)
            case StopAttempt(attempt, grace_s, preempt):
                self._stop(attempt, grace_s, preempt)
            case TestDevice(device):
                self._tests.begin(device)
            case ForgetRecord(attempt):
                self._forget(attempt)
            case ReadLog(number, attempt, offset, limit):
                self._read(number, attempt, offset, limit)

    # Orders.

    def _start(self, order: StartOrder) -> None:
        known = self._live.get(order.attempt)
        if known is not None:
            known.start_sent = False
            self._report_again(known)
            return
        live: Live | None = None
        try:
            folder = self._home.make(order.attempt, order)
            if folder is None:  # it ran, and was forgotten
                self._refuse(order.attempt)
                return
            live = self._live[order.attempt] = Live(folder, order.devices)
            unknown = sorted(set(order.devices) - self._devices.ids())
            if unknown:
                self._end_unstarted(live, "start", f"there is no device {', '.join(unknown)}")
                return
            self._gpus.begins(order.attempt, order.devices)
            self._fork(live, order)
        except (OSError, ValueError) as error:
            if live is None:
                with contextlib.suppress(ValueError):
                    live = self._live[order.attempt] = Live(self._home.folder(order.attempt))
            if live is not None:
                self._end_unstarted(live, "start", f"its runner cannot be started: {error}")

    def _refuse(self, attempt: str) -> None:
        """Report that an attempt never starts, whose name a queue from a backup gave out again."""
        reason = "its host has the log of an earlier attempt of this name"
        self._link.send(
            CommandEnded(self._name, attempt, time.time_ns(), "start", reason=reason, ran=False)
        )

    def _fork(self, live: Live, order: StartOrder) -> None:
        lock = live.folder.lock()
        assert lock is not None, "a new folder is locked by another process"
        try:
            notices = self._notices_end
            pid = fork_runner(self._home, live.folder, order, self._limits, notices, lock)
        finally:
            os.close(lock)
        self._watch(live, pid)

    def _stop(self, attempt: str, grace_s: float, preempt: bool) -> None:
        live = self._live.get(attempt)
        try:
            if live is None:
                # The order to start it never came here. If it comes now, it is too late.
                folder = self._home.make(attempt, None)
                if folder is not None:
                    live = self._live[attempt] = Live(folder)
                    self._end_unstarted(live, "cancel", "cancelled before it started")
                return
            if live.end is not None:
                self._report_again(live)
                return
        except (OSError, ValueError) as error:
            _say(f"{attempt} cannot be ended: {error}")
            return
        signum = signal.SIGTERM
        try:
            live.folder.ask_to_stop(grace_s, preempt=preempt)
        except OSError:  # the disk is full
            if preempt:
                self._loop.call_later(_RETRY_S, lambda: self._stop(attempt, grace_s, preempt))
                return
            signum = CANCEL_SIGNAL
        if live.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(live.pidfd, signum)

    def _forget(self, attempt: str) -> None:
        live = self._live.get(attempt)
        if live is not None and live.end is not None:
            del self._live[attempt]
            with contextlib.suppress(OSError):
                self._home.forget(live.folder)

    def _read(self, number: int, attempt: str, offset: int, limit: int) -> None:
        try:
            folder = self._home.folder(attempt)
            data = folder.read_output(max(0, offset), min(max(0, limit), PIECE_BYTES))
            self._link.send(LogPiece(number, data))
        except (OSError, ValueError) as error:
            self._link.send(LogPiece(number, error=f"the log of {attempt} cannot be read: {error}"))

    # What becomes of attempts.

    def _look(self, live: Live) -> None:
        """Find out how an attempt stands whose runner this agent does not know."""
        try:
            self._find_out(live)
        except OSError:  # the disk is full, or the system has no room for a process
            self._loop.call_later(_RETRY_S, lambda: self._look(live))

    def _find_out(self, live: Live) -> None:
        end = live.folder.record().end
        if end is not None:
            self._ended(live, end)
            return
        lock = live.folder.lock()
        if lock is None:
            self._adopt(live)
            return
        try:
            record = live.folder.record()  # it may have ended between the two looks
            if record.end is not None:
                self._ended(live, record.end)
            elif record.runner is None:
                reason = "the agent was killed before the command started"
                self._end_unstarted(live, "start", reason)
            elif record.runner.boot_id != processes.boot_id():
                self._end_unstarted(live, "host", "its machine was started again", ran=True)
            else:
                self._watch(live, fork_cleaner(live.folder, record.runner.cgroup, lock))
        finally:
            os.close(lock)

    def _adopt(self, live: Live) -> None:
        """Watch a runner of an earlier agent."""
        runner = live.folder.record().runner
        if runner is not None:
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(runner.pid)
                if processes.start_ticks(runner.pid) == runner.start_ticks:
                    self._watch(live, runner.pid, pidfd)
                    self._look_for_start(live)
                    return
                os.close(pidfd)
        # It has not written who it is, or ends just now.
        self._loop.call_later(_LOOK_S, lambda: self._look(live))

    def _watch(self, live: Live, pid: int, pidfd: int | None = None) -> None:
        live.runner = pid
        live.pidfd = os.pidfd_open(pid) if pidfd is None else pidfd
        self._loop.watch(live.pidfd, lambda: self._runner_gone(live))
        if live.folder.stop_grace_s() is not None:  # asked for while the runner was not known
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(live.pidfd, signal.SIGTERM)

    def _look_for_start(self, live: Live) -> None:
        """Look until an adopted runner has written that its command runs, or has ended."""
        if live.started_ns is None and live.end is None:
            self._started(live, live.folder.record().started_ns)
            if live.started_ns is None:
                self._loop.call_later(_LOOK_S, lambda: self._look_for_start(live))

    def _runner_gone(self, live: Live) -> None:
        self._loop.unwatch(live.pidfd)
        os.close(live.pidfd)
        live.pidfd, live.runner = -1, 0
        self._reap()
        self._xids.look()  # an error that ended the command is to be known before its end
        record = live.folder.record()
        self._started(live, record.started_ns)
        end = record.end
        if end is None:
            self._kill_orphans(live)
            return
        others = [one for other in self._live.values() if other.runner for one in other.devices]
        self._gpus.when_back(live.folder.name, live.devices, others, lambda: self._ended(live, end))

    def _kill_orphans(self, live: Live) -> None:
        """Kill what a killed runner has left to this process, and clean up when none is left."""
        self._reap()
        runner = live.folder.record().runner
        if runner is not None and runner.cgroup:
            cgroups.kill(runner.cgroup)
        known = self._runners()
        orphans = [pid for pid in processes.children(os.getpid()) if pid not in known]
        if orphans:
            processes.kill_once(orphans, self._kill_rounds)
            self._kill_rounds += 1
            self._loop.call_later(_LOOK_S / 10, lambda: self._kill_orphans(live))
            return
        self._kill_rounds = 0
        self._look(live)

    def _end_unstarted(self, live: Live, cause: str, reason: str, ran: bool = False) -> None:
        """End an attempt that has no runner."""
        end = msgspec.convert(
            {
                "type": "ended",
                "host": self._name,
                "attempt": live.folder.name,
                "time_ns": time.time_ns(),
                "cause": cause,
                "reason": reason,
                "ran": ran,
            },
            CommandEnded,
        )
        with contextlib.suppress(OSError):  # without it a new agent finds the same
            live.folder.add(end, sync=True)
        self._ended(live, end)

    # Reports.

    def _started(self, live: Live, time_ns: int | None) -> None:
        if live.started_ns is None:
            live.started_ns = time_ns
        if live.started_ns is not None and not live.start_sent:
            start = CommandStarted(self._name, live.folder.name, live.started_ns)
            live.start_sent = self._link.send(start)

    def _ended(self, live: Live, end: CommandEnded) -> None:
        live.end = msgspec.structs.replace(end, host=self._name)
        self._report_again(live)

    def _report_again(self, live: Live) -> None:
        if live.started_ns is None:
            live.started_ns = live.folder.record().started_ns
        self._started(live, live.started_ns)
        if live.end is not None:
            live.reported_s = time.monotonic()
            self._link.send(live.end)
            if not self._repeats:
                self._repeats = True
                self._loop.call_later(_REPEAT_S, self._repeat)

    def _repeat(self) -> None:
        """Report ends again that the daemon has not confirmed."""
        self._repeats = False
        now = time.monotonic()
        ended = [live for live in self._live.values() if live.end is not None]
        for live in ended:
            if now - live.reported_s >= _REPEAT_S:
                self._report_again(live)
        if ended and not self._repeats:
            self._repeats = True
            self._loop.call_later(_REPEAT_S, self._repeat)

    def _uses_changed(self, uses: tuple[DeviceUse, ...]) -> None:
        self._link.send(DevicesSeen(self._name, uses))

    def _running(self) -> Iterator[RunningAttempt]:
        """Yield the attempts whose commands run."""
        for name, live in self._live.items():
            if live.runner and live.started_ns is not None and live.end is None:
                yield RunningAttempt(name, live.devices, live.runner, self._limits.group(name))

    def _idles(self, attempt: str, since_s: float | None, stirs: bool) -> None:
        since_ns = None
        if since_s is not None:
            since_ns = time.time_ns() - int((time.monotonic() - since_s) * 1e9)
        self._link.send(AttemptIdle(self._name, attempt, since_ns, stirs))

    def _on(self, device: str) -> tuple[str, ...]:
        """Return the names of the attempts on a device."""
        live = self._live.items()
        return tuple(name for name, one in live if device in one.devices and one.end is None)

    def _has_xid(self, device: str, number: int) -> bool:
        return self._link.send(XidSeen(self._name, device, number))

    def _tested(self, device: str, passed: bool | None, text: str) -> None:
        self._link.send(DeviceTested(self._name, device, passed, text))

    def _read_notices(self) -> None:
        """Read which commands run."""
        with contextlib.suppress(BlockingIOError):
            *lines, self._rest = (self._rest + os.read(self._notices, 1 << 16)).split(b"\n")
            for line in lines:
                attempt, _, time_ns = line.decode().partition(" ")
                live = self._live.get(attempt)
                if live is not None:
                    self._started(live, int(time_ns))

    # Processes.

    def _runners(self) -> frozenset[int]:
        """Return the processes that belong to this agent: runners, and tests of GPUs."""
        runners = frozenset(live.runner for live in self._live.values() if live.runner)
        return runners | self._tests.pids

    def _reap(self) -> None:
        self._tests.ended(processes.reap()[0])


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(f"warren agent: {line}", file=sys.stderr, flush=True)
