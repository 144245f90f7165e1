"""Tell whether one value that user code keeps has changed; compare it and put it back.

A value is known by its type, whatever its class says, and is read and written by methods of the
types of Python and of libraries. If its class raises all the same, only the identity is known.
"""

from __future__ import annotations

import pickle
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ctypes import c_char
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
_HASHED_TENSOR_BYTES: Final = 1 << 22
"""Larger tensors are known by their version and some elements, so that data cost no time."""
_SAMPLES: Final = 256
_LISTED: Final = 1000
"""Longer lists and sets are compared by their length alone."""
_LONG: Final = 1000
"""Longer texts are compared by their hash."""
_SEQUENCES: Final = (list, tuple, deque)
_SETS: Final = (set, frozenset)
_IDS_OF_TENSORS: Final = frozenset(map(id, (Tensor, torch.nn.Parameter)))
# Values that cannot be written in place: a change of one is always a new binding.
PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, np.generic)
_IDS_OF_PLAIN: Final = frozenset(map(id, PLAIN))
GENERATORS: Final = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)

_COMPILERS: Final = (
    "__builtins_dict__",
    "__import_",
    "__compiled_fn",
    "__resume_at_",
    "__comprehension_",
    "__gen_rand_values",
    "___context_manager_",
)
"""How names begin that ``torch.compile`` gives to globals of a file whose code it compiles."""


def is_a(value: Any, *kinds: type) -> bool:
    """Tell whether a value is of one of these types, whatever its ``__class__`` says."""
    try:
        return issubclass(type(value), kinds)
    except Exception:  # classes of classes raise too
        return False


def is_plain(value: Any) -> bool:
    """Tell whether a value is of one of the types in ``PLAIN``."""
    return id(type(value)) in _IDS_OF_PLAIN or is_a(value, *PLAIN)


def is_pythons(name: str) -> bool:
    """Tell whether Python or torch's compiler gives this name, so that it is no user's variable."""
    return name.startswith(("_abc_", *_COMPILERS)) or (name[:2] == "__" == name[-2:])


def ids_of(kinds: Iterable[type]) -> frozenset[int]:
    """Return the identities of types, which are compared without the user's code."""
    return frozenset(map(id, kinds))


def is_objects(value: Any) -> bool:
    """Tell whether a value is an array of objects, few enough to be looked at."""
    return is_a(value, np.ndarray) and value.dtype == object and value.size <= _LISTED


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptValue:
    """A value under ``key`` of ``holder`` (a dict, a list, a class, a cell) at some moment.

    ``mark`` differs once the value has been replaced or written; ``copy`` is its content, if that
    can be put back.
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
        return self.copy is not None or not is_a(self.value, Tensor, np.ndarray, Iterator)


def keep(name: str, holder: Any, key: Any, value: Any, *, copied: bool) -> KeptValue:
    """Note the present value; with ``copied``, its content too, so that it can be put back."""
    if id(type(value)) in _IDS_OF_PLAIN:
        mark = _plain(value)
        return KeptValue(name=name, holder=holder, key=key, value=value, mark=mark, copy=None)
    copy = _told(_copy, value, None) if copied else None
    mark = _told(_mark, value, id(value))
    return KeptValue(name=name, holder=holder, key=key, value=value, mark=mark, copy=copy)


def now(kept: KeptValue) -> KeptValue | None:
    """Note the present value in the same place; None if nothing is there any more."""
    try:
        value = _read(kept.holder, kept.key)
    except Exception:  # whatever the holder's class does where something is missing
        return None
    return keep(kept.name, kept.holder, kept.key, value, copied=True)


def content(value: Any) -> object:
    """Return the content of a value for comparison: equal content is equal in any object."""
    if id(type(value)) in _IDS_OF_TENSORS and value.is_cpu and not value.is_nested:
        return _tensor_content(value)
    found: object = _told(lambda one: _content(one, {}), value, None)
    return found


def put_back(kept: KeptValue) -> bool:
    """Bind the value again where it was, with the content that it had; tell whether that went."""
    try:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            _bind(kept.holder, kept.key, kept.value)
            # Else nothing was written in place, or there is nothing to write back.
            if kept.copy is not None and _told(_mark, kept.value, id(kept.value)) != kept.mark:
                _write(kept.value, kept.copy)
    except Exception:  # whatever its class says to that
        return False
    return True


def unbind(holder: Any, key: Any) -> None:
    """Remove the value under a key of a dict, a class, a cell or an object with slots."""
    with suppress(Exception):
        if is_a(holder, OrderedDict):
            OrderedDict.pop(holder, key, None)
        elif is_a(holder, dict):
            dict.pop(holder, key, None)
        elif is_a(holder, type, CellType):
            delattr(holder, key)
        # The items of a sequence go when the sequence is put back.
        elif not is_a(holder, *_SEQUENCES, np.ndarray):
            object.__delattr__(holder, key)


def items_of(value: Any) -> list[Any]:
    """Return the items of a list, tuple, deque, set or array as they are stored."""
    if is_a(value, np.ndarray):
        return list(value.flat)
    base = next(base for base in (*_SEQUENCES, *_SETS) if is_a(value, base))
    return list(base.__iter__(value))


def size_of(value: Any) -> int:
    """Return the number of items of a dict, list, tuple, deque, set or array."""
    if is_a(value, np.ndarray):
        return int(value.size)
    base: Any = next(base for base in (dict, *_SEQUENCES, *_SETS) if is_a(value, base))
    return int(base.__len__(value))


def _told(tell: Callable[[Any], Any], value: Any, otherwise: Any) -> Any:
    """Return the result of ``tell``; ``otherwise`` if the value's class raises at that."""
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return tell(value)
    except Exception:
        return otherwise


