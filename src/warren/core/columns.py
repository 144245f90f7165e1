"""The state's columns as policies see them: the same memory, but nothing can be written."""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

_Scalar = TypeVar("_Scalar", bound=np.generic)

_NAMES: Final = (
    "type_D", "queued_D", "arrived_J", "done_J", "open_J", "round_J", "rounds_J",
    "scale_J", "next_round_J", "next_shard_J", "arrival_ns_J", "weight_J",
)  # fmt: skip


def read_only_columns(state: object) -> dict[str, object]:
    """The columns of a view, by name."""
    return {name: _read_only(getattr(state, name)) for name in _NAMES}


def _read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    # A plain view could be made writeable again through its flags or its base.
    view: npt.NDArray[_Scalar] = np.asarray(array.data.toreadonly())
    return view
