"""States of rounds on their way from servers to devices, and what each server has of a round.

*What.* A device has the state of a round when all servers of the job have sent it their parts. The
first server, which keeps the barrier, does so when the round has begun. Each other one does once
the updates of all tasks of the round before have brought it theirs: it steps by itself, ahead of
the barrier, unless a delay holds the next round or other servers will have it. A step takes what
the job's profile says, 0 if nothing, on all servers alike; and no time in a round of which no byte
passes a link. Behind a round that
is evaluated, and the last one, the others also send their parts to the first server, and the
barrier waits for them.

*Source.* What live servers do: ``warren.live.server``. Who wants which state is said by
``warren.sim.network.server_rounds``.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from warren.cost.run_servers import ServerParts
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.sim.lanes import Lanes
from warren.sim.network.link_flows import Arrival, LinkFlows


class Waiting(Protocol):
    """What waits for states, and for barriers that servers hold."""

    def servers(self, job: int) -> ServerParts:
        """Return the servers of a job; none if their bytes are on no link."""
        ...

    def moves(self, job: int) -> bool:
        """Tell whether a job has other servers from its next barrier on."""
        ...

    def has_state(self, job: int, device: int) -> None:
        """Take note that a device has the state that it wanted last."""
        ...

    def whole(self, job: int, now: int) -> None:
        """Take note that the first server has all parts, for which a barrier has waited."""
        ...


class _Pull:
    """A state that a device wants: ``sent`` has a bit for each part that is on its way or there,
    ``left`` counts transfers that are not over."""

    __slots__ = ("_states", "device", "job", "left", "round", "sent")

    def __init__(self, states: ServedStates, job: int, round_: int, device: int) -> None:
        self._states = states
        self.job = job
        self.round = round_
        self.device = device
        self.sent = 0
        self.left = 0

    def arrived(self, now: int) -> None:
        """Note one transfer that is over; the last one may bring the whole state."""
        self.left -= 1
        self._states.came(self)


class _Part:
    """A server's part of an update, which is there before the whole update is, or with it."""

    __slots__ = ("_states", "job", "part", "update")

    def __init__(self, states: ServedStates, job: int, part: int, update: Arrival) -> None:
        self._states = states
        self.job = job
        self.part = part
        self.update = update

    def arrived(self, now: int) -> None:
        """Let the server have it."""
        self._states.updated(self.job, self.part)
        self.update.arrived(now)


class _Block:
    """A part of the new state on its way to the first server."""

    __slots__ = ("_job", "_states")

    def __init__(self, states: ServedStates, job: int) -> None:
        self._states = states
        self._job = job

    def arrived(self, now: int) -> None:
        """Let the first server have it."""
        self._states.collected(self._job, now)


