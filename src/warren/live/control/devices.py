"""The controller's side of devices: one executor each, and one trainer for each device and job."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from warren.live.control.ledger import Ledger
from warren.live.control.run_context import RunContext
from warren.live.emulated_times import Pads
from warren.live.process import free_memory
from warren.live.process.agents.leased_processes import AWAY
from warren.live.process.linux import core_of
from warren.live.process.specs import ExecutorRole, TrainerRole
from warren.live.transport.messages import AnyMessage, Drop, Moved, Release, TrainerGone, Verify
from warren.model.errors import EngineError
from warren.model.job import Job

_LOSSES: Final = 20
"""Executors of one device that may end before the run fails, plus three for each job."""
_VERIFIERS: Final = 3
"""Verifying trainers that a job may lose; after that none of its tasks is computed again."""
_STAY: Final = 100
"""Assignments of a job during which its verifying trainer stays on its device."""
_RELEASED_AT_ONCE: Final = 2
"""Trainers released where memory is scarce and another is to come: more go than come."""


class DeviceManager:
    """Starts, replaces and talks to executors and trainers.

    A trainer stays when its job has no task on its device, so that the next task there begins at
    once. Where memory is ``scarce``, the trainers that were used longest ago are released.
    """

    def __init__(self, context: RunContext, pads: Pads, ledger: Ledger) -> None:
        self._context = context
        self._pads = pads
        self._ledger = ledger
        self._incarnations = [0] * len(context.devices)
        self._peers: dict[int, bytes] = {}
        # By job: devices that have had a message about it, or have a trainer of it.
        self._met: defaultdict[int, set[int]] = defaultdict(set)
        # Tickets by (device, job), in the order of their last use: the first was used longest ago.
        self._trainers: dict[tuple[int, int], int] = {}
        self._released: set[tuple[int, int]] = set()
        self._losses: Counter[int] = Counter()
        self._lost: Counter[tuple[int, int]] = Counter()
        # Of each job that has one: the device of its verifying trainer, and its ticket.
        self._verifiers: dict[int, tuple[int, int]] = {}
        self._lost_verifiers: Counter[int] = Counter()
        self._verifier_stays: Counter[int] = Counter()
        # Of each job that is still to arrive: the device that its verifying trainer will be on.
        self._verifiers_at_arrival: dict[int, int] = {}
        devices = range(len(context.devices))
        self._cores = [core_of(device) if context.local.pin else None for device in devices]

    def start(self) -> None:
        """Start an executor for each device."""
        for device in range(len(self._incarnations)):
            self._fork(device)

    def ready(self, device: int, incarnation: int, peer: bytes) -> bool:
        """Note that a device's executor listens; False if that executor was lost meanwhile."""
        if incarnation != self._incarnations[device]:
            return False
        self._peers[device] = peer
        return True

    def is_up(self, device: int) -> bool:
        """Tell whether a device's executor listens."""
        return device in self._peers

    def incarnation(self, device: int) -> int:
        """Return the number of earlier executors of the device."""
        return self._incarnations[device]

    def core(self, device: int) -> int | None:
        """Return the processor core that the device runs on; None: any."""
        return self._cores[device]

    def tell(self, device: int, message: AnyMessage) -> None:
        """Send a message to a device's executor.

        An executor that is not up gets no message: it learns all that still counts when it comes
        up.
        """
        if device in self._peers:
            self._context.hub.send(self._peers[device], message)
            job = getattr(message, "job", None)
            if job is not None and not self._ledger.ended(job):
                self._met[job].add(device)

    def drop(self, job: int, *, ended: bool) -> None:
        """Tell executors that know of a job to free its memory."""
        for device in sorted(self._met[job]):
            self.tell(device, Drop(job, ended))
            if ended and device not in self._peers and (device, job) in self._trainers:
                # No executor will tell it to leave.
                self._context.pool.end(self._trainers.pop((device, job)))
                self._released.discard((device, job))
        if ended:
            del self._met[job]

    def move(self, job: int, generation: int, homes: tuple[int, ...]) -> None:
        """Tell executors that know of a job that it has new servers, on these hosts.

        Its places in their queues stay.
        """
        for device in sorted(self._met[job]):
            self.tell(device, Moved(job, generation, homes, self._ledger.passed(job)))

    def need_trainer(self, device: int, job: Job) -> None:
        """Start the trainer of a job on a device unless it runs already."""
        key, context = (device, job.index), self._context
        if context.home_of(job) == device:  # the process of its server is its trainer there
            self._met[job.index].add(device)
            return
        ticket = self._trainers.pop(key, None)
        if ticket is not None:
            # Taken out and put back: the last used one becomes the last in order.
            self._trainers[key] = ticket
            return
        self._make_room()
        self._trainers[key] = context.pool.fork(self.trainer_role(device, job))
        self._met[job.index].add(device)

    def need_verifier(self, device: int, job: Job) -> None:
        """Start the trainer that computes some of a job's tasks again, unless it runs already.

        Parameters
        ----------
        device : int
            A device on which the job has tasks.
        job : Job
            The job.

        Notes
        -----
        The trainer stays where it is as long as the job has tasks there, and for ``_STAY``
        assignments. It is started when the job has arrived: before, it would take the cores from
        jobs that have.
        """
        if not self._context.run.verify or self._context.home_of(job) is not None:
            return
        # A job that arrives at time zero has it with its first tasks, assigned perhaps before.
        if job.arrival_ns and not self._ledger.arrived(job.index):
            self._verifiers_at_arrival.setdefault(job.index, device)
            return
        if job.index not in self._verifiers:
            if self._lost_verifiers[job.index] < _VERIFIERS and not self.scarce():
                ticket = self._context.pool.fork(self.trainer_role(device, job, verifies=True))
                self._verifiers[job.index] = device, ticket
                self._met[job.index].add(device)
                self.tell(device, Verify(job.index))
                self._verifier_stays[job.index] = _STAY
            return
        # An idle one on another device is killed; the next assignment starts it on its own device.
        at, ticket = self._verifiers[job.index]
        self._verifier_stays[job.index] -= 1
        if at != device and self._verifier_stays[job.index] < 0 and not self._wanted(at, job.index):
            self._verifier_stays[job.index] = _STAY
            # Its end will be counted as a loss (``trainer_ended``), and is none.
            self._lost_verifiers[job.index] -= 1
            self._context.pool.kill(ticket)

    def arrived(self, job: int) -> None:
        """Start the verifying trainer that has waited for the arrival of its job."""
        device = self._verifiers_at_arrival.pop(job, None)
        if device is not None and not self._ledger.ended(job):
            self.need_verifier(device, self._context.jobs[job])

    def end_trainer(self, device: int, job: int) -> None:
        """Kill a trainer that does not end by itself; its end is reported like any other."""
        if (device, job) in self._trainers:
            self._context.pool.kill(self._trainers[device, job])

    def trainer_ended(self, role: TrainerRole, pid: int, how: str) -> bool:
        """Note that a trainer is gone; tell whether its job needs another on this device."""
        device, job = role.device, role.job.index
        if role.verifies:
            self.tell(device, TrainerGone(job, pid, how, True))
            self._verifiers.pop(job, None)
            self._lost_verifiers[job] += 1
            return False
        key = device, job
        del self._trainers[key]
        self.tell(device, TrainerGone(job, pid, how))
        if key in self._released:
            self._released.discard(key)
            return self._wanted(device, job)
        self._lost[key] += how != AWAY
        return True

    def losses(self, device: int, job: int) -> int:
        """Return the number of trainers of a job that ended on a device without an order to end."""
        return self._lost[device, job]

    @staticmethod
    def scarce() -> bool:
        """Tell whether there is too little memory left for another process."""
        return free_memory.scarce()

    def _make_room(self) -> None:
        """Release trainers without a task if memory is scarce: the least recently used first."""
        if not self.scarce():
            return
        idle = [key for key in self._trainers if key not in self._released]
        for device, job in [key for key in idle if not self._wanted(*key)][:_RELEASED_AT_ONCE]:
            self._released.add((device, job))
            self.tell(device, Release(job))

    def _wanted(self, device: int, job: int) -> bool:
        """Tell whether the job has an unfinished assignment on the device."""
        return self._ledger.wants(device, job)

    def executor_ended(self, device: int, how: str) -> None:
        """End the trainers of an executor that is gone, and start another executor.

        Raises
        ------
        EngineError
            If executors of this device keep ending.
        """
        peer = self._peers.pop(device, None)
        if peer is not None and how == AWAY:
            # It ran under a lease that is over, and messages of it may still be under way.
            self._context.hub.refuse(peer)
        # Trainers talk to their own executor only: they cannot serve the next one.
        for key in [key for key in self._trainers if key[0] == device]:
            self._context.pool.end(self._trainers.pop(key))
            self._released.discard(key)

        for job, (at, ticket) in list(self._verifiers.items()):
            if at == device:
                self._context.pool.end(ticket)
                del self._verifiers[job]
        # A host that comes and goes says nothing of its executors.
        self._losses[device] += how != AWAY
        if self._losses[device] > _LOSSES + 3 * len(self._context.jobs):
            name = self._context.devices[device].name
            raise EngineError(f"executors of device {name} keep ending: {how}")
        self._incarnations[device] += 1
        self._fork(device)

    def all_ended(self, how: str) -> None:
        """Start all executors again, after all processes have gone with their zygote."""
        # Tickets are those of the old pool: the new one must not be asked to end them.
        self._trainers.clear()
        self._released.clear()
        self._verifiers.clear()
        for device in range(len(self._incarnations)):
            self.executor_ended(device, how)

    def trainer_role(self, device: int, job: Job, *, verifies: bool = False) -> TrainerRole:
        """Return the role of a trainer of a job on a device."""
        context = self._context
        inputs = context.inputs.of_device(device)
        return TrainerRole(
            device=device,
            folder=str(context.folder),
            base=context.run.base,
            job=job,
            log=context.outputs.log(job.index),
            incarnation=self._incarnations[device],
            tmp=context.tmp(job.index),
            # The first task on a GPU loads libraries and kernels, which takes seconds. Data may
            # take the part of the host's memory that a first task leaves.
            rehearse=context.rehearse or context.gpus[device] is not None or inputs is not None,
            verifies=verifies,
            core=self._cores[device],
            memory=context.memory,
            gpu=context.gpus[device],
            inputs=inputs,
            verify=context.run.verify if context.home_of(job) == device else 0.0,
        )

    def _fork(self, device: int) -> None:
        """Ask for the executor of a device."""
        context = self._context
        role = ExecutorRole(
            device=device,
            incarnation=self._incarnations[device],
            folder=str(context.folder),
            log=str(context.outputs.run_log),
            pads=self._pads.table(context.run.cluster.type_of_device[device]),
            look_ahead=context.local.look_ahead,
            verify=context.run.verify,
            core=self._cores[device],
            gpu=context.gpus[device],
            spill=context.local.spill,
        )
        context.pool.fork(role)
