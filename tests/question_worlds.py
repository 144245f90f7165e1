"""Worlds of several hosts, a port that carries all four questions, and small policies of each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from warren.core.loop import Core
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import CostTable
from warren.model.decision import NOTHING, Assignment, Decision, Group, Question, Reason, Shape
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobFailed,
    RolledBack,
    RoundsDone,
    Woken,
)
from warren.model.run import Run
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parent))
import worlds

S = NS_PER_S
GB = 10**9


def hosts(count: int = 2, devices: int = 2, memory: int | None = None) -> Cluster:
    """Hosts of one device type."""
    made = tuple(
        Device(index=h * devices + d, name=f"h{h}/A-{d}", type="A", host=f"h{h}")
        for h in range(count)
        for d in range(devices)
    )
    return Cluster(
        hosts=tuple(
            Host(
                name=f"h{h}",
                devices=tuple(one.name for one in made if one.host == f"h{h}"),
                memory_bytes=memory,
            )
            for h in range(count)
        ),
        devices=made,
        types=(DeviceType(name="A"),),
    )


def on_hosts(run: Run, costs: CostTable, count: int = 2) -> tuple[Run, CostTable]:
    """A run with its devices on so many hosts, in turns."""
    devices = tuple(
        replace(one, host=f"h{one.index % count}", name=f"h{one.index % count}/{one.index}")
        for one in run.cluster.devices
    )
    made = tuple(
        Host(name=f"h{h}", devices=tuple(one.name for one in devices if one.host == f"h{h}"))
        for h in range(count)
    )
    return replace(run, cluster=replace(run.cluster, hosts=made, devices=devices)), costs


def small_world(jobs: int = 2, rounds: int = 2, **fields: Any) -> tuple[Run, CostTable]:
    """Jobs that arrive a second after one another, on two hosts of two devices."""
    listed = [
        worlds.job(index, rounds=rounds, arrival_ns=index * S, **fields) for index in range(jobs)
    ]
    return worlds.run(hosts(), listed), worlds.costs([[1.0]] * jobs, [[0.5]] * jobs)


class RecordingPort:
    """A port that carries all four questions: place as the one inside, the others in a list."""

    def __init__(self, inner: Any, carries: frozenset[Question] = frozenset(Question)) -> None:
        self.inner, self.carries = inner, carries
        self.commands: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        self.commands.append(("submit", assignments))
        self.inner.submit(assignments)

    def reshape(self, shapes: Mapping[int, Shape]) -> None:
        self.commands.append(("reshape", dict(shapes)))

    def regroup(self, groups: tuple[Group, ...]) -> None:
        self.commands.append(("regroup", groups))

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        self.commands.append(("classify", (dict(classes), dict(host_classes))))

    def delay(self, delays_ns: Mapping[int, int]) -> None:
        self.commands.append(("delay", dict(delays_ns)))

    def of(self, name: str) -> list[Any]:
        """The arguments of all commands of one name."""
        return [what for command, what in self.commands if command == name]


class Answering:
    """A policy made of one function, which remembers the views it was asked with."""

    source, offline, needs_rounds = "test", False, False

    def __init__(
        self,
        name: str,
        answer: Callable[[View, int], Decision],
        *answers: Question,
        triggers: frozenset[type[Event]] = frozenset({JobArrived}),
        **changes: Any,
    ) -> None:
        self.name, self.answers, self.triggers = name, frozenset(answers), triggers
        self._answer = answer
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.__dict__.update(changes)

    def initial(self, view: View) -> int:
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        self.asked.append((view.now_ns, tuple(type(one).__name__ for one in view.changes)))
        return self._answer(view, memory), memory + 1

    def explain(self, view: View, memory: int, job: int) -> str:
        return f"{self.name} was asked {memory} times"


class Bound:
    """Gives ready rounds to free devices of the hosts that shape and group leave."""

    name, source, offline, needs_rounds = "bound", "test", False, False
    triggers = frozenset({JobArrived, CompDone, RoundsDone, RolledBack, JobFailed})

    def initial(self, view: View) -> None:
        return None

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        assign: list[Assignment] = []
        free = (view.queued_D == 0).nonzero()[0].tolist()
        for job in (view.open_J & (view.next_round_J == view.round_J)).nonzero()[0].tolist():
            first, scale = int(view.next_shard_J[job]), int(view.scale_J[job])
            for shard in range(first, scale):
                usable = [one for one in free if allowed(view, job, one)]
                if not usable:
                    break
                free.remove(usable[0])
                assign.append(Assignment(usable[0], job, int(view.round_J[job]), 1, (shard,)))
        reasons = dict.fromkeys(range(len(view.jobs)), Reason.WAITING_FOR_TURN)
        return Decision(assign=tuple(assign), reasons=reasons), None

    def explain(self, view: View, memory: None, job: int) -> str:
        return "waits for a device of its hosts"


def allowed(view: View, job: int, device: int) -> bool:
    """Whether a view says that the job may run on a device."""
    host, shape, group = int(view.hosts.host_D[device]), view.shape_J[job], int(view.group_J[job])
    if not view.costs.fits_JT[job, view.type_D[device]]:
        return False
    if shape is not None and shape.workers is not None and host not in shape.workers:
        return False
    return group < 0 or host in view.groups[group].hosts


def active(view: View) -> list[int]:
    """Jobs that are there."""
    return (view.arrived_J & ~view.done_J).nonzero()[0].tolist()


def drawn_policies() -> tuple[Answering, Answering, Answering]:
    """Shape, group and flow that answer something new at every step, by arithmetic alone."""

    def shape(view: View, memory: int) -> Decision:
        count = len(view.hosts.devices_H)
        shapes = {}
        for job in active(view):
            servers = tuple((job + memory + k) % count for k in range(1 + (job + memory) % 3))
            shapes[job] = Shape(None, servers, None if memory % 2 else (memory,) * len(servers))
        wake_ns = view.now_ns + 700_000_000 if memory < 20 else None
        return Decision(shapes=shapes, wake_ns=wake_ns)

    def group(view: View, memory: int) -> Decision:
        jobs, count = active(view), len(view.hosts.devices_H)
        if memory % 3 == 2:
            return NOTHING
        every = tuple(range(count))
        pairs = [tuple(jobs[at : at + 2]) for at in range(0, len(jobs), 2)]
        return Decision(groups=tuple(Group(pair, every) for pair in pairs))

    def flow(view: View, memory: int) -> Decision:
        jobs = active(view)
        classes = {job: (job + memory) % 8 for job in jobs if (job + memory) % 2}
        single = {(memory % 2, job): (memory + 3) % 8 for job in jobs if job % 3 == 0}
        delays = {job: (job + memory) % 3 * S for job in jobs if (job + memory) % 5 == 0}
        wake_ns = view.now_ns + 1_100_000_000 if memory < 30 else None
        return Decision(classes=classes, host_classes=single, delays_ns=delays, wake_ns=wake_ns)

    return (
        Answering("shapes", shape, Question.SHAPE),
        Answering("groups", group, Question.GROUP, triggers=frozenset({JobArrived, RoundsDone})),
        Answering("flows", flow, Question.FLOW, triggers=frozenset({RoundsDone, Woken})),
    )


def core_of(
    run: Run, costs: CostTable, policy: Any, others: Any = (), port: Any = None, **options: Any
) -> tuple[Core, RecordingPort, bytearray]:
    """A core with a port that carries all, and its journal."""
    journal = bytearray()
    recording = port or RecordingPort(SimPort(run, costs))
    core = Core(
        run=run, costs=costs, policy=policy, others=tuple(others), port=recording,
        sink=journal.extend, world="test", check=True, **options,
    )  # fmt: skip
    return core, recording, journal
