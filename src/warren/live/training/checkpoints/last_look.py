"""Tell in a moment that an object holds what it held when it was last looked at.

Most objects that a barrier reaches never change, so identities of all that they hold are compared
first. Where one differs, their values are looked at as ever.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from operator import is_
from types import CellType, MappingProxyType
from typing import Any, Final

_DICTS: Final = (dict, OrderedDict, MappingProxyType)
_ITEMS: Final = (dict, OrderedDict, list, deque)
_NOTHING: Final = object()


class LastLook:
    """All that one object held at a moment: its items, attributes and hooks.

    Parameters
    ----------
    value
        An object without slots.
    is_container
        It holds items, and its attributes are looked at elsewhere.
    """

    __slots__ = ("_held", "_is_container", "_is_seen", "_own")

    def __init__(self, value: Any, *, is_container: bool) -> None:
        self._is_container = is_container
        self._own = self._place_of(value)
        places = [] if self._own is None else [self._own]
        if isinstance(self._own, dict) and not is_container:
            # Hooks of a module or an optimizer count among its values.
            hooks = (one for key, one in self._own.items() if str(key).endswith("_hooks"))
            places += [one for one in hooks if isinstance(one, dict)]
        kinds = _ITEMS if is_container else _DICTS
        self._is_seen = all(type(one) in kinds for one in places) and (
            bool(places) or isinstance(value, tuple | CellType)
        )
        self._held = [(one, *_contents(one)) for one in places]
        if isinstance(value, CellType):
            self._own = _inside(value)

    def is_of(self, value: Any) -> bool:
        """Tell whether the same object surely holds the same; otherwise it has to be looked at."""
        if not self._is_seen or self._is_other(value):
            return False
        for place, keys, values in self._held:
            if len(place) != len(keys) or not all(map(is_, place, keys)):
                return False
            if values and not all(map(is_, place.values(), values)):
                return False
        return True

    def _place_of(self, value: Any) -> Any:
        if self._is_container:
            return None if isinstance(value, tuple) else value
        return getattr(value, "__dict__", None)

    def _is_other(self, value: Any) -> bool:
        """Tell whether a cell has another content, or an object another dict."""
        if isinstance(value, CellType):
            return _inside(value) is not self._own
        if isinstance(value, type):
            return False
        return self._place_of(value) is not self._own


def _contents(place: Any) -> tuple[list[Any], list[Any]]:
    return list(place), list(place.values()) if isinstance(place, Mapping) else []


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING
