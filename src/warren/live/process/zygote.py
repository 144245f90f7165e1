"""The warm zygote of a host: a process that loads the libraries once, then forks every other one.

It is started as ``python -m warren.live.process.zygote HOSTS GUARD FOLDER PARENT LOG LIBRARY...``.
HOSTS is a JSON list of pairs: a socket to the controller, and the ``HostNamespace`` of the host;
once warm, it serves the first of them and forks a zygote for each other. GUARD is its end of the
guard's pipe, FOLDER the run's private folder, PARENT the controller's process id, LOG the most
bytes that a job may print. The zygote stays single-threaded (a fork copies one thread only), never
opens a CUDA device and never runs user code. It adopts the orphans of its children, so when its
controller goes, it can end all of them.
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

from warren.live import run_clock
from warren.live.gpu.discovery import has_driver
from warren.live.own_programs import own_program
from warren.live.process import memory_limit
from warren.live.process.child_limits import LIMITED, LOOK_MS, USERS, ChildLimits
from warren.live.process.cleanup_guard import end_cgroups
from warren.live.process.lazy_dynamo import keep_out
from warren.live.process.linux import (
    FULL_CODE,
    adopt_orphans,
    die_with_parent,
    end_all_children,
    fork_below,
    how_it_ended,
    kill,
    leave,
    set_name,
    thread_names,
)
from warren.live.process.pipe import Pipe
from warren.live.process.preload import ALWAYS, MENTIONED, load_ahead
from warren.live.process.specs import (
    Close,
    End,
    Exited,
    Fork,
    Forked,
    Role,
    SetClock,
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
    "CostRole": "warren.live.oracle.cost_probe",
}
"""Module whose ``main(role, lifeline)`` a child runs, by the tag of its role."""
Hosts: TypeAlias = list[tuple[int, HostNamespace]]
"""Hosts, each with the socket that leads from its zygote to the controller."""


def main() -> None:
    """Serve until the controller's end of the socket closes, then leave nothing behind."""
    hosts = msgspec.json.decode(sys.argv[1], type=Hosts)
    guard = int(sys.argv[2])
    folder = sys.argv[3]
    parent = int(sys.argv[4])
    log_bytes = int(sys.argv[5])
    # Known libraries only: an import runs code.
    preload = [name for name in sys.argv[6:] if name in {*ALWAYS, *MENTIONED.values()}]
    die_with_parent(parent)
    # The controller starts the zygote with signals blocked (``NoInterrupt``), which is inherited.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    set_name("warren-zygote")
    # An interrupt is for the controller, which ends this process in order.
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
    """Fork a zygote for each host but the first; return the host of the process that returns."""
    at = 0
    for other in range(1, len(hosts)):
        if not os.fork():
            at = other
            break
    # A socket held open elsewhere would hide its zygote's end from the controller.
    for number, (fd, _) in enumerate(hosts):
        if number != at:
            os.close(fd)
    return hosts[at]


def _enter(place: HostNamespace) -> None:
    """Move this process into the network and the cgroup of its host; children inherit them."""
    enter_network(place)
    if place.cgroup:
        enter(Path(place.cgroup))


