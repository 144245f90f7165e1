"""Find all values that user code can keep between tasks: those an app, model and data reach.

The search goes through attributes of the app, of the model's modules, of data sets and of objects
whose classes are the user's own, with or without slots. It goes through items of containers,
attributes of the user's classes, globals of the user's files, and variables that functions close
over. Objects of libraries are not entered: their content is their own affair, and could not be put
back.
"""

from __future__ import annotations

import functools
import queue
import sys
from collections import UserDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from operator import itemgetter
from pathlib import Path
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.user_files import is_users
from warren.live.training.isolation.kept_values import (
    GENERATORS,
    KeptValue,
    is_a,
    is_objects,
    is_plain,
    is_pythons,
    items_of,
    keep,
    size_of,
)
from warren.live.training.tensor_layout import tensors

# Bounds of the search, so that it ends soon in any object: levels, values, items of a container.
_DEPTH: Final = 8
_MOST: Final = 20_000
_ITEMS: Final = 1000
"""Longer containers are data, and are not looked through."""
# Types with a text of their own, without the user's code; parts of longer keys have none.
_NAMES: Final = (str, int, float, bool, bytes, type(None))
_NAMED: Final = 10
# Attributes that torch itself gives every module, such as its hooks and its parameters.
_OF_MODULES: Final = frozenset(vars(nn.Module()))
_OF_PYTHON: Final = (queue.Queue, UserDict, WeakKeyDictionary, WeakValueDictionary)
"""Python's own classes of objects that keep the user's values in attributes."""
_HOOKS: Final = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
    "_post_accumulate_grad_hooks",
)  # fmt: skip
"""Attributes of modules and tensors with the hooks that run in tasks."""


@dataclass(frozen=True, slots=True)
class ReachableValues:
    """The values reached, ``found`` by names as ``self.rng``, ``model.0.mean``, ``dataset.seen``.

    ``holders``: the dicts, lists, classes and cells that were looked through, by identity.
    """

    found: dict[str, KeptValue]
    holders: dict[int, Any]


def reachable(built: BuiltApp, *, copied: bool = False) -> ReachableValues:
    """Return the kept values; with ``copied``, also the data needed to put them back."""
    # Users' classes of tensors are read without their own methods.
    with torch._C.DisableTorchFunctionSubclass():
        walk = _Walk(built, copied)
        for path, module in built.model.named_modules():
            walk.attributes(f"model.{path}" if path else "model", module, depth=0)
        walk.take("dataset", {}, "dataset", built.dataset, 0)
        walk.attributes("self", built.app, depth=0)
    return ReachableValues(walk.found, walk.holders)


def reachable_from(built: BuiltApp, roots: Mapping[str, Any]) -> ReachableValues:
    """Return the values that these reach, which stand under their names, and all holders."""
    with torch._C.DisableTorchFunctionSubclass():
        walk = _Walk(built, copied=False)
        for name, value in roots.items():
            walk.take(name, {}, name, value, 0)
    own = {
        name: kept for name, kept in walk.found.items() if any(is_in(name, one) for one in roots)
    }
    return ReachableValues(own, walk.holders)


