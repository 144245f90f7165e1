"""The order in which a place policy would run commands, which hold whole devices.

A command is shown to the policy as a job of rounds of one second, with a task a device. Ended
commands are the past that policies learn from. The devices are empty, so the policy starts the
commands of its choice; then these are taken away, and it is asked again. The order of its starts
is its order. It depends on the arguments alone: nothing is remembered from one order to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import ceil
from typing import Final, NamedTuple

import numpy as np

from warren.core.scheduler import PolicyScheduler
from warren.core.state import Phase, State
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import CostTable
from warren.model.errors import Problem, SpecError
from warren.model.events import JobArrived, JobCancelled
from warren.model.job import Job, Workload
from warren.model.past import Past
from warren.model.run import Run, Scheduler
from warren.model.units import NEVER_NS, NS_PER_S
from warren.policy.protocol import (
    AnyPolicy,
    holds_devices,
    is_blind,
    plans_rings,
    takes_new_jobs,
)
from warren.policy.registry import POLICIES, place_policy

UNSUITED: Final[Mapping[str, str]] = {
    "hlas-l": "it fits loss curves, which commands do not have",
    "naive": "it puts several jobs on one device, and a command holds its devices alone",
    "plain": "it runs one job at a time",
}
"""Online place policies that cannot order commands, and why."""


class CommandDevices(NamedTuple):
    """A host and how many devices of each type it has, by type."""

    host: str
    counts: Mapping[str, int]


class KnownCommand(NamedTuple):
    """What is known of a command that waits or runs.

    ``kind`` is equal for commands like it. ``types``: the types of device that it may have.
    ``ran_s``: how long it has run, in seconds; ``length_s``: how long it is expected to run in all,
    which only policies see that must know lengths. ``came_ns``: when it was submitted.
    """

    kind: str
    user: str
    devices: int
    types: tuple[str, ...]
    came_ns: int
    ran_s: float = 0.0
    length_s: float = 1.0
    weight: float = 1.0


class EndedCommand(NamedTuple):
    """A command that has ended; fields as in ``KnownCommand``."""

    kind: str
    user: str
    devices: int
    ran_s: float


def command_policies() -> tuple[str, ...]:
    """Return the names of the policies that can order commands, sorted; imports them all."""
    return tuple(name for name in sorted(POLICIES) if _why_not(name, place_policy(name)) is None)


def command_policy(name: str) -> AnyPolicy:
    """Make the place policy of this name.

    Raises SpecError if there is none, or if it cannot order commands.
    """
    if name not in POLICIES:
        near = get_close_matches(name[:100], POLICIES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise _refused(f"unknown policy {name[:60]!r}; {hint}")
    policy = place_policy(name)
    why_not = _why_not(name, policy)
    if why_not is not None:
        raise _refused(f"{name} cannot order commands: {why_not}; ")
    return policy


def _why_not(name: str, policy: AnyPolicy) -> str | None:
    if not takes_new_jobs(policy):
        return "it must know all jobs before the first one starts"
    return UNSUITED.get(name)


def _refused(message: str) -> SpecError:
    allowed = ", ".join(command_policies())
    return SpecError(Problem(file="--place", message=f"{message}allowed: {allowed}"))


def takes_devices_back(policy: AnyPolicy) -> bool:
    """Tell whether a policy looks at running jobs again, and may prefer others to them."""
    return not holds_devices(policy)


def rehearse(policy: AnyPolicy) -> None:
    """Ask a policy about one command, so that all that it needs is loaded and compiled."""
    one = KnownCommand(kind="", user="", devices=1, types=("",), came_ns=0)
    for _ in policy_turns(policy, [CommandDevices("", {"": 1})], [one], (), 0):
        pass


def policy_turns(
    policy: AnyPolicy,
    devices: Sequence[CommandDevices],
    commands: Sequence[KnownCommand],
    past: Sequence[EndedCommand],
    now_ns: int,
) -> Iterator[list[int]]:
    """Yield the commands, by their place in ``commands``, that a policy starts at once.

    The first list is what it starts on empty devices, in its order; the next what it starts once
    these commands are gone, and so on. Each command is in one list. Those to which the policy gives
    nothing come last, in the order of ``commands``.

    Parameters
    ----------
    policy
        The policy, from ``command_policy``.
    devices
        The hosts.
    commands
        The commands, in the order of their submission.
    past
        Commands that have ended, the latest last.
    now_ns
        The present, on the clock of ``came_ns``.

    Raises
    ------
    InfeasibleDecision
        If the policy breaks a rule or raises.
    """
    if not commands:
        return
    if not any(count for one in devices for count in one.counts.values()):
        yield list(range(len(commands)))
        return
    state, scheduler = _begun(policy, devices, commands, past, now_ns)
    left = dict.fromkeys(range(len(commands)))
    events: tuple[JobArrived, ...] | tuple[JobCancelled, ...]
    events = tuple(JobArrived(state.now_ns, job) for job in left)
    while left:
        decision, _ = scheduler.answer(events)
        started = list(dict.fromkeys(one.job for one in decision.assign))
        if not started:
            yield list(left)
            return
        yield started
        for job in started:
            del left[job]
        events = tuple(JobCancelled(state.now_ns, job) for job in started)
        for event in events:
            state.apply(event)


def _begun(
    policy: AnyPolicy,
    devices: Sequence[CommandDevices],
    commands: Sequence[KnownCommand],
    past: Sequence[EndedCommand],
    now_ns: int,
) -> tuple[State, PolicyScheduler]:
    """Return the state in which all commands have come and run for their time, on no device."""
    names = sorted({kind for one in devices for kind in one.counts})
    first_ns = min(one.came_ns for one in commands)
    there = {name: sum(one.counts.get(name, 0) for one in devices) for name in names}
    jobs, came_ns = [], 0
    for index, one in enumerate(commands):
        came_ns = max(came_ns, one.came_ns - first_ns)
        # A ring that is larger than the cluster would be refused, and all others with it.
        fitting = sum(there.get(kind, 0) for kind in one.types)
        ring = plans_rings(policy) and 1 < one.devices <= fitting
        jobs.append(_job(index, one, came_ns, ring=ring))
    run = Run(
        name="commands",
        cluster=_cluster(devices, names),
        workload=Workload(jobs=tuple(jobs)),
        scheduler=Scheduler(place=policy.name),
    )
    costs = _costs([one.types for one in commands], names)
    blind = is_blind(policy)
    state = State(run, costs, past=_past(past, names), blind=blind)
    scheduler = PolicyScheduler(policy, (), state)
    scheduler.first(None)
    # As ``JobArrived`` does, for all jobs at once; an event a job would copy all columns each time.
    state.now_ns = max(now_ns - first_ns, came_ns)
    state.phase_J[:] = Phase.ACTIVE
    state.arrived_J[:] = state.open_J[:] = True
    state.round_J[:] = state.next_round_J[:] = [int(one.ran_s) for one in commands]
    if blind:
        state.shown_to(blind=True).show(len(jobs) - 1)
    return state, scheduler


def _job(index: int, one: KnownCommand, came_ns: int, *, ring: bool) -> Job:
    return Job(
        index=index,
        name=one.kind,
        scale=one.devices,
        # A command that runs has a second to go, whatever was expected.
        rounds=max(ceil(one.length_s), int(one.ran_s) + 1),
        model=one.kind,
        sync="ring" if ring else "ps",
        weight=one.weight,
        arrival_ns=came_ns,
        user=one.user,
        types=one.types,
    )


def _past(past: Sequence[EndedCommand], names: Sequence[str]) -> Past:
    jobs = tuple(
        Job(
            index=index,
            name=one.kind,
            scale=one.devices,
            rounds=max(1, ceil(one.ran_s)),
            model=one.kind,
            user=one.user,
        )
        for index, one in enumerate(past)
    )
    return Past(jobs=jobs, costs=_costs([tuple(names)] * len(jobs), names))


def _costs(types: Sequence[tuple[str, ...]], names: Sequence[str]) -> CostTable:
    """Return costs of a second a round on the types that each command may have."""
    fits_JT = np.zeros((len(types), len(names)), dtype=np.bool_)
    column = {name: index for index, name in enumerate(names)}
    for row, some in enumerate(types):
        fits_JT[row, [column[name] for name in some if name in column]] = True
    return CostTable(
        comp_ns_JT=np.where(fits_JT, NS_PER_S, NEVER_NS),
        sync_ns_JT=np.where(fits_JT, 0, NEVER_NS),
        fits_JT=fits_JT,
    )


def _cluster(hosts: Sequence[CommandDevices], names: Sequence[str]) -> Cluster:
    devices: list[Device] = []
    made: list[Host] = []
    for one in hosts:
        own: list[str] = []
        for kind, count in one.counts.items():
            for place in range(count):
                own.append(f"{one.host}/{kind}-{place}")
                devices.append(Device(index=len(devices), name=own[-1], type=kind, host=one.host))
        made.append(Host(name=one.host, devices=tuple(own)))
    types = tuple(DeviceType(name=name) for name in names)
    return Cluster(hosts=tuple(made), devices=tuple(devices), types=types)
