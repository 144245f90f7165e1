"""A queue of waiting jobs as a value: the first is found at once, added and taken in O(log n).

A policy's memory is passed by value, so a queue is never changed: ``put`` and ``take`` give another
queue that shares most of the first (a leftist heap; Crane, 1972). Ten thousand jobs cost a policy
no more than a dozen small tuples a decision.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeAlias, TypeVar

Entry: TypeAlias = tuple[float, int]
"""(key, job): the least is first; equal keys go by the job's index, which is its arrival."""

E = TypeVar("E", bound=tuple[float, ...])
"""An entry of a queue: ``Entry``, or another tuple of numbers that ends with the job."""


class PersistentHeap(NamedTuple, Generic[E]):
    """A node of the heap: its least entry, and two heaps that hold the others.

    ``rank`` is the distance to the nearest missing child. Invariants: no entry below is less than
    ``first``, and ``left`` has at least the rank of ``right``, so the right side is short.
    """

    rank: int
    first: E
    left: PersistentHeap[E] | None
    right: PersistentHeap[E] | None


def put(line: PersistentHeap[E] | None, entry: E) -> PersistentHeap[E]:
    """Return the queue with one entry more; None is the empty queue."""
    return _joined(line, PersistentHeap(1, entry, None, None))


def take(line: PersistentHeap[E]) -> tuple[E, PersistentHeap[E] | None]:
    """Return the first entry, and the queue without it (None: empty)."""
    if line.right is None:
        return line.first, line.left
    assert line.left is not None, "the left side is at least as deep"
    return line.first, _joined(line.left, line.right)


def entries(line: PersistentHeap[E] | None) -> list[E]:
    """List all entries, first to last, in O(n log n): for a sentence, not for a decision."""
    found, open_ = list[E](), [line]
    while open_:
        one = open_.pop()
        if one is not None:
            found.append(one.first)
            open_ += [one.left, one.right]
    return sorted(found)


def _joined(one: PersistentHeap[E] | None, other: PersistentHeap[E]) -> PersistentHeap[E]:
    """Merge two heaps along their right sides, which have O(log n) nodes."""
    # Down: the nodes of both right sides in ascending order, until one side ends.
    path: list[PersistentHeap[E]] = []
    rest: PersistentHeap[E] | None = other
    while one is not None and rest is not None:
        if rest.first < one.first:
            one, rest = rest, one
        path.append(one)
        one = one.right
    joined = one if rest is None else rest
    assert joined is not None, "one of both is a line"
    # Up again: a new copy of each node, with the heap of higher rank on its left (Crane's
    # invariant).
    for above in reversed(path):
        left = above.left
        if left is None:
            joined = PersistentHeap(1, above.first, joined, None)
        elif left.rank < joined.rank:
            joined = PersistentHeap(left.rank + 1, above.first, joined, left)
        else:
            joined = PersistentHeap(joined.rank + 1, above.first, left, joined)
    return joined