class _Walk:
    """One search through the objects of an app; each object is entered once, by identity."""

    def __init__(self, built: BuiltApp, copied: bool) -> None:
        self.found: dict[str, KeptValue] = {}
        self.holders: dict[int, Any] = {}
        self._copied = copied
        self._scratch = built.app.scratch
        self._seen: set[int] = set()
        # By identity of classes, which stay alive.
        self._slotted: dict[int, tuple[type, list[str]]] = {}
        self._users: dict[int, tuple[type, bool]] = {}
        self._folder, self._module = _home(type(built.app))
        state = tensors(built.model).values()
        self._trained = {id(module) for module in built.model.modules()}
        # Views of parameters and buffers are known by their storage; they are state of the job.
        self._memory = {one.untyped_storage().data_ptr() for one in state if one.numel()}

    def attributes(self, name: str, value: Any, depth: int) -> None:
        """Take an object's own attributes, then those of its class."""
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        whole = _own(value)
        own = dict(whole)
        if is_a(value, nn.Module):
            own = {key: one for key, one in own.items() if key not in _OF_MODULES}
            # Tensors of a module outside the trained model are no state of the job: they count.
            state = () if id(value) in self._trained else (value._parameters, value._buffers)
            for part in (*state, value._modules):
                self._items(name, part, part, depth)
            holders = (value, *value._parameters.values(), *value._buffers.values())
            for hooks in filter(None, (getattr(one, k, None) for one in holders for k in _HOOKS)):
                for hook in hooks.values():
                    self.enter(f"{name}.hook", hook, depth)
        self._items(name, own, whole, depth)
        if slots := self._slots(value):
            self._items(name, slots, value, depth)
        for kind in type(value).__mro__:
            if self._is_users(kind):
                self._class(kind, depth)

    def enter(self, name: str, value: Any, depth: int) -> None:
        """Take the content of a value, if it is a container or the user's own.

        If its class raises when it is looked at, nothing more is taken.
        """
        if is_plain(value) or is_a(value, *GENERATORS, Tensor) or depth > _DEPTH:
            return
        with suppress(Exception):
            self._enter(name, value, depth)

    def _enter(self, name: str, value: Any, depth: int) -> None:
        if is_a(value, type):
            self._class(value, depth)
        elif is_a(value, ModuleType):
            if self._is_near(vars(value)):
                self._globals(vars(value), depth)
        elif is_a(value, FunctionType):
            self._function(name, value, depth)
        elif is_a(value, MethodType):
            self.enter(name, value.__self__, depth)
        elif is_a(value, dict, list, tuple, deque, set, frozenset) or is_objects(value):
            self._container(name, value, depth)
        elif is_a(value, functools.partial):
            self.enter(name, value.func, depth)
            self._container(name, [*value.args, *value.keywords.values()], depth)
        # Optimizers and schedules step at the barrier alone; ``TaskRules`` hides them in tasks.
        elif not is_a(value, Optimizer, LRScheduler, Enum):
            own = is_a(value, nn.Module, Dataset, SimpleNamespace, *_OF_PYTHON)
            if own or self._is_users(type(value)):
                self.attributes(name, value, depth)

    def _slots(self, value: Any) -> dict[str, Any]:
        """Return the values that an object keeps in slots of the user's classes."""
        found = {}
        for key in self._slots_of(type(value)):
            with suppress(AttributeError):  # nothing is in it yet
                found[key] = object.__getattribute__(value, key)
        return found

    def _slots_of(self, kind: type) -> list[str]:
        if id(kind) not in self._slotted:
            users = (vars(one).items() for one in kind.__mro__ if self._is_users(one))
            places = chain.from_iterable(users)
            found = [key for key, place in places if is_a(place, MemberDescriptorType)]
            self._slotted[id(kind)] = kind, found
        return self._slotted[id(kind)][1]

    def take(self, name: str, holder: Any, key: Any, value: Any, depth: int) -> None:
        """Take a value under a key of its holder, and its content."""
        if len(self.found) >= _MOST or name in self.found or self._is_scratch(name):
            return
        if not is_plain(value) and is_a(value, Tensor) and self._is_state(value):
            return
        self.found[name] = keep(name, holder, key, value, copied=self._copied)
        self.enter(name, value, depth + 1)

    def _items(self, name: str, items: Mapping[Any, Any], holder: Any, depth: int) -> None:
        self.holders[id(holder)] = holder
        # Sorted: the same value has the same name in every process, whatever order dicts have.
        for label, key, value in _sorted(items.items()):
            if not is_pythons(label):
                self.take(f"{name}.{label}", holder, key, value, depth)

    def _container(self, name: str, value: Any, depth: int) -> None:
        if id(value) in self._seen or size_of(value) > _ITEMS:
            return
        self._seen.add(id(value))
        pairs: Iterable[tuple[str, Any, Any]]
        if is_a(value, dict):
            pairs = _sorted(dict.items(value), repr)
        elif is_a(value, set, frozenset):
            # They have no places: objects in them are looked at where they are.
            for one in items_of(value):
                self.enter(f"{name}{{{_label(one, repr)}}}", one, depth + 1)
            return
        else:
            # Plain items are in the mark of the list itself.
            items = enumerate(items_of(value))
            pairs = [(str(at), at, one) for at, one in items if not is_plain(one)]
        self.holders[id(value)] = value
        for label, key, one in pairs:
            self.take(f"{name}[{label}]", value, key, one, depth)

    def _class(self, kind: type, depth: int) -> None:
        if id(kind) in self._seen or not self._is_users(kind) or issubclass(kind, Enum):
            return
        self._seen.add(id(kind))
        self.holders[id(kind)] = kind
        for key, _, value in _sorted(vars(kind).items()):
            if is_a(value, FunctionType):
                self._function(f"{kind.__name__}.{key}", value, depth)
            # Descriptors such as properties hold no value of their own.
            elif not is_pythons(key) and (
                is_a(value, staticmethod, classmethod) or not hasattr(type(value), "__get__")
            ):
                self.take(f"{kind.__name__}.{key}", kind, key, value, depth)

    def _function(self, name: str, value: FunctionType, depth: int) -> None:
        """Take the variables that a user's function closes over, and the globals of its file."""
        if id(value) in self._seen or not self._is_near(value.__globals__):
            return
        self._seen.add(id(value))
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        for variable, cell in cells if value.__closure__ else ():
            # ``__class__`` is the cell of ``super()``; a class is taken on its own.
            if variable != "__class__" and _filled(cell):
                inside = f"{name}.{variable}"
                self.take(inside, cell, "cell_contents", cell.cell_contents, depth)
        if own := vars(value):
            self._items(name, own, own, depth)
        for one in value.__defaults__ or ():
            self.enter(name, one, depth)
        self._globals(value.__globals__, depth)

    def _globals(self, values: dict[str, Any], depth: int) -> None:
        """Take the globals of a file; those of the app's own file have names without a prefix."""
        if id(values) in self._seen:
            return
        self._seen.add(id(values))
        self.holders[id(values)] = values
        prefix = "" if values.get("__name__") == self._module else f"{values.get('__name__')}."
        for label, key, value in _sorted(values.items()):
            if is_a(value, type, FunctionType, ModuleType):
                self.enter(label, value, depth)
            elif not is_pythons(label):
                self.take(f"{prefix}{label}", values, key, value, depth)

    def _is_state(self, tensor: Tensor) -> bool:
        """Tell whether a tensor is a parameter or buffer of the model, or a view of one."""
        try:
            strided = tensor.layout is torch.strided and tensor.numel() > 0
            return strided and tensor.untyped_storage().data_ptr() in self._memory
        except (RuntimeError, TypeError):  # not every class of tensors has memory
            return False

    def _is_scratch(self, name: str) -> bool:
        """Tell whether the app lists a value, or its container, as scratch."""
        return any(is_in(name, one) for one in self._scratch)

    def _is_users(self, kind: type) -> bool:
        """Tell whether a class is the user's own, and not Warren's or a library's."""
        if id(kind) not in self._users:
            self._users[id(kind)] = kind, self._is_of_users(kind)
        return self._users[id(kind)][1]

    def _is_of_users(self, kind: type) -> bool:
        if kind.__module__ == self._module:
            return True
        if kind.__module__ in ("builtins", "typing", TorchApp.__module__):
            return False
        module = sys.modules.get(kind.__module__)
        # A file beside the app's is forgotten once it is loaded.
        return module is None or self._is_near(vars(module))

    def _is_near(self, values: Mapping[str, Any]) -> bool:
        """Tell whether these are the globals of the app's file, or of one beside or below it."""
        if values.get("__name__") == self._module:
            return True
        file = values.get("__file__")
        return isinstance(file, str) and bool(self._folder) and _is_below(self._folder, file)


