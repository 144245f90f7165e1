"""Find all objects that a barrier's code can reach, and tell which have changed since the build.

A barrier steps the optimizer, then the schedule, and asks ``finished``. All that these change is
state of the job, wherever it is kept: in attributes, in closures, in an average that a hook holds.
The search follows attributes, items of containers, closures, default arguments, and globals of the
user's files. Objects of the standard library are not entered; they are compared by identity.
"""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from types import (
    CellType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.user_files import is_users
from warren.live.training.checkpoints.last_look import LastLook
from warren.live.training.checkpoints.marks import LEAVES, buffer_of, mark, outline
from warren.live.training.checkpoints.open_classes import is_open, slots_of
from warren.live.training.isolation.kept_values import PLAIN, ids_of, is_pythons
from warren.live.training.tensor_layout import tensors

CONTAINERS: Final = (dict, list, tuple, deque, set, frozenset)
_CONSTANTS: Final = (*PLAIN, torch.dtype, torch.device, Enum)
_EXACTLY: Final = ids_of(_CONSTANTS)
_BARE: Final = ids_of((*CONTAINERS, CellType, FunctionType, MethodType, ModuleType, type))
"""Identities of types whose objects hold nothing beside what is looked at anyway."""
_USUAL: Final = _BARE | ids_of((Tensor, nn.Parameter))
_CONTAINED: Final = (*CONTAINERS, Tensor)
_HOLDERS: Final = (*CONTAINERS, *LEAVES)
_COMPARED: Final = (*LEAVES, set, frozenset)
_OPENED: Final = (
    *CONTAINERS, CellType, FunctionType, MethodType, nn.Module, Optimizer, LRScheduler,
    functools.partial, SimpleNamespace, TorchApp, threading.local, functools._lru_cache_wrapper,
)  # fmt: skip
_DEPTH: Final = 16
"""Most objects on the way from an optimizer or schedule to an object that is found."""
_MOST: Final = 50_000
"""Most objects that are found."""
_LONG: Final = 10_000
"""Most items of a container that is searched; a longer one is compared by its length."""
_MOST_DATA: Final = 100
"""Most parts of a data set that are watched."""
_COPIED_BYTES: Final = 1 << 16
"""Size up to which the first content of a tensor is kept, so that it can be put back."""
_OF_MODULES: Final = frozenset(vars(nn.Module()))
_HOOKS: Final = "_hooks"
HOOKS_OF_ALL: Final = "hooks of all optimizers"
_OF_HOOKS: Final = ("_hooks_with_kwargs", "_hooks_always_called")
_CELL: Final = " (cell)"
_MADE_BY_TORCH: Final = "__dynamo_disable"
"""Attribute in which torch keeps what it makes of its own functions at their first call."""
_DISABLED: Final = "_torchdynamo_orig_callable"
"""Attribute in which a function that torch's compiler must not enter has the original."""
_GLOBALS: Final = "globals"
"""Name of the globals of the app's own file."""


@dataclass(slots=True, kw_only=True)
class Known:
    """An object that was there when the app was built.

    ``name``: the way to it, equal in each process. ``entry``: name of the parameter by which a dict
    on this way has it, otherwise empty. ``always``: it belongs to an optimizer or a schedule, and
    its values are saved whether they have changed or not. ``strict``: it is ``state`` or
    ``param_groups`` of an optimizer or in them. ``first``: only the first server's counts, which
    alone evaluates and asks ``finished``. ``before``: its values when it was built; for a leaf its
    content. ``copy``: that content if it can be put back. ``factory``: what a defaultdict calls.
    ``last``: all that it held when it was last found unchanged.
    """

    name: str
    value: Any
    entry: str = ""
    always: bool = False
    strict: bool = False
    first: bool = False
    before: Any = None
    copy: Any = None
    factory: Any = None
    last: LastLook | None = None

    @property
    def is_container(self) -> bool:
        """Tell whether it holds items, and not attributes."""
        return isinstance(self.value, CONTAINERS) and not self.is_globals

    @property
    def is_globals(self) -> bool:
        """Tell whether it is the globals of a file."""
        return isinstance(self.value, dict) and "__builtins__" in self.value

    @property
    def home(self) -> int:
        """Return the identity of the object that holds its values."""
        return id(vars(self.value)) if _has_vars(self.value) else id(self.value)


@dataclass(slots=True)
class BarrierObjects:
    """The objects that were found, in an order that is equal in each process.

    ``at``: by identity; ``named``: by name. ``trained``: identities of the modules of the trained
    model. ``scratch``: the names that the app lists as scratch. ``data``: the data set, or parts of
    it, that the barrier reaches, by name.
    """

    trained: frozenset[int]
    scratch: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)
    at: dict[int, Known] = field(default_factory=dict)
    named: dict[str, Known] = field(default_factory=dict)

    def label(self, known: Known, key: Any) -> str:
        """Return the name of one value of an object, as the app's author knows it."""
        if known.is_globals:
            return key if known.name == _GLOBALS else f"{known.value['__name__']}.{key}"
        if isinstance(known.value, CellType):
            return known.name.removesuffix(_CELL)
        if not known.is_container:
            return f"{known.name}.{key}"
        inner = self.at.get(id(key))
        if inner is not None:
            return f"{known.name}[{inner.name}]"
        # The text of other objects has their address, which differs between processes.
        text = repr(key) if isinstance(key, (*PLAIN, tuple)) else type(key).__name__
        return f"{known.name}[{text}]"

    def is_scratch(self, name: str) -> bool:
        """Tell whether the app lists a value, or its container, as scratch."""
        return any(name == one or name.startswith((f"{one}.", f"{one}[")) for one in self.scratch)


