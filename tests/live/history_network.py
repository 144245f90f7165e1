"""A virtual network: links and hubs as processes see them, and what is on its way between them.

Each direction of a connection is first in, first out, as TCP is; between connections a world
decides what comes first (``Wire.deliver``). Of one whose end is gone a rest may be lost, and what
is sent to an end that is gone is.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

Frame = tuple[Any, list[memoryview]]
_END: Any = object()
"""The last that comes over a wire whose other end is gone."""


class Owner(Protocol):
    """A process, as the network knows it."""

    name: str
    host: int
    incoming: dict[Wire, None]

    def woken(self) -> None:
        """It has something to read."""

    def expects(self) -> None:
        """Something is on its way to it."""


class Wire:
    """One direction of a connection, to ``owner``: ``flying`` is on its way to ``inbox``."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.flying: deque[Frame] = deque()
        self.inbox: deque[Frame] = deque()
        self.open = True
        self.held_until = 0
        self.hosts: frozenset[int] = frozenset()

    def send(self, message: Any, buffers: tuple[Any, ...] = ()) -> None:
        """Send what may still be changed afterwards."""
        if self.open:
            self.flying.append((message, [memoryview(bytearray(one)) for one in buffers]))
            self.owner.incoming[self] = None
            self.owner.expects()

    def deliver(self, count: int) -> None:
        """Let the first ``count`` messages arrive."""
        for _ in range(min(count, len(self.flying))):
            self.inbox.append(self.flying.popleft())
        if not self.flying:
            self.owner.incoming.pop(self, None)
        self.owner.woken()

    def end(self, draw: random.Random) -> None:
        """Whoever sent is gone; half the time some of what it sent last is, too."""
        if self.open:
            if self.flying and draw.random() < 0.5:
                for _ in range(draw.randint(1, len(self.flying))):
                    self.flying.pop()
            self.send(_END)
            self.open = False

    def drop(self) -> None:
        """Whoever was to hear is gone."""
        self.open = False
        self.flying.clear()
        self.inbox.clear()
        self.owner.incoming.pop(self, None)


