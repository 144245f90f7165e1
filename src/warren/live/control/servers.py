"""The controller's side of parameter servers: of each job one or several, of one era."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warren.live.control.run_context import RunContext
from warren.live.process.specs import ServerRole
from warren.live.training.checkpoints.files import latest_round
from warren.live.transport.server_messages import CheckpointCommitted, Open, ServerReady
from warren.model.job import Job


@dataclass(slots=True)
class ServerGroup:
    """The servers of one job: tickets and, once they are ready, peers, by part."""

    generation: int
    tickets: dict[int, int] = field(default_factory=dict)
    peers: dict[int, bytes] = field(default_factory=dict)


class Servers:
    """Starts, opens, replaces and ends the servers of jobs.

    ``context`` do it. ``opens_ns`` says when a job that stands at a round may go on, in host time;
    None: time has not begun.
    """

    def __init__(
        self, context: RunContext, parts: int, opens_ns: Callable[[Job], int | None]
    ) -> None:
        self._context, self._parts, self._opens_ns = context, parts, opens_ns
        self._groups: dict[int, ServerGroup] = {}
        self._rounds: dict[int, int] = {}

    def need(self, job: Job, generation: int) -> None:
        """Start a job's servers unless they are there."""
        if job.index in self._groups:
            return
        group = self._groups[job.index] = ServerGroup(generation)
        for part in range(self._parts):
            group.tickets[part] = self._context.pool.fork(self._role(job, generation, part))

    def ready(self, peer: bytes, said: ServerReady) -> bool:
        """One is up; whether that makes its job's servers complete."""
        group = self._groups.get(said.job)
        if group is None or group.generation != said.generation:
            return False
        group.peers[said.part] = peer
        return self.complete(said.job)

    def complete(self, job: int) -> bool:
        """Whether all servers of a job are up."""
        group = self._groups.get(job)
        return group is not None and len(group.peers) == self._parts

    def open(self, job: Job) -> None:
        """Let a job begin when it arrives, or go on now."""
        at_ns = self._opens_ns(job)
        if at_ns is not None and self.complete(job.index):
            if job.index in self._rounds:
                at_ns = max(at_ns, time.monotonic_ns())
            self._context.hub.send(self._groups[job.index].peers[0], Open(at_ns))

    def open_all(self) -> None:
        """Time has begun."""
        for job in self._context.jobs:
            if job.index in self._groups:
                self.open(job)

    def checkpoint_committed(self, job: int, round_no: int) -> None:
        """The journal has reached a checkpoint of the job."""
        if self.complete(job):
            self._context.hub.send(self._groups[job].peers[0], CheckpointCommitted(round_no))

    def end(self, job: int) -> None:
        """The job has ended, or begins a new era."""
        if (group := self._groups.pop(job, None)) is not None:
            for ticket in group.tickets.values():
                self._context.pool.end(ticket)

    def go_back(self, job: int, passed: int) -> int:
        """End the job's servers; gives the round at which new ones will begin.

        ``passed``: barriers that the core knows of; a checkpoint beyond does not count.
        """
        self.end(job)
        self._rounds[job] = latest_round(self._context.outputs.checkpoints(job), at_most=passed)
        return self._rounds[job]

    def known(self, job: int) -> bool:
        """Whether it has servers, or had some and begins a new era."""
        return job in self._groups or job in self._rounds

    def generation(self, job: int) -> int | None:
        """Of the servers that are there."""
        group = self._groups.get(job)
        return None if group is None else group.generation

    def _role(self, job: Job, generation: int, part: int) -> ServerRole:
        context = self._context
        return ServerRole(
            folder=str(context.folder),
            base=context.run.base,
            job=job,
            log=context.outputs.log(job.index),
            params=context.outputs.params(job.index),
            store=str(context.outputs.checkpoints(job.index)),
            tmp=context.tmp(job.index),
            part=part,
            parts=self._parts,
            generation=generation,
            round=self._rounds.get(job.index, 0),
            rehearse=context.rehearse and generation == 0,
            memory=context.memory,
        )