def is_in(name: str, one: str) -> bool:
    """Tell whether the value called ``name`` is the one called ``one``, or in it."""
    return name == one or name.startswith((f"{one}.", f"{one}[", f"{one}{{"))


def _own(value: Any) -> dict[str, Any]:
    """Return the attributes of an object in its own dict; none where it has only slots."""
    try:
        return cast("dict[str, Any]", object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


def _sorted(
    items: Iterable[tuple[Any, Any]], text: Callable[[Any], str] = str
) -> list[tuple[str, Any, Any]]:
    """Return label, key and value of each item, in the order of labels."""
    # Copied at once: a thread of the user's may change the dict meanwhile.
    labelled = [(_label(key, text), key, value) for key, value in list(items)]
    return sorted(labelled, key=itemgetter(0))


def _label(key: Any, text: Callable[[Any], str]) -> str:
    """Return the name of a key, the same as long as it is the same object or number."""
    short = type(key) in _NAMES and (type(key) is not int or abs(key) < 1 << 63)
    if short:
        return text(key)
    if type(key) is tuple and len(key) <= _NAMED:
        return f"({', '.join(_label(one, repr) for one in key)})"
    return f"<{type(key).__name__} {id(key):x}>"


def _filled(cell: Any) -> bool:
    """Tell whether a function's cell has anything in it yet."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


@functools.cache
def _is_below(folder: str, file: str) -> bool:
    return Path(file).is_relative_to(folder) and is_users(file)


def _home(app: type[TorchApp]) -> tuple[str, str]:
    """Return the folder of an app's file, empty if unknown, and the name of its module."""
    file = getattr(sys.modules.get(app.__module__), "__file__", None)
    return "" if file is None else str(Path(file).parent), app.__module__
