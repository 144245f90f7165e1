"""States of rounds on their way from servers to devices, and the state of a round on each server.

*What.* A device has the state of a round when all servers of the job have sent it their parts. The
first server, which keeps the barrier, does so when the round has begun. Each other one does once
the updates of all tasks of the round before have brought it theirs: it steps by itself, ahead of
the barrier, unless a delay holds the next round or other servers will have it. A step takes the
time of the job's profile, 0 if it states none, on all servers alike; and no time in a round of
which no byte passes a link. Behind a round that is evaluated, and the last one, the others also
send their parts to the first server, and the barrier waits for them.

*Source.* Live servers: ``warren.live.server``. ``warren.sim.network.server_rounds`` decides which
device needs which state.
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
    """Receivers of states, and of barriers that servers hold."""

    def servers(self, job: int) -> ServerParts:
        """Return the servers of a job; none if their bytes are on no link."""
        ...

    def moves(self, job: int) -> bool:
        """Tell whether a job has other servers from its next barrier on."""
        ...

    def has_state(self, job: int, device: int) -> None:
        """Note that a device has the state that it asked for last."""
        ...

    def whole(self, job: int, now: int) -> None:
        """Note that the first server has all parts, for which a barrier has waited."""
        ...


class _Pull:
    """A state that a device needs.

    ``sent`` has a bit for each part on its way or there, ``left`` counts unfinished transfers.
    """

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
        """Give the server its part."""
        self._states.updated(self.job, self.part)
        self.update.arrived(now)


class _Block:
    """A part of the new state on its way to the first server."""

    __slots__ = ("_job", "_states")

    def __init__(self, states: ServedStates, job: int) -> None:
        self._states = states
        self._job = job

    def arrived(self, now: int) -> None:
        """Give the first server its part."""
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
        # By job: the latest round whose state the device needs or has.
        self._wanted_D: list[dict[int, int]] = [{} for _ in host_D]
        self._here_D: list[dict[int, int]] = [{} for _ in host_D]
        # States of rounds that have not begun, by job and round.
        self._wanting: dict[tuple[int, int], list[_Pull]] = {}
        # Updates of the round at hand on each server, a bit for each server that is ahead of the
        # barrier, and the number of parts that the first server waits for.
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
        """Give a device the state of a round as soon as possible, once."""
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
        """Note that a round has begun: devices can pull its state."""
        self.at_J[job] = round_
        self._updates_J[job] = []
        self._ahead_J[job] = 0
        self._far_J[job] &= {round_}
        for pull in self._wanting.pop((job, round_), ()):
            self._send(pull)

    def forget(self, job: int) -> None:
        """Forget all states of a job, whose servers have ended."""
        self.at_J[job], self.begun_J[job] = -1, False
        self._far_J[job].clear()
        self._updates_J[job] = []
        self._ahead_J[job] = self._whole_J[job] = 0
        for states in (*self._wanted_D, *self._here_D):
            states.pop(job, None)
        for key in [key for key in self._wanting if key[0] == job]:
            del self._wanting[key]

    def forget_ahead(self, job: int, round_: int) -> None:
        """Let pulls begin again: states sent ahead of this round by old servers are not needed."""
        self._ahead_J[job] = 0
        self._far_J[job].discard(round_)
        waiting = self._wanting.get((job, round_), [])
        for place, pull in enumerate(waiting):
            waiting[place] = _Pull(self, job, round_, pull.device)
            # With no part sent it never is whole, whatever still arrives.
            pull.sent = 0

    def part_of(self, update: Arrival, job: int, part: int) -> Arrival:
        """Return the receiver of a server's part of an update."""
        return _Part(self, job, part, update)

    def step_ns(self, job: int) -> int:
        """Return the time of servers for a step after the round at hand.

        A device that pushes to another host has pulled from there, too: servers move at barriers.
        """
        return self._step_ns_J[job] if self.at_J[job] in self._far_J[job] else 0

    def updated(self, job: int, part: int) -> None:
        """Count one more update of the round at hand on a server, and step with the last one."""
        updates = self._updates_J[job]
        if not updates:
            updates += [0] * len(self._waiting.servers(job))
        updates[part] += 1
        if part == 0 or updates[part] < self._lanes.scale_J[job]:
            return
        step_ns = self.step_ns(job)
        if step_ns:
            stepped = partial(self._stepped, job, part)
            self._flows.delays.hold(job, self._lanes.now_ns + step_ns, stepped)
        else:
            self._stepped(job, part)

    def _stepped(self, job: int, part: int) -> None:
        """Send a server's part of the next state to the devices that need it; its step is over."""
        done, rounds = self.at_J[job] + 1, self._lanes.rounds_J[job]
        if done == rounds or self._evaluated_J[job](done):
            self._collect(job, part)
        held = self._flows.delays.waits(job) or self._waiting.moves(job)
        if done < rounds and not held:
            self._ahead_J[job] |= 1 << part
            for pull in self._wanting.get((job, done), ()):
                self._send(pull, self._ahead_J[job])

    def collected(self, job: int, now: int) -> None:
        """Count one more part of the new state on the first server."""
        self._whole_J[job] -= 1
        if self._whole_J[job] == 0:
            self._waiting.whole(job, now)

    def came(self, pull: _Pull) -> None:
        """Note that a transfer has reached a device; the state is whole once all parts have."""
        if pull.left == 0 and pull.sent + 1 == 1 << len(self._waiting.servers(pull.job)):
            self._here_D[pull.device][pull.job] = pull.round
            self._waiting.has_state(pull.job, pull.device)

    def _send(self, pull: _Pull, parts: int = -1) -> None:
        """Send a device the parts of these (a bit each) that it needs and has not been sent."""
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
