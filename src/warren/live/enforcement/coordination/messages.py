"""Messages of the coordinator of flows and its agents, and the allowed values of each field.

Pure. Messages are msgpack with a tag; a message with an unknown field, another type or a forbidden
value is refused. An agent reports the jobs it watches, the nodes that are on its host, and gains on
request. The coordinator asks, and sends each agent the classes of its jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from warren.live.enforcement.requests import (
    Endpoint,
    MarkFlows,
    PeerClass,
    UnmarkFlows,
    check_class,
    checked,
    wrong,
)
from warren.model.testbed import NAME_TEXT, is_name

PROTOCOL: Final = 2
"""Raised whenever an older agent would be misunderstood."""
MOST_BYTES: Final = 256 * 1024
"""The longest message."""
MOST_JOBS: Final = 256
"""Jobs of one agent."""
MOST_AGENT_PEERS: Final = 4096
"""Most classes by address for one agent, over all its jobs."""
MOST_PERIODS: Final = 10_000
"""Most periods for which gains and classes may stand."""
MOST_SEED: Final = (1 << 63) - 1
INSTANCE_BYTES: Final = 16

_Period = Annotated[int, msgspec.Meta(ge=0)]
_Jobs = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_JOBS)]
# A job of a label that is allowed: names of jobs and endpoints are checked as requests are.
_LABEL: Final = "jobs"
_ANY: Final = (Endpoint(ports=((1, 1),)),)


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of these messages."""


class AgentHello(_Message, frozen=True, tag="hello"):
    """Agent to coordinator, first: its name, and the jobs that it watches.

    ``instance``: random bytes of its process, by which it is known when it comes again. ``queues``:
    it has made queues of its own for this host's outgoing traffic.
    """

    protocol: int
    agent: str
    instance: Annotated[bytes, msgspec.Meta(min_length=INSTANCE_BYTES, max_length=INSTANCE_BYTES)]
    jobs: _Jobs
    queues: bool = False


class JobNodes(_Message, frozen=True, tag="nodes"):
    """Agent to coordinator: the nodes of a job that are on this host now.

    ``endpoints``: where they are; none: there is no node here. ``reads``: the log has given a point
    here, so that a gain can be asked for. ``ended``: the log has been silent for long.
    ``addresses_own``: the addresses of the endpoints are this host's own.
    """

    job: str
    endpoints: tuple[Endpoint, ...]
    reads: bool
    ended: bool
    addresses_own: bool = False


class JobGain(_Message, frozen=True, tag="gain"):
    """Agent to coordinator: the gain it was asked for in that period; None: not known yet."""

    period: _Period
    job: str
    gain: float | None


class AgentWelcome(_Message, frozen=True, tag="welcome"):
    """Coordinator to agent: it counts; how long a period is, and how many of them things stand."""

    period_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    keep_periods: Annotated[int, msgspec.Meta(ge=1, le=MOST_PERIODS)]
    seed: Annotated[int, msgspec.Meta(ge=0, le=MOST_SEED)]


class AgentRefused(_Message, frozen=True, tag="refused"):
    """Coordinator to agent: it is refused, with the reason."""

    reason: Annotated[str, msgspec.Meta(max_length=200)]


class AskGains(_Message, frozen=True, tag="ask"):
    """Coordinator to agent: a period begins; tell your nodes, and the gains of these jobs."""

    period: _Period
    jobs: _Jobs


class SetClasses(_Message, frozen=True, tag="classes"):
    """Coordinator to agent: the classes of its jobs; a job that is not named has none.

    ``queues``: by job, its place in the order of this host alone; ``peers``: by job and address,
    its place in the order of the host that has the address.
    """

    period: _Period
    classes: Annotated[dict[str, int], msgspec.Meta(max_length=MOST_JOBS)]
    queues: Annotated[dict[str, int], msgspec.Meta(max_length=MOST_JOBS)] = {}
    peers: Annotated[dict[str, tuple[PeerClass, ...]], msgspec.Meta(max_length=MOST_JOBS)] = {}


AgentSaid: TypeAlias = AgentHello | JobNodes | JobGain
CoordinatorSaid: TypeAlias = AgentWelcome | AgentRefused | AskGains | SetClasses
ENCODER: Final = msgspec.msgpack.Encoder()
_AGENT: Final = msgspec.msgpack.Decoder(AgentSaid)
_COORDINATOR: Final = msgspec.msgpack.Decoder(CoordinatorSaid)


def agent_said(body: bytes) -> AgentSaid:
    """Read a message of an agent.

    Raises
    ------
    msgspec.MsgspecError, SpecError
        If it is none, or a field is not allowed.
    """
    said: AgentSaid = _AGENT.decode(body)
    if isinstance(said, AgentHello):
        _check_agent(said.agent)
        _check_jobs(said.jobs)
        if len(set(said.jobs)) < len(said.jobs):
            raise wrong("job", "one is named twice")
    else:
        _check_jobs([said.job])
    if isinstance(said, JobNodes) and said.endpoints:
        checked(MarkFlows(label=_LABEL, job=said.job, flow_class=0, endpoints=said.endpoints))
    if isinstance(said, JobGain) and said.gain is not None and not 0 <= said.gain < math.inf:
        raise wrong("gain", f"{said.gain:g}; allowed: 0 and more")
    return said


def coordinator_said(body: bytes) -> CoordinatorSaid:
    """Read a message of the coordinator.

    Raises
    ------
    msgspec.MsgspecError, SpecError
        If it is none, or a field is not allowed.
    """
    said: CoordinatorSaid = _COORDINATOR.decode(body)
    if isinstance(said, AskGains | SetClasses):
        _check_jobs(said.jobs if isinstance(said, AskGains) else said.classes)
    if isinstance(said, SetClasses):
        for flow_class in (*said.classes.values(), *said.queues.values()):
            check_class(flow_class)
        for job in (*said.queues, *said.peers):
            if job not in said.classes:
                raise wrong("job", f"{job[:60]!a} has no class")
        for peers in said.peers.values():
            # As in the request that they become.
            checked(MarkFlows(label=_LABEL, job="j", flow_class=0, endpoints=_ANY, peers=peers))
    return said


def _check_agent(name: str) -> None:
    if not is_name(name):
        raise wrong("--name", f"{name[:60]!a} is not a name; allowed: {NAME_TEXT}")


def _check_jobs(jobs: Iterable[str]) -> None:
    for job in jobs:
        checked(UnmarkFlows(label=_LABEL, job=job))
