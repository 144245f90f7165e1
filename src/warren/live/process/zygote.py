"""The warm zygote of a host: loads the libraries once, then forks every other process.

Started as ``python -m warren.live.process.zygote HOSTS GUARD FOLDER PARENT LOG LIBRARY...``. HOSTS
is a JSON list of pairs: a socket to the controller, and the ``HostNamespace`` of the host; once
warm, it serves the first of them and forks a zygote for each other. GUARD is its end of the guard's
pipe, LOG the most bytes that a job may print. It stays single-threaded (a fork copies one thread
only), never opens a CUDA device and never runs user code. It adopts the orphans of its children, so
when its controller goes, it can end all of them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from warren.live.process import memory_limit
from warren.live.process.child_limits import LIMITED, LOOK_MS, USERS, ChildLimits
from warren.live.process.cleanup_guard import end_cgroups
from warren.live.process.linux import (
    adopt_orphans,
    die_with_parent,
    end_all_children,
    fork_below,
    how_it_ended,
    kill,
    leave,
    set_name,
)
from warren.live.process.pipe import Pipe
from warren.live.process.preload import ALWAYS, MENTIONED
from warren.live.process.specs import (
    Close,
    End,
    Exited,
    Fork,
    Forked,
    Role,
    ZygoteReady,
)
from warren.live.process.time_limit import Alarm, Deadline
from warren.live.testbed.cpu_quota import enter
from warren.live.testbed.namespaces import HostNamespace, enter_network
from warren.live.training.app.app_loader import use_pinned
from warren.live.training.app.pinned_files import APPS, load_pins
from warren.live.transport.sockets import remove_folder

ROLES: Final = {
    "ExecutorRole": "warren.live.device.executor",
    "TrainerRole": "warren.live.device.trainer",
    "ServerRole": "warren.live.server.process",
    "RankRole": "warren.live.rings.rank_process",
    "PlainRole": "warren.live.oracle.plain_process",
    "ProbeRole": "warren.live.oracle.determinism_probe",
}
"""Tag of a role to the module whose ``main(role, lifeline)`` a child runs."""
Hosts: TypeAlias = list[tuple[int, HostNamespace]]
"""Each with the socket that leads from its zygote to the controller."""


def main() -> None:
    """Serve until the controller's end of the socket closes, then leave nothing behind."""
    hosts = msgspec.json.decode(sys.argv[1], type=Hosts)
    guard, folder, parent = int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    log_bytes = int(sys.argv[5])
    preload = [name for name in sys.argv[6:] if name in {*ALWAYS, *MENTIONED.values()}]
    die_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    set_name("warren-zygote")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    numerics, first = _warm_up(preload), os.getpid()
    _take_apps(Path(folder, APPS))
    fd, place = _fork_host_zygotes(hosts)
    above = parent if os.getpid() == first else first
    zygote = Zygote(Pipe(socket.socket(fileno=fd)), guard, log_bytes)
    # From now on a parent's death must leave time to end the children of children too. The signal
    # may come while that is done: it sets a flag, and breaks nothing off.
    signal.signal(signal.SIGTERM, zygote.terminate)
    die_with_parent(above, signal.SIGTERM)
    adopt_orphans()
    _enter(place)
    try:
        zygote.serve(numerics)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_all_children()
        zygote.end_cgroups()
        # The pipe may have ended before the kernel has found another parent for this process.
        alone = os.getppid() != parent or (zygote.left and zygote.closed is None)
        last = zygote.closed is not None and zygote.closed.last
        if os.getpid() == first and (alone or last):
            remove_folder(Path(folder))


def _fork_host_zygotes(hosts: Hosts) -> tuple[int, HostNamespace]:
    """Fork a zygote for each host but the first; gives each of them, and this one, its own host."""
    at = 0
    for other in range(1, len(hosts)):
        if not os.fork():
            at = other
            break
    for number, (fd, _) in enumerate(hosts):
        if number != at:
            os.close(fd)
    return hosts[at]


