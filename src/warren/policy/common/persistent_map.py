"""Notes by key as a value: what a policy remembers of each job, or of each kind of job.

A policy's memory is passed by value, so a note is never changed: ``noted`` gives other notes. They
share all but the latest with the first: of n notes about the square root of n are copied a time,
which is a microsecond for ten thousand.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LEAST: Final = 64
"""Square of how many latest notes are kept apart at least."""


@dataclass(frozen=True, slots=True)
class PersistentMap(Generic[K, V]):
    """A map as a value: ``latest`` goes before ``older``, and neither is ever changed.

    A None in ``latest`` hides what ``older`` has under the key.
    """

    older: Mapping[K, V] = field(default_factory=dict)
    latest: Mapping[K, V | None] = field(default_factory=dict)

    def get(self, key: K) -> V | None:
        """Return what was noted last under a key; None: nothing."""
        return self.latest[key] if key in self.latest else self.older.get(key)

    def noted(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return this map with a value under a key, in place of what was there."""
        return self._with(key, value)

    def forgotten(self, key: K) -> PersistentMap[K, V]:
        """Return this map without what was noted under a key."""
        return self._with(key, None)

    def _with(self, key: K, value: V | None) -> PersistentMap[K, V]:
        """Return this map with a note more; both parts are merged when the latest are too many."""
        # Copying the latest costs as much as there are; merging costs all, but only once in so
        # many notes. Both cost the same on average where the latest are the square root of all.
        latest = {**self.latest, key: value}
        if len(latest) ** 2 <= _LEAST + len(self.older):
            return PersistentMap(self.older, latest)
        both = {**self.older, **latest}
        return PersistentMap({key: value for key, value in both.items() if value is not None})
