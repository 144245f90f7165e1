"""Messages between servers of one job before a step that clips gradients by their global norm.

Each has some of the tensors, and the norm is over all. So each sends the squares of its own tensors
to the first server, which puts them in order and sends all of them to all.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import Squares


class GlobalNorm:
    """One server's share of the global norm of a job's gradients.

    ``tell`` sends to the first server; on the first server itself, to all the others.
    """

    def __init__(
        self, store: ParameterStore, part: int, parts: int, tell: Callable[[Squares], None]
    ) -> None:
        self._store = store
        self._part = part
        self._parts = parts
        self._tell = tell
        # On the first server: the squares from each server for the round in progress.
        self._here: dict[int, tuple[float, ...]] = {}
        # On the others: the last round for which they have sent theirs, and the answer.
        self._told = -1
        self._all = Squares(0, -1, ())

    def hear(self, said: Squares) -> None:
        """Take the squares of another server, or those of all from the first server."""
        if self._part:
            self._all = said
        else:
            self._here[said.part] = said.values

    def squares(self) -> tuple[float, ...] | None:
        """Return the squares that the step of a complete round needs, in the order of servers.

        None: other servers have not sent theirs yet.
        """
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
        # In the order of parts, which is that of the model: the norm has the same bits however many
        # servers there are.
        values = tuple(one for part in range(self._parts) for one in self._here[part])
        self._here.clear()
        self._tell(Squares(0, round_no, values))
        return values
