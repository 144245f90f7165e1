"""Bytes on the links of hosts: flows that begin, share links, and end.

Each host has an uplink and a downlink. A transfer between two hosts is a flow over the uplink of
one and the downlink of the other; transfers of one job between the same two hosts that begin
together are one flow that stands for several. A ring is one flow over all its links. Rates are
max-min fair within a class (``warren.solve.flows``), and what has changed at an instant is shared
once, when all of the instant is known. A flow goes on at its rate until it ends or that changes.

A transfer waits ``network.latency`` for its first byte. Within a host it has ``intra`` for itself,
which is no link, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final, Protocol

from warren.cost.run_rings import fluid_network
from warren.model.decision import CLASSES
from warren.model.link_use import LinkUse, LinkUseRecorder
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S, seconds_to_ns
from warren.sim.lanes import Lanes
from warren.sim.network.timers import Timers
from warren.solve.flows.classes import FlowClasses, strict_classes, weighted_classes
from warren.solve.flows.link_sharing import LinkSharing, NewFlow

_NOBODY: Final = -1


class Arrival(Protocol):
    """What waits for bytes."""

    def arrived(self, now: int) -> None:
        """Take note that one of its transfers has arrived."""
        ...


class LinkFlow:
    """A flow: ``left_bytes`` of each of its transfers were left at ``since_ns``.

    ``source``: the host that sends it; -1 for a ring, which all its hosts do.
    """

    __slots__ = (
        "_flows",
        "arrivals",
        "byte_rate",
        "cap",
        "flow_class",
        "job",
        "left_bytes",
        "links",
        "number",
        "since_ns",
        "source",
        "timer",
    )

    def __init__(
        self,
        flows: LinkFlows,
        job: int,
        links: tuple[int, ...],
        byte_count: float,
        arrivals: Sequence[Arrival],
        *,
        source: int = -1,
        cap: float = inf,
    ) -> None:
        self._flows = flows
        self.job = job
        self.source = source
        self.links = links
        self.left_bytes = byte_count
        self.arrivals = arrivals
        self.cap = cap
        self.flow_class = 0
        self.number = _NOBODY
        self.byte_rate = 0.0
        self.since_ns = 0
        self.timer = 0

    def due(self, now: int) -> None:
        """End: all its bytes have arrived."""
        self._flows.end(self, now)
        for one in self.arrivals:
            one.arrived(now)


class Alone(Protocol):
    """A job that counts on being alone on ``links``, and takes equal rounds in one step there."""

    job: int
    links: tuple[int, ...]

    def part(self, now: int) -> None:
        """Go back to the round at hand, since others have come to the links."""
        ...


class _FirstBytes:
    """Flows that have waited for their first byte."""

    __slots__ = ("_add", "_flows", "timer")

    def __init__(self, flows: list[LinkFlow], add: Callable[[LinkFlow], None]) -> None:
        self._flows = flows
        self._add = add
        self.timer = 0

    def due(self, now: int) -> None:
        """Let their bytes flow."""
        for flow in self._flows:
            self._add(flow)


class _Unshared:
    """A transfer that shares nothing: between processes of one host, or of no bytes."""

    __slots__ = ("_arrival", "timer")

    def __init__(self, arrival: Arrival) -> None:
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
    records
        Whether bytes are added up by link, job, class and time from the beginning; else from
        where a class is answered.

    ``timers``: what is due when; the other parts of the simulation have theirs here, too.
    """

    __slots__ = (
        "_alone_L",
        "_begun",
        "_class_J",
        "_classes",
        "_flow_F",
        "_gone",
        "_host_class",
        "_hosts",
        "_inner_S",
        "_lanes",
        "_latency_ns",
        "_moved",
        "_new",
        "_on_L",
        "_recorder",
        "_sharing",
        "timers",
    )

    def __init__(self, run: Run, lanes: Lanes, *, records: bool) -> None:
        network = fluid_network(run.cluster)
        stated = run.cluster.network
        self._lanes = lanes
        self.timers = Timers()
        self._hosts = len(run.cluster.hosts)
        self._inner_S: list[float] = network.inner_bytes_per_s_S.tolist()
        self._latency_ns = seconds_to_ns(stated.latency_s)
        self._classes = _classes_of(stated.class_weights)
        # All flows are of class 0 until somebody says otherwise: then one rank is all there is.
        self._sharing = LinkSharing(network.capacity_L, strict_classes(1))
        self._class_J = [0 for _ in run.workload.jobs]
        self._host_class: dict[tuple[int, int], int] = {}
        self._flow_F: dict[int, LinkFlow] = {}
        # How many flows are on each link, and who counts on being alone there.
        self._on_L = [0 for _ in range(2 * self._hosts)]
        self._alone_L: dict[int, Alone] = {}
        # What changes at this instant.
        self._begun: dict[tuple[int, int, int, float], list[Arrival]] = {}
        self._new: list[LinkFlow] = []
        self._gone: list[int] = []
        self._moved: list[LinkFlow] = []
        self._recorder = LinkUseRecorder(self._hosts) if records else None

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
            self.timers.set(_Unshared(arrival), self._lanes.now_ns + takes_ns)
        return takes_ns > 0

    def add(self, flow: LinkFlow) -> None:
        """Let a flow begin now, without latency."""
        self._new.append(flow)

    def end(self, flow: LinkFlow, now: int) -> None:
        """Take a flow whose last byte has arrived off its links."""
        if self._recorder is not None:
            self._record(flow, now, flow.left_bytes)
        del self._flow_F[flow.number]
        self._gone.append(flow.number)
        for link in flow.links:
            self._on_L[link] -= 1

    def is_free(self, links: Sequence[int]) -> bool:
        """Tell whether no bytes flow over any of these links, and nobody counts on that."""
        return not any(self._on_L[link] or link in self._alone_L for link in links)

    def be_alone(self, one: Alone) -> None:
        """Let a job know when others come to its links, which are free."""
        self._alone_L.update(dict.fromkeys(one.links, one))

    def leave_alone(self, one: Alone) -> None:
        """Let a job not know any more."""
        for link in one.links:
            del self._alone_L[link]

    def note_bytes(
        self, job: int, links: Sequence[int], begin_ns: int, end_ns: int, byte_count: float
    ) -> None:
        """Add up bytes that have passed these links of a job alone."""
        if self._recorder is not None and byte_count > 0:
            numbers = self._record_links(links)
            flow_class = self._class_J[job]
            self._recorder.add(numbers, job, flow_class, begin_ns, end_ns, byte_count)

    def next_ns(self, others_ns: int) -> int:
        """Return the next instant at which something is due here.

        What has changed now is shared before time passes, to there or to ``others_ns``, the next
        instant of all others.
        """
        first_ns = self.timers.next_ns()
        now = self._lanes.now_ns
        while min(first_ns, others_ns) > now and (
            self._begun or self._new or self._gone or self._moved
        ):
            self._begin()
            self._share(now)
            first_ns = self.timers.next_ns()
        return first_ns

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Give the bytes of jobs their classes, those under way included.

        Classes of ``host_classes``, by (host, job), hold for what that host sends.
        """
        if len(self._sharing.state.rank_K) == 1:
            self._tell_classes_apart()
        now = self._lanes.now_ns
        # What has been sent alone so far was of the old class.
        for alone in [one for one in dict.fromkeys(self._alone_L.values()) if one.job in classes]:
            alone.part(now)
        for flow in self._new:
            flow.flow_class = self._class_of(flow)
            self._pass_bytes(flow, now)
        for job, flow_class in classes.items():
            self._class_J[job] = flow_class
        for key in [key for key in self._host_class if key[1] in classes]:
            del self._host_class[key]
        self._host_class.update(host_classes)
        for flow in self._flow_F.values():
            flow_class = self._class_of(flow)
            if flow_class != flow.flow_class:
                # What has passed so far was of the old class.
                self._pass_bytes(flow, now)
                flow.flow_class = flow_class
                self._moved.append(flow)

    def link_use(self) -> LinkUse | None:
        """Return which bytes passed each link when; None: that was not added up."""
        return None if self._recorder is None else self._recorder.use()

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
            LinkFlow(self, job, (source, self._hosts + target), size, arrivals, source=source)
            for (job, source, target, size), arrivals in self._begun.items()
        ]
        self._begun = {}
        if self._latency_ns:
            self.timers.set(_FirstBytes(flows, self.add), self._lanes.now_ns + self._latency_ns)
        else:
            self._new += flows

    def _share(self, now: int) -> None:
        """Share the links anew after all that has changed at this instant."""
        if self._alone_L:
            self._part(now)
        new, self._new = self._new, []
        gone, self._gone = self._gone, []
        moved, self._moved = self._moved, []
        if not (new or gone or moved):
            return
        for flow in new:
            flow.flow_class = self._class_of(flow)
        numbers, changed_N = self._sharing.change(
            gone=gone,
            moved=[(flow.number, flow.flow_class) for flow in moved],
            new=[NewFlow(f.links, f.flow_class, len(f.arrivals), f.cap) for f in new],
        )
        flow_F = self._flow_F
        for number, flow in zip(numbers, new, strict=True):
            flow.number = number
            flow_F[number] = flow
            for link in flow.links:
                self._on_L[link] += 1
            # Who has been alone so far has sent already.
            if flow.byte_rate:
                self._set_rate(flow, self._sharing.rate_F.item(number), now)
            else:
                flow.since_ns = now
        rates = self._sharing.rate_F[changed_N].tolist()
        for number, byte_rate in zip(changed_N.tolist(), rates, strict=True):
            self._set_rate(flow_F[number], byte_rate, now)

    def _part(self, now: int) -> None:
        """Tell jobs that counted on being alone on their links who begins to send there."""
        # Who is told may begin to send itself, over links of his own alone.
        for flow in list(self._new):
            for link in flow.links:
                alone = self._alone_L.get(link)
                if alone is not None and alone.job != flow.job:
                    alone.part(now)

    def _set_rate(self, flow: LinkFlow, byte_rate: float, now: int) -> None:
        """Let what is left of a flow go on at this rate."""
        # The end of an unchanged rate stays as it is: computed again from what is left, it could
        # move by a rounding.
        if byte_rate == flow.byte_rate:
            return
        self._pass_bytes(flow, now)
        flow.byte_rate = byte_rate
        if byte_rate > 0:
            left_ns = flow.left_bytes / byte_rate * NS_PER_S
            self.timers.set(flow, now + (round(left_ns) if left_ns < NEVER_NS else NEVER_NS))
        else:
            self.timers.cancel(flow)

    def _pass_bytes(self, flow: LinkFlow, now: int) -> None:
        """Take off a flow what it has sent until now."""
        if now > flow.since_ns:
            sent = min(flow.left_bytes, flow.byte_rate * ((now - flow.since_ns) / NS_PER_S))
            if self._recorder is not None:
                self._record(flow, now, sent)
            flow.left_bytes -= sent
            flow.since_ns = now

    def _record(self, flow: LinkFlow, now: int, byte_count: float) -> None:
        """Add up bytes that have passed the links of a flow since they were last."""
        assert self._recorder is not None, "asked before"
        if byte_count > 0:
            links = self._record_links(flow.links)
            byte_count *= len(flow.arrivals)
            self._recorder.add(links, flow.job, flow.flow_class, flow.since_ns, now, byte_count)

    def _record_links(self, links: Sequence[int]) -> list[int]:
        """Return the numbers of links in records, where up and down of a host are neighbours."""
        return [2 * (link % self._hosts) + link // self._hosts for link in links]

    def _tell_classes_apart(self) -> None:
        """Put all flows on links that know classes, in the class that all of them had so far."""
        sharing = LinkSharing(self._sharing.state.capacity_L, self._classes)
        flows = list(self._flow_F.values())
        numbers, _ = sharing.change(
            new=[NewFlow(flow.links, 0, len(flow.arrivals), flow.cap) for flow in flows]
        )
        # Flows that end now are not on the new links.
        self._gone = []
        self._flow_F = dict(zip(numbers, flows, strict=True))
        self._sharing = sharing
        for number, flow in self._flow_F.items():
            flow.number = number
            self._set_rate(flow, sharing.rate_F.item(number), self._lanes.now_ns)


def _classes_of(weights: tuple[float, ...] | None) -> FlowClasses:
    """Return how classes share: one before the next, or by the weights of all but the first."""
    return strict_classes(CLASSES) if weights is None else weighted_classes([1.0, *weights])
