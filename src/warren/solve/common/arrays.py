"""Names for the types of arrays and whole numbers that the solvers and their kernels take."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Int32Array: TypeAlias = npt.NDArray[np.int32]
UintArray: TypeAlias = npt.NDArray[np.uint64]

Int: TypeAlias = np.int64 | int
"""A whole number of a kernel: an ``int`` where Python calls it, an entry of an array inside."""
Float: TypeAlias = np.float64 | float
"""A number of a kernel that need not be whole, as ``Int``."""
