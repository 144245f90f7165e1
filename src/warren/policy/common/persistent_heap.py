"""A line of waiting jobs as a value: who is first is found, added and taken in O(log n).

A policy's memory is passed by value, so a line is never changed: ``put`` and ``take`` give another
one that shares most of the first (a leftist heap; Crane, 1972). Ten thousand jobs cost a policy no
more than a dozen small tuples a decision.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeAlias, TypeVar

Entry: TypeAlias = tuple[float, int]
"""(key, job): the least is first; equal keys go by the job's index, which is its arrival."""

E = TypeVar("E", bound=tuple[float, ...])
"""What stands in a line: ``Entry``, or another tuple of numbers that ends with the job."""


class PersistentHeap(NamedTuple, Generic[E]):
    """The first of a line, and two lines that hold the others; ``rank``: way to the nearest end."""

    rank: int
    first: E
    left: PersistentHeap[E] | None
    right: PersistentHeap[E] | None


def put(line: PersistentHeap[E] | None, entry: E) -> PersistentHeap[E]:
    """The line with one entry more."""
    return _joined(line, PersistentHeap(1, entry, None, None))


def take(line: PersistentHeap[E]) -> tuple[E, PersistentHeap[E] | None]:
    """The first entry, and the line without it."""
    if line.right is None:
        return line.first, line.left
    assert line.left is not None, "the left side is at least as deep"
    return line.first, _joined(line.left, line.right)


def entries(line: PersistentHeap[E] | None) -> list[E]:
    """All of them, first to last; for a sentence, not for a decision."""
    found, open_ = list[E](), [line]
    while open_:
        one = open_.pop()
        if one is not None:
            found.append(one.first)
            open_ += [one.left, one.right]
    return sorted(found)


def _joined(one: PersistentHeap[E] | None, other: PersistentHeap[E]) -> PersistentHeap[E]:
    """Both lines in one; goes down their right sides, which are short."""
    path: list[PersistentHeap[E]] = []
    rest: PersistentHeap[E] | None = other
    while one is not None and rest is not None:
        if rest.first < one.first:
            one, rest = rest, one
        path.append(one)
        one = one.right
    joined = one if rest is None else rest
    assert joined is not None, "one of both is a line"
    for above in reversed(path):
        left = above.left
        if left is None:
            joined = PersistentHeap(1, above.first, joined, None)
        elif left.rank < joined.rank:
            joined = PersistentHeap(left.rank + 1, above.first, joined, left)
        else:
            joined = PersistentHeap(joined.rank + 1, above.first, left, joined)
    return joined