class Zygote:
    """The loop of a zygote: forks on request, and tells how children end.

    Parameters
    ----------
    pipe : Pipe
        Its connection to the controller.
    guard : int
        Its end of the guard's pipe; -1: there is no guard.
    log_bytes : int
        Most bytes that the processes of one job may print to its log.
    """

    def __init__(self, pipe: Pipe, guard: int, log_bytes: int) -> None:
        self._pipe, self._guard = pipe, guard
        self._ticket_of: dict[int, int] = {}
        self.left = False
        """Whether the controller has gone without saying so."""
        self.closed: Close | None = None
        """The message by which the controller ended this zygote."""
        self._terminated = False
        self._limits = ChildLimits(log_bytes)
        # Nothing is ever written to the lifeline: children see its end when the zygote ends.
        self._life_read, self._life_write = os.pipe()
        # Python's signal handling writes to this one, so that a signal ends a wait in ``poll``.
        self._wake_read, self._wake_write = os.pipe()

    def terminate(self, *_: Any) -> None:
        """Let ``serve`` return soon. A handler of signals."""
        self._terminated = True

    def end_cgroups(self) -> None:
        """Remove the cgroups that children with a memory limit have left."""
        end_cgroups(self._limits.cgroups)

    def serve(self, numerics: str) -> None:
        """Tell the controller that this zygote is warm, and answer until it is gone."""
        # Not blocking: a pipe full of signals must stop neither the handler nor ``_reap``.
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.set_wakeup_fd(self._wake_write)
        # A handler that does nothing: without any, the signal would not reach the wake-up pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._pipe.send(ZygoteReady(threads=thread_names(), numerics=numerics))
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
        """Answer the next message; False: the controller is gone."""
        match self._pipe.receive():
            case Fork(ticket=ticket, role=role):
                pid = self._fork(role)
                self._ticket_of[pid] = ticket
                self._pipe.send(Forked(ticket, pid))
            case End(ticket=ticket):
                for pid, known in self._ticket_of.items():
                    if known == ticket:
                        kill(pid, group=True)
            case SetClock(ahead_ns=ahead_ns):
                run_clock.set_ahead(ahead_ns)
            case Close() as close:
                self.closed = close
            case _:
                return False
        return True

    def _reap(self) -> None:
        """Reap all children that have ended, and report the end of the known ones."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                # Processes that it forked and left in its process group end too.
                kill(pid, group=True)
                # A limit that ended it says more than the signal that it used.
                how = self._limits.ended(pid) or how_it_ended(status)
                if pid in self._ticket_of:
                    self._pipe.send(Exited(self._ticket_of.pop(pid), pid, how))

    def _fork(self, role: Role) -> int:
        """Fork the child for a role, and return its process id."""
        zygote = os.getpid()
        # Made before the fork: parent and child share its memory.
        deadline = Deadline() if isinstance(role, LIMITED) else None
        try:
            pid = os.fork()
        except BlockingIOError:
            sys.exit(FULL_CODE)
        if not pid:
            Alarm.deadline = deadline
            self._run_child(role, zygote)
        self._limits.begun(pid, role, deadline)
        # The child does so too: whichever is first, the group is there before either goes on.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid

    def _run_child(self, role: Role, zygote: int) -> NoReturn:
        """Become the child: close the zygote's files, enter the limits, and run the role."""
        code = 1
        try:
            set_name("warren-child")
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            die_with_parent(zygote)
            # The ends of the zygote's pipes must close when it ends, not when its children do.
            self._pipe.close()
            for fd in (self._life_write, self._wake_read, self._wake_write):
                os.close(fd)
            if self._guard >= 0:
                os.close(self._guard)
            # The limit first: the process with user code is forked below it and inherits it.
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


def _warm_up(preload: Sequence[str]) -> str:
    """Load the libraries and run one step, so that children find everything in memory.

    Returns the numerics class that this process and all its children compute in.
    """
    from warren.live.training import numerics

    # All that is loaded stays: looking for garbage among it takes time.
    gc.disable()
    # One thread before anything computes: a process with threads cannot be forked safely.
    numerics.pin()
    load_ahead(preload, _start_without)
    for name in ROLES.values():
        importlib.import_module(name)
    keep_out()
    _one_step()
    # Frozen objects are not looked at again. So collections in children do not write to their
    # pages, which stay shared with the zygote.
    gc.collect()
    gc.freeze()
    gc.enable()
    return numerics.numerics_class()


def _start_without(name: str) -> NoReturn:
    """Start this process again with the same environment, but without one library."""
    rest = [one for one in sys.argv[1:] if one != name]
    program = own_program("warren.live.process.zygote", *rest)
    # Not ``os.environ``, to which the library may have added.
    given = Path("/proc/self/environ").read_bytes().split(b"\0")
    os.execve(program[0], program, dict(one.split(b"=", 1) for one in given if b"=" in one))


def _take_apps(folder: Path) -> None:
    """Load the texts of the run's apps for all children; where there are none, they read files."""
    if folder.is_dir():
        use_pinned(load_pins(folder)[-1])


def _one_step() -> None:
    """Train a tiny network for one step: first calls set up kernels and caches.

    A torch that can use GPUs looks for them in a backward pass and in a step, and starts a thread
    for each; after that the process cannot be forked. With such a torch only the forward pass is
    made.
    """
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2)
    )
    loss = nn.functional.cross_entropy(net(torch.zeros(2, 1, 8, 8)), torch.tensor([0, 1]))
    if torch.version.cuda is not None and has_driver():
        return
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9).step()


if __name__ == "__main__":
    main()
