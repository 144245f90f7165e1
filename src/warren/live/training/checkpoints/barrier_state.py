"""The values that a job's barriers have changed since the app was built, saved and put back.

A checkpoint holds the model, and these: all values of the optimizer and the schedule, and of all
else that a barrier's code reaches the values that differ from those of a fresh build. So a counter
in an attribute, a closure or a callable's, slow weights in a list and an average that a hook keeps
go on where they were. A value that cannot be saved is refused by name.
"""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.app_contract import refuse
from warren.live.training.checkpoints.barrier_objects import (
    HOOKS_OF_ALL,
    BarrierObjects,
    Known,
    find,
    is_as_seen,
    is_leaf,
    same,
    see_unchanged,
    set_item,
    unchanged,
    values,
)
from warren.live.training.checkpoints.marks import mark, outline
from warren.live.training.checkpoints.saved_values import CannotKeep, Reader, Writer
from warren.live.training.checkpoints.unseen_changes import UnseenChanges
from warren.live.training.isolation.kept_values import PLAIN, KeptValue, content, is_a, now
from warren.live.training.tensor_layout import tensors
from warren.model.errors import WarrenError
from warren.model.job import Job

_LONG: Final = 1000
"""Most items of a container that is saved although it has not changed."""
ADVICE: Final = "put it into state[p] or param_groups of the optimizer"
"""Advice for values that no checkpoint can keep."""
_NOTHING: Final = object()
_NUMBERS: Final = (bool, int, float, str, type(None))
_FIRST: Final = 3
"""Number of steps after which the state is looked at each time; later at powers of two."""

LeftByOthers = Callable[[], Iterable[KeptValue]]
"""Returns the values left by this process's tasks and evaluations: no barrier depends on them."""


def _nothing_left() -> Iterable[KeptValue]:
    return ()


def is_looked_at(version: int) -> bool:
    """Tell whether to look, after this many steps, for values that no checkpoint could keep.

    The next checkpoint may be long after, and plain loops make none.
    """
    return version <= _FIRST or version & (version - 1) == 0