def _read(holder: Any, key: Any) -> Any:
    """Return the value under a key of a holder.

    Raises
    ------
    Exception
        If there is none.
    """
    if is_a(holder, dict):
        return dict.__getitem__(holder, key)
    if is_a(holder, *_SEQUENCES, np.ndarray):
        return items_of(holder)[key]
    if is_a(holder, type):
        return vars(holder)[key]
    return holder.cell_contents if is_a(holder, CellType) else object.__getattribute__(holder, key)


def _bind(holder: Any, key: Any, value: Any) -> None:
    """Put a value under a key of its holder; a tuple keeps its first items for good.

    An array gets all its objects back when it is written itself.
    """
    if is_a(holder, OrderedDict):
        OrderedDict.__setitem__(holder, key, value)
    elif is_a(holder, dict):
        dict.__setitem__(holder, key, value)
    elif is_a(holder, list):
        list.__setitem__(holder, key, value)
    elif is_a(holder, deque):
        deque.__setitem__(holder, key, value)
    elif is_a(holder, type, CellType):
        setattr(holder, key, value)
    elif not is_a(holder, tuple, np.ndarray):
        object.__setattr__(holder, key, value)


def _write(value: Any, copy: Any) -> None:
    """Give a value the content again that was copied."""
    if is_a(value, *GENERATORS):
        _set_state(value, copy)
    elif is_a(value, Tensor):
        value.copy_(copy)
    elif is_a(value, np.ndarray):
        value[...] = copy
    elif is_a(value, list):
        list.__setitem__(value, slice(None), copy)
    elif is_a(value, deque):
        deque.clear(value)
        deque.extend(value, copy)
    else:
        set.clear(value)
        set.update(value, copy)


def _mark(value: Any) -> object:
    """Return a mark that differs once a value has been replaced or written in place."""
    if is_plain(value):
        return _plain(value)
    if is_a(value, Tensor):
        # Autograd counts writes to a tensor, but those through ``.data`` or an array, and none to
        # inference tensors.
        count = 0 if value.is_inference() else value._version
        hashed = value.nbytes <= (_HASHED_TENSOR_BYTES if value.is_cpu else _COPIED_BYTES)
        tell = _bytes_mark if hashed else _sample_mark
        return id(value), count, _told(tell, value, None)
    if is_a(value, np.ndarray):
        return id(value), _ids(items_of(value)) if is_objects(value) else _array_mark(value)
    if is_a(value, *GENERATORS):
        return id(value), _state(value)
    if is_a(value, list, deque):
        return id(value), len(items := items_of(value)), _ids(items)
    if is_a(value, set):
        return id(value), frozenset(map(id, items_of(value)))
    return (id(value), _place(value)) if is_a(value, Iterator) else id(value)


