"""Find the values of an app that its tasks read, by the code that they run.

A task runs ``loss``, ``collate``, ``sampler``, the ``forward`` of modules and their hooks, and the
methods of the data set. The names that this code loads from ``self``, from the model and from
globals show the values that it reads, and these are followed. What no name shows, such as a
computed one, is missed.
"""

from __future__ import annotations

import dis
import functools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, Final

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.user_files import is_users
from warren.live.training.isolation.kept_values import GENERATORS, PLAIN, is_a
from warren.live.training.tensor_layout import tensors

_CONTAINERS: Final = (dict, list, tuple, deque, set, frozenset)
_MOST: Final = 1000
"""Most items of a container that is searched."""
_OF_DATA: Final = ("__getitem__", "__getitems__", "__len__")
HOOKS: Final = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
    "_post_accumulate_grad_hooks",
)  # fmt: skip
"""Attributes of modules and tensors with the hooks that run in tasks."""
_OF_MODULES: Final = frozenset(vars(nn.Module()))
_ATTRIBUTE: Final = ("LOAD_ATTR", "LOAD_METHOD")
"""Instructions that load an attribute of the value before."""
_BASES: Final = (object, nn.Module, TorchApp)


def hooks_of(holder: nn.Module | Tensor) -> Iterator[tuple[str, Any]]:
    """Yield the hooks of a module or tensor that run in tasks, with their places."""
    for kind in HOOKS:
        for at, hook in enumerate((getattr(holder, kind, None) or {}).values()):
            yield f"{kind}[{at}]", hook


@dataclass(frozen=True, slots=True)
class _Loads:
    """The names that code loads: attributes, globals, and ``off`` a variable, as ``self.net``.

    ``parents``: those off ``super()``, all names if it puts that into a variable.
    """

    names: set[str]
    globals: set[str]
    off: defaultdict[str, set[str]]
    parents: set[str]


