"""What the coordinator of flows decides: whom it asks each period, and the classes of all jobs.

Pure: no clock and no socket; time is the number of the period. ``coordinator`` carries it out.

*Source.* JPAS (JNCA'20), 3.1 and 3.2 with Pseudocode 1: each period one worker of each job, drawn
at random, is asked for the gain of the next period; jobs are ordered by it (MAIF), and the order on
each host gives the classes.
*Differs.* A worker is drawn among the agents whose log of the job has given a point: frameworks
often log on one host alone. Who does not answer in time holds up nothing: the gain that is known
stands for ``keep_periods``, also when the agent has gone; after that the job is not known, and has
class 0 like one that never was. A flow has one class (``warren.solve.flows.class_order``). Of a job
whose logs are all silent nobody is asked: its gain stands, and where none is known it goes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from warren.live.enforcement.coordination.messages import AgentHello, JobGain, JobNodes
from warren.model.decision import CLASSES
from warren.predict.accuracy_gain import orders_by_gain
from warren.solve.flows.class_order import ordered_classes

_STATES: Final = ("ordered", "not known", "silent")


class AgentFault(ValueError):
    """An agent says what it may not say now; it is dropped."""


@dataclass(slots=True)
class _Agent:
    """``nodes`` by job, None until told; ``heard``: the last period in which it said anything."""

    instance: bytes
    nodes: dict[str, JobNodes | None]
    heard: int


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
    # By period and job: who was asked and has not answered.
    _asked: dict[tuple[int, str], str] = field(default_factory=dict)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that are there, in order."""
        return tuple(sorted(self._agents))

    def join(self, hello: AgentHello) -> None:
        """Count an agent in; one that comes again takes the place of its former connection.

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
        self._agents[hello.agent] = _Agent(hello.instance, nodes, self.period)

    def leave(self, agent: str) -> None:
        """Count an agent out. What is known of its jobs stands as long as any other gain."""
        self._agents.pop(agent, None)
        self._asked = {asked: of for asked, of in self._asked.items() if of != agent}

    def hear(self, agent: str, said: JobNodes | JobGain) -> None:
        """Note what an agent says.

        Raises
        ------
        AgentFault
            If it speaks of a job that it does not watch, or tells a gain that it was not asked for.
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
        """Begin a period; return the jobs that each agent is to be asked for."""
        self.period += 1
        oldest = self.period - self.keep_periods
        self._asked = {asked: of for asked, of in self._asked.items() if asked[0] >= oldest}
        told_of = self._told()
        for job, told in told_of.items():
            if job in self._gains and _silent(told):
                self._gains[job].period = self.period
        self._gains = {job: known for job, known in self._gains.items() if known.period >= oldest}
        asked: dict[str, list[str]] = {name: [] for name in self.agents}
        for job, told in told_of.items():
            drawn = self._drawn(job, told)
            if drawn is not None:
                self._asked[self.period, job] = drawn
                asked[drawn].append(job)
        return {name: tuple(jobs) for name, jobs in asked.items()}

    def silent(self) -> tuple[str, ...]:
        """Return the agents that have said nothing for longer than things stand."""
        oldest = self.period - self.keep_periods
        return tuple(name for name in self.agents if self._agents[name].heard < oldest)

    def answered(self) -> bool:
        """Tell whether all that was asked for in this period has been told."""
        return not any(period == self.period for period, _ in self._asked)

    def order(self) -> dict[str, int]:
        """Return the class of each job."""
        told = self._told()
        jobs = list(told)
        known = [job for job in jobs if job in self._gains]
        orders = orders_by_gain([self._gains[job].gain for job in known])
        job_number = {job: number for number, job in enumerate(jobs)}
        host_number = {agent: number for number, agent in enumerate(self.agents)}
        turns = [(job_number[job],) for _, job in sorted(zip(orders, known, strict=True))]
        hosts = {
            job_number[job]: [host_number[name] for name, one in told[job].items() if one.endpoints]
            for job in known
        }
        found = ordered_classes(turns, hosts, self.classes)
        first = {job: self.classes if _silent(told[job]) else 0 for job in jobs}
        return {job: found.get(job_number[job], first[job]) for job in jobs}

    def classes_of(self, agent: str, order: Mapping[str, int]) -> dict[str, int]:
        """Return of an order what one agent has to set."""
        return {job: order[job] for job in self._agents[agent].nodes if job in order}

    def rows(self, order: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return a period as it is told: a row a job."""
        told = self._told()
        unanswered = {job for period, job in self._asked if period == self.period}
        return [
            {
                "job": job,
                "class": kind,
                "gain": known.gain if known else None,
                "gain_periods": self.period - known.period if known else None,
                "answered": job not in unanswered,
                "agents": [name for name in self.agents if job in self._agents[name].nodes],
                "ports": sum(_ports(one) for one in told[job].values()),
                "state": _STATES[2 if _silent(told[job]) else 0 if known else 1],
            }
            for job, kind in order.items()
            for known in [self._gains.get(job)]
        ]

    def _told(self) -> dict[str, dict[str, JobNodes]]:
        """Return of each job, in order, what the agents that watch it have told."""
        found: dict[str, dict[str, JobNodes]] = {}
        for name in self.agents:
            for job, nodes in self._agents[name].nodes.items():
                found.setdefault(job, {}).update({} if nodes is None else {name: nodes})
        return dict(sorted(found.items()))

    def _drawn(self, job: str, told: Mapping[str, JobNodes]) -> str | None:
        """Draw who is asked: each agent with a log of the job that goes on is as likely."""
        able = [name for name, nodes in told.items() if nodes.reads and not nodes.ended]
        if not able:
            return None
        # By period and job, so that who comes and goes changes no other job's draw.
        drawn = np.random.Generator(np.random.PCG64([self.seed, self.period, *job.encode()]))
        return able[int(drawn.integers(len(able)))]


def _silent(told: Mapping[str, JobNodes]) -> bool:
    """Tell whether no log of a job goes on; that of a host where it never began does not count."""
    read = [nodes.ended for nodes in told.values() if nodes.reads]
    every = read or [nodes.ended for nodes in told.values()]
    return bool(every) and all(every)


def _ports(nodes: JobNodes) -> int:
    return sum(last - first + 1 for one in nodes.endpoints for first, last in one.ports)