class BarrierState:
    """The state that barriers of one job keep beside its model, in this process.

    Parameters
    ----------
    built
        The app, as it was just built.
    left
        Returns the values that tasks and evaluations have left in the app: they are no state of a
        barrier.
    """

    def __init__(self, built: BuiltApp, left: LeftByOthers = _nothing_left) -> None:
        self._model = built.model
        self._left = left
        self._objects: BarrierObjects = find(built)
        self._every = list(self._objects.at.values())
        self._unseen = UnseenChanges(built, self._objects, left, self._is_left)

    def write(
        self, owned: Callable[[str], bool], *, alone: bool = True, first: bool = True
    ) -> tuple[Any, dict[str, Tensor]]:
        """Return the state as JSON, and its tensors by name.

        Parameters
        ----------
        owned
            Whether this part keeps the state of a parameter, by its name.
        alone
            One server has it all; otherwise state that belongs to no single parameter may hold no
            tensors.
        first
            This is the first server, which alone evaluates.

        Raises
        ------
        CannotKeep
            Something has changed that cannot be saved.
        """
        found: dict[str, Tensor] = {}
        current = tensors(self._model)
        names = {id(one): name for name, one in current.items()}
        writer = Writer(names, self._objects.at, found, _memory(current))
        left = _Left(self._left())
        entries = [
            {**entry, "first": True} if known.first else entry
            for known in self._every
            if (owned(known.entry) if known.entry else first or not known.first)
            for entry in self._entries(known, writer, left, owned, alone=alone)
        ]
        writer.check_memory()
        if not alone:
            _check_split(entries, found)
        return entries, found

    def check(self, job: Job, version: int) -> None:
        """Refuse values that a checkpoint could not keep, in a process that makes none.

        ``version``: the number of steps made.

        Raises
        ------
        SpecError
            Something has changed that cannot be saved.
        """
        try:
            if is_looked_at(version):
                self.write(lambda _: True)
        except CannotKeep as error:
            raise refuse(job, "", str(error)) from None

    def check_tasks(self, job: Job, version: int) -> None:
        """Refuse changes that tasks do not see and depend on, after each step.

        ``version``: the number of steps made.

        Raises
        ------
        SpecError
            There is one; the message names it.
        """
        try:
            self._unseen.check(is_looked_at(version))
        except CannotKeep as error:
            raise refuse(job, "", str(error)) from None

    def put(
        self, trees: Sequence[tuple[Any, Mapping[str, Tensor]]], owned: Callable[[str], bool]
    ) -> None:
        """Replace the state here by that of all parts of a checkpoint.

        Raises
        ------
        WarrenError
            The parts differ where they should not, or do not fit this app.
        """
        _check_equal(trees)
        self._undo()
        current = tensors(self._model)
        for part, (entries, found) in enumerate(trees):
            reader = Reader(current, self._find, found)
            # Values are read in the order in which they were written: later ones name earlier ones.
            for entry in entries:
                value = reader.read_all(entry)
                if owned(entry["of"]) if entry["of"] else part == 0:
                    self._put(entry, value)

    def _entries(
        self,
        known: Known,
        writer: Writer,
        left: _Left,
        owned: Callable[[str], bool],
        *,
        alone: bool,
    ) -> list[Any]:
        """Return the entries to save of one object."""
        if not isinstance(known.before, dict):
            return self._of_leaf(known, writer, left)
        if not known.always and is_as_seen(known):
            return []
        now = values(known, self._objects.trained)
        if not known.is_container:
            if not known.always and unchanged(now, known.before):
                see_unchanged(known)
                return []
            return self._of_attributes(known, now, writer, left, None if alone else owned)
        if getattr(known.value, "default_factory", None) is not known.factory:
            raise CannotKeep(
                f"the default of {known.name} has changed, which a checkpoint cannot keep"
            )
        whole = unchanged(now, known.before)
        if not whole and known.name.startswith(HOOKS_OF_ALL):
            raise CannotKeep(f"{known.name} have changed, which a checkpoint cannot keep")
        wanted = known.always and len(now) <= _LONG
        if whole and not wanted:
            see_unchanged(known)
            return []
        if id(known.value) in left.objects:
            return []
        try:
            with writer.undone_if_refused():
                return self._of_items(known, now, writer, owned)
        except CannotKeep:
            # A fresh build has it as well.
            if whole and not known.strict:
                return []
            raise

    def _of_items(
        self, known: Known, now: Mapping[Any, Any], writer: Writer, owned: Callable[[str], bool]
    ) -> list[Any]:
        """Return all items of a container; those of a dict by parameters each for itself."""
        items: list[Any] = []
        single = []
        for key, one in now.items():
            name = writer.name_of(key) if isinstance(known.value, dict) else ""
            if name and not owned(name):
                continue
            path = f"{known.name}[{name}]" if name else self._objects.label(known, key)
            value = writer.write(one, path, strict=known.strict)
            if not isinstance(known.value, dict):
                items.append(value)
            elif name:
                single.append({"at": known.name, "of": name, "item": value})
            else:
                items.append([writer.write(key, path), value])
        return [{"at": known.name, "of": known.entry, "fill": items}, *single]

    def _of_attributes(
        self,
        known: Known,
        now: Mapping[Any, Any],
        writer: Writer,
        left: _Left,
        divide: Callable[[str], bool] | None,
    ) -> list[Any]:
        """Return the values of an object that have changed.

        ``divide``: several servers share dicts by parameters; tells which of them are this one's.
        """
        entries: list[Any] = []
        stepper = isinstance(known.value, Optimizer | LRScheduler)
        for key, value in now.items():
            as_built = key in known.before and same(value, known.before[key])
            if as_built and not (stepper and type(value) in _NUMBERS):
                continue
            name = self._objects.label(known, key)
            if self._objects.is_scratch(name) or left.has(known, key):
                continue
            items = []
            if divide is not None and isinstance(value, dict) and id(value) not in self._objects.at:
                items = [(writer.name_of(one), item) for one, item in value.items()]
                value = _without(value, [one for one in value if writer.name_of(one)])
            written = writer.write(value, name)
            entries.append({"at": known.name, "of": known.entry, "key": key, "set": written})
            entries += [
                {"at": known.name, "of": one, "key": key, "item": writer.write(item, name)}
                for one, item in items
                if one and divide is not None and divide(one)
            ]
        for key in (one for one in known.before if one not in now):
            name = self._objects.label(known, key)
            if "_hooks[" in str(key):
                raise CannotKeep(f"{name} was removed, which a checkpoint cannot keep")
            if not (self._objects.is_scratch(name) or left.has(known, key)):
                entries.append({"at": known.name, "of": known.entry, "key": key, "gone": True})
        return entries

    def _of_leaf(self, known: Known, writer: Writer, left: _Left) -> list[Any]:
        """Return the entries to save of a written tensor, array, generator or set."""
        value, name = known.value, known.name
        if id(value) in left.objects:
            return []
        if not is_leaf(value):
            long = isinstance(known.before, int) and outline(value) == known.before
            if long or mark(value) == known.before:
                return []
            raise CannotKeep(f"{name}, a {type(value).__name__}, goes on at each step, and no "
                             f"checkpoint can keep how far it has come; {ADVICE}")  # fmt: skip
        if mark(value) == known.before:
            return []
        return [{"at": name, "of": known.entry, "copy": writer.write(value, name, inside=True)}]

    def _is_left(self, known: Known, key: Any) -> bool:
        """Tell whether a task or an evaluation has left a value, or the content of an object."""
        left = _Left(self._left())
        return left.has(known, key) or id(known.value) in left.objects

    def _find(self, name: str) -> Any:
        if name not in self._objects.named:
            raise WarrenError(f"it names {name}, which this app does not have")
        return self._objects.named[name].value

    def _put(self, entry: Mapping[str, Any], value: Any) -> None:
        """Carry one entry out."""
        known = self._objects.named.get(entry["at"])
        if known is None:
            raise WarrenError(f"it names {entry['at']}, which this app does not have")
        target = known.value
        if "item" in entry:
            items = values(known)[entry["key"]] if "key" in entry else target
            items[tensors(self._model)[entry["of"]]] = value
        elif "fill" in entry:
            _refill(target, dict(value if isinstance(target, dict) else enumerate(value)))
        elif "copy" in entry:
            _overwrite(target, value)
        else:
            _bind(known, entry["key"], _NOTHING if "gone" in entry else value)

    def _undo(self) -> None:
        """Put back all values that have changed here since the build."""
        for known in self._every:
            value, before = known.value, known.before
            if not isinstance(before, dict):
                if known.copy is not None and mark(value) != before:
                    _overwrite(value, known.copy)
                continue
            now = values(known, self._objects.trained)
            if known.is_container and not unchanged(now, before):
                _refill(value, before)
            if not known.is_container:
                for key in now.keys() | before.keys():
                    old = before.get(key, _NOTHING)
                    if not same(now.get(key, _NOTHING), old):
                        _bind(known, key, old)


