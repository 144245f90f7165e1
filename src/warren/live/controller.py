"""The live world behind the core's port: processes, sockets and the clock of a run.

Synchronous on purpose: the core's one loop asks for events, and only then is anything read.
Stamps are taken where things happen (one host, one monotonic clock), so a slow decision delays
nothing but the decision.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Final

from warren.live.base import BasePort
from warren.live.clock import ClusterClock
from warren.live.ledger import Ledger
from warren.live.messages import (
    Assign,
    CompEnded,
    Drop,
    ExecutorReady,
    JobBroke,
    Open,
    RoundReport,
    ServerReady,
    SyncEnded,
    TrainerGone,
    Warm,
    Warmed,
)
from warren.live.roles import ExecutorRole, Exited, Role, ServerRole, TrainerRole
from warren.model.costs import CostTable
from warren.model.errors import EngineError
from warren.model.plan import Assignment
from warren.model.run import Run

WARM_LIMIT: Final = 512
"""Apps (jobs times devices) that are built before time zero; beyond, when first needed."""
_MS: Final = 1_000_000
_TRAINER_LOSSES: Final = 3
"""Trainers of one device and user that may end while idle before the run is given up."""


class LivePort(BasePort):
    """Trains the jobs of a run with the ``local`` engine. Use as a context manager."""

    def __init__(
        self, run: Run, costs: CostTable, out_dir: Path | str, *, warm_limit: int = WARM_LIMIT
    ) -> None:
        super().__init__(run, out_dir)
        self._costs = costs
        self._ledger = Ledger(self._jobs, len(self._devices), self._agenda)
        self._warm = len(self._jobs) * len(self._devices) <= warm_limit
        self._rehearse = run.cluster.emulate is not None
        self._seq = 0
        self._executors: dict[int, bytes] = {}
        self._servers: dict[int, int] = {}
        self._server_peers: dict[int, bytes] = {}
        self._trainers: set[tuple[int, str]] = set()
        self._losses: Counter[tuple[int, str]] = Counter()
        self._waiting: set[object] = set()
        self.overruns: Counter[int] = Counter()
        """Tasks that took longer than their pad, by job index."""

    def start(self) -> None:
        """Bring up all processes and let trainers build their apps; time zero comes later.

        Raises
        ------
        EngineError
            If a process of Warren's own does not come up.
        """
        super().start()
        for device in range(len(self._devices)):
            role = ExecutorRole(device, str(self._folder), str(self._outputs.run_log))
            self._fleet.fork(role)
            self._waiting.add(ExecutorReady(device))
        self._wait_for_all()
        if self._warm:
            self._warm_up()

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append to the queues of executors; what belongs to an ended job is dropped."""
        clock = self._clock
        decided_ns = 0 if clock is None else clock.host_ns(self._agenda.last_ns)
        for one in assignments:
            if self._ledger.ended(one.job):
                continue
            job = self._jobs[one.job]
            self._need_server(one.job)
            self._need_trainer(one.device, job.user)
            self._seq += 1
            self._ledger.assigned(self._seq, one)
            comp_ns, sync_ns = self._pads(one)
            assign = Assign(
                seq=self._seq,
                job=one.job,
                round=one.round,
                rounds=one.rounds,
                shards=one.shards,
                user=job.user,
                comp_pad_ns=comp_ns,
                sync_pad_ns=sync_ns,
                decided_ns=decided_ns,
            )
            self._tell(one.device, assign)

    # Before time zero.

    def _begin(self) -> ClusterClock:
        clock = super()._begin()
        self._ledger.begin(clock, self.numerics)
        for job in tuple(self._server_peers):
            self._open(job)
        return clock

    def _warm_up(self) -> None:
        for job in range(len(self._jobs)):
            self._need_server(job)
            self._waiting.add(ServerReady(job))
        users: dict[str, list[int]] = {}
        for one in self._jobs:
            users.setdefault(one.user, []).append(one.index)
        for device in range(len(self._devices)):
            for user, jobs in users.items():
                self._need_trainer(device, user)
                self._tell(device, Warm(user, tuple(jobs)))
                self._waiting.add(Warmed(device, user))
        self._wait_for_all()

    def _wait_for_all(self) -> None:
        while self._waiting:
            self._hear(None)

    # What others say.

    def _understand(self, peer: bytes, message: object) -> None:
        match message:
            case CompEnded() | SyncEnded() | RoundReport():
                self._report(message)
            case JobBroke(job=job, reason=reason):
                self._fail(job, reason)
            case ExecutorReady(device=device):
                self._executors[device] = peer
                self._waiting.discard(message)
            case ServerReady(job=job):
                self._server_peers[job] = peer
                self._waiting.discard(message)
                self._open(job)
            case Warmed():
                self._waiting.discard(message)
            case _:
                raise EngineError(f"unexpected message {message}")

    def _report(self, report: CompEnded | SyncEnded | RoundReport) -> None:
        self._agenda.advance(self._now_ns())
        if isinstance(report, CompEnded) and report.overrun:
            job = self._ledger.job_of(report.seq)
            if job is not None:
                self.overruns[job] += 1
        for job in self._ledger.report(report):
            self._job_over(job)

    def _ended(self, ticket: int, role: Role, exited: Exited) -> None:
        how = exited.how or "left"
        match role:
            case TrainerRole(device=device, user=user):
                self._trainers.discard((device, user))
                self._tell(device, TrainerGone(user, exited.pid, how))
                self._replace_trainer(device, user, how)
            case ServerRole(job=job):
                self._fail(job.index, f"its server ended: {how}")
            case ExecutorRole(device=device):
                name = self._devices[device].name
                raise EngineError(f"the executor of device {name} ended: {how}")
            case _:
                pass

    def _replace_trainer(self, device: int, user: str, how: str) -> None:
        self._losses[device, user] += 1
        alive = sum(job.user == user and not self._ledger.ended(job.index) for job in self._jobs)
        if self._losses[device, user] > _TRAINER_LOSSES + len(self._jobs):
            raise EngineError(f"trainers of device {self._devices[device].name} keep ending: {how}")
        if alive:
            self._need_trainer(device, user)
        else:
            self._waiting.discard(Warmed(device, user))

    def _fail(self, job: int, reason: str) -> None:
        if self._ledger.ended(job):
            return
        host_ns = 0 if self._clock is None else time.monotonic_ns()
        self._ledger.fail(job, reason, host_ns)
        self._job_over(job)

    def _job_over(self, job: int) -> None:
        """Free what the job holds: its places in queues and its server."""
        self._waiting.discard(ServerReady(job))
        for device in self._executors:
            self._tell(device, Drop(job))
        if job in self._servers:
            self._fleet.end(self._servers[job])

    def _stuck(self) -> bool:
        return self._ledger.stuck()

    # What others are told.

    def _tell(self, device: int, message: Assign | Drop | TrainerGone | Warm) -> None:
        self._hub.send(self._executors[device], message)

    def _open(self, job: int) -> None:
        if self._clock is not None:
            at_ns = self._clock.host_ns(self._jobs[job].arrival_ns)
            self._hub.send(self._server_peers[job], Open(at_ns))

    def _need_server(self, job: int) -> None:
        if job not in self._servers:
            self._servers[job] = self._fleet.fork(
                ServerRole(
                    str(self._folder),
                    self._run.base,
                    self._jobs[job],
                    self._outputs.log(job),
                    self._outputs.params(job),
                    self._rehearse,
                )
            )

    def _need_trainer(self, device: int, user: str) -> None:
        if (device, user) not in self._trainers:
            self._trainers.add((device, user))
            jobs = tuple(job for job in self._jobs if job.user == user)
            logs = {job.index: self._outputs.log(job.index) for job in jobs}
            folder, base = str(self._folder), self._run.base
            role = TrainerRole(device, user, folder, base, jobs, logs, self._rehearse)
            self._fleet.fork(role)

    def _pads(self, one: Assignment) -> tuple[int, int]:
        """Real nanoseconds that COMP and synchronisation of one task are padded to."""
        if self._run.cluster.emulate is None:
            return 0, 0
        at = one.job, self._run.cluster.type_of_device[one.device]
        clock = ClusterClock(0, self._scale)
        comp_ns, sync_ns = self._costs.comp_ns_JT[at], self._costs.sync_ns_JT[at]
        return clock.pad_ns(int(comp_ns)), clock.pad_ns(int(sync_ns))
