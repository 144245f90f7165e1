"""Find state that an app keeps outside its model; hide it, and refuse it where it counts.

Tasks of a job run in any order, each in any process, so the values that one leaves behind may not
depend on earlier ones. If the first tasks of a process leave something, the next one is computed a
second time with all of that undone. Its result, and the values it leaves itself, must be the same.
So a table made once, or a picture of the last attention, may be kept; a counter, a generator and a
running mean may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Final

import numpy as np
from torch import Tensor

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.app_contract import refuse
from warren.live.training.isolation.kept_values import (
    GENERATORS,
    PLAIN,
    KeptValue,
    content,
    is_a,
    now,
    put_back,
    unbind,
)
from warren.live.training.isolation.reachable_values import is_in, reachable
from warren.live.training.tensor_layout import tensors
from warren.model.errors import SpecError
from warren.model.job import Job

_UNKNOWN: Final = "and what a task leaves there may depend on"
_TASKS: Final = 3
"""Number of first tasks of each process that are looked at, and of first rounds of which one is."""


class OutsideState:
    """The values kept outside a model since it was built.

    ``copied``: content is copied, so that changes in place can be undone as well.
    """

    def __init__(self, built: BuiltApp, *, copied: bool = True) -> None:
        self._built = built
        reached = reachable(built, copied=copied)
        self.first, self._holders = reached.found, reached.holders
        self._before: Mapping[str, KeptValue] = {}
        self._hidden: list[tuple[KeptValue, KeptValue | None]] = []
        self.left: dict[str, KeptValue] = {}
        self.stuck: KeptValue | None = None
        """A value that could not be put back."""

    @property
    def holders(self) -> Set[int]:
        """Return the identities of the dicts, lists, classes and cells that hold first values."""
        return self._holders.keys()

    def begin(self) -> None:
        """Note the present values, before user code runs."""
        self._before = reachable(self._built).found

    def note(self) -> tuple[list[KeptValue], Mapping[str, KeptValue]]:
        """Return the values replaced, written, added or removed since ``begin``, and all values."""
        found = reachable(self._built).found
        changed = [found.get(name) or self._before[name] for name in _changed(self._before, found)]
        for one in changed:
            # Values inside an object that is itself new go when that object is unbound.
            if one.name in self.first or id(one.holder) in self._holders:
                self.left.setdefault(one.name, replace(one, copy=None))
        self._before = {}
        return changed, found

    def undo(self) -> None:
        """Undo all changes since the app was built."""
        # First values are put back; later ones are removed.
        for name in sorted(self.left):
            if name in self.first:
                if not put_back(self.first[name]):
                    self.stuck = self.left[name]
            else:
                unbind(self.left[name].holder, self.left[name].key)

    def hide(self) -> None:
        """Undo it until ``show``, for code that elsewhere runs in a process of its own."""
        self._hidden = [(self.left[name], now(self.left[name])) for name in sorted(self.left)]
        self.undo()

    def show(self) -> None:
        """Put back the hidden values."""
        for kept, then in self._hidden:
            unbind(kept.holder, kept.key) if then is None else put_back(then)
        self._hidden = []

    def holding(self, name: str) -> str:
        """Return the name of the container to keep elsewhere, such as the dict of a value."""
        new = [one for one in self.left if one not in self.first]
        return min((one for one in new if is_in(name, one)), key=len, default=name)

    def forget_rest(self) -> None:
        """Forget all but the changes so far that ``hide`` and ``show`` need."""
        self.first = {name: one for name, one in self.first.items() if name in self.left}
        self.left = {name: replace(one, value=None) for name, one in self.left.items()}
        self._holders = {}


class OutsideTasks:
    """Watches the first tasks of a process, and refuses those that depend on earlier ones.

    One task of each of the first rounds is among them: an average of parameters differs once these
    have been stepped.
    """

    def __init__(self, built: BuiltApp, job: Job) -> None:
        self._built, self._job = built, job
        self.kept = OutsideState(built)
        self._results: list[tuple[object, dict[str, KeptValue], dict[str, object]]] = []
        self._tasks = 0
        self._rounds: set[int] = set()
        self._is_first = self._is_looked_at = True
        self.watching = True

    @property
    def looking(self) -> bool:
        """Tell whether the present task is looked at."""
        return self.watching and self._is_looked_at

    def passes(self) -> Iterator[None]:
        """Yield once for each time that the present task must be computed."""
        self._is_first = True
        yield
        if not self.watching:
            return
        self._is_first = False
        self._tasks += 1
        # ``end`` has put a result here because earlier tasks had left something: compute the task
        # again as the first of its process would be, and compare.
        if self._results:
            self.kept.undo()
            if self.kept.stuck is not None:
                raise self._refuse(self.kept.stuck, _UNKNOWN)
            yield
            self._compare()
            self._results.clear()
        if len(self._rounds) == _TASKS:
            self.watching = False
            self.kept.forget_rest()

    def begin(self, round_no: int) -> None:
        """Note the kept values, before a task that is looked at."""
        if self._is_first:
            self._is_looked_at = self._tasks < _TASKS or round_no not in self._rounds
            self._rounds.add(round_no)
        if self._is_looked_at:
            self.kept.begin()

    def end(self, loss: Tensor) -> None:
        """Look again, and note the values that the task has left.

        Raises
        ------
        SpecError
            It wrote to something that cannot be undone, so that its effect is unknown.
        """
        if not self._is_looked_at:
            return
        earlier = bool(self.kept.left)
        changed, found = self.kept.note()
        for one in changed:
            # The same object as at first, but written, and too large or too odd to have a copy.
            old = self.kept.first.get(one.name)
            if old is not None and old.value is one.value and not old.restorable:
                raise self._refuse(one, _UNKNOWN)
        if earlier:
            # Contents are compared as well: a value that no result depends on yet may count later.
            names = {*self.kept.left, *_changed(self.kept.first, found)}
            kept = {name: found[name] for name in names if name in found}
            contents = {name: content(one.value) for name, one in kept.items()}
            self._results.append((self._result(loss), kept, contents))

    def _compare(self) -> None:
        """Refuse a task that gave or left something else once earlier tasks were undone."""
        (result, found, after), (alone, _, left) = self._results
        for name in sorted(after.keys() & left.keys()):
            if after[name] != left[name]:
                raise self._refuse(found[name], "and its value depends on")
        if result != alone:
            kept = self.kept.left[min(self.kept.left)]
            raise self._refuse(kept, "and a task's result depends on it, so on")

    def _result(self, loss: Tensor) -> object:
        """Return the contents of the task's result: loss, gradients and buffers."""
        model = self._built.model
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        found = tensors(model)
        buffers = [found[name] for name, _ in model.named_buffers()]
        return [content(one) for one in (loss.detach(), *grads, *buffers)]

    def _refuse(self, kept: KeptValue, why: str) -> SpecError:
        value, name = kept.value, self.kept.holding(kept.name)
        method = "dataset()" if name.startswith("dataset") else "loss()"
        what, way = "changes", "keep it in a buffer of the model"
        if is_a(value, *GENERATORS):
            what, way = "draws from", "draw from the global generators, which each task seeds"
        elif is_a(value, Tensor, np.ndarray):
            what = "writes"
        if name != kept.name or not is_a(value, *PLAIN, *GENERATORS, Tensor, np.ndarray):
            way = "keep it in buffers of the model"
        message = (
            f"{what} {name!r}, which is no buffer, {why} the tasks that ran before it in its "
            f"process; {way}, or name it in scratch where no result depends on it"
        )
        return refuse(self._job, method, message)


def _changed(before: Mapping[str, KeptValue], after: Mapping[str, KeptValue]) -> list[str]:
    """Return the names of values that are gone, new, replaced or written."""
    gone = [name for name in before if name not in after]
    return gone + [
        name for name, kept in after.items() if name not in before or before[name].mark != kept.mark
    ]