def _enter(place: HostNamespace) -> None:
    enter_network(place)
    if place.cgroup:
        enter(Path(place.cgroup))


class Zygote:
    """Forks on request and tells how children end."""

    def __init__(self, pipe: Pipe, guard: int, log_bytes: int) -> None:
        self._pipe, self._guard = pipe, guard
        self._ticket_of: dict[int, int] = {}
        self.left = False  # by the controller, without a word
        self.closed: Close | None = None
        self._terminated = False
        self._limits = ChildLimits(log_bytes)
        self._life_read, self._life_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()

    def terminate(self, *_: Any) -> None:
        """Return from ``serve`` soon; a handler of signals."""
        self._terminated = True

    def end_cgroups(self) -> None:
        """Remove what children with a memory limit have left."""
        end_cgroups(self._limits.cgroups)

    def serve(self, numerics: str) -> None:
        """Answer until the controller is gone."""
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._pipe.send(ZygoteReady(threads=_threads(), numerics=numerics))
        poller = select.poll()
        poller.register(self._pipe.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while not self._terminated:
            ready = {fd for fd, _ in poller.poll(LOOK_MS)}
            self._limits.end_those_beyond(time.monotonic_ns())
            if self._wake_read in ready:
                self._reap()
            if self._pipe.fileno() in ready and not self._answer():
                self.left = True
                return

    def _answer(self) -> bool:
        match self._pipe.receive():
            case Fork(ticket=ticket, role=role):
                pid = self._fork(role)
                self._ticket_of[pid] = ticket
                self._pipe.send(Forked(ticket, pid))
            case End(ticket=ticket):
                for pid, known in self._ticket_of.items():
                    if known == ticket:
                        kill(pid, group=True)
            case Close() as close:
                self.closed = close
            case _:
                return False
        return True

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                kill(pid, group=True)  # what it forked and did not take along
                how = self._limits.ended(pid) or how_it_ended(status)
                if pid in self._ticket_of:
                    self._pipe.send(Exited(self._ticket_of.pop(pid), pid, how))

    def _fork(self, role: Role) -> int:
        zygote = os.getpid()
        deadline = Deadline() if isinstance(role, LIMITED) else None
        pid = os.fork()
        if not pid:
            Alarm.deadline = deadline
            self._run_child(role, zygote)
        self._limits.begun(pid, role, deadline)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid

    def _run_child(self, role: Role, zygote: int) -> NoReturn:
        code = 1
        try:
            set_name("warren-child")
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            die_with_parent(zygote)
            self._pipe.close()
            for fd in (self._life_write, self._wake_read, self._wake_write):
                os.close(fd)
            if self._guard >= 0:
                os.close(self._guard)
            if isinstance(role, LIMITED):
                memory_limit.enter(role.memory)
            if isinstance(role, USERS):
                fork_below()
            run: Callable[[Role, int], None]
            run = importlib.import_module(ROLES[str(role.__struct_config__.tag)]).main
            run(role, self._life_read)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            leave(code)


def _threads() -> tuple[str, ...]:
    """The names of this process's threads, in the order in which they started."""
    tasks = Path("/proc/self/task")
    return tuple((tasks / task / "comm").read_text().strip() for task in sorted(os.listdir(tasks)))


def _warm_up(preload: Sequence[str]) -> str:
    """Load the libraries and run one step, so that children find everything in memory."""
    from warren.live.training import numerics

    gc.disable()  # all that is loaded stays: looking for garbage among it takes time
    numerics.pin()
    for name in preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in ROLES.values():
        importlib.import_module(name)
    _one_step()
    gc.collect()
    gc.freeze()
    gc.enable()
    return numerics.numerics_class()


def _take_apps(folder: Path) -> None:
    """The texts of the run's apps, for all children; where there are none, they read files."""
    if folder.is_dir():
        use_pinned(load_pins(folder)[-1])


def _one_step() -> None:
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    loss = nn.functional.cross_entropy(net(torch.zeros(2, 1, 8, 8)), torch.tensor([0, 1]))
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


if __name__ == "__main__":
    main()