class TaskReads:
    """The values that tasks of an app read, as far as its code shows them."""

    def __init__(self, built: BuiltApp) -> None:
        self._trained = {id(module) for module in built.model.modules()}
        # A barrier may write these, and each task is given them.
        self._trained |= {id(one) for one in tensors(built.model).values()}
        self._keys: defaultdict[int, set[str]] = defaultdict(set)
        self._reached: set[int] = set()
        self._done: set[tuple[int, Any]] = set()
        # Objects stay alive, so that no other has the same identity meanwhile.
        self._alive: list[Any] = []
        self._app = built.app
        for name in ("loss", "collate", "sampler"):
            self._method(built.app, name, model=built.model)
        for module in built.model.modules():
            self._method(module, "forward")
            for holder in (module, *module._parameters.values()):
                for _, hook in hooks_of(holder) if holder is not None else ():
                    self._reach(hook, ())
        for name in _OF_DATA:
            self._method(built.dataset, name)

    def has(self, value: Any) -> bool:
        """Tell whether tasks read the content of a container, a tensor, an array or a generator."""
        return id(value) in self._reached

    def keys(self, holder: Any) -> Iterable[str]:
        """Return the names that tasks read of an object, a class, the globals of a file, a cell."""
        if isinstance(holder, CellType):
            return ("cell_contents",) if id(holder) in self._reached else ()
        # Attributes of torch's own, such as ``training``, are set before each task.
        found = self._keys.get(id(holder))
        return found - _OF_MODULES if found else ()

    def _method(self, owner: Any, name: str, model: nn.Module | None = None) -> None:
        """Follow a method of an object: the nearest one, and those that ``super()`` calls."""
        if (id(owner), name) in self._done:
            return
        self._done.add((id(owner), name))
        self._alive.append(owner)
        for kind in type(owner).__mro__:
            found = [] if kind in _BASES else list(_functions(vars(kind).get(name)))
            for one in found:
                self._code(one, owner, model)
            # A method of a base class runs where the nearest one calls it.
            if found and not any(_calls(one, name) for one in found):
                break
        if isinstance(bound := _attributes(owner).get(name), FunctionType | MethodType):
            self._reach(bound, ())

    def _code(self, function: FunctionType, owner: Any, model: nn.Module | None = None) -> None:
        """Take the names that a function loads; ``owner`` is its first argument, if it is known."""
        code = function.__code__
        loads = _loads(code)
        first, *others = [*code.co_varnames[: code.co_argcount], ""]
        own = loads.off[first] | loads.parents if owner is not None else set()
        if model is not None and others:
            self._keys[id(model)] |= loads.off[others[0]]
        if owner is not None:
            self._of_owner(owner, own, loads, first)
        # Of libraries the attributes of their own objects are enough.
        if is_users(code.co_filename):
            self._outside(function, loads)

    def _of_owner(self, owner: Any, own: set[str], loads: _Loads, variable: str) -> None:
        """Take the names that code loads from an object, which it has in a variable."""
        for one in (owner, *type(owner).__mro__):
            self._keys[id(one)] |= own
        values = _attributes(owner)
        for name in own:
            if id(values.get(name)) in self._trained:
                self._keys[id(values[name])] |= loads.off[f"{variable}.{name}"]
            elif name in values:
                self._reach(values[name], loads.names)
            else:
                self._method(owner, name)

    def _outside(self, function: FunctionType, loads: _Loads) -> None:
        """Follow the globals, variables and default arguments that a function reads."""
        for name in loads.globals & function.__globals__.keys():
            self._keys[id(function.__globals__)].add(name)
            self._reach(function.__globals__[name], loads.names)
        self._alive.append(function)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._reached.add(id(cell))
            self._reach(_inside(cell), loads.names)
            if _inside(cell) is self._app:
                self._of_owner(self._app, loads.off[name], loads, name)
        for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._reach(one, loads.names)

    def _reach(self, value: Any, names: Iterable[str]) -> None:
        """Follow a value that code reads, which loads these names from it or others.

        If its class raises when it is looked at, nothing more is taken.
        """
        with suppress(Exception):
            if value is not self._app and not is_a(value, *PLAIN, Optimizer, LRScheduler):
                self._follow(value, names)

    def _follow(self, value: Any, names: Iterable[str]) -> None:
        if isinstance(value, FunctionType):
            if (id(value), "") not in self._done:
                self._done.add((id(value), ""))
                self._code(value, None)
        elif isinstance(value, MethodType):
            self._reach(value.__self__, ())
            if isinstance(value.__func__, FunctionType):
                self._code_once(value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            for one in (value.func, *value.args, *value.keywords.values()):
                self._reach(one, names)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._reach(value.__wrapped__, names)
        elif isinstance(value, (Tensor, np.ndarray, *GENERATORS)):
            self._reached.add(id(value))
            self._alive.append(value)
            self._keys[id(value)] |= set(names)
        elif isinstance(value, _CONTAINERS):
            self._container(value, names)
        elif id(value) not in self._trained:
            self._object(value, names)

    def _code_once(self, function: FunctionType, owner: Any) -> None:
        if (id(owner), function) not in self._done:
            self._done.add((id(owner), function))
            self._code(function, owner)

    def _container(self, value: Any, names: Iterable[str]) -> None:
        if id(value) in self._reached or "__builtins__" in value:
            return
        self._reached.add(id(value))
        self._alive.append(value)
        if len(value) <= _MOST:
            for one in value.values() if isinstance(value, dict) else value:
                self._reach(one, names)

    def _object(self, value: Any, names: Iterable[str]) -> None:
        """Follow an object or a class: any method of the user's may be called."""
        kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
        users = [kind for kind in kinds if kind not in _BASES and _is_users(kind)]
        if not users and not isinstance(value, nn.Module):
            return
        new = set(names) - self._keys[id(value)]
        self._keys[id(value)] |= new
        self._alive.append(value)
        values = _attributes(value)
        for name in new & values.keys():
            self._reach(values[name], names)
        if isinstance(value, type):
            for kind in users:
                self._keys[id(kind)] |= new
        elif isinstance(value, nn.Module):
            self._method(value, "forward")
            for child in value.children():
                self._reach(child, names)
        for kind in users if not isinstance(value, type) else ():
            for name in list(vars(kind)):
                self._method(value, name)


def _calls(function: FunctionType, name: str) -> bool:
    """Tell whether a method may call that of the same name of a base class."""
    loads = _loads(function.__code__)
    return "super" in loads.globals or name in loads.names


@functools.cache
def _loads(code: CodeType) -> _Loads:
    """Return the names that code loads, with those of functions inside it."""
    found = _Loads(set(), set(), defaultdict(set), set())
    last = parent = ""
    parent_is_kept = False
    for step in dis.get_instructions(code):
        kind, name = step.opname, step.argval
        if kind == "LOAD_SUPER_ATTR" or (parent == "called" and kind in _ATTRIBUTE):
            found.parents.add(name)
        parent_is_kept |= parent == "called" and kind not in _ATTRIBUTE
        parent = _parent_after(step, parent)
        if kind in (*_ATTRIBUTE, "LOAD_SUPER_ATTR"):
            found.names.add(name)
            found.off[last].add(name)
            last = f"{last}.{name}" if last else ""
            continue
        if kind in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.globals.add(name)
        variable = kind.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF"))
        if kind != "COPY":
            # Two variables may be loaded by one instruction.
            last = (name[-1] if isinstance(name, tuple) else str(name)) if variable else ""
    texts = {one for one in code.co_consts if isinstance(one, str) and one.isidentifier()}
    if found.globals & {"getattr", "vars"} or "__dict__" in found.names:
        found.names.update(texts)
        for name in (*code.co_varnames[: code.co_argcount], *code.co_freevars):
            found.off[name] |= texts
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            loads = _loads(inner)
            found.names.update(loads.names)
            found.globals.update(loads.globals)
            found.parents.update(loads.parents)
            for way, names in loads.off.items():
                if way.partition(".")[0] in inner.co_freevars:
                    found.off[way] |= names
    if parent_is_kept:
        found.parents.update(found.names)
    return found


def _parent_after(step: dis.Instruction, before: str) -> str:
    """Return how far a call of ``super()`` has come after an instruction: loaded, called or none.

    Its arguments may be loaded in between.
    """
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval == "super":
        return "loaded"
    if before == "loaded":
        return "called" if step.opname == "CALL" else "loaded"
    return ""


def _functions(found: Any) -> Iterator[FunctionType]:
    """Yield the functions that an entry of a class runs when it is read or called."""
    if is_a(found, property):
        found = found.fget
    elif is_a(found, functools.cached_property):
        found = found.func
    elif is_a(found, staticmethod, classmethod):
        found = found.__func__
    if is_a(found, FunctionType, functools._lru_cache_wrapper):
        found = getattr(found, "__wrapped__", found)
    if is_a(found, FunctionType):
        yield found


def _attributes(value: Any) -> dict[str, Any]:
    found = None if is_a(value, type) else getattr(value, "__dict__", None)
    own = dict(found) if isinstance(found, dict) else {}
    # A module has its parameters, buffers and modules in dicts of their own.
    return {**_tensors_of(value), **own} if isinstance(value, nn.Module) else own


def _tensors_of(module: nn.Module) -> dict[str, Any]:
    return {**module._parameters, **module._buffers, **module._modules}


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_users(kind: type) -> bool:
    """Tell whether a class has methods in a file of the user's."""
    functions = (one for found in vars(kind).values() for one in _functions(found))
    return any(is_users(one.__code__.co_filename) for one in functions)