class VirtualPoller:
    """Knows what a process waits for. ``wait`` does the waiting."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self.sources: dict[Any, None] = {}
        self._wait = wait

    def register(self, source: Any) -> None:
        self.sources[source] = None

    def unregister(self, source: Any) -> None:
        self.sources.pop(source, None)

    def ready(self) -> set[Any]:
        """What can be read; a lifeline never can."""
        return {one for one in self.sources if not isinstance(one, int) and one.readable}

    def poll(self, timeout_ms: float | None = None) -> set[Any]:
        if timeout_ms != 0 and not self.ready():
            self._wait(timeout_ms)
        return self.ready()

    def close(self) -> None:
        self.sources.clear()


class VirtualLink:
    """The connecting side of a connection; see ``transport.sockets.Link``."""

    def __init__(self, network: Network, owner: Owner, address: str, *, far: bool = False) -> None:
        self.far = far
        self.address = address
        self.owner = owner
        self._network = network
        self._early: list[Frame] = []
        self._closed = False
        # A way to another host is lost with the process there. On one host nobody minds.
        self.lost = False
        self.down = Wire(owner)
        self.up: Wire | None = None
        self.peer = b""
        network.connect(self)

    @property
    def readable(self) -> bool:
        return bool(self.down.inbox)

    def connected(self, up: Wire, peer: bytes) -> None:
        """Somebody listens: what was sent before is on its way now."""
        self.up, self.peer = up, peer
        for message, buffers in self._early:
            up.send(message, tuple(buffers))
        self._early.clear()

    def mark(self, flow_class: int) -> None:
        """Classes are of real links."""

    def send(self, message: Any, *buffers: Any) -> None:
        self._network.saw(self.owner, message)
        if self.up is not None:
            self.up.send(message, buffers)
        elif not self._closed:
            self._early.append((message, [memoryview(bytearray(one)) for one in buffers]))

    def drain(self) -> Iterator[Frame]:
        inbox = self.down.inbox
        while inbox:
            message, buffers = inbox.popleft()
            if message is not _END:
                yield message, buffers
            elif self.far and self._network.ways_break:
                self.lost = True

    def close(self) -> None:
        self._closed = True
        self.down.drop()
        if self.up is not None:
            self.up.end(self._network.draw)
        else:
            self._network.forget(self)


class VirtualHub:
    """The listening side of connections; see ``transport.sockets.Hub``."""

    def __init__(self, network: Network, owner: Owner, address: str) -> None:
        self.owner = owner
        self.address = address
        self._network = network
        self.links: dict[bytes, tuple[Wire, VirtualLink]] = {}
        self.refused: set[bytes] = set()
        self._ids = 0
        network.listen(self)

    @property
    def readable(self) -> bool:
        return any(up.inbox for up, _ in self.links.values())

    def take(self, link: VirtualLink) -> None:
        """A link connects."""
        self._ids += 1
        peer, up = self._ids.to_bytes(4, "little"), Wire(self.owner)
        up.hosts = link.down.hosts = frozenset({self.owner.host, link.owner.host})
        self.links[peer] = up, link
        link.connected(up, peer)

    def is_far(self, peer: bytes) -> bool:
        return self.links[peer][1].far if peer in self.links else False

    def mark(self, flow_class: int) -> None:
        """Classes are of real links."""

    def send(self, peer: bytes, message: Any, *buffers: Any) -> bool:
        if peer not in self.links:
            return False
        self._network.saw(self.owner, message)
        self.links[peer][1].down.send(message, buffers)
        return True

    def refuse(self, peer: bytes) -> None:
        """Hear a peer no more."""
        self.refused.add(peer)

    def drain(self) -> Iterator[tuple[bytes, Any, list[memoryview]]]:
        """Peers come in any order, and what one has sent in its own."""
        found = [(peer, up.inbox) for peer, (up, _) in self.links.items() if up.inbox]
        self._network.draw.shuffle(found)
        for peer, inbox in found:
            while inbox:
                message, buffers = inbox.popleft()
                if message is _END:
                    del self.links[peer]
                elif peer not in self.refused:
                    yield peer, message, buffers

    def close(self) -> None:
        for up, link in self.links.values():
            up.drop()
            link.down.end(self._network.draw)


class Network:
    """Who listens where, and who waits for that. ``saw`` is told all that is sent."""

    def __init__(
        self, draw: random.Random, saw: Callable[[Owner, Any], None], *, ways_break: bool = False
    ) -> None:
        self.draw = draw
        self.saw = saw
        self.ways_break = ways_break
        self.knows: Callable[[VirtualLink], bool] = lambda link: True
        self._hubs: dict[str, VirtualHub] = {}
        self._waiting: dict[str, list[VirtualLink]] = {}
        self._ends: dict[str, list[VirtualLink | VirtualHub]] = {}

    def listen(self, hub: VirtualHub) -> None:
        assert hub.address not in self._hubs, f"somebody has listened at {hub.address}"
        self._hubs[hub.address] = hub
        self._ends.setdefault(hub.owner.name, []).append(hub)
        self.look_up(hub.address)

    def look_up(self, address: str) -> None:
        """Let those connect who know by now where somebody listens."""
        waiting = self._waiting.pop(address, [])
        for link in waiting:
            self.connect(link, again=True)

    def connect(self, link: VirtualLink, *, again: bool = False) -> None:
        if not again:
            self._ends.setdefault(link.owner.name, []).append(link)
        hub = self._hubs.get(link.address)
        if hub is None or not self.knows(link):
            self._waiting.setdefault(link.address, []).append(link)
        # Nobody comes back to an address whose owner is gone.
        elif hub.owner.name in self._ends:
            hub.take(link)

    def forget(self, link: VirtualLink) -> None:
        """A link that has never been connected is closed."""
        waiting = self._waiting.get(link.address, [])
        if link in waiting:
            waiting.remove(link)

    def ended(self, owner: Owner) -> None:
        """A process is gone, and its ends of all connections with it."""
        for end in self._ends.pop(owner.name, []):
            end.close()
