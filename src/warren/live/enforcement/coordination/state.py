"""The decisions of the coordinator of flows: the agents to ask, and the classes of all jobs.

Pure: no clock and no socket; time is the number of the period. ``coordinator`` carries it out.

*Source.* JPAS (JNCA'20), 3.1 and 3.2 with Pseudocode 1: each period one worker of each job, drawn
at random, is asked for the gain of the next period; jobs are ordered by it (MAIF), and the order on
each host gives the classes.
*Differs.* A worker is drawn among the agents whose log of the job has given a point: frameworks
often log on one host alone. An agent that does not answer in time holds up nothing: the known gain
stands for ``keep_periods``, also when the agent has gone; after that the job is unknown, and has
class 0 like a job that was never known. A flow has one class (``warren.solve.flows.class_order``),
or two if agents have queues of their own (``Coordination.orders_of``). If all logs of a job are
silent no agent is asked: its gain stands, and if none is known it goes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from warren.live.enforcement.coordination.messages import (
    MOST_AGENT_PEERS,
    AgentHello,
    JobGain,
    JobNodes,
    SetClasses,
)
from warren.live.enforcement.requests import MOST_PEERS, PeerClass
from warren.model.decision import CLASSES
from warren.predict.accuracy_gain import orders_by_gain
from warren.solve.flows.class_order import host_orders, ordered_classes

_STATES: Final = ("ordered", "not known", "silent")


class AgentFault(ValueError):
    """An agent sends a message that it may not send now; it is dropped."""


@dataclass(slots=True)
class _Agent:
    """``nodes`` by job, None until reported; ``heard``: the last period with a message of it."""

    instance: bytes
    nodes: dict[str, JobNodes | None]
    heard: int
    queues: bool


@dataclass(slots=True)
class _Gain:
    """A gain, and the period it was asked in."""

    gain: float
    period: int


@dataclass(slots=True)
class Coordination:
    """The state between periods. ``classes``: how many an order may use, 1 first."""

    seed: int
    keep_periods: int
    classes: int = CLASSES - 1
    period: int = 0
    _agents: dict[str, _Agent] = field(default_factory=dict)
    _gains: dict[str, _Gain] = field(default_factory=dict)
    # By period and job: the agent that was asked and has not answered.
    _asked: dict[tuple[int, str], str] = field(default_factory=dict)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that are there, in order."""
        return tuple(sorted(self._agents))

    def join(self, hello: AgentHello) -> None:
        """Count an agent in; an agent that comes again replaces its former connection.

        Raises
        ------
        AgentFault
            If another one has its name.
        """
        old = self._agents.get(hello.agent)
        if old is not None and old.instance != hello.instance:
            raise AgentFault(f"another agent is called {hello.agent}")
        self.leave(hello.agent)
        nodes: dict[str, JobNodes | None] = dict.fromkeys(hello.jobs)
        self._agents[hello.agent] = _Agent(hello.instance, nodes, self.period, hello.queues)

    def leave(self, agent: str) -> None:
        """Count an agent out. The facts about its jobs stand as long as any other gain."""
        self._agents.pop(agent, None)
        self._asked = {asked: of for asked, of in self._asked.items() if of != agent}

    def hear(self, agent: str, said: JobNodes | JobGain) -> None:
        """Note a message of an agent.

        Raises
        ------
        AgentFault
            If it names a job that it does not watch, or states a gain without a request.
        """
        heard = self._agents[agent]
        if said.job not in heard.nodes:
            raise AgentFault(f"it speaks of the job {said.job}, which it does not watch")
        heard.heard = self.period
        if isinstance(said, JobNodes):
            heard.nodes[said.job] = said
            return
        if self._asked.get((said.period, said.job)) != agent:
            raise AgentFault(f"it tells a gain of {said.job} that it was not asked for")
        del self._asked[said.period, said.job]
        known = self._gains.get(said.job)
        # An answer that comes late is as old as its question.
        if said.gain is not None and (known is None or known.period <= said.period):
            self._gains[said.job] = _Gain(said.gain, said.period)

    def begin(self) -> dict[str, tuple[str, ...]]:
        """Begin a period; return the jobs to ask each agent for."""
        self.period += 1
        oldest = self.period - self.keep_periods
        self._asked = {asked: of for asked, of in self._asked.items() if asked[0] >= oldest}
        told_of = self._told()
        for job, by_agent in told_of.items():
            if job in self._gains and _silent(by_agent):
                self._gains[job].period = self.period
        self._gains = {job: known for job, known in self._gains.items() if known.period >= oldest}
        asked: dict[str, list[str]] = {name: [] for name in self.agents}
        for job, by_agent in told_of.items():
            drawn = self._drawn(job, by_agent)
            if drawn is not None:
                self._asked[self.period, job] = drawn
                asked[drawn].append(job)
        return {name: tuple(jobs) for name, jobs in asked.items()}

    def silent(self) -> tuple[str, ...]:
        """Return the agents that have said nothing for longer than things stand."""
        oldest = self.period - self.keep_periods
        return tuple(name for name in self.agents if self._agents[name].heard < oldest)

    def answered(self) -> bool:
        """Tell whether all requests of this period have been answered."""
        return not any(period == self.period for period, _ in self._asked)

    def order(self) -> dict[str, int]:
        """Return the class of each job."""
        by_job = self._told()
        found = ordered_classes(*self._turns(by_job), self.classes)
        first = {job: self.classes if _silent(by_job[job]) else 0 for job in by_job}
        return {job: found.get(number, first[job]) for number, job in enumerate(by_job)}

    def _turns(
        self, by_job: Mapping[str, Mapping[str, JobNodes]]
    ) -> tuple[list[tuple[int]], dict[int, list[int]]]:
        """Return the known jobs by their order, and the hosts of each, by their places."""
        known = [(number, job) for number, job in enumerate(by_job) if job in self._gains]
        orders = orders_by_gain([self._gains[job].gain for _, job in known])
        turns = [(number,) for _, (number, _) in sorted(zip(orders, known, strict=True))]
        place = {agent: number for number, agent in enumerate(self.agents)}
        hosts = {
            number: [place[name] for name, one in by_job[job].items() if one.endpoints]
            for number, job in known
        }
        return turns, hosts

    def orders_of(self, agent: str, order: Mapping[str, int]) -> SetClasses:
        """Return one agent's part of an order.

        With queues of its own, a host's outgoing traffic goes by the order of this host alone. If
        all agents have queues, a flow is marked by the order of its target host, if the addresses
        of all jobs there are known: no order is lost then, however many jobs there are.
        """
        classes = self.classes_of(agent, order)
        if not self._agents[agent].queues:
            return SetClasses(period=self.period, classes=classes)
        by_job = self._told()
        numbers = {job: number for number, job in enumerate(by_job)}
        local = host_orders(*self._turns(by_job), self.classes)
        here = self.agents.index(agent)
        queues = {job: local.get((here, numbers[job]), kind) for job, kind in classes.items()}
        peers = dict[str, tuple[PeerClass, ...]]()
        for job in classes if all(one.queues for one in self._agents.values()) else ():
            peers[job] = tuple(
                PeerClass(end.address, local[place, numbers[job]])
                for place, name in enumerate(self.agents)
                if name != agent and (place, numbers[job]) in local and self._addressed(name)
                for end in by_job[job][name].endpoints
                if local[place, numbers[job]] != classes[job]
            )
        most = max(map(len, peers.values()), default=0)
        if most > MOST_PEERS or sum(map(len, peers.values())) > MOST_AGENT_PEERS:
            peers.clear()
        peers = {job: some for job, some in peers.items() if some}
        return SetClasses(period=self.period, classes=classes, queues=queues, peers=peers)

    def _addressed(self, agent: str) -> bool:
        """Tell whether all nodes on a host are known by its own addresses."""
        nodes = (one for one in self._agents[agent].nodes.values() if one and one.endpoints)
        return all(one.addresses_own for one in nodes)

    def classes_of(self, agent: str, order: Mapping[str, int]) -> dict[str, int]:
        """Return one agent's classes of an order."""
        return {job: order[job] for job in self._agents[agent].nodes if job in order}

    def rows(self, order: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return the report of a period: a row a job."""
        by_job = self._told()
        unanswered = {job for period, job in self._asked if period == self.period}
        return [
            {
                "job": job,
                "class": kind,
                "gain": known.gain if known else None,
                "gain_periods": self.period - known.period if known else None,
                "answered": job not in unanswered,
                "agents": [name for name in self.agents if job in self._agents[name].nodes],
                "ports": sum(_ports(one) for one in by_job[job].values()),
                "state": _STATES[2 if _silent(by_job[job]) else 0 if known else 1],
            }
            for job, kind in order.items()
            for known in [self._gains.get(job)]
        ]

    def _told(self) -> dict[str, dict[str, JobNodes]]:
        """Return the reports on each job, in order, by the agents that watch it."""
        found: dict[str, dict[str, JobNodes]] = {}
        for name in self.agents:
            for job, nodes in self._agents[name].nodes.items():
                found.setdefault(job, {}).update({} if nodes is None else {name: nodes})
        return dict(sorted(found.items()))

    def _drawn(self, job: str, by_agent: Mapping[str, JobNodes]) -> str | None:
        """Draw the agent to ask: each agent with an active log of the job is equally likely."""
        able = [name for name, nodes in by_agent.items() if nodes.reads and not nodes.ended]
        if not able:
            return None
        # By period and job, so that an agent that comes or goes changes no other job's draw.
        drawn = np.random.Generator(np.random.PCG64([self.seed, self.period, *job.encode()]))
        return able[int(drawn.integers(len(able)))]


def _silent(by_agent: Mapping[str, JobNodes]) -> bool:
    """Tell whether no log of a job goes on; that of a host where it never began does not count."""
    read = [nodes.ended for nodes in by_agent.values() if nodes.reads]
    every = read or [nodes.ended for nodes in by_agent.values()]
    return bool(every) and all(every)


def _ports(nodes: JobNodes) -> int:
    return sum(last - first + 1 for one in nodes.endpoints for first, last in one.ports)
