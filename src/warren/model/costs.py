"""Costs of tasks on device types. Matrix names carry their axes: J jobs, T device types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warren.model.units import NEVER_NS

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """Cost of one task of a model at its reference batch, per device type.

    ``comp_s`` is T^c in seconds at batch ``batch``; ``sync_s`` is T^s (push, combine, pull of the
    next version) where it was stated, else it follows from ``model_bytes`` and the NIC.
    ``overhead_s``: measured processor time of Warren's own processes beside a task of this row;
    ``switch_s``: extra time of a task after a task of another job; ``build_s``: processor time of a
    process of the job before its first task, for its model, its data and a rehearsal. ``step_s``:
    time of the servers from the last update of a round whose bytes pass links to its next state.
    ``source`` names, figure by figure, the origin of a number or how it was assumed.
    """

    model: str
    batch: int
    model_bytes: int
    memory_bytes: int
    comp_s: Mapping[str, float]
    sync_s: Mapping[str, float]
    source: Mapping[str, str]
    overhead_s: Mapping[str, float] = field(default_factory=dict)
    switch_s: Mapping[str, float] = field(default_factory=dict)
    build_s: Mapping[str, float] = field(default_factory=dict)
    step_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """T^c and T^s of every job on every device type, int64 nanoseconds, shape (J, T).

    Where a job does not fit a type (memory) or has no figure, ``fits_JT`` is False and both times
    are ``NEVER_NS``; nothing may be placed there. ``model_bytes_J``: bytes of each job's parameters
    where they are known, else 0; None: of none. ``overhead_ns_JT``: processor time of Warren's own
    processes beside a task, -1 where it was not measured; None: nowhere. ``switch_ns_JT``: time
    that a device spends before a task of the job if its last task was another job's
    (``warren.cost.switching``); None: nothing. ``turn_ns_JT``: extra computing time, as measured,
    of a task in a live run that follows another job's; None: not measured. ``build_ns_JT``:
    processor time of a process of the job before its first task; None: not known. ``step_ns_J``:
    time of the servers from the last update of a round whose bytes pass links to its next state;
    None: nothing.
    """

    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    fits_JT: BoolArray
    model_bytes_J: IntArray | None = None
    overhead_ns_JT: IntArray | None = None
    switch_ns_JT: IntArray | None = None
    turn_ns_JT: IntArray | None = None
    build_ns_JT: IntArray | None = None
    step_ns_J: IntArray | None = None

    def __post_init__(self) -> None:
        # Views of policies share these arrays, so they must stay unchanged.
        for array in (self.comp_ns_JT, self.sync_ns_JT, self.fits_JT):
            array.flags.writeable = False
        # So a minimum over types never chooses a type that the job does not fit.
        if np.any(self.comp_ns_JT[~self.fits_JT] != NEVER_NS):
            raise ValueError("a cost that does not fit must be NEVER_NS")

    def first(self, count: int) -> CostTable:
        """Return the costs of the first jobs only: no copies, and nothing is checked again."""
        # Without ``__init__``: a blind policy's view is cut to the arrived jobs at each arrival.
        part = object.__new__(CostTable)
        for name in CostTable.__slots__:
            column = getattr(self, name)
            object.__setattr__(part, name, None if column is None else column[:count])
        return part

    def joined(self, more: CostTable) -> CostTable:
        """Return the costs of these jobs, then of more; a column that one lacks is unknown there.

        Raises
        ------
        ValueError
            If the tables are of other device types.
        """
        # Without ``__init__``, too: both were checked, and jobs may come one by one.
        whole = object.__new__(CostTable)
        for name in CostTable.__slots__:
            here, there = getattr(self, name), getattr(more, name)
            joined = None
            if here is not None or there is not None:
                unknown = -1 if name == "overhead_ns_JT" else 0
                here, there = (
                    np.full(one.fits_JT.shape[: name.count("J") + name.count("T")], unknown)
                    if column is None
                    else column
                    for one, column in ((self, here), (more, there))
                )
                joined = np.concatenate([here, there])
                joined.flags.writeable = False
            object.__setattr__(whole, name, joined)
        return whole
