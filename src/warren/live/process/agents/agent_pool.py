"""The controller's handle on processes of hosts that are separate machines, through agents.

Like ``ProcessPool``, except that a host can be away (``leased_processes``). This part has the
sockets, a thread and a clock.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from warren.live.gpu.discovery import Gpu
from warren.live.process.agents.launcher import Launcher
from warren.live.process.agents.leased_processes import LeasedProcesses
from warren.live.process.leases.messages import TO_CONTROLLER, AskLease
from warren.live.process.specs import Exited, Role, ZygoteReady
from warren.live.transport.frames import BadFrame, Stream, bodies
from warren.live.transport.messages import ENCODER
from warren.live.transport.tcp_listener import TcpListener
from warren.model.errors import EngineError

_LOOK_NS: Final = 500_000_000
"""Real nanoseconds between two checks for a later controller and for agents that have ended."""
_FLAGS: Final = os.EFD_NONBLOCK | os.EFD_CLOEXEC


class AgentPool:
    """The processes of a run, by ticket, on hosts with agents.

    Parameters
    ----------
    processes
        Which processes run on which host.
    hosts
        Number of hosts.
    listener
        The listener to which agents connect; its epoll belongs to this pool.
    epoll
        The epoll that watches the listener.
    launcher
        The launcher of agents, if the controller starts them.
    current
        Returns False once the run has a later controller.

    Notes
    -----
    A separate thread renews leases, so a decision may take any time. Messages of agents wait there
    until ``hear``.
    """

    def __init__(
        self,
        processes: LeasedProcesses,
        hosts: int,
        listener: TcpListener,
        epoll: select.epoll,
        launcher: Launcher | None = None,
        current: Callable[[], bool] = lambda: True,
    ) -> None:
        self.processes, self._hosts = processes, hosts
        self._listener, self._epoll, self._launcher = listener, epoll, launcher
        self._streams: dict[int, Stream] = {}
        # By host: the connection that its agent spoke over last.
        self._stream_of: dict[int, Stream] = {}
        self._current, self._looked_ns = current, 0
        # The error that made the thread give up.
        self._error: Exception | None = None
        # Eventfds: one reports that ``hear`` has something to read, the other wakes the thread.
        self._told, self._woken = os.eventfd(0, _FLAGS), os.eventfd(0, _FLAGS)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._lock, self._closed = threading.RLock(), False
        self._thread = threading.Thread(target=self._serve, name="warren-agents", daemon=True)
        self._thread.start()

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors to poll."""
        return (self._told,)

    @property
    def stale_messages(self) -> int:
        """Number of messages received from agents whose lease had already ended."""
        return self.processes.refused

    @property
    def strangers(self) -> int:
        """Number of connections that ended without showing the run's secret."""
        return self._listener.refused

    @property
    def gpus(self) -> dict[int, Gpu]:
        """The GPU of each device that is one, by the device's number.

        Raises
        ------
        SpecError
            If a type is only on hosts that are not there.
        """
        with self._lock:
            return self.processes.gpus

    def pids(self) -> dict[int, Role]:
        """Return the processes and their roles, by the process ids of their hosts."""
        with self._lock:
            return self.processes.pids()

    def await_zygote(self, within_s: float = 120.0) -> ZygoteReady:
        """Wait until the zygotes of all hosts are warm.

        Raises
        ------
        EngineError
            If one does not come up in time, or they compute in different classes.
        """
        waits_s = max(0, self.processes.free_ns - time.monotonic_ns()) / 1e9
        until_s = time.monotonic() + waits_s + within_s
        while True:
            with self._lock:
                missing = self.processes.missing
                if not missing:
                    return self.processes.ready
            if time.monotonic() > until_s:
                why = "" if self._launcher is None else self._launcher.problem()
                problem = f"no agent of {', '.join(missing)} in {within_s:g} s"
                raise EngineError(f"{problem}: {why}" if why else problem)
            select.select(self.fds, [], [], 0.05)
            for _, role, exited in self.hear(self._told):
                raise EngineError(f"{type(role).__name__} ended at once: {exited.how}")

    def fork(self, role: Role) -> int:
        """Ask for a process on its role's host, now or when the host is back; return its ticket."""
        with self._now() as now_ns:
            return self.processes.fork(role, now_ns)

    def kill(self, ticket: int) -> None:
        """Kill a process; its exit is reported."""
        with self._now() as now_ns:
            self.processes.kill(ticket, now_ns)

    def end(self, ticket: int) -> None:
        """Kill a process; its exit is not reported."""
        with self._now() as now_ns:
            self.processes.end(ticket, now_ns)

    def hear(self, fd: int) -> Iterator[tuple[int, Role, Exited]]:
        """Yield the processes that ended without an order to end.

        Raises
        ------
        EngineError
            If another controller has taken over, or a host cannot take part.
        """
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(fd)
        with self._lock:
            if self._error is not None:
                raise self._error
        exits = self.processes.exits
        while exits:
            exited = exits.popleft()
            # A caller that handles one end may end other processes that have ended too.
            with self._lock:
                role = self.processes.take(exited)
            if role is not None:
                yield exited.ticket, role, exited

    def changed_hosts(self) -> list[tuple[int, bool]]:
        """Return the hosts that have come (True) or gone since this was asked last, in order."""
        with self._lock:
            changes = list(self.processes.host_changes)
            self.processes.host_changes.clear()
        return changes

    def close(self, *, last: bool) -> None:
        """Tell all agents that the run is over, or that their processes must end."""
        with self._now() as now_ns:
            self.processes.close(now_ns, last=last)
        with self._lock:
            for stream in self._streams.values():
                stream.flush()
            self._closed = True
        self._wake()
        self._thread.join()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        self._stream_of.clear()
        self._listener.close()
        self._epoll.close()
        for fd in (self._told, self._woken):
            os.close(fd)
        if self._launcher is not None:
            self._launcher.close()

    @contextlib.contextmanager
    def _now(self) -> Iterator[int]:
        """Yield the present time for a request, then send the messages that follow from it.

        The thread sends later what could not be sent now, and repeats what was not received.
        """
        with self._lock:
            yield time.monotonic_ns()
            self._send()
            self._wake()

    def _send(self) -> None:
        """Send the messages that are due, and report the processes that have ended."""
        outbox = self.processes.outbox
        while outbox:
            host, frame = outbox.popleft()
            if (stream := self._stream_of.get(host)) is not None:
                stream.send(ENCODER.encode(frame))
        if self.processes.exits or self.processes.host_changes:
            os.eventfd_write(self._told, 1)

    # The thread.

    def _serve(self) -> None:
        """Renew leases and hear agents until the pool is closed."""
        try:
            while not self._closed:
                ready = self._epoll.poll(self._timeout_s())
                with self._lock:
                    self._turn([fd for fd, _ in ready])
        except Exception as error:
            self._error = error
            os.eventfd_write(self._told, 1)

    def _timeout_s(self) -> float:
        """Return the time for which nothing is due unless something arrives."""
        now_ns = time.monotonic_ns()
        with self._lock:
            due_ns = self.processes.wake_ns()
            looks_ns = now_ns + _LOOK_NS
            if self._launcher is not None:
                looks_ns = min(looks_ns, self._launcher.look(now_ns))
        return max(0, min(looks_ns, looks_ns if due_ns is None else due_ns) - now_ns) / 1e9

    def _turn(self, ready: Sequence[int]) -> None:
        if self._closed:
            return
        if (now_ns := time.monotonic_ns()) >= self._looked_ns:
            self._looked_ns = now_ns + _LOOK_NS
            self._check_current()
        self.processes.tick(now_ns)
        self._send()
        self._listener.begin()
        for fd in ready:
            if fd == self._woken:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(fd)
            elif (stream := self._streams.get(fd)) is not None:
                self._read(stream)
            elif (end := self._listener.hear(fd)) is not None:
                new = Stream(end)
                new.watch(self._epoll)
                self._streams[new.fileno()] = new
                self._read(new)

    def _check_current(self) -> None:
        """Raise if a later controller has begun."""
        if not self._current():
            raise EngineError("another controller has taken over the run")

    def _wake(self) -> None:
        """Wake the thread: there is something to send, or the pool is closed."""
        os.eventfd_write(self._woken, 1)

    def _read(self, stream: Stream) -> None:
        fd = stream.fileno()
        try:
            for body in bodies(stream):
                self._take(stream, body)
        except (BadFrame, msgspec.MsgspecError, OSError):
            stream.close()
        if stream.closed:
            self._streams.pop(fd, None)

    def _take(self, stream: Stream, body: bytes) -> None:
        frame, now_ns = TO_CONTROLLER.decode(body), time.monotonic_ns()
        if not 0 <= frame.host < self._hosts:
            raise BadFrame(f"host {frame.host}")
        if isinstance(frame, AskLease):
            # A lease renewed after another controller began would outlive the time for which that
            # controller waits.
            self._check_current()
        new = self._stream_of.get(frame.host) is not stream
        self._stream_of[frame.host] = stream
        if new:
            self.processes.connected(frame.host, now_ns)
        self.processes.hear(frame, now_ns)
        self._send()
