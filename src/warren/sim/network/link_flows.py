"""Bytes on the links of hosts: flows that begin, share links, and end.

Each host has an uplink and a downlink. A transfer between two hosts is a flow over the uplink of
one and the downlink of the other; transfers of one job between the same two hosts that begin
together are one flow that stands for several. A ring is one flow over all its links. Rates are
max-min fair within a class (``warren.solve.flows``), and changes of an instant are shared once,
when all of the instant is known. A flow goes on at its rate until it ends or that changes.

A transfer waits ``network.latency`` for its first byte. Within a host it has ``intra`` for itself,
which is no link, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import inf
from typing import Final, Protocol

from warren.cost.run_rings import fluid_network
from warren.model.decision import CLASSES
from warren.model.link_use import LinkUse, LinkUseRecorder
from warren.model.run import Run
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.sim.lanes import Lanes
from warren.sim.network.round_delays import RoundDelays
from warren.sim.network.timers import Timers
from warren.sim.parts import IDLE_NS
from warren.solve.flows.classes import strict_classes, weighted_classes
from warren.solve.flows.link_sharing import NewFlow
from warren.solve.flows.timed_flows import NO_END_NS, TimedFlows

_NOTED: Final = 2**13
"""Intervals with passed bytes that are noted before they are added up."""


class Arrival(Protocol):
    """A receiver of bytes."""

    def arrived(self, now: int) -> None:
        """Note that one of its transfers has arrived."""
        ...


class LinkFlow:
    """A flow of ``byte_count`` bytes over some links, for each of its ``arrivals``.

    ``source``: the host that sends it; -1 for a ring, which all its hosts send. ``cap``: its
    highest rate, in bytes a second. ``number``: among ``TimedFlows``; -1 before it is there.
    ``sent``: its rate, the time since which it has it, and its end so far, if it has sent before.
    """

    __slots__ = (
        "arrivals",
        "byte_count",
        "cap",
        "flow_class",
        "job",
        "links",
        "number",
        "sent",
        "source",
    )

    def __init__(
        self,
        job: int,
        links: tuple[int, ...],
        byte_count: float,
        arrivals: Sequence[Arrival],
        *,
        source: int = -1,
        cap: float = inf,
        sent: tuple[float, int, int] | None = None,
    ) -> None:
        self.job = job
        self.links = links
        self.byte_count = byte_count
        self.arrivals = arrivals
        self.source = source
        self.cap = cap
        self.sent = sent
        self.flow_class = 0
        self.number = -1


class Alone(Protocol):
    """A job that counts on being alone on ``links``, and takes equal rounds in one step there."""

    job: int
    links: tuple[int, ...]

    def part(self, now: int) -> None:
        """Go back to the round at hand, since other bytes use the links now."""
        ...


class _FirstBytes:
    """Flows that wait for their first byte."""

    __slots__ = ("_add", "_flows", "timer")

    def __init__(self, flows: list[LinkFlow], add: Callable[[LinkFlow], None]) -> None:
        self._flows = flows
        self._add = add
        self.timer = 0

    def due(self, now: int) -> None:
        """Start their flows."""
        for flow in self._flows:
            self._add(flow)

    def forget(self, job: int) -> None:
        """Leave out the flows of a job."""
        self._flows = [flow for flow in self._flows if flow.job != job]


class _Unshared:
    """A transfer that shares nothing: between processes of one host, or of no bytes."""

    __slots__ = ("_arrival", "job", "timer")

    def __init__(self, job: int, arrival: Arrival) -> None:
        self.job = job
        self._arrival = arrival
        self.timer = 0

    def due(self, now: int) -> None:
        """Arrive."""
        self._arrival.arrived(now)


class LinkFlows:
    """The links of a run's hosts, and all that flows over them.

    Parameters
    ----------
    run
        Its cluster has the links, and how classes share them.
    lanes
        What time it is.
    tells_classes
        Whether bytes may be of any class; else all are of class 0, and one rank is all there is.

    ``timers``: actions by their due time, also those of the other parts of the simulation.
    ``delays``: of rounds, so that bytes meet less.
    """

    __slots__ = (
        "_alone_L",
        "_begun",
        "_class_J",
        "_flow_F",
        "_host_class",
        "_hosts",
        "_inner_S",
        "_lanes",
        "_latency_ns",
        "_new",
        "_on_L",
        "_recorder",
        "_timed",
        "delays",
        "timers",
    )

    def __init__(self, run: Run, lanes: Lanes, *, tells_classes: bool) -> None:
        network = fluid_network(run.cluster)
        stated = run.cluster.network
        self._lanes = lanes
        self.timers = Timers()
        self.delays = RoundDelays(self.timers)
        self._hosts = len(run.cluster.hosts)
        self._inner_S: list[float] = network.inner_bytes_per_s_S.tolist()
        self._latency_ns = seconds_to_ns(stated.latency_s)
        classes = strict_classes(1)
        if tells_classes:
            weights = stated.class_weights
            classes = strict_classes(CLASSES)
            if weights is not None:
                classes = weighted_classes([1.0, *weights])
        self._timed = TimedFlows(network.capacity_L, classes, notes=True)
        self._recorder = LinkUseRecorder(self._hosts)
        self._class_J = [0 for _ in run.workload.jobs]
        self._host_class: dict[tuple[int, int], int] = {}
        self._flow_F: dict[int, LinkFlow] = {}
        # How many flows are on each link, and which ring counts on being alone there.
        self._on_L = [0 for _ in range(2 * self._hosts)]
        self._alone_L: dict[int, Alone] = {}
        # Flows that begin at this instant.
        self._begun: dict[tuple[int, int, int, float], list[Arrival]] = {}
        self._new: list[LinkFlow] = []

    def transfer(
        self, job: int, source: int, target: int, byte_count: float, arrival: Arrival
    ) -> bool:
        """Begin a transfer between two hosts; False if it takes no time at all and is over."""
        if source != target and byte_count > 0:
            self._begun.setdefault((job, source, target, byte_count), []).append(arrival)
            return True
        takes_ns = self._latency_ns
        if source == target:
            takes_ns = seconds_to_ns(byte_count / self._inner_S[source])
        if takes_ns:
            self.timers.set(_Unshared(job, arrival), self._lanes.now_ns + takes_ns)
        return takes_ns > 0

    def add(self, flow: LinkFlow) -> None:
        """Begin a flow now, without latency."""
        self._new.append(flow)

    def forget(self, job: int) -> None:
        """Stop all bytes of a job, and all else that is due for it: its processes have ended."""
        self._begun = {key: one for key, one in self._begun.items() if key[0] != job}
        self._new = [flow for flow in self._new if flow.job != job]
        for number, flow in self._flow_F.items():
            if flow.job == job:
                flow.arrivals = ()
                self._timed.stop(number, self._lanes.now_ns)
        for what in self.timers.pending():
            if isinstance(what, _FirstBytes):
                what.forget(job)
            elif getattr(what, "job", -1) == job:
                self.timers.cancel(what)
        self.delays.take(job)

    def is_free(self, links: Sequence[int]) -> bool:
        """Tell whether no bytes flow over any of these links, and no job counts on that."""
        return not any(self._on_L[link] or link in self._alone_L for link in links)

    def be_alone(self, one: Alone) -> None:
        """Notify a job when other bytes come to its links, which are free now."""
        self._alone_L.update(dict.fromkeys(one.links, one))

    def leave_alone(self, one: Alone) -> None:
        """Stop notifying a job."""
        for link in one.links:
            del self._alone_L[link]

    def note_bytes(
        self, job: int, links: Sequence[int], begin_ns: int, end_ns: int, byte_count: float
    ) -> None:
        """Add up bytes that have passed these links of a job alone."""
        if byte_count > 0:
            # Records have up and down of a host as neighbors.
            numbers = [2 * (link % self._hosts) + link // self._hosts for link in links]
            flow_class = self._class_J[job]
            self._recorder.add(numbers, job, flow_class, begin_ns, end_ns, byte_count)

    def next_ns(self, others_ns: int) -> int:
        """Return the next instant at which something is due here.

        The changes of now are shared before time passes, to there or to ``others_ns``, the next
        instant of all others.
        """
        now = self._lanes.now_ns
        first_ns = min(self.timers.next_ns(), self._timed.next_ns)
        while min(first_ns, others_ns) > now and (
            self._begun or self._new or self._timed.has_changes
        ):
            self._begin()
            self._share(now)
            first_ns = min(self.timers.next_ns(), self._timed.next_ns)
        return first_ns if first_ns < NO_END_NS else IDLE_NS

    def step(self, now: int) -> None:
        """Do all that is due at ``now``: arrivals first."""
        while self._timed.next_ns <= now:
            for number in self._timed.end(now):
                flow = self._flow_F.pop(number)
                for link in flow.links:
                    self._on_L[link] -= 1
                for one in flow.arrivals:
                    one.arrived(now)
        self.timers.step(now)

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Give the bytes of jobs their classes, those under way included.

        Classes of ``host_classes``, by (host, job), hold for the bytes that the host sends.
        """
        now = self._lanes.now_ns
        # Bytes sent alone so far were of the old class.
        self._part_jobs(classes)
        for flow in self._new:
            if flow.sent is not None:
                byte_rate, since_ns, end_ns = flow.sent
                sent = min(flow.byte_count, byte_rate * ((now - since_ns) / NS_PER_S))
                self.note_bytes(flow.job, flow.links, since_ns, now, sent)
                flow.byte_count, flow.sent = flow.byte_count - sent, (byte_rate, now, end_ns)
        for job, flow_class in classes.items():
            self._class_J[job] = flow_class
        for key in [key for key in self._host_class if key[1] in classes]:
            del self._host_class[key]
        self._host_class.update(host_classes)
        for flow in self._flow_F.values():
            flow_class = self._class_of(flow)
            if flow_class != flow.flow_class:
                flow.flow_class = flow_class
                self._timed.reclassify(flow.number, flow_class)

    def delay(self, delays_ns: Mapping[int, int]) -> None:
        """Note delays of the next rounds of jobs, by job."""
        # Equal rounds in one step would meet no barrier.
        self._part_jobs(delays_ns)
        self.delays.answer(delays_ns)

    def link_use(self) -> LinkUse:
        """Return which bytes passed each link when."""
        self._record()
        return self._recorder.use()

    def _class_of(self, flow: LinkFlow) -> int:
        """Return the class of a flow: that of its job where it is sent."""
        if self._host_class:
            return self._host_class.get((flow.source, flow.job), self._class_J[flow.job])
        return self._class_J[flow.job]

    def _begin(self) -> None:
        """Make flows of the transfers that have begun now; those of one kind are one."""
        if not self._begun:
            return
        flows = [
            LinkFlow(job, (source, self._hosts + target), size, arrivals, source=source)
            for (job, source, target, size), arrivals in self._begun.items()
        ]
        self._begun = {}
        if self._latency_ns:
            self.timers.set(_FirstBytes(flows, self.add), self._lanes.now_ns + self._latency_ns)
        else:
            self._new += flows

    def _share(self, now: int) -> None:
        """Share the links again after all changes of this instant."""
        timed = self._timed
        if self._alone_L:
            self._part(now)
        new, self._new = self._new, []
        for flow in new:
            flow.flow_class = flow_class = self._class_of(flow)
            sharing = NewFlow(flow.links, flow_class, len(flow.arrivals), flow.cap)
            flow.number = number = timed.begin(sharing, flow.byte_count, flow.job, now)
            if flow.sent is not None:
                timed.go_on(number, *flow.sent)
            self._flow_F[number] = flow
            for link in flow.links:
                self._on_L[link] += 1
        if timed.has_changes:
            timed.share(now)
            if timed.noted > _NOTED:
                self._record()

    def _part(self, now: int) -> None:
        """Notify jobs that counted on being alone of the flows that begin on their links."""
        # A job that is asked to part may begin to send too, over links where it alone sends.
        for flow in list(self._new):
            for link in flow.links:
                alone = self._alone_L.get(link)
                if alone is not None and alone.job != flow.job:
                    alone.part(now)

    def _part_jobs(self, jobs: Container[int]) -> None:
        """Make those of these jobs that count on being alone go back to the round at hand."""
        for alone in [one for one in dict.fromkeys(self._alone_L.values()) if one.job in jobs]:
            alone.part(self._lanes.now_ns)

    def _record(self) -> None:
        """Add up the bytes noted as passed."""
        noted = self._timed.passed()
        # Records have up and down of a host as neighbors.
        link_N = 2 * (noted.link_N % self._hosts) + noted.link_N // self._hosts
        self._recorder.add_all(link_N, noted.what_I5, noted.bytes_I)
