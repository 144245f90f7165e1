"""Write values as JSON and tensors, and read them back: never pickle.

Numbers keep their type and tensors their dtype. Objects that a fresh build has too are written by
name, parameters and buffers of the model by their entry of the layout.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from warren.live.training.checkpoints.barrier_objects import Known, is_leaf, set_item
from warren.live.training.isolation.kept_values import GENERATORS, ids_of
from warren.model.errors import WarrenError

_KINDS: Final[Mapping[type, str]] = {
    list: "list",
    tuple: "tuple",
    dict: "dict",
    OrderedDict: "ordered",
    defaultdict: "default",
    Counter: "counter",
    deque: "deque",
    set: "set",
    frozenset: "frozenset",
    torch.Size: "size",
}
_NUMBERED: Final = ids_of((Tensor, nn.Parameter, *_KINDS))
"""Identities of usual types whose values are written once, and later named by number."""
_HERE: Final = "kept/"
"""Beginning of the names of tensors and arrays in main memory."""
THERE: Final = "device/"
"""Beginning of the names of tensors on the device of the model."""
_CODE: Final = (FunctionType, MethodType, ModuleType, type, functools.partial)


class CannotKeep(WarrenError):
    """A value that no checkpoint can keep; the message names it."""


class Writer:
    """Writes the values of one checkpoint; tensors go to ``found``, each under a number.

    Parameters
    ----------
    names
        Entries of the layout by identity of the model's tensors.
    known
        Objects that a fresh build has as well, by identity.
    found
        Takes the tensors.
    models
        Tensors of the model, with their names, by where their storage begins.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        known: Mapping[int, Known],
        found: dict[str, Tensor],
        models: Mapping[int, Sequence[tuple[str, Tensor]]],
    ) -> None:
        self._names = names
        self._known = known
        self._found = found
        self._models = models
        self._numbers: dict[int, int] = {}
        # Objects stay alive, so that no other has the same identity meanwhile.
        self._alive: list[Any] = []
        self._memory: list[tuple[int, int, str]] = []
        self._inside = False

    def name_of(self, tensor: object) -> str:
        """Return the name of a tensor of the model; empty: it is none."""
        return self._names.get(id(tensor), "")

    @contextmanager
    def undone_if_refused(self) -> Iterator[None]:
        """Forget values written inside if they are refused: no later entry may name them."""
        numbers, memory = len(self._numbers), len(self._memory)
        try:
            yield
        except CannotKeep:
            for at in list(self._numbers)[numbers:]:
                number = self._numbers.pop(at)
                for place in (_HERE, THERE):
                    self._found.pop(f"{place}{number}", None)
            del self._memory[memory:]
            raise

    def write(self, value: Any, path: str, *, strict: bool = False, inside: bool = False) -> Any:
        """Return a value as JSON.

        ``strict``: objects that a build has too are refused unless they are code or containers.
        ``inside``: write the content of a known container or leaf, and not its name.

        Raises
        ------
        CannotKeep
            It is, or holds, a value that cannot be written.
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) in self._names:
            return {"model": self._names[id(value)]}
        known = self._known.get(id(value))
        if known is not None and not inside:
            opened = isinstance(value, (*_CODE, *_KINDS)) or is_leaf(value)
            if strict and not opened:
                raise self._refusal(value, path)
            return {"known": known.name}
        single = None if id(type(value)) in _NUMBERED else _single(value)
        if single is not None:
            return single
        if id(value) in self._numbers:
            return {"same": self._numbers[id(value)]}
        self._inside = inside
        number = self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        return {**self._written(value, path, number, strict=strict), "n": number}

    def _written(self, value: Any, path: str, number: int, *, strict: bool) -> dict[str, Any]:
        """Return a container, a tensor or a generator."""
        if isinstance(value, Tensor):
            return self._tensor(value, path, number)
        if isinstance(value, np.ndarray):
            odd = value.dtype.hasobject or value.dtype.names
            if odd or type(value) is not np.ndarray:
                raise self._refusal(value, path)
            name = f"{_HERE}{number}"
            self._found[name] = torch.frombuffer(bytearray(value.tobytes()), dtype=torch.uint8)
            return {"array": [name, value.dtype.str, list(value.shape)]}
        if isinstance(value, GENERATORS):
            return {"generator": self._state(value, path)}
        kind = _KINDS.get(type(value))
        if kind is None:
            raise self._refusal(value, path)
        if isinstance(value, dict):
            pairs = [
                [
                    self.write(key, path, strict=strict),
                    self.write(one, f"{path}[{self._shown(key)}]", strict=strict),
                ]
                for key, one in value.items()
            ]
            factory = getattr(value, "default_factory", None)
            return {kind: pairs, **self._factory(factory, path)}
        items: Any = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        written = [self.write(one, f"{path}[{at}]", strict=strict) for at, one in enumerate(items)]
        return {kind: written, **({"most": value.maxlen} if kind == "deque" else {})}

    def _tensor(self, value: Tensor, path: str, number: int) -> dict[str, Any]:
        """Return a tensor; a view of the model's memory stays one."""
        strided = value.layout is torch.strided and not (value.is_meta or value.is_quantized)
        if type(value) not in (Tensor, nn.Parameter) or not strided:
            raise self._refusal(value, path)
        flags: dict[str, Any] = {"parameter": True} if type(value) is nn.Parameter else {}
        if value.requires_grad and value.is_leaf:
            flags["grad"] = True
        near = self._models.get(value.untyped_storage().data_ptr()) if value.numel() else None
        if near is not None:
            name, base = _around(value, near)
            if base.dtype != value.dtype:
                raise CannotKeep(f"{path} is a view of {name!r} of another type, {_ADVICE}")
            offset = value.storage_offset() - base.storage_offset()
            view = [name, offset, list(value.shape), list(value.stride())]
            return {"view": view, **flags}
        contiguous = value.is_contiguous()
        repeats = (s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True))
        if not contiguous and any(repeats):
            raise CannotKeep(f"{path} has elements that share memory, {_ADVICE}")
        name = f"{_HERE if value.is_cpu else THERE}{number}"
        self._found[name] = value.detach()
        if not self._inside:
            self._memory.append((*_extent(value), path))
        if not contiguous:
            flags["strides"] = list(value.stride())
        return {"tensor": name, **flags}

    def check_memory(self) -> None:
        """Refuse new tensors that share memory, since each would get memory of its own.

        Raises
        ------
        CannotKeep
            Two do, or one does with a tensor that a build has as well.
        """
        old = [
            (*_extent(known.value), "")
            for known in self._known.values()
            if isinstance(known.value, Tensor) and known.value.layout is torch.strided
        ]
        end, last = 0, ""
        for begin, until, path in sorted(self._memory + old if self._memory else []):
            if begin < end and (path or last):
                shared = last or "another tensor"
                raise CannotKeep(f"{path or last} shares memory with {shared}, {_ADVICE}")
            if until > end:
                end, last = until, path

    def _state(self, value: Any, path: str) -> list[Any]:
        if isinstance(value, torch.Generator):
            state = value.get_state().numpy().tobytes().hex()
            return ["torch", state] if value.device.type == "cpu" else ["torch", state, True]
        if isinstance(value, np.random.Generator):
            return ["numpy", self.write(value.bit_generator.state, path)]
        if isinstance(value, np.random.RandomState):
            return ["legacy", self.write(value.get_state(), path)]
        return ["python", self.write(value.getstate(), path)]

    def _factory(self, factory: Any, path: str) -> dict[str, Any]:
        if factory is None:
            return {}
        named = {one: name for name, one in _FACTORIES.items()}
        if factory in named:
            return {"factory": named[factory]}
        return {"factory": self.write(factory, path)}

    def _shown(self, key: Any) -> str:
        return self._names.get(id(key)) or (repr(key) if isinstance(key, str | int) else "...")

    def _refusal(self, value: Any, path: str) -> CannotKeep:
        return CannotKeep(f"{path} holds a {type(value).__name__}, {_ADVICE}: {_MAY}")