def find(built: BuiltApp) -> BarrierObjects:
    """Return the objects that the barrier of a job can reach, as they are now."""
    search = _Search(built)
    search.enter("the average of weights (ema)", built.averages)
    search.enter("optimizer", built.optimizer)
    if built.schedule is not None:
        search.enter("schedule", built.schedule)
    for hooks in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks):
        search.enter(HOOKS_OF_ALL, hooks)
    # Some optimizers keep their state in attributes of parameters.
    for name, parameter in built.model.named_parameters():
        search.enter(f"parameter {name!r}", parameter, entry=name)
    if type(built.app).finished is not TorchApp.finished:
        before = len(search.found.at)
        search.enter("self", built.app)
        for known in list(search.found.at.values())[before:]:
            known.first = True
    return search.found


def values(known: Known, trained: frozenset[int] = frozenset()) -> dict[Any, Any]:
    """Return the values that an object holds now, by key: attributes, items or a cell's content.

    ``trained``: identities of the modules of the trained model; attributes of torch's own in them
    are no state of a barrier.
    """
    value = known.value
    if value is _global_optimizer_pre_hooks or value is _global_optimizer_post_hooks:
        return dict(enumerate(value.values()))
    if known.is_globals:
        return {key: one for key, one in value.items() if _is_variable(key, one)}
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple | deque):
        return dict(enumerate(value))
    if isinstance(value, CellType):
        return {"cell_contents": value.cell_contents} if _is_filled(value) else {}
    if isinstance(value, type):
        # Functions too: a barrier may bind others.
        own = {k: _undisabled(one) for k, one in vars(value).items() if not is_pythons(str(k))}
        return {k: v for k, v in own.items() if _is_code(v) or not hasattr(type(v), "__get__")}
    own = dict(vars(value)) if _has_vars(value) else {}
    own.pop(_MADE_BY_TORCH, None)
    if isinstance(value, nn.Module):
        skipped = _OF_MODULES if id(value) in trained else frozenset[str]()
        own = {key: one for key, one in own.items() if key not in skipped}
    if isinstance(value, nn.Module | Optimizer):
        own = _with_hooks(own)
    for key in slots_of(type(value)):
        with_value = getattr(value, key, _NOTHING)
        if with_value is not _NOTHING:
            own[key] = with_value
    return own


def is_as_seen(known: Known) -> bool:
    """Tell whether an object holds all that it held when it was last found unchanged."""
    return known.last is not None and known.last.is_of(known.value)


def see_unchanged(known: Known) -> None:
    """Note what an object holds, which was found unchanged, for ``is_as_seen``."""
    if not slots_of(type(known.value)):
        is_container = known.is_container or known.is_globals
        known.last = LastLook(known.value, is_container=is_container)


