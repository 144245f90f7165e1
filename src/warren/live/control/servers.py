"""The controller's side of parameter servers: of each job one or several, of one era."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warren.live.control.run_context import Hands
from warren.live.process.specs import ServerRole
from warren.live.training.checkpoints.files import latest_round
from warren.live.transport.server_messages import Kept, Open, ServerReady
from warren.model.job import Job


@dataclass(slots=True)
class Shop:
    """The servers of one job: tickets and, once they are ready, peers, by part."""

    era: int
    tickets: dict[int, int] = field(default_factory=dict)
    peers: dict[int, bytes] = field(default_factory=dict)


class Servers:
    """Starts, opens, replaces and ends the servers of jobs.

    ``hands`` do it. ``opens_ns`` says when a job that stands at a round may go on, in host time;
    None: time has not begun.
    """

    def __init__(self, hands: Hands, parts: int, opens_ns: Callable[[Job], int | None]) -> None:
        self._hands, self._parts, self._opens_ns = hands, parts, opens_ns
        self._shops: dict[int, Shop] = {}
        self._rounds: dict[int, int] = {}

    def need(self, job: Job, era: int) -> None:
        """Start a job's servers unless they are there."""
        if job.index in self._shops:
            return
        shop = self._shops[job.index] = Shop(era)
        for part in range(self._parts):
            shop.tickets[part] = self._hands.fleet.fork(self._role(job, era, part))

    def ready(self, peer: bytes, said: ServerReady) -> bool:
        """One is up; whether that makes its job's servers complete."""
        shop = self._shops.get(said.job)
        if shop is None or shop.era != said.era:
            return False
        shop.peers[said.part] = peer
        return self.complete(said.job)

    def complete(self, job: int) -> bool:
        """Whether all servers of a job are up."""
        shop = self._shops.get(job)
        return shop is not None and len(shop.peers) == self._parts

    def open(self, job: Job) -> None:
        """Let a job begin when it arrives, or go on now."""
        at_ns = self._opens_ns(job)
        if at_ns is not None and self.complete(job.index):
            if job.index in self._rounds:
                at_ns = max(at_ns, time.monotonic_ns())
            self._hands.hub.send(self._shops[job.index].peers[0], Open(at_ns))

    def open_all(self) -> None:
        """Time has begun."""
        for job in self._hands.jobs:
            if job.index in self._shops:
                self.open(job)

    def kept(self, job: int, round_no: int) -> None:
        """The journal has reached a checkpoint of the job."""
        if self.complete(job):
            self._hands.hub.send(self._shops[job].peers[0], Kept(round_no))

    def end(self, job: int) -> None:
        """The job has ended, or begins a new era."""
        if (shop := self._shops.pop(job, None)) is not None:
            for ticket in shop.tickets.values():
                self._hands.fleet.end(ticket)

    def go_back(self, job: int, passed: int) -> int:
        """End the job's servers; gives the round at which new ones will begin.

        ``passed``: barriers that the core knows of; a checkpoint beyond does not count.
        """
        self.end(job)
        self._rounds[job] = latest_round(self._hands.outputs.checkpoints(job), at_most=passed)
        return self._rounds[job]

    def known(self, job: int) -> bool:
        """Whether it has servers, or had some and begins a new era."""
        return job in self._shops or job in self._rounds

    def era(self, job: int) -> int | None:
        """Of the servers that are there."""
        shop = self._shops.get(job)
        return None if shop is None else shop.era

    def _role(self, job: Job, era: int, part: int) -> ServerRole:
        hands = self._hands
        return ServerRole(
            folder=str(hands.folder),
            base=hands.run.base,
            job=job,
            log=hands.outputs.log(job.index),
            params=hands.outputs.params(job.index),
            store=str(hands.outputs.checkpoints(job.index)),
            tmp=hands.tmp(job.index),
            part=part,
            parts=self._parts,
            era=era,
            round=self._rounds.get(job.index, 0),
            rehearse=hands.rehearse and era == 0,
            memory=hands.memory,
        )
