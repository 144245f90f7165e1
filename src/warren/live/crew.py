"""The controller's side of devices: an executor each, and trainers, one a device and user."""

from __future__ import annotations

from collections import Counter
from typing import Final

from warren.live.hands import Hands
from warren.live.messages import AnyMessage, Drop, Moved, TrainerGone
from warren.live.pads import Pads
from warren.live.pinning import core_of
from warren.live.roles import ExecutorRole, TrainerRole
from warren.model.errors import EngineError

_LOSSES: Final = 20
"""Executors of one device, or trainers of one user there that were doing nothing, that may end."""


class Crew:
    """Starts, replaces and talks to executors and trainers."""

    def __init__(self, hands: Hands, pads: Pads) -> None:
        self._hands, self._pads = hands, pads
        self._lives = [0] * len(hands.devices)
        self._peers: dict[int, bytes] = {}
        self._trainers: dict[tuple[int, str], int] = {}
        self._losses: Counter[tuple[int, str]] = Counter()
        devices = range(len(hands.devices))
        self._cores = [core_of(device) if hands.local.pin else None for device in devices]

    def start(self) -> None:
        """An executor for each device."""
        for device in range(len(self._lives)):
            self._fork(device)

    def ready(self, device: int, life: int, peer: bytes) -> bool:
        """A device's executor is up; False if that is old news of one that was lost."""
        if life != self._lives[device]:
            return False
        self._peers[device] = peer
        return True

    def life(self, device: int) -> int:
        """How many executors the device had before this one."""
        return self._lives[device]

    def core(self, device: int) -> int | None:
        """The core that the device runs on; None: any."""
        return self._cores[device]

    def tell(self, device: int, message: AnyMessage) -> None:
        """To a device's executor; one that is not up will be told all that counts when it is."""
        if device in self._peers:
            self._hands.hub.send(self._peers[device], message)

    def drop(self, job: int, *, ended: bool) -> None:
        """Free what a job holds on all devices."""
        for device in self._peers:
            self.tell(device, Drop(job, ended))

    def move(self, job: int, era: int) -> None:
        """A job that has not arrived keeps its places in queues, and has servers of this era."""
        for device in self._peers:
            self.tell(device, Moved(job, era, self._hands.run.scheduler.servers))

    def need_trainer(self, device: int, user: str) -> None:
        """Start the trainer of a user on a device unless it is there."""
        if (device, user) in self._trainers:
            return
        hands = self._hands
        jobs = tuple(job for job in hands.jobs if job.user == user)
        role = TrainerRole(
            device=device,
            user=user,
            folder=str(hands.folder),
            base=hands.run.base,
            jobs=jobs,
            logs={job.index: hands.outputs.log(job.index) for job in jobs},
            life=self._lives[device],
            tmp=hands.tmp(user),
            rehearse=hands.rehearse,
            core=self._cores[device],
            memory=hands.memory,
        )
        self._trainers[device, user] = hands.fleet.fork(role)

    def end_trainer(self, device: int, user: str) -> None:
        """Kill one that does not end by itself; that it has ended will be told as always."""
        if (device, user) in self._trainers:
            self._hands.fleet.kill(self._trainers[device, user])

    def trainer_ended(self, role: TrainerRole, pid: int, how: str) -> None:
        """A trainer is gone.

        Raises
        ------
        EngineError
            If trainers of this device and user keep ending.
        """
        device, user = role.device, role.user
        del self._trainers[device, user]
        self.tell(device, TrainerGone(user, pid, how))
        self._count(device, user, f"trainers of device {self._hands.devices[device].name}", how)

    def executor_ended(self, device: int, how: str) -> None:
        """An executor is gone: its trainers go too, and a new one comes.

        Raises
        ------
        EngineError
            If executors of this device keep ending.
        """
        self._peers.pop(device, None)
        for at, user in [key for key in self._trainers if key[0] == device]:
            self._hands.fleet.end(self._trainers.pop((at, user)))
        self._count(device, "", f"executors of device {self._hands.devices[device].name}", how)
        self._lives[device] += 1
        self._fork(device)

    def all_ended(self, how: str) -> None:
        """All processes are gone, their zygote first."""
        self._trainers.clear()
        for device in range(len(self._lives)):
            self.executor_ended(device, how)

    def _fork(self, device: int) -> None:
        hands = self._hands
        role = ExecutorRole(
            device=device,
            life=self._lives[device],
            folder=str(hands.folder),
            log=str(hands.outputs.run_log),
            pads=self._pads.table(hands.run.cluster.type_of_device[device]),
            look_ahead=hands.local.look_ahead,
            core=self._cores[device],
        )
        hands.fleet.fork(role)

    def _count(self, device: int, user: str, what: str, how: str) -> None:
        self._losses[device, user] += 1
        if self._losses[device, user] > _LOSSES + 3 * len(self._hands.jobs):
            raise EngineError(f"{what} keep ending: {how}")
