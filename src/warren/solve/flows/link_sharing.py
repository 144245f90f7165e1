"""Links that share their rates between flows which come, go and change class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.flows.classes import FlowClasses
from warren.solve.flows.level_sweep import change_flows
from warren.solve.flows.sharing_state import SharingState, new_sharing_state, with_room

_NO_FLOWS = np.zeros(0, np.int64)


class NewFlow(NamedTuple):
    """A flow that begins, or ``multiplicity`` equal ones: over which links, in which class.

    ``cap``: the most that one of them takes, in bytes a second.
    """

    links: Sequence[int]
    flow_class: int
    multiplicity: float = 1.0
    cap: float = np.inf


class LinkSharing:
    """Links whose rates are max-min fair within a rank of classes, and strict between ranks.

    Each change recomputes rates only where they change (``level_sweep``). The rates are those of
    ``max_min`` up to rounding: loads to 2**-45 of a link's capacity, so that a rate differs by no
    more than some 1e-12 of itself unless it is a small remainder of a large link.

    Flows are numbered from 0; the number of a flow that has ended is used again, the last first.

    Parameters
    ----------
    capacity_L
        Bytes a second of each link, none negative and all finite.
    classes
        The sharing between classes.

    Raises
    ------
    ValueError
        If a capacity is negative or not finite.
    """

    def __init__(self, capacity_L: npt.ArrayLike, classes: FlowClasses) -> None:
        capacity = np.array(capacity_L, dtype=np.float64)
        if not np.all((capacity >= 0) & np.isfinite(capacity)):
            raise ValueError("a link has no finite capacity of at least 0")
        self._state = new_sharing_state(capacity, classes, 64, 256)
        self._free: list[int] = []  # flows that have ended
        self._flows = 0  # as many as ever ran at a time
        self._free_cells: dict[int, list[int]] = {}  # blocks of cells by size
        self._cells = 0

    @property
    def state(self) -> SharingState:
        """Return the arrays, for compiled code; others take their place when room runs out."""
        return self._state

    @property
    def rate_F(self) -> FloatArray:
        """Return the rate of each flow in bytes a second; of one where it stands for several.

        0 for a number that no flow has. It is the array itself, and changes with the flows.
        """
        return self._state.rate_F

    def add(
        self,
        links: Sequence[int],
        flow_class: int,
        *,
        multiplicity: float = 1.0,
        cap: float = np.inf,
    ) -> tuple[int, IntArray]:
        """Begin a flow; return its number, and the flows whose rates have changed.

        As ``change`` with one new flow.
        """
        (flow,), changed = self.change(new=[NewFlow(links, flow_class, multiplicity, cap)])
        return flow, changed

    def remove(self, flow: int) -> IntArray:
        """End a flow; return the flows whose rates have changed."""
        return self.change(gone=[flow])[1]

    def reclassify(self, flow: int, flow_class: int) -> IntArray:
        """Give a flow another class; return the flows whose rates have changed."""
        return self.change(moved=[(flow, flow_class)])[1]

    def change(
        self,
        *,
        gone: Sequence[int] = (),
        moved: Sequence[tuple[int, int]] = (),
        new: Sequence[NewFlow] = (),
    ) -> tuple[list[int], IntArray]:
        """End, reclassify and begin flows at one instant, and share the links once.

        Parameters
        ----------
        gone
            Flows that end.
        moved
            Flows that stay, each once and with its class from now on.
        new
            Flows that begin.

        Returns
        -------
        flows
            The numbers of the new flows.
        changed_N
            The flows whose rates have changed, ascending; new flows that got a rate among them, and
            no flow that has ended.

        Raises
        ------
        ValueError
            If there is no such flow, class or link, a link stands twice in a flow, or a
            multiplicity or cap is not above 0. Then nothing has changed.
        """
        self._check(gone, moved, new)
        # Slots are filled before any is freed, so that a new flow never has the number of a flow
        # that ends at the same instant.
        flows = [self.place(one) for one in new]
        changed = change_flows(
            self._state,
            np.array(gone, np.int64) if gone else _NO_FLOWS,
            np.array([flow for flow, _ in moved], np.int64) if moved else _NO_FLOWS,
            np.array([flow_class for _, flow_class in moved], np.int64) if moved else _NO_FLOWS,
            np.array(flows, np.int64) if flows else _NO_FLOWS,
        )
        for flow in gone:
            self.forget(flow)
        return flows, np.sort(self._state.changed_F[:changed])

    def _check(
        self, gone: Sequence[int], moved: Sequence[tuple[int, int]], new: Sequence[NewFlow]
    ) -> None:
        """Raise a ValueError in the cases of ``change``."""
        state = self._state
        named = [*gone, *(flow for flow, _ in moved)]
        for flow in named:
            if not (0 <= flow < self._flows and state.links_F[flow] >= 0):
                raise ValueError(f"there is no flow {flow}")
        if len(named) > 1 and len(set(named)) < len(named):
            raise ValueError("a flow ends or changes class twice at once")
        classes = len(state.rank_K)
        for flow_class in [*(one for _, one in moved), *(one.flow_class for one in new)]:
            if not 0 <= flow_class < classes:
                raise ValueError(f"there is no class {flow_class} of flows")
        for one in new:
            if one.links and not 0 <= min(one.links) <= max(one.links) < len(state.capacity_L):
                raise ValueError(f"a flow crosses a link that does not exist: {one.links}")
            if len(set(one.links)) < len(one.links):
                raise ValueError(f"a flow crosses a link twice: {one.links}")
            if not 0 < one.multiplicity < np.inf:
                raise ValueError(f"the multiplicity of a flow may not be {one.multiplicity}")
            if not one.cap > 0:
                raise ValueError(f"the cap of a flow may not be {one.cap}")

    def place(self, one: NewFlow) -> int:
        """Write a new flow into a slot; return its number.

        Nothing is checked, and it has no rate until ``level_sweep.change_flows`` receives it: for
        compiled code that does more than share links in one call.
        """
        # A block of cells is used again whole, by a flow over as many links: none is ever cut.
        flow = self._free.pop() if self._free else self._flows
        size = len(one.links)
        blocks = self._free_cells.get(size)
        first = blocks.pop() if blocks else self._cells
        self._flows = max(self._flows, flow + 1)
        self._cells = max(self._cells, first + size)
        state = self._state
        flows, cells = len(state.rate_F), len(state.link_C)
        # Twice the room each time, so that copying costs a constant time a flow in the end.
        if self._flows > flows or self._cells > cells:
            flows = flows if self._flows <= flows else 2 * self._flows
            cells = cells if self._cells <= cells else 2 * self._cells
            state = self._state = with_room(state, flows, cells)
        state.first_F[flow] = first
        state.links_F[flow] = size
        state.class_F[flow] = one.flow_class
        state.multiplicity_F[flow] = one.multiplicity
        state.cap_F[flow] = one.cap
        state.rate_F[flow] = 0.0
        state.link_C[first : first + size] = one.links
        state.flow_C[first : first + size] = flow
        return flow

    def forget(self, flow: int) -> None:
        """Free the slot and the cells of a flow that has ended; see ``place``."""
        state = self._state
        self._free.append(flow)
        self._free_cells.setdefault(int(state.links_F[flow]), []).append(int(state.first_F[flow]))
        state.links_F[flow] = -1
        state.rate_F[flow] = 0.0
        state.level_F[flow] = 0.0