def _with_hooks(own: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with each hook under its position: its key differs between processes."""
    found: dict[str, Any] = {}
    for key, one in own.items():
        if key.endswith(_HOOKS) and isinstance(one, dict):
            found |= {f"{key}[{at}]": hook for at, hook in enumerate(one.values())}
        elif not key.endswith(_OF_HOOKS):
            found[key] = one
    return found


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are one object, or equal numbers or texts of one type."""
    if one is other:
        return True
    plain = isinstance(one, PLAIN) and type(one) is type(other)
    # Compared as text, NaN equals NaN, and 0.0 differs from -0.0.
    return plain and repr(one) == repr(other)


def unchanged(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    """Tell whether two mappings hold the same objects in one order."""
    pairs = zip(now.items(), before.items(), strict=False)
    return len(now) == len(before) and all(
        same(key, old) and same(one, other) for (key, one), (old, other) in pairs
    )


def set_item(target: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an item into a dict, past the ``__setitem__`` of the user's classes."""
    # An OrderedDict does not see the items that a dict's own method puts into it.
    kind = OrderedDict if isinstance(target, OrderedDict) else dict
    kind.__setitem__(target, key, value)


def is_leaf(value: Any) -> bool:
    """Tell whether a value is compared by its content: it holds numbers and no other objects."""
    return isinstance(value, _COMPARED)


_NOTHING: Final = object()


class _Search:
    """One walk; each object is entered once, under the first name by which it is found."""

    def __init__(self, built: BuiltApp) -> None:
        modules = built.model.named_modules()
        self._modules = {id(one): f"model.{at}" if at else "model" for at, one in modules}
        self.found = BarrierObjects(frozenset(self._modules), built.app.scratch)
        self._names = {id(one): name for name, one in tensors(built.model).items()}
        # A data set may hold the app or its model, which are no data.
        others = {id(built.app), *self._modules, *self._names}
        self._data = set(map(id, parts_of_data(built.dataset, others)))
        self._app = built.app
        self._module = type(built.app).__module__

    def enter(
        self,
        name: str,
        value: Any,
        depth: int = 0,
        *,
        entry: str = "",
        always: bool = False,
        strict: bool = False,
    ) -> None:
        """Note an object, and the objects that it holds."""
        if id(type(value)) not in _USUAL and isinstance(value, _CONSTANTS):
            return
        if id(value) in self._data:
            self._note_data(name, value)
            return
        if id(value) in self.found.at:
            return
        if depth > _DEPTH or len(self.found.at) >= _MOST:
            return
        of_model = id(value) in self._names
        name = self._known_name(name, value)
        if self.found.is_scratch(name) or (of_model and not entry):
            return
        always = always or isinstance(value, Optimizer | LRScheduler)
        known = Known(name=name, value=value, entry=entry, always=always, strict=strict)
        self.found.at[id(value)] = known
        self.found.named[name] = known
        if isinstance(value, Tensor) and of_model:
            self._attributes(known, depth)
        elif is_leaf(value) or not self._is_entered(value):
            known.before = mark(value)
            known.copy = _copy(value)
            for label, one in self._inside(value):
                self.enter(f"{name}{label}", one, depth + 1)
        else:
            self._attributes(known, depth)
            for label, one in self._others(value):
                self.enter(f"{name}{label}", one, depth + 1)

    def _note_data(self, name: str, value: Any) -> None:
        """Note a part of the data set, once: it is watched, and never saved."""
        known = any(one is value for one in self.found.data.values())
        if not known and len(self.found.data) < _MOST_DATA and not self.found.is_scratch(name):
            self.found.data[name] = value

    def _attributes(self, known: Known, depth: int) -> None:
        """Note the values of an object, then search them."""
        known.before = values(known, self.found.trained)
        known.factory = (
            getattr(known.value, "default_factory", None) if known.is_container else None
        )
        if len(known.before) > _LONG:
            known.before = outline(known.value)
            return
        is_container = known.is_container
        inherits = known.always and is_container
        owner = isinstance(known.value, Optimizer | LRScheduler)
        for key, one in known.before.items():
            if id(type(one)) in _EXACTLY or id(one) in self.found.at:
                continue
            # A dict by parameters has its items under the names of these, in each process.
            of_parameter = self._names.get(id(key), "") if is_container else ""
            groups = isinstance(known.value, Optimizer) and key in ("state", "param_groups")
            contained = isinstance(one, _CONTAINED)
            label = f"{known.name}[{of_parameter}]" if of_parameter else ""
            self.enter(
                label or self.found.label(known, key),
                one,
                depth + 1,
                entry=of_parameter or (known.entry if contained else ""),
                always=(owner or inherits) and contained,
                strict=groups or (known.strict and contained),
            )

    def _known_name(self, name: str, value: Any) -> str:
        """Return the name of an object: the usual one where it has any, and no other's."""
        if value is self._app:
            name = "self"
        elif isinstance(value, type):
            name = value.__name__
        elif isinstance(value, dict) and "__builtins__" in value:
            own = value.get("__name__") == self._module
            name = _GLOBALS if own else f"globals of {value.get('__name__')}"
        else:
            name = self._modules.get(id(value), name)
        while name in self.found.named:
            name += "'"
        return name

    def _others(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield the objects that an object reaches in other ways than by its values."""
        if isinstance(value, FunctionType):
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
            yield from ((f".{name}{_CELL}", cell) for name, cell in cells if name != "__class__")
            yield from ((f".default {at}", one) for at, one in enumerate(value.__defaults__ or ()))
            yield from ((f".{key}", one) for key, one in (value.__kwdefaults__ or {}).items())
            if self._is_users(value.__globals__):
                yield f" of {value.__globals__.get('__name__')}", value.__globals__
        elif isinstance(value, MethodType):
            yield from ((" of", value.__self__), ("", value.__func__))
        elif isinstance(value, functools.partial):
            yield from ((".func", value.func), (".args", value.args))
            yield ".keywords", value.keywords
        elif isinstance(value, ModuleType):
            yield "", vars(value)
        elif isinstance(value, type):
            for key, one in list(vars(value).items()):
                if isinstance(one, property):
                    yield from ((f".{key}", way) for way in (one.fget, one.fset, one.fdel) if way)
                elif isinstance(one, FunctionType | classmethod | staticmethod):
                    yield f".{key}", getattr(one, "__func__", one)
                elif hasattr(type(one), "__get__") and self._is_entered(one):
                    yield f".{key}", one
        elif isinstance(value, dict) and "__builtins__" in value:
            for key, one in value.items():
                near = isinstance(one, ModuleType) and self._is_users(vars(one))
                if near or isinstance(one, FunctionType | type):
                    yield f".{key}", one
        else:
            if id(value) in self._modules:
                yield from ((f".{name}", one) for name, one in value._modules.items())
            yield from self._inside(value)
            if not isinstance(value, CONTAINERS):
                yield from ((f" class {kind.__name__}", kind) for kind in type(value).__mro__)

    def _inside(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield the objects in a leaf, container or unentered object that are not its content."""
        if id(type(value)) in _BARE:
            return
        # A subclass of a container, a tensor and an array may have attributes too.
        if isinstance(value, _HOLDERS) and hasattr(value, "__dict__"):
            yield " attributes", vars(value)
        if isinstance(value, weakref.ReferenceType):
            yield "()", value()
        if isinstance(value, Iterator) and _is_of_python(value):
            yield from ((f" over {at}", one) for at, one in enumerate(gc.get_referents(value)))

    def _is_entered(self, value: Any) -> bool:
        """Tell whether to look into an object: not where it is Python's or a library's own."""
        if isinstance(value, type):
            return is_open(value.__module__) and not issubclass(value, Enum)
        if isinstance(value, ModuleType):
            return self._is_users(vars(value))
        # The content of a buffer is in none of its attributes.
        if buffer_of(value) is not None:
            return False
        return isinstance(value, _OPENED) or is_open(type(value).__module__)

    def _is_users(self, names: dict[str, Any]) -> bool:
        """Tell whether these are the globals of a file of the user's."""
        file = names.get("__file__")
        own = names.get("__name__") == self._module
        return own or (isinstance(file, str) and is_users(file))


def _is_variable(key: Any, value: Any) -> bool:
    """Tell whether a name of a file or class is a variable, which may be bound to functions."""
    return not (is_pythons(str(key)) or isinstance(value, type | ModuleType))


def _is_code(value: Any) -> bool:
    return isinstance(value, FunctionType | staticmethod | classmethod | property)


def _undisabled(value: Any) -> Any:
    """Return the original of a function that the first ``torch.compile`` has wrapped."""
    return getattr(value, _DISABLED, value) if isinstance(value, FunctionType) else value


def _has_vars(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, type)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_of_python(value: Any) -> bool:
    return type(value).__module__ in ("builtins", "itertools")


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor) and value.layout is torch.strided:
        return value.detach().clone() if value.nbytes <= _COPIED_BYTES else None
    return value.copy() if isinstance(value, np.ndarray | set) else None


def parts_of_data(dataset: Any, others: Set[int], depth: int = 0) -> Iterator[Any]:
    """Yield a data set and its parts: data are no state, and may be large.

    ``others``: identities of objects that are no part of it, even if it holds them.
    """
    if id(dataset) in others or isinstance(dataset, Optimizer | LRScheduler):
        return
    yield dataset
    if depth > 3:
        return
    inner: Any = vars(dataset).values() if _has_vars(dataset) else ()
    if isinstance(dataset, list | tuple | dict) and len(dataset) <= _LONG:
        inner = dataset.values() if isinstance(dataset, dict) else dataset
    for one in inner:
        if not isinstance(one, PLAIN):
            yield from parts_of_data(one, others, depth + 1)
