"""The controller's handle on processes of hosts that are machines of their own, through agents.

Like ``ProcessPool``, but that a host can be away (``leased_processes``). This is the part with
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

from warren.live.process.agents.launcher import Launcher
from warren.live.process.agents.leased_processes import LeasedProcesses
from warren.live.process.leases.messages import TO_CONTROLLER, AskLease
from warren.live.process.specs import Exited, Role, ZygoteReady
from warren.live.transport.frames import BadFrame, Stream, bodies
from warren.live.transport.messages import ENCODER
from warren.live.transport.tcp_listener import TcpListener
from warren.model.errors import EngineError

_LOOK_NS: Final = 500_000_000
"""How often is looked whether the run has another controller, and whether agents have ended."""
_FLAGS: Final = os.EFD_NONBLOCK | os.EFD_CLOEXEC


class AgentPool:
    """The processes of a run, by ticket, on hosts with agents.

    Parameters
    ----------
    processes
        What runs where.
    hosts
        How many hosts there are.
    listener
        Where agents connect; its epoll is this pool's own.
    epoll
        What the listener is watched by.
    launcher
        What starts agents, where the controller does.
    current
        Whether the run has no later controller.

    Notes
    -----
    Leases are renewed by a thread of its own, so that a decision may take as long as it likes. What
    agents say waits there until ``hear``.
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
        # What has made the thread give up.
        self._error: Exception | None = None
        # Written to when there is something to be heard, or to be done by the thread.
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
        """How many messages of agents have come whose lease did not stand any more."""
        return self.processes.refused

    @property
    def strangers(self) -> int:
        """How many connections have ended without showing the run's secret."""
        return self._listener.refused

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
                told = f"no agent of {', '.join(missing)} in {within_s:g} s"
                raise EngineError(f"{told}: {why}" if why else told)
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
        """Yield the processes that ended without being told to.

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
            # Who handles one may tell others to end that have ended with it.
            with self._lock:
                role = self.processes.take(exited)
            if role is not None:
                yield exited.ticket, role, exited

    def close(self, *, last: bool) -> None:
        """Tell all agents that the run is over, or that what runs has to end."""
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
        """Give the time to one who asks for something, and send what follows from that.

        What could not be sent at once, or has to be sent again, is the thread's.
        """
        with self._lock:
            yield time.monotonic_ns()
            self._send()
            self._wake()

    def _send(self) -> None:
        """Send what is to be sent, and let the run know of processes that have ended."""
        outbox = self.processes.outbox
        while outbox:
            host, frame = outbox.popleft()
            if (stream := self._stream_of.get(host)) is not None:
                stream.send(ENCODER.encode(frame))
        if self.processes.exits:
            os.eventfd_write(self._told, 1)

    # What the thread does.

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
        """How long nothing has to be done unless something comes."""
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
        """Give up if a later controller has begun."""
        if not self._current():
            raise EngineError("another controller has taken over the run")

    def _wake(self) -> None:
        """Let the thread see that there is something to send, or that it is over."""
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
            # A lease that is renewed after another controller began would outlive the time that
            # that one waits.
            self._check_current()
        new = self._stream_of.get(frame.host) is not stream
        self._stream_of[frame.host] = stream
        if new:
            self.processes.connected(frame.host, now_ns)
        self.processes.hear(frame, now_ns)
        self._send()
