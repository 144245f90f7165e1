"""Events to come: a heap of instants, and the events of each in the order they were added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from warren.model.events import RANK, AnyEvent


class EventQueue:
    """The events to come, in the total order (time, rank, sequence) of docs/decisions/0002.

    Most events share their instant with another one. So the heap holds instants, which are whole
    numbers, and what was added first among equals stays first.
    """

    __slots__ = ("_events", "_times_ns")

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._events: dict[int, list[AnyEvent]] = {}

    def __bool__(self) -> bool:
        return bool(self._times_ns)

    def __iter__(self) -> Iterator[AnyEvent]:
        """Yield all events, in no order of time."""
        return (event for events in self._events.values() for event in events)

    @property
    def first_ns(self) -> int:
        """Return the next instant; the queue must not be empty."""
        return self._times_ns[0]

    def add(self, event: AnyEvent) -> None:
        """Add one more event."""
        time_ns = event.time_ns
        events = self._events.get(time_ns)
        if events is None:
            self._events[time_ns] = [event]
            heappush(self._times_ns, time_ns)
        else:
            events.append(event)

    def take(self) -> tuple[AnyEvent, ...]:
        """Take out all events of the next instant, by (rank, sequence)."""
        events = self._events.pop(heappop(self._times_ns))
        # The sort is stable, so the sequence need not be stored.
        if len(events) > 1:
            events.sort(key=_rank)
        return tuple(events)

    def drop(self, is_meant: Callable[[AnyEvent], bool]) -> None:
        """Take back events that will not happen."""
        for time_ns, events in list(self._events.items()):
            events[:] = [event for event in events if not is_meant(event)]
            # An instant without events must not stay in the heap: ``take`` would deliver it.
            if not events:
                del self._events[time_ns]
        self._times_ns = list(self._events)
        heapify(self._times_ns)


def _rank(event: AnyEvent) -> int:
    """Return what an event is sorted by among those of its instant."""
    return RANK[type(event)]
