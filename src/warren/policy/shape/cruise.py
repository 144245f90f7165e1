"""Cruise: the number of workers and servers of each job, from the times of its rounds.

What
    When a job arrives it gets the best shape by a cost model and the known times of its tasks, or,
    if its job file states hosts, those. While it trains, the times of its tasks on each host and of
    its pulls are measured. After some rounds, and again and again, the search for the best shape is
    repeated. Its result is taken if a round would be shorter by more than ``threshold``. Servers
    then move while the job goes on.
    The time of rounds beyond the cost model counts as the same in every shape.
    When an opportunistic host comes or goes, jobs at once get the best shape on the present hosts;
    so they do at the times of ``away``, which are known ahead. If
    new servers do not come up (``ServersMoved.reason``) it waits for twice as many rounds before it
    tries again, then four times, and so on: an app may never have several servers, and a trial
    takes memory. After ``after`` rounds in a new shape it goes back to the one before if they did
    not get shorter, and waits in the same way.
Source
    Cruise (dissertation 2020), 3.2 and 3.3: cost model, trigger after enough metrics, 5 % rule;
    3.4.4: opportunistic hosts.
Differs
    ``cruise`` counts rounds as Warren has them: a fixed number of tasks a round, whatever the
    number of workers, and an update a task (``warren.solve.shapes.task_rounds``); and a host may
    both work and serve. ``cruise-published`` decides by (3.4), where a host does one of both, each
    worker has mini-batches of its own and the model is counted once; its shape is carried out by
    the same rounds. Links are as unequal as the cluster file states; their speed is measured, by
    one factor, from pulls. Data is not split ahead: a worker that is done gets the next task, which
    is the paper's remedy for stragglers, too (3.2.1).
    Each job is shaped as if it had the cluster, or the hosts of its group, for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
from immutables import Map

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.model.decision import NOTHING, Decision, Question, Shape
from warren.model.events import (
    Event,
    HostJoined,
    HostLeft,
    JobArrived,
    RolledBack,
    RoundsDone,
    ServersMoved,
    Woken,
)
from warren.model.view import View
from warren.policy.common.link_loads import server_shares_H
from warren.policy.shape.absences import absences_of, next_change_ns
from warren.policy.shape.all_hosts import hosts_of
from warren.policy.shape.fixed import stated_shape
from warren.policy.shape.measured import TOLD, Measured, refused_shapes, still_moving, without
from warren.solve.shapes.kinds import kinds_of
from warren.solve.shapes.shape_search import Epoch, best_shape
from warren.solve.shapes.task_rounds import TaskMachines, best_task_round, task_round

_EPOCH: Final = 1_000
"""Mini-batches in an epoch of (3.4), for each task of a round: so numerous that no ceil decides."""
_MOST_DOUBLED: Final = 20
"""Most doublings of the rounds that are measured before a search for a shape."""
_READINGS: Final = ("nic", "server", "published")


@dataclass(frozen=True, slots=True)
class Choice:
    """The working hosts, each machine's share of the model, and the time of a round then."""

    works_N: BoolArray
    share_N: FloatArray
    round_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ShapeMemory:
    """Measurements, jobs whose servers move, and, for ``explain``, the last results.

    ``refused``: by job, how often in turn its new servers have not come up. ``before``: by job, the
    shape that it left for a gain, and the time of rounds there; ``failed``: how often in turn there
    was no gain.
    """

    measured: Measured = field(default_factory=Measured)
    moving: frozenset[int] = frozenset()
    refused: Map[int, int] = field(default_factory=Map)
    before: Map[int, tuple[Shape, float]] = field(default_factory=Map)
    failed: Map[int, int] = field(default_factory=Map)
    found: Map[int, str] = field(default_factory=Map)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cruise:
    """Shape jobs again where that makes rounds shorter by more than ``threshold``.

    ``after``: rounds that are measured in one shape before the next search; ``every``: rounds
    between two searches. ``away``: hosts that are not there at times known ahead, see ``absences``.
    """

    threshold: float = 0.05
    after: int = 5
    every: int = 5
    away: str = ""

    name: ClassVar[str] = "cruise"
    source: ClassVar[str] = "Cruise (dissertation 2020) 3.2, 3.3"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.SHAPE})
    binds_workers: ClassVar[bool] = True
    follows_hosts: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = TOLD | {Woken, HostJoined, HostLeft}

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}; allowed: 0 up to 1")
        if self.after < 1 or self.every < 1:
            raise ValueError("after and every count rounds; allowed: 1 and more")
        absences_of(self.away)

    def initial(self, view: View) -> ShapeMemory:
        """Return a memory of nothing."""
        return ShapeMemory()

    def decide(self, view: View, memory: ShapeMemory) -> tuple[Decision, ShapeMemory]:
        """Return the shapes of jobs that have arrived, and of jobs that would be faster."""
        measured, moving = memory.measured.after(view), still_moving(memory.moving, view)
        refused = refused_shapes(memory.refused, view)
        before = _still_to_compare(memory.before, view)
        memory = replace(memory, measured=measured, moving=moving, refused=refused, before=before)
        shapes = dict[int, Shape]()
        for event in view.changes:
            if isinstance(event, JobArrived):
                shape, memory = self._first(view, memory, event.job)
            elif isinstance(event, RoundsDone) and not event.finished:
                shape, memory = self._better(view, memory, event)
            else:
                continue
            if shape is not None:
                shapes[event.job] = shape
        absences = absences_of(self.away) if self.away else ()
        changes = (HostJoined, HostLeft, Woken) if absences else (HostJoined, HostLeft)
        if any(isinstance(event, changes) for event in view.changes):
            moved, memory = self._forced(view, memory, set(shapes))
            shapes |= moved
        wake_ns = next_change_ns(absences, view.now_ns)
        if not shapes and wake_ns is None:
            return NOTHING, memory
        return Decision(shapes=shapes, wake_ns=wake_ns), memory

    def explain(self, view: View, memory: ShapeMemory, job: int) -> str:
        """Say in one sentence why the job has its shape."""
        return memory.found.get(job, "nothing was measured of it yet: it keeps what it began with")

    def best(
        self, machines: TaskMachines, model_bytes: int, tasks: int, prefer: IntArray
    ) -> Choice:
        """Return the best shape; of machines of a kind those serve that stand first in ``prefer``.

        Raises ValueError if there is none, or there are too many kinds of machines.
        """
        one = best_task_round(machines, model_bytes, tasks, both=True, prefer=prefer)
        return Choice(one.works_N, one.share_N, one.round_s)

    def takes_s(self, machines: TaskMachines, now: Choice, model_bytes: int, tasks: int) -> float:
        """Return the time of a round in a shape, by the cost model.

        Raises ValueError if the cost model does not know the shape.
        """
        return task_round(machines, now.works_N, now.share_N, model_bytes, tasks).round_s

    def _first(self, view: View, memory: ShapeMemory, job: int) -> tuple[Shape | None, ShapeMemory]:
        """Return the shape that a job begins with; None: that of ``static``."""
        stated = stated_shape(view, job)
        if stated is not None and not view.absent.intersection(_hosts_of(stated)):
            return stated, memory
        best = self._best(view, memory, job)
        if best is None:
            return self._anywhere(view, job), memory
        text = f"by what is known of its tasks it is best to have {_words(best[0])}"
        return self._shape(view, job, best[0]), replace(memory, found=memory.found.set(job, text))

    def _anywhere(self, view: View, job: int) -> Shape | None:
        """Return a shape of present hosts where the cost model cannot say; None: keep this one."""
        hosts, before = self._hosts(view, job), view.servers_J[job]
        if not (view.absent and hosts):
            return None
        return Shape(hosts, tuple(host for host in before if host in hosts) or hosts[:1])

    def _forced(
        self, view: View, memory: ShapeMemory, fresh: set[int]
    ) -> tuple[dict[int, Shape], ShapeMemory]:
        """Return the best shapes of all jobs on the present hosts; ``fresh`` ones have them."""
        shapes = dict[int, Shape]()
        for job in np.flatnonzero(view.arrived_J & ~view.done_J).tolist():
            best = self._best(view, memory, job)
            shape = None if best is None else self._shape(view, job, best[0])
            shape = shape or self._anywhere(view, job)
            if shape is None or job in fresh:
                continue
            now = view.shape_J[job]
            if now is not None and shape.workers == now.workers and _serves(view, job, shape):
                continue
            what = "all of them work" if best is None else _words(best[0])
            text = f"hosts have come or gone: {what}"
            memory = replace(memory, before=without(memory.before, job))
            shapes[job], memory = shape, self._answered(view, memory, job, shape, text)
        return shapes, memory

    def _answered(
        self, view: View, memory: ShapeMemory, job: int, shape: Shape, text: str
    ) -> ShapeMemory:
        """Return the memory when a shape is answered of a job that trains."""
        # Servers of a job that has been given no task begin where they are said to.
        begun = view.next_round_J[job] > 0 or view.next_shard_J[job] > 0
        stays = _serves(view, job, shape) or not begun
        moving = memory.moving if stays else memory.moving | {job}
        found = memory.found.set(job, text)
        return replace(memory, measured=memory.measured.anew(job), moving=moving, found=found)

    def _away(self, view: View) -> frozenset[int]:
        """Return the hosts that are not there now."""
        away = {one.host for one in absences_of(self.away) if one.holds(view.now_ns)}
        hosts = enumerate(view.cluster.hosts)
        return view.absent.union(at for at, host in hosts if host.name in away)

    def _hosts(self, view: View, job: int) -> tuple[int, ...]:
        """Return the hosts that a job may have and that are there."""
        away = self._away(view)
        return tuple(host for host in hosts_of(view, job) if host not in away)

    def _better(
        self, view: View, memory: ShapeMemory, event: RoundsDone
    ) -> tuple[Shape | None, ShapeMemory]:
        """Return a shape in which a job's rounds are shorter by enough; None: there is none."""
        job = event.job
        if job not in memory.moving and memory.measured.rounds.get(job, 0) >= self.after:
            shape, memory = self._back(view, memory, job)
            if shape is not None:
                return shape, memory
        doubled = memory.refused.get(job, 0) + memory.failed.get(job, 0)
        after = self.after << min(_MOST_DOUBLED, doubled)
        beyond = memory.measured.rounds.get(job, 0) - after
        # A stretch brings several rounds at once: a look is due if one of them is an ``every``-th.
        due = beyond >= 0 and beyond % self.every < event.rounds
        if job in memory.moving or not due:
            return None, memory
        best = self._best(view, memory, job)
        if best is not None and self._away(view).intersection(view.servers_J[job]):
            # By the cost model nothing is served there, so it cannot tell the present time of
            # rounds.
            text = f"a server is on a host that has gone: {_words(best[0])}"
            shape = self._shape(view, job, best[0])
            return shape, self._answered(view, memory, job, shape, text)
        now_s = None if best is None else self._now_s(view, job, best[1])
        if best is None or not now_s:
            return None, memory
        # The time of rounds beyond the cost model is the same in every shape.
        found, took_s = best[0], memory.measured.round_s[job]
        gain = (now_s - found.round_s) / max(now_s, took_s)
        text = f"rounds took {took_s:.3g} s; with {_words(found)} it were {100 * gain:.0f} % less"
        if gain <= self.threshold:
            return None, replace(memory, found=memory.found.set(job, text))
        shape = self._shape(view, job, found)
        left = _standing(view, job), took_s
        memory = replace(memory, before=memory.before.set(job, left))
        return shape, self._answered(view, memory, job, shape, text)

    def _back(self, view: View, memory: ShapeMemory, job: int) -> tuple[Shape | None, ShapeMemory]:
        """Return the shape that a job had before, if its rounds did not get shorter since."""
        if job not in memory.before:
            return None, memory
        shape, before_s = memory.before[job]
        took_s, hosts = memory.measured.round_s[job], self._hosts(view, job)
        memory = replace(memory, before=memory.before.delete(job))
        if took_s < before_s:
            return None, replace(memory, failed=without(memory.failed, job))
        if not _hosts_of(shape).issubset(hosts):
            return None, memory
        text = f"rounds took {took_s:.3g} s, and {before_s:.3g} s before: it goes back"
        failed = memory.failed.set(job, memory.failed.get(job, 0) + 1)
        memory = replace(memory, failed=failed)
        return shape, self._answered(view, memory, job, shape, text)

    def _best(
        self, view: View, memory: ShapeMemory, job: int
    ) -> tuple[Choice, TaskMachines] | None:
        """Return the best shape of a job; None where the cost model cannot say."""
        model_bytes, tasks = _model_bytes(view, job), int(view.scale_J[job])
        hosts, before = list(self._hosts(view, job)), view.servers_J[job]
        machines = TaskMachines(
            task_s_N=memory.measured.task_s_H(view, job)[hosts],
            rate_N=memory.measured.rate_H(view, job)[hosts],
            devices_N=np.maximum(1, view.hosts.devices_H[hosts]),
        )
        # Of the others the last ones: the first stay workers, where their trainers are.
        order = sorted(range(len(hosts)), key=lambda at: (hosts[at] not in before, -at))
        if not model_bytes or not hosts:
            return None
        try:
            return self.best(machines, model_bytes, tasks, np.array(order)), machines
        except ValueError:
            return None

    def _now_s(self, view: View, job: int, machines: TaskMachines) -> float | None:
        """Return the time of a round in a job's present shape; None: the model does not know it."""
        hosts, shape = list(self._hosts(view, job)), view.shape_J[job]
        workers = hosts if shape is None or shape.workers is None else shape.workers
        now = Choice(np.isin(hosts, workers), server_shares_H(view, job)[hosts])
        try:
            return self.takes_s(machines, now, _model_bytes(view, job), int(view.scale_J[job]))
        except ValueError:
            return None

    def _shape(self, view: View, job: int, found: Choice) -> Shape:
        """Return the hosts of a choice; present servers keep their places, so that less moves."""
        hosts, before = self._hosts(view, job), view.servers_J[job]
        share = {
            hosts[at]: float(found.share_N[at]) for at in np.flatnonzero(found.share_N).tolist()
        }
        place = {host: at for at, host in enumerate(before)}
        servers = sorted(share, key=lambda host: (place.get(host, len(before)), host))
        workers = tuple(host for host, works in zip(hosts, found.works_N, strict=True) if works)
        shares = [share[host] for host in servers]
        equal = max(shares) - min(shares) < 1e-9
        sizes = None if equal else _whole(shares, _model_bytes(view, job))
        return Shape(workers, tuple(servers), sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CruisePublished(Cruise):
    """Decide by (3.4) as printed, with a ``reading`` of b_ij: nic, server or published."""

    reading: str = "published"

    name: ClassVar[str] = "cruise-published"

    def __post_init__(self) -> None:
        """Refuse options without a meaning."""
        Cruise.__post_init__(self)
        if self.reading not in _READINGS:
            raise ValueError(f"reading is {self.reading!r}; allowed: {', '.join(_READINGS)}")

    def best(
        self, machines: TaskMachines, model_bytes: int, tasks: int, prefer: IntArray
    ) -> Choice:
        """Return the shape with the shortest epoch of (3.4)."""
        kinds, kind_N = kinds_of(machines.task_s_N, machines.rate_N, machines.devices_N)
        found = best_shape(kinds, self._epoch(model_bytes, tasks))
        share_N, works_N = np.zeros(len(kind_N)), machines.able_N.copy()
        for kind, count in enumerate(found.servers_K.tolist()):
            serving = prefer[kind_N[prefer] == kind][:count]
            works_N[serving] = False
            share_N[serving[: int(found.holding_K[kind])]] = found.server_bytes_K[kind]
        return Choice(works_N, share_N / share_N.sum(), found.epoch_s / _EPOCH)

    def takes_s(self, machines: TaskMachines, now: Choice, model_bytes: int, tasks: int) -> float:
        """Return the epoch of (3.4), in rounds of as many tasks, with the best splits.

        A machine that works and serves counts for two, each with the whole link.
        """
        workers, servers = np.flatnonzero(now.works_N), np.flatnonzero(now.share_N)
        both = np.concatenate([workers, servers])
        task_s_N = np.concatenate([machines.task_s_N[workers], np.full(len(servers), np.inf)])
        kinds, kind_N = kinds_of(task_s_N, machines.rate_N[both], machines.devices_N[both])
        servers_K = np.bincount(kind_N[len(workers) :], minlength=len(kinds.count_K))
        epoch = self._epoch(model_bytes, tasks)
        return best_shape(kinds, epoch, servers_K=servers_K).epoch_s / _EPOCH

    def _epoch(self, model_bytes: int, tasks: int) -> Epoch:
        return Epoch(
            items=_EPOCH * tasks, model_bytes=float(model_bytes), batch=1, round_items=None,
            ways=1, reading=self.reading,
        )  # fmt: skip


def _hosts_of(shape: Shape) -> frozenset[int]:
    """Return the hosts of a shape's workers and servers."""
    return frozenset((*shape.servers, *(shape.workers or ())))


def _model_bytes(view: View, job: int) -> int:
    """Return the bytes of a job's model; 0: not known."""
    known = view.costs.model_bytes_J
    return 0 if known is None or view.jobs[job].sync == "ring" else int(known[job])


def _serves(view: View, job: int, shape: Shape) -> bool:
    """Tell whether a job's servers are those of a shape already, so that none moves."""
    now = view.shape_J[job]
    sizes = None if now is None else now.model_bytes
    return shape.servers == view.servers_J[job] and shape.model_bytes == sizes


def _standing(view: View, job: int) -> Shape:
    """Return the shape that a job has, with the servers that it has without any, too."""
    shape = view.shape_J[job]
    if shape is None:
        return Shape(None, view.servers_J[job], None)
    return Shape(shape.workers, view.servers_J[job], shape.model_bytes)


def _still_to_compare(
    before: Map[int, tuple[Shape, float]], view: View
) -> Map[int, tuple[Shape, float]]:
    """Return the shapes that jobs left, less those of which the servers never went elsewhere."""
    for event in view.changes:
        if isinstance(event, RolledBack) or (isinstance(event, ServersMoved) and event.reason):
            before = without(before, event.job)
    return before


def _whole(shares: list[float], model_bytes: int) -> tuple[int, ...]:
    """Return whole bytes in proportion to shares, which sum to the model."""
    ends = np.round(np.cumsum(shares) / sum(shares) * model_bytes).astype(np.int64)
    return tuple(np.diff(ends, prepend=0).tolist())


def _words(found: Choice) -> str:
    """Return the numbers of working and serving hosts, in words."""
    serves_N = found.share_N > 0
    both, works = int((found.works_N & serves_N).sum()), int((found.works_N & ~serves_N).sum())
    alone = int((serves_N & ~found.works_N).sum())
    parts = [f"{both} hosts that do both"] * (both > 0)
    parts += [f"{works} that work"] * (works > 0) + [f"{alone} that serve"] * (alone > 0)
    return " and ".join(parts)