def _single(value: Any) -> dict[str, Any] | None:
    """Return a number or constant that is written again wherever it is met; None for others."""
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return {"numpy": [value.dtype.str, value.tobytes().hex()]}
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if type(value) is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, Enum):
        return {"enum": [type(value).__module__, type(value).__qualname__, value.name]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    return {"device": str(value)} if isinstance(value, torch.device) else None


def _member(module: str, name: str, member: str) -> Enum:
    """Return a member of an enumeration of a module that is loaded."""
    found: Any = sys.modules[module]
    for one in name.split("."):
        found = getattr(found, one, None)
    if not (isinstance(found, type) and issubclass(found, Enum)):
        raise KeyError(f"{module}.{name}")
    return found[member]


def _around(value: Tensor, near: Sequence[tuple[str, Tensor]]) -> tuple[str, Tensor]:
    """Return the tensor of the model of which a value is a view; of several, any if it is of all.

    On a device all tensors of a model share one storage.
    """
    begin, end = _extent(value)
    spans = ((name, one, *_extent(one)) for name, one in near)
    found = ((name, one) for name, one, first, last in spans if first <= begin and end <= last)
    return next(found, near[-1])


def _extent(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses at which the memory of a tensor begins and ends."""
    if not tensor.numel():
        return 0, 0
    begin = tensor.data_ptr()
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


_ADVICE: Final = "which a checkpoint cannot keep"
_MAY: Final = (
    "numbers, texts, tensors and containers of these can be kept; name it in scratch where no "
    "result depends on it"
)
_FACTORIES: Final[Mapping[str, Any]] = {
    "dict": dict, "list": list, "set": set, "int": int, "float": float, "deque": deque
}  # fmt: skip


class Reader:
    """Reads the output of a ``Writer``, for another process.

    Parameters
    ----------
    model
        The tensors of the model by name.
    known
        Finds an object of this process by its name.
    found
        The tensors of the file.
    """

    def __init__(
        self,
        model: Mapping[str, Tensor],
        known: Callable[[str], Any],
        found: Mapping[str, Tensor],
    ) -> None:
        self._model = model
        self._known = known
        self._found = found
        self._numbers: dict[int, Any] = {}

    def read_all(self, entry: Mapping[str, Any]) -> Any:
        """Return the value of an entry: the set or copied value, or the items of a container."""
        if "fill" in entry:
            return [
                tuple(map(self.read, one)) if isinstance(one, list) else self.read(one)
                for one in entry["fill"]
            ]
        return self.read(entry.get("set", entry.get("item", entry.get("copy"))))

    def read(self, value: Any) -> Any:
        """Return a value.

        Raises
        ------
        KeyError
            It names a value that is not there.
        """
        if not isinstance(value, dict):
            return value
        if "same" in value:
            return self._numbers[value["same"]]
        kind, content = next(iter(value.items()))
        if kind == "model":
            return self._model[content]
        if kind == "known":
            return self._known(content)
        if kind == "numpy":
            return np.frombuffer(bytes.fromhex(content[1]), np.dtype(content[0]))[0]
        if kind == "complex":
            return complex(*content)
        if kind == "bytes":
            return bytes.fromhex(content)
        if kind == "enum":
            return _member(*content)
        if kind == "dtype":
            return getattr(torch, content)
        if kind == "device":
            return torch.device(content)
        return self._numbered(kind, content, value)

    def _numbered(self, kind: str, content: Any, value: dict[str, Any]) -> Any:
        number = value["n"]
        made: Any = self._leaf(kind, content, value)
        if made is None and kind in _FILLED:
            # It is there before its items are read: they may hold it.
            made = self._empty(kind, value)
            self._numbers[number] = made
            self.fill(made, kind, content)
        elif made is None:
            items = [self.read(one) for one in content]
            made = {"tuple": tuple, "frozenset": frozenset, "size": torch.Size}[kind](items)
        self._numbers[number] = made
        return made

    def fill(self, target: Any, kind: str, content: Any) -> None:
        """Put items into a container, which is empty."""
        if isinstance(target, dict):
            for key, one in content:
                set_item(target, self.read(key), self.read(one))
        elif isinstance(target, set):
            target.update(self.read(one) for one in content)
        else:
            target.extend(self.read(one) for one in content)

    def _empty(self, kind: str, value: dict[str, Any]) -> Any:
        if kind == "default":
            factory = value.get("factory")
            named = _FACTORIES.get(factory) if isinstance(factory, str) else self.read(factory)
            return defaultdict(named)
        if kind == "deque":
            return deque(maxlen=value["most"])
        return _FILLED[kind]()

    def _leaf(self, kind: str, content: Any, value: dict[str, Any]) -> Any:
        """Return a tensor, an array or a generator; None for other kinds."""
        if kind == "array":
            name, dtype, shape = content
            flat = bytearray(self._found[name].cpu().numpy().tobytes())
            return np.frombuffer(flat, np.dtype(dtype)).reshape(shape)
        if kind == "generator":
            return self._generator(*content)
        if kind not in ("tensor", "view"):
            return None
        if kind == "view":
            name, offset, shape, strides = content
            base = self._model[name].detach()
            made = base.as_strided(shape, strides, base.storage_offset() + offset)
        else:
            made = self._found[content]
            if "strides" in value:
                made = torch.empty_strided(
                    made.shape, value["strides"], dtype=made.dtype, device=made.device
                ).copy_(made)
        if value.get("parameter"):
            return nn.Parameter(made, requires_grad=bool(value.get("grad")))
        return made.requires_grad_() if value.get("grad") else made

    def _generator(self, kind: str, state: Any, there: bool = False) -> Any:
        made: Any
        if kind == "torch":
            models = (one.device for one in self._model.values())
            made = torch.Generator(next(models, "cpu") if there else "cpu")
        elif kind == "numpy":
            made = np.random.Generator(getattr(np.random, self.read(state)["bit_generator"])())
        else:
            made = np.random.RandomState() if kind == "legacy" else random.Random(0)  # noqa: S311
        self.set_state(made, kind, state)
        return made

    def set_state(self, generator: Any, kind: str, state: Any) -> None:
        """Put a generator where it was."""
        if kind == "torch":
            whole = bytearray(bytes.fromhex(state))
            generator.set_state(torch.frombuffer(whole, dtype=torch.uint8))
        elif kind == "numpy":
            generator.bit_generator.state = self.read(state)
        elif kind == "legacy":
            generator.set_state(self.read(state))
        else:
            generator.setstate(self.read(state))


_FILLED: Final[Mapping[str, Any]] = {
    "list": list, "dict": dict, "ordered": OrderedDict, "default": defaultdict,
    "counter": Counter, "deque": deque, "set": set,
}  # fmt: skip
