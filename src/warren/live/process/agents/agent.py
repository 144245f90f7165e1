"""The agent of a host: it holds the host's lease and, under the lease, obeys the controller.

It is started as ``python -m warren.live.process.agents.agent`` and reads an ``AgentSpec`` as a line
of JSON from its standard input. The agent ends when that input ends. It connects to the controller
again and again, and listens nowhere. Under a lease it has one zygote, which forks as on a machine
without agents. When the lease ends, all of that is ended by force and the folder is emptied. The
agent loads no torch and never runs user code. If devices of its host are GPUs, it finds and claims
those of its machine first; if there are too few, or one is lost later, it says so and ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from warren.live.gpu.discovery import Gpu, gpus_here
from warren.live.process.agents.folder_watch import FolderWatch
from warren.live.process.agents.host_gpus import HostGpus
from warren.live.process.agents.machine_lock import MachineLock
from warren.live.process.agents.messages import (
    AGENT_DECODER,
    AgentBody,
    GpusFound,
    Listens,
    PutFile,
    StartZygote,
    ZygoteFailed,
)
from warren.live.process.agents.spec import AgentSpec
from warren.live.process.device_claims import VARIABLE
from warren.live.process.host_placement import HostPlacement
from warren.live.process.leases.host_lease import (
    AgentEffect,
    BeginLease,
    DeliverBody,
    HostLease,
    SendFrame,
    StopAll,
)
from warren.live.process.leases.messages import TO_AGENT
from warren.live.process.linux import adopt_orphans, set_name
from warren.live.process.memory_limit import MemoryLimit, cgroups_of, memory_limit
from warren.live.process.process_pool import CleanupGuard, ProcessPool
from warren.live.process.specs import Close, End, Fork, SetClock, ZygoteReady
from warren.live.testbed.namespaces import enter_network
from warren.live.transport.frames import BadFrame, Stream, bodies
from warren.live.transport.messages import ENCODER
from warren.live.transport.tcp_listener import SUFFIX
from warren.live.transport.tls import TlsSocket

_RETRY_NS: Final = 300_000_000
"""Real nanoseconds between two tries to connect."""
_NAMES: Final = 2
"""Most path parts in the name of a file that the controller puts into the folder."""
_LOOK_AGAIN_S: Final = 10.0
"""Seconds that an agent without its GPUs waits before it ends, and the next looks for them."""


def main() -> None:
    """Serve until standard input ends, or the controller says that the run is over."""
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=AgentSpec)
    set_name("warren-agent")
    # The parent may have blocked signals, and a child inherits that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # User code may leave a process with another environment; it is found only as a child.
    adopt_orphans()
    enter_network(spec.place)
    os.environ[VARIABLE] = spec.gpus.claims
    agent = HostAgent(spec, gpus_here() if spec.gpus.devices else ())
    try:
        agent.serve()
    finally:
        agent.close()
    if agent.lacks_gpus:
        select.select([sys.stdin], [], [], _LOOK_AGAIN_S)


class HostAgent:
    """The loop of an agent: it carries out the effects that the lease asks for."""

    def __init__(self, spec: AgentSpec, gpus: Sequence[Gpu] = ()) -> None:
        self._spec, self._folder = spec, Path(spec.folder)
        lock = MachineLock(Path(tempfile.gettempdir(), spec.lock), self._folder)
        quotas = [spec.place.cgroup] if spec.place.cgroup else []
        self._cgroups = cgroups_of(spec.memory_bytes, self._folder.name, quotas)
        self._memory: MemoryLimit | None = None
        # It holds the lock too: until it has cleaned up after this agent, there is no other.
        self._guard = CleanupGuard(self._folder, self._cgroups, keep=(lock.fileno(),))
        self._lease = HostLease(spec.host, lock.machine, lock.agent, spec.timing)
        self._lock = lock
        # Only now: the agent before this one has ended, and with it its claims.
        self._gpus = HostGpus(spec.gpus, gpus)
        self._lost_gpu = self._gpus.watch()
        self._epoll = select.epoll()
        self._epoll.register(sys.stdin.fileno(), select.EPOLLIN)
        self._epoll.register(self._lost_gpu, select.EPOLLIN)
        self._stream: Stream | None = None
        self._retry_ns = self._heard_ns = 0
        self._pool: ProcessPool | None = None
        self._watch: FolderWatch | None = None
        # Files that the controller has put into the folder, addresses on other hosts among them.
        self._put_here: set[str] = set()
        self._over = False
        # The address at which other hosts reach this host: that of its way to the controller.
        self._address = ""

    @property
    def lacks_gpus(self) -> bool:
        """Whether devices of its host cannot have the GPUs that they are to have."""
        return bool(self._gpus.problem)

    def serve(self) -> None:
        """Connect, ask, obey."""
        while not self._over:
            now_ns = time.monotonic_ns()
            if self._stream is None and now_ns >= self._retry_ns:
                self._connect(now_ns)
            self._do(self._lease.tick(now_ns))
            for fd, _ in self._epoll.poll(self._timeout_s()):
                if fd == sys.stdin.fileno():
                    self._over = True
                elif fd == self._lost_gpu:
                    self._fail("one of its GPUs is lost: the driver does not find it any more")
                    self._over = True
                elif self._stream is not None and fd == self._stream.fileno():
                    self._hear_controller()
                elif self._watch is not None and fd == self._watch.fileno():
                    self._tell_addresses(self._watch)
                elif self._pool is not None and fd == self._pool.pipes[0].fileno():
                    self._hear_zygote(self._pool)
            # After this silence the connection may lead nowhere.
            silent_ns = time.monotonic_ns() - self._heard_ns
            if self._stream is not None and silent_ns > 2 * self._spec.timing.ask_ns:
                self._disconnect()

    def close(self) -> None:
        """End all processes, and leave no file."""
        self._end_all()
        self._disconnect()
        self._epoll.close()
        self._gpus.close()
        self._guard.close()

    def _timeout_s(self) -> float:
        """Return the time for which nothing is due unless something arrives."""
        times = [] if self._stream is not None else [self._retry_ns]
        if (wake_ns := self._lease.wake_ns()) is not None:
            times.append(wake_ns)
        left_ns = min(times, default=0) - time.monotonic_ns()
        # At least this often, to see whether the connection still leads anywhere.
        return max(0.0, min(left_ns, self._spec.timing.ask_ns) / 1e9)

    def _do(self, effects: Iterable[AgentEffect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(frame):
                    if self._stream is not None:
                        self._stream.send(ENCODER.encode(frame))
                case BeginLease():
                    self._try(self._begin)
                case DeliverBody(body):
                    order = AGENT_DECODER.decode(body)
                    self._try(partial(self._obey, order))
                case StopAll():
                    self._end_all()
                    self._do(self._lease.stopped(time.monotonic_ns()))

    def _try(self, what: Callable[[], object]) -> None:
        """Run an effect that the lease asks for; if it fails, say why and give the lease back."""
        try:
            what()
        except OSError as error:
            self._fail(f"its agent: {error}")

    def _fail(self, why: str) -> None:
        print(f"agent: {why}", file=sys.stderr, flush=True)
        self._say(ZygoteFailed(why))
        self._do(self._lease.give_back())

    # The controller.

    def _connect(self, now_ns: int) -> None:
        self._retry_ns = now_ns + _RETRY_NS
        self._heard_ns = now_ns
        end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # no way there for now
            if end.connect_ex((self._spec.controller, self._spec.port)) in (0, errno.EINPROGRESS):
                self._stream = Stream(TlsSocket(end, bytes.fromhex(self._spec.secret), False))
                self._stream.watch(self._epoll)
                self._do(self._lease.connected(now_ns))
                return
        end.close()

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _hear_controller(self) -> None:
        assert self._stream is not None
        try:
            for body in bodies(self._stream):
                self._heard_ns = time.monotonic_ns()
                self._address = self._stream.local_address
                self._do(self._lease.hear(TO_AGENT.decode(body), self._heard_ns))
                if self._stream is None:
                    return
        except (BadFrame, msgspec.MsgspecError, OSError) as error:
            print(f"agent: the connection is given up: {error}", file=sys.stderr, flush=True)
            self._disconnect()
        if self._stream is not None and self._stream.closed:
            self._disconnect()

    def _say(self, body: AgentBody) -> None:
        self._do(self._lease.say(ENCODER.encode(body), time.monotonic_ns()))

    # Processes under the lease.

    def _begin(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        self._put_here.clear()
        self._watch = FolderWatch(self._folder)
        self._epoll.register(self._watch.fileno(), select.EPOLLIN)

    def _obey(self, order: AgentBody) -> None:
        match order:
            case PutFile(name=name, data=data):
                self._put(name, data)
            case StartZygote() if self._gpus.problem:
                self._say(GpusFound(problem=self._gpus.problem))
                self._do(self._lease.give_back())
                self._over = True
            case StartZygote(libraries=libraries, log=log, log_bytes=log_bytes):
                self._say(GpusFound(self._gpus.found))
                here = HostPlacement((self._spec.place,))
                limit = memory_limit(self._spec.memory_bytes, self._cgroups, Path(log))
                self._memory, cgroups = limit, "" if limit is None else limit.cgroups
                self._pool = ProcessPool(
                    self._folder, Path(log), libraries, self._guard, cgroups, here, log_bytes
                )
                # A zygote that hangs must not keep this process from ending it.
                self._pool.pipes[0].give_up_after(self._spec.timing.stop_ns / 2e9)
                self._epoll.register(self._pool.pipes[0].fileno(), select.EPOLLIN)
            case Fork() | End():
                self._tell_zygote(order)
            case Close():
                self._over = True
            case _:
                raise BadFrame(f"an order that no agent takes: {type(order).__name__}")

    def _tell_zygote(self, order: Fork | End) -> None:
        """Pass an order on. Raises OSError if no zygote takes it."""
        sent = self._pool is not None
        if self._pool is not None and isinstance(order, Fork):
            sent = self._pool.pipes[0].send(SetClock(self._lease.clock.ahead_ns))
            order = self._with_limit(self._with_address(order))
        if self._pool is None or not sent or not self._pool.pipes[0].send(order):
            raise OSError(errno.EPIPE, "the zygote takes no orders")

    def _with_address(self, order: Fork) -> Fork:
        """Return the order with the address at which other hosts reach this host."""
        identity = getattr(order.role, "identity", None)
        if self._spec.place.address or identity is None:
            return order
        identity = msgspec.structs.replace(identity, address=self._address)
        return Fork(order.ticket, msgspec.structs.replace(order.role, identity=identity))

    def _with_limit(self, order: Fork) -> Fork:
        """Return the order with the limit on memory as it is set on this machine."""
        if getattr(order.role, "memory", None) is None:
            return order
        return Fork(order.ticket, msgspec.structs.replace(order.role, memory=self._memory))

    def _put(self, name: str, data: bytes) -> None:
        """Write a file in the folder, completely or not at all."""
        parts = Path(name).parts
        if not 0 < len(parts) <= _NAMES or Path(name).is_absolute() or ".." in parts:
            raise BadFrame(f"a file named {name[:100]!r}")
        path = self._folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(data)
        self._put_here.add(name)
        os.replace(part, path)

    def _hear_zygote(self, pool: ProcessPool) -> None:
        message = pool.pipes[0].receive()
        if message is None:
            self._fail(pool.how_lost())
            return
        if isinstance(message, ZygoteReady):
            pool.note_warm()
        self._say(message)

    def _tell_addresses(self, watch: FolderWatch) -> None:
        """Report the processes that now listen for other hosts."""
        for name in watch.names():
            if name.endswith(SUFFIX) and name not in self._put_here:
                with contextlib.suppress(FileNotFoundError):
                    self._say(Listens(name, (self._folder / name).read_bytes()))

    def _end_all(self) -> None:
        if self._watch is not None:
            self._epoll.unregister(self._watch.fileno())
            self._watch.close()
            self._watch = None
        if self._pool is not None:
            self._epoll.unregister(self._pool.pipes[0].fileno())
            self._pool.end_all(self._guard.pid)
            self._pool = None
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    main()
