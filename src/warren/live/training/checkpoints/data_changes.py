"""Find what a barrier changes in the data set, such as an epoch, which tasks have for themselves.

Data are no state: no checkpoint has them, and a task has the data set of its own process. Only the
parts that the barrier's code can reach are watched, and they are kept alive by nothing here alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import is_
from types import CellType
from typing import Any, Final

import numpy as np
from torch import Tensor

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.checkpoints.barrier_objects import BarrierObjects
from warren.live.training.isolation.kept_values import GENERATORS, KeptValue, content, is_a
from warren.live.training.isolation.reachable_values import reachable_from

_SMALL_BYTES: Final = 1 << 16
"""Size in bytes up to which content is compared after each step, and not after some."""
_LEAVES: Final = 100
"""Most values whose content is compared after each step."""


FIXED_DATA: Final = (
    "and data change for no task; draw in __getitem__, since each task seeds the generators, "
    "change samples in loss() by a buffer of the model, or name it in scratch where no result "
    "depends on it"
)
"""The reason and the advice for a data set that something beside tasks changes."""


class DataChanges:
    """Watches, from the build on, those parts of the data set that a barrier reaches.

    ``left``: returns what tasks and evaluations have left there in this process.
    """

    def __init__(
        self, built: BuiltApp, objects: BarrierObjects, left: Callable[[], Iterable[KeptValue]]
    ) -> None:
        self._left = left
        self._built = replace(built, dataset=None)
        self._roots = objects.data
        # The app, if the data set holds it, is watched with all that the barrier reaches.
        self._others = {known.home for known in objects.at.values()}
        reached = reachable_from(self._built, self._roots)
        self._first = self._own(reached.found)
        own = {id(one.holder) for one in self._first.values()}
        self._held = [(one, _held(one)) for at, one in reached.holders.items() if at in own]
        small = [one.value for one in self._first.values() if _is_small(one.value)]
        self._leaves = [(one, content(one)) for one in small[:_LEAVES]]

    def changed(self, looked_at: bool) -> Iterator[str]:
        """Yield the name of each value that is another than at first, and not left by others.

        ``looked_at``: compare the content of large values too.
        """
        if not self._roots or not (looked_at or self._is_changed()):
            return
        now = self._own(reachable_from(self._built, self._roots).found)
        left = {(id(one.holder), one.key) for one in self._left()}
        filled = {holder for holder, _ in left}
        for name, one in sorted((self._first | now).items()):
            place = id(one.holder)
            same = name in now and name in self._first and one.mark == self._first[name].mark
            # Into a container of theirs, such as a cache, tasks may put more later.
            if not (same or (place, one.key) in left or (name[-1] == "]" and place in filled)):
                yield name

    def _own(self, found: dict[str, KeptValue]) -> dict[str, KeptValue]:
        return {name: one for name, one in found.items() if id(one.holder) not in self._others}

    def _is_changed(self) -> bool:
        """Tell, in a moment, whether something was replaced, added, removed, or is small."""
        for holder, values in self._held:
            now = _held(holder)
            if len(now) != len(values) or not all(map(is_, now, values)):
                return True
        return any(content(one) != before for one, before in self._leaves)


def _held(holder: Any) -> list[Any]:
    """Return the values that a holder has now; of odd ones none."""
    if is_a(holder, dict):
        return list(dict.values(holder))
    if is_a(holder, list, tuple, deque):
        return list(holder)
    return [holder.cell_contents] if is_a(holder, CellType) else []


def _is_small(value: Any) -> bool:
    return is_a(value, *GENERATORS) or (
        is_a(value, Tensor, np.ndarray) and value.nbytes <= _SMALL_BYTES
    )
