"""Tell by its class whether an object is looked into, and which values it keeps in slots."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import chain
from types import MemberDescriptorType
from typing import Final
from weakref import WeakKeyDictionary

_CLOSED: Final = frozenset(sys.stdlib_module_names) | {"numpy", "torch", "warren"}
_ENTERED: Final = (
    "torch.optim",
    "torch.nn",
    "torch.amp",
    "torch.utils.data",
    "weakref",
    "queue",
    "collections",
)
_SLOTS: Final = WeakKeyDictionary[type, tuple[str, ...]]()


def is_open(module: str) -> bool:
    """Tell whether objects of a module's classes are looked into."""
    return module.partition(".")[0] not in _CLOSED or module.startswith(_ENTERED)


def slots_of(kind: type) -> tuple[str, ...]:
    """Return the attributes that a class keeps in slots, by the names under which it has them."""
    with suppress(Exception):  # classes of classes may refuse
        return _SLOTS[kind]
    bases = (base for base in kind.__mro__ if is_open(base.__module__))
    own = chain.from_iterable(vars(base).items() for base in bases)
    found = tuple(key for key, one in own if isinstance(one, MemberDescriptorType))
    with suppress(Exception):
        _SLOTS[kind] = found
    return found