def _copy(value: Any) -> Any:
    """Return the data that ``put_back`` needs to restore a value's content; None if impossible."""
    if is_a(value, *GENERATORS):
        return _get_state(value)
    if is_a(value, list, deque, set):
        return items_of(value)
    if is_a(value, Tensor) and value.layout is torch.strided:
        # Neither of these can be written to as a whole.
        repeated = any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True))
        closed = value.is_inference() or repeated
        return None if closed or value.nbytes > _COPIED_BYTES else value.detach().clone()
    if is_a(value, np.ndarray) and value.nbytes <= _COPIED_BYTES:
        return value.copy()
    return None


def _content(value: Any, seen: dict[int, object]) -> object:
    if is_plain(value):
        return _plain(value)
    if is_a(value, *GENERATORS):
        return _state(value)
    if is_a(value, Tensor):
        return _tensor_content(value)
    if is_a(value, np.ndarray) and not is_objects(value):
        return str(value.dtype), value.shape, _array_mark(value)
    if is_a(value, *_SEQUENCES, np.ndarray):
        # A part that is met again, such as the whole in itself, is looked through once.
        if id(value) not in seen:
            seen[id(value)] = "again"
            items = items_of(value)
            inside = [_content(one, seen) for one in _first(items)]
            digest = xxh3_64_intdigest(repr(inside).encode("utf-8", "surrogatepass"))
            seen[id(value)] = _kind(value), len(items), digest
        return seen[id(value)]
    if is_a(value, *_SETS):
        items = items_of(value)
        return _kind(value), len(items), frozenset(_content(one, seen) for one in _first(items))
    # An object of some other class: nothing can be said but of which class it is.
    return _place(value) if is_a(value, Iterator) else _kind(value)


def _tensor_content(value: Tensor) -> object:
    # Of nested tensors each has a shape of its own.
    shape = None if value.is_nested else tuple(value.shape)
    return str(value.dtype), shape, _bytes_mark(value)


def _kind(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _plain(value: Any) -> object:
    kind = _kind(value)
    if is_a(value, np.generic):
        return kind, value.tobytes()
    if is_a(value, int):
        # As a number: Python makes no text of more than 4,300 digits.
        return kind, int.__int__(value)
    # Compared as text, NaN equals NaN, and 0.0 differs from -0.0.
    base = next((base for base in (float, complex, str, bytes) if is_a(value, base)), object)
    long = base in (str, bytes) and len(value) > _LONG
    return kind, base.__hash__(value) if long else base.__repr__(value)


def _ids(items: list[Any]) -> object:
    return tuple(map(id, _first(items)))


def _bytes_mark(tensor: Tensor) -> object:
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        return None
    # The bytes in row-major order, whatever strides, conjugation or sign bit the view has.
    as_they_lie = tensor.is_cpu and not (tensor.is_conj() or tensor.is_neg())
    whole = tensor.detach().contiguous() if as_they_lie else _on_host(tensor)
    if not whole.nbytes:
        return 0
    # Not by ``numpy()``, after which the user could not resize the tensor any more.
    return xxh3_64_intdigest((c_char * whole.nbytes).from_address(whole.data_ptr()))


def _on_host(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()


def _sample_mark(tensor: Tensor) -> object:
    """Return a hash of elements all over a large tensor: a write of the whole shows in them."""
    flat = tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous()
    if not flat or tensor.untyped_storage().nbytes() < tensor.nbytes:
        return None
    return _bytes_mark(tensor.detach().view(-1)[:: tensor.numel() // _SAMPLES])


def _array_mark(array: np.ndarray[Any, Any]) -> object:
    if array.dtype.hasobject or array.nbytes > _HASHED_BYTES:
        return None
    return xxh3_64_intdigest(array.tobytes())


def _first(items: list[Any]) -> list[Any]:
    """Return the items if there are few; none of longer lists, which are known by their length."""
    return items if len(items) <= _LISTED else []


def _place(value: Iterator[Any]) -> object:
    """Return the position of an iterator, as far as it shows one."""
    # A generator's place is the instruction it stopped at and its local variables.
    frame = getattr(value, "gi_frame", None)
    inside = None if frame is None else (frame.f_lasti, repr(frame.f_locals))
    try:
        left = value.__length_hint__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        left = None
    own = {key: one for key, one in getattr(value, "__dict__", {}).items() if is_a(one, *PLAIN)}
    whole = b""
    if type(value).__module__ in ("builtins", "itertools"):
        with suppress(Exception):  # it may go over objects that refuse
            whole = pickle.dumps(value)
    return left, inside, repr(value), repr(own), xxh3_64_intdigest(whole)


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