class ServedStates:
    """The states of all jobs with servers on links."""

    __slots__ = (
        "_ahead_J",
        "_evaluated_J",
        "_far_J",
        "_flows",
        "_here_D",
        "_host_D",
        "_lanes",
        "_step_ns_J",
        "_updates_J",
        "_waiting",
        "_wanted_D",
        "_wanting",
        "_whole_J",
        "at_J",
        "begun_J",
    )

    def __init__(
        self,
        run: Run,
        costs: CostTable,
        lanes: Lanes,
        flows: LinkFlows,
        host_D: list[int],
        waiting: Waiting,
    ) -> None:
        jobs = run.workload.jobs
        step_ns_J = costs.step_ns_J
        self._step_ns_J = [0 for _ in jobs] if step_ns_J is None else step_ns_J.tolist()
        self._lanes = lanes
        self._flows = flows
        self._host_D = host_D
        self._waiting = waiting
        self._evaluated_J = [job.evaluates_after for job in jobs]
        # The round that has begun; -1 before a job arrives. And whether bytes of it have flowed.
        self.at_J = [-1 for _ in jobs]
        self.begun_J = [False for _ in jobs]
        # The round at hand and the next one, if bytes of their states pass links.
        self._far_J: list[set[int]] = [set() for _ in jobs]
        # By job: the latest round that the device wants, or has the state of.
        self._wanted_D: list[dict[int, int]] = [{} for _ in host_D]
        self._here_D: list[dict[int, int]] = [{} for _ in host_D]
        # States of rounds that have not begun, by job and round.
        self._wanting: dict[tuple[int, int], list[_Pull]] = {}
        # How many updates of the round at hand each server has, a bit for each that is ahead of the
        # barrier, and how many parts the first server waits for.
        self._updates_J: list[list[int]] = [[] for _ in jobs]
        self._ahead_J = [0 for _ in jobs]
        self._whole_J = [0 for _ in jobs]

    def is_here(self, job: int, round_: int, device: int) -> bool:
        """Tell whether a round has begun and a device has its state."""
        return self.at_J[job] == round_ and self._here_D[device].get(job) == round_

    def is_collecting(self, job: int) -> bool:
        """Tell whether the first server waits for parts of others."""
        return self._whole_J[job] > 0

    def want(self, job: int, round_: int, device: int) -> None:
        """Let a device have the state of a round as soon as that may be, once."""
        wanted = self._wanted_D[device]
        # A policy may have queued tasks beyond a job's end, which it does not know: they pull none.
        if wanted.get(job, -1) >= round_ or round_ >= self._lanes.rounds_J[job]:
            return
        wanted[job] = round_
        pull = _Pull(self, job, round_, device)
        if self.at_J[job] == round_:
            self._send(pull)
            return
        self._wanting.setdefault((job, round_), []).append(pull)
        if self.at_J[job] == round_ - 1 and self._ahead_J[job]:
            self._send(pull, self._ahead_J[job])

    def begin(self, job: int, round_: int) -> None:
        """Note that a round has begun: its state is there for those who want it."""
        self.at_J[job] = round_
        self._updates_J[job] = []
        self._ahead_J[job] = 0
        self._far_J[job] &= {round_}
        for pull in self._wanting.pop((job, round_), ()):
            self._send(pull)

    def forget_ahead(self, job: int, round_: int) -> None:
        """Let pulls begin anew: what old servers have sent ahead of this round is not needed."""
        self._ahead_J[job] = 0
        self._far_J[job].discard(round_)
        waiting = self._wanting.get((job, round_), [])
        for place, pull in enumerate(waiting):
            waiting[place] = _Pull(self, job, round_, pull.device)
            # With no part sent it never is whole, whatever still arrives.
            pull.sent = 0

    def part_of(self, update: Arrival, job: int, part: int) -> Arrival:
        """Return what waits for the part of an update that a server gets."""
        return _Part(self, job, part, update)

    def step_ns(self, job: int) -> int:
        """Return what servers take for a step after the round at hand.

        A device that pushes to another host has pulled from there, too: servers move at barriers.
        """
        return self._step_ns_J[job] if self.at_J[job] in self._far_J[job] else 0

    def updated(self, job: int, part: int) -> None:
        """Let a server have one more update of the round at hand, and step with the last one."""
        updates = self._updates_J[job]
        if not updates:
            updates += [0] * len(self._waiting.servers(job))
        updates[part] += 1
        if part == 0 or updates[part] < self._lanes.scale_J[job]:
            return
        step_ns = self.step_ns(job)
        if step_ns:
            stepped = partial(self._stepped, job, part)
            self._flows.delays.hold(self._lanes.now_ns + step_ns, stepped)
        else:
            self._stepped(job, part)

    def _stepped(self, job: int, part: int) -> None:
        """Send a server's part of the next state to whom it is needed by; its step is over."""
        done, rounds = self.at_J[job] + 1, self._lanes.rounds_J[job]
        if done == rounds or self._evaluated_J[job](done):
            self._collect(job, part)
        held = self._flows.delays.waits(job) or self._waiting.moves(job)
        if done < rounds and not held:
            self._ahead_J[job] |= 1 << part
            for pull in self._wanting.get((job, done), ()):
                self._send(pull, self._ahead_J[job])

    def collected(self, job: int, now: int) -> None:
        """Let the first server have one more part of the new state."""
        self._whole_J[job] -= 1
        if self._whole_J[job] == 0:
            self._waiting.whole(job, now)

    def came(self, pull: _Pull) -> None:
        """Note that a device has what was sent to it; a state of which all has been is whole."""
        if pull.left == 0 and pull.sent + 1 == 1 << len(self._waiting.servers(pull.job)):
            self._here_D[pull.device][pull.job] = pull.round
            self._waiting.has_state(pull.job, pull.device)

    def _send(self, pull: _Pull, parts: int = -1) -> None:
        """Send a device what it wants and has not been sent, of these parts (a bit each)."""
        job, target = pull.job, self._host_D[pull.device]
        self.begun_J[job] = True
        before = pull.sent
        for part, (source, size) in enumerate(self._waiting.servers(job)):
            bit = 1 << part
            if parts & bit and not before & bit:
                pull.sent |= bit
                pull.left += self._flows.transfer(job, source, target, size, pull)
                if source != target and size > 0:
                    self._far_J[job].add(pull.round)
        if pull.left == 0:
            self.came(pull)

    def _collect(self, job: int, part: int) -> None:
        """Send a part of the new state to the first server."""
        servers = self._waiting.servers(job)
        (target, _), (source, size) = servers[0], servers[part]
        self._whole_J[job] += self._flows.transfer(job, source, target, size, _Block(self, job))
