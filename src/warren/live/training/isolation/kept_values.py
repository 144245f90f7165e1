"""Tell of one value that user code keeps whether it has changed; compare it and put it back."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import CellType
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from xxhash import xxh3_64_intdigest

_COPIED_BYTES: Final = 1 << 16
"""Larger tensors and arrays are not copied, so what was written into one cannot be undone."""
_HASHED_BYTES: Final = 1 << 26
"""Larger arrays are only known by which object they are: they have no version."""
_LISTED: Final = 1000
"""Longer lists and sets are compared by their length alone."""
_ITEMS: Final = (dict, list, tuple, deque)
# Values that cannot be written in place: a change of one is always a new binding.
PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, np.generic)
GENERATORS: Final = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptValue:
    """A value under ``key`` of ``holder`` (a dict, a list, a class, a cell) at some moment.

    ``mark`` is another one once the value has been replaced or written; ``copy`` is what was in it,
    where that can be put back.
    """

    name: str
    holder: Any
    key: Any
    value: Any
    mark: object
    copy: Any

    @property
    def restorable(self) -> bool:
        """Tell whether the content can be put back, should it have been written in place."""
        return self.copy is not None or not isinstance(self.value, Tensor | np.ndarray | Iterator)


def keep(name: str, holder: Any, key: Any, value: Any, *, copied: bool) -> KeptValue:
    """Note a value as it is now; with ``copied``, its content too, so that it can be put back."""
    copy = _copy(value) if copied else None
    return KeptValue(name=name, holder=holder, key=key, value=value, mark=_mark(value), copy=copy)


def now(kept: KeptValue) -> KeptValue | None:
    """Note the value in the same place as it is now; None where nothing is there any more."""
    holder, key = kept.holder, kept.key
    try:
        value = holder[key] if isinstance(holder, _ITEMS) else getattr(holder, key)
    except (LookupError, AttributeError, ValueError):
        return None
    return keep(kept.name, holder, key, value, copied=True)


def content(value: Any) -> object:
    """Return what is in a value, to be compared: equal content is equal in whichever object."""
    if isinstance(value, PLAIN):
        return _plain(value)
    if isinstance(value, GENERATORS):
        return _state(value)
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), _bytes_mark(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, _array_mark(value)
    if isinstance(value, list | tuple | deque):
        return type(value), len(value), tuple(map(content, value)) if _short(value) else None
    if isinstance(value, set):
        return _members(value)
    # An object of some other class: nothing can be said but of which class it is.
    return _place(value) if isinstance(value, Iterator) else type(value)


def put_back(kept: KeptValue) -> None:
    """Bind the value again where it was, with the content that it had."""
    _bind(kept.holder, kept.key, kept.value)
    value, copy = kept.value, kept.copy
    # Nothing was written in place, or there is nothing to write back.
    if copy is None or _mark(value) == kept.mark:
        return
    if isinstance(value, GENERATORS):
        _set_state(value, copy)
    elif isinstance(value, Tensor):
        with torch.no_grad():
            value.copy_(copy)
    elif isinstance(value, np.ndarray):
        value[...] = copy
    elif isinstance(value, list):
        value[:] = copy
    else:  # a deque, or a set
        value.clear()
        (value.extend if isinstance(value, deque) else value.update)(copy)


def _bind(holder: Any, key: Any, value: Any) -> None:
    """Put a value under a key of its holder; a tuple holds for ever what it was made with."""
    if isinstance(holder, dict | list | deque):
        holder[key] = value
    elif not isinstance(holder, tuple):
        setattr(holder, key, value)


def unbind(holder: Any, key: Any) -> None:
    """Remove what is under a key of a dict, a class or a cell; other holders stay as they are."""
    if isinstance(holder, dict):
        holder.pop(key, None)
    elif isinstance(holder, type | CellType):
        with suppress(AttributeError, ValueError):
            delattr(holder, key)


def _mark(value: Any) -> object:
    """Return what differs once a value has been replaced or written in place."""
    if isinstance(value, PLAIN):
        return _plain(value)
    if isinstance(value, Tensor):
        # Autograd counts each write to a tensor; inference tensors have no such count.
        return id(value), 0 if value.is_inference() else value._version
    if isinstance(value, np.ndarray):
        return id(value), _array_mark(value)
    if isinstance(value, GENERATORS):
        return id(value), _state(value)
    if isinstance(value, list | deque):
        return id(value), len(value), tuple(map(id, value)) if _short(value) else None
    if isinstance(value, set):
        return id(value), _members(value)
    return (id(value), _place(value)) if isinstance(value, Iterator) else id(value)


def _copy(value: Any) -> Any:
    """Return what ``put_back`` needs to restore a value's content; None where nothing can."""
    if isinstance(value, GENERATORS):
        return _get_state(value)
    if isinstance(value, list | deque | set):
        return list(value)
    if isinstance(value, Tensor) and value.layout is torch.strided:
        if value.nbytes > _COPIED_BYTES:
            return None
        return value.detach().clone()
    if isinstance(value, np.ndarray) and value.nbytes <= _COPIED_BYTES:
        return value.copy()
    return None


def _plain(value: Any) -> object:
    # Compared as text, NaN equals NaN, and 0.0 differs from -0.0.
    return type(value), repr(value)


def _bytes_mark(tensor: Tensor) -> object:
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        return None
    # The bytes in row-major order, whatever strides, conjugation or sign bit the view has.
    whole = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return xxh3_64_intdigest(whole.view(torch.uint8).numpy().data)


def _array_mark(array: np.ndarray[Any, Any]) -> object:
    if array.dtype.hasobject or array.nbytes > _HASHED_BYTES:
        return None
    return xxh3_64_intdigest(array.tobytes())


def _short(value: Any) -> bool:
    return len(value) <= _LISTED


def _members(value: set[Any]) -> object:
    return len(value), frozenset(map(repr, value)) if _short(value) else None


def _place(value: Iterator[Any]) -> object:
    """Return how far an iterator has come, as far as it tells."""
    # A generator's place is the instruction it stopped at and its local variables.
    frame = getattr(value, "gi_frame", None)
    inside = None if frame is None else (frame.f_lasti, repr(frame.f_locals))
    try:
        left = value.__length_hint__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        left = None
    own = {key: one for key, one in getattr(value, "__dict__", {}).items() if _is_plain(one)}
    return left, inside, repr(value), repr(own)


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN)


def _state(value: Any) -> object:
    return _bytes_of(_get_state(value))


def _get_state(value: Any) -> Any:
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    return value.get_state() if isinstance(value, np.random.RandomState) else value.getstate()


def _set_state(value: Any, state: Any) -> None:
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = state
    elif isinstance(value, random.Random):
        value.setstate(state)
    else:
        value.set_state(state)


def _bytes_of(state: Any) -> object:
    """Return a generator's state as numbers and bytes, which can be compared."""
    if isinstance(state, dict):
        return tuple((key, _bytes_of(value)) for key, value in state.items())
    if isinstance(state, tuple) and len(state) < 100:
        return tuple(map(_bytes_of, state))
    if isinstance(state, Tensor):
        return state.numpy().tobytes()
    return state.tobytes() if isinstance(state, np.ndarray) else state
