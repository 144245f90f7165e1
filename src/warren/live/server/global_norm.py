"""What servers of one job tell each other before a step that clips gradients by their global norm.

Each has some of the tensors, and the norm is of all. So each sends the first one the squares of
what it owns, which puts them in order and sends all of them to all.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import Squares


class GlobalNorm:
    """``tell`` sends to the first server; of that itself, to all the others."""

    def __init__(
        self, store: ParameterStore, part: int, parts: int, tell: Callable[[Squares], None]
    ) -> None:
        self._store, self._part, self._parts, self._tell = store, part, parts, tell
        self._here: dict[int, tuple[float, ...]] = {}
        self._told = -1
        self._all = Squares(0, -1, ())

    def hear(self, said: Squares) -> None:
        """One has told its own, or the first one all."""
        if self._part:
            self._all = said
        else:
            self._here[said.part] = said.values

    def squares(self) -> tuple[float, ...] | None:
        """Give what the step of a complete round needs; None: others have not said theirs yet."""
        own, round_no = self._store.combine(), self._store.version
        if self._parts == 1 or not self._store.clips:
            return own
        if self._part:
            if self._told < round_no:
                self._tell(Squares(self._part, round_no, own))
                self._told = round_no
            return self._all.values if self._all.round == round_no else None
        self._here[0] = own
        if len(self._here) < self._parts:
            return None
        values = tuple(one for part in range(self._parts) for one in self._here[part])
        self._here.clear()
        self._tell(Squares(0, round_no, values))
        return values