class _Left:
    """Values that tasks and evaluations have left."""

    def __init__(self, kept: Iterable[KeptValue]) -> None:
        self._at: set[tuple[int, Any]] = set()
        self.objects: set[int] = set()
        for one in kept:
            self._at.add((id(one.holder), one.key))
            found = now(one)
            if found is not None and not is_a(found.value, *PLAIN):
                self.objects.add(id(found.value))

    def has(self, known: Known, key: Any) -> bool:
        """Tell whether one value of an object is theirs."""
        return (known.home, key) in self._at


def _without(items: dict[Any, Any], keys: Sequence[Any]) -> dict[Any, Any]:
    """Return a dict of the same kind without some keys."""
    rest = copy.copy(items)
    for key in keys:
        del rest[key]
    return rest


def _memory(current: Mapping[str, Tensor]) -> dict[int, list[tuple[str, Tensor]]]:
    """Return the tensors of a model by where their storage begins."""
    found: dict[int, list[tuple[str, Tensor]]] = {}
    for name, one in current.items():
        if one.layout is torch.strided and one.numel():
            found.setdefault(one.untyped_storage().data_ptr(), []).append((name, one))
    return found


def _tensors_in(written: Any) -> Iterator[str]:
    """Yield the names of the tensors that a written value holds."""
    if isinstance(written, dict):
        if "tensor" in written:
            yield written["tensor"]
        elif "array" in written:
            yield written["array"][0]
        else:
            for one in written.values():
                yield from _tensors_in(one)
    elif isinstance(written, list):
        for one in written:
            yield from _tensors_in(one)


def _check_split(entries: Sequence[Any], found: Mapping[str, Tensor]) -> None:
    """Refuse tensors that belong to no single parameter: no server owns them."""
    for entry in entries:
        if not entry["of"] and any(found[name].numel() > 1 for name in _tensors_in(entry)):
            name = f"{entry['at']}.{entry['key']}" if "key" in entry else entry["at"]
            raise CannotKeep(
                f"{name} holds tensors that belong to no single parameter, which several servers "
                f"cannot divide; {ADVICE}, or set servers: 1"
            )


def _check_equal(trees: Sequence[tuple[Any, Mapping[str, Tensor]]]) -> None:
    """Refuse parts that differ in values that belong to no single parameter."""
    shared = [
        ([one for one in tree if not (one["of"] or "first" in one)], found) for tree, found in trees
    ]
    for other in shared[1:]:
        name = difference(shared[0], other)
        if ".param_groups" in name:
            message = "optimizer() gives each server other groups of parameters"
            raise WarrenError(f"{message}; give them in the order of named_parameters")
        if name:
            raise WarrenError(f"its servers have kept other values of {name}; {ADVICE}")


def difference(
    one: tuple[Sequence[Any], Mapping[str, Tensor]],
    other: tuple[Sequence[Any], Mapping[str, Tensor]],
) -> str:
    """Return the name of the first value that two written states have not in common, or nothing."""
    pairs = zip_longest(
        *([(_comparable(e, found), e) for e in tree] for tree, found in (one, other))
    )
    for first, second in pairs:
        if first is None or second is None or first[0] != second[0]:
            entry = (first or second)[1]
            return f"{entry['at']}.{entry['key']}" if "key" in entry else str(entry["at"])
    return ""


def _comparable(written: Any, found: Mapping[str, Tensor]) -> Any:
    """Return a written value without the numbers of its parts, and with the bytes of tensors."""
    if isinstance(written, list):
        items = [_comparable(one, found) for one in written]
        models = all(isinstance(one, dict) and "model" in one for one in items)
        # Parameters may come from a set, whose order each process has for itself.
        return sorted(items, key=repr) if models else items
    if not isinstance(written, dict):
        # NaN equals NaN here.
        return repr(written)
    if "tensor" in written:
        return content(found[written["tensor"]])
    return {
        key: _comparable(one, found)
        for key, one in written.items()
        if key not in ("n", "same")
    }  # fmt: skip


def _bind(known: Known, key: Any, value: Any) -> None:
    """Give an attribute, a variable or a cell a value; ``_NOTHING``: remove it."""
    target = known.value
    own = target if known.is_globals else getattr(target, "__dict__", None)
    # Slots and properties are descriptors of the class.
    place = inspect.getattr_static(type(target), str(key), None)
    described = hasattr(type(place), "__set__")
    if isinstance(own, dict) and not described:
        # Past ``__setattr__``: modules and frozen classes have one of their own.
        own.pop(key, None) if value is _NOTHING else own.__setitem__(key, value)
    elif described and value is _NOTHING:
        place.__delete__(target)
    elif described:
        place.__set__(target, value)
    elif value is _NOTHING:
        delattr(target, key)
    else:
        setattr(target, key, value)


def _refill(target: Any, items: Mapping[Any, Any]) -> None:
    """Give a container other items, in their order."""
    if isinstance(target, tuple):
        return
    target.clear()
    if isinstance(target, dict):
        for key, value in items.items():
            set_item(target, key, value)
    else:
        target.extend(items.values())


@torch.no_grad()
def _overwrite(target: Any, value: Any) -> None:
    """Give a tensor, an array, a generator or a set the content of another."""
    if isinstance(target, Tensor):
        if (target.shape, target.dtype) != (value.shape, value.dtype):
            raise WarrenError("a tensor has another shape or type")
        target.data.copy_(value)
    elif isinstance(target, np.ndarray):
        target[...] = value
    elif isinstance(target, set):
        target.clear()
        target.update(value)
    elif isinstance(target, np.random.Generator):
        target.bit_generator.state = value.bit_generator.state
    elif isinstance(target, random.Random):
        target.setstate(value.getstate())
    else:
        target.set_state(value.get_state())
