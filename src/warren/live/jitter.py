"""Measured times of a task, as factors around their median."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.model.errors import Problem, SpecError

PPM: Final = 1_000_000
MAX_VALUES: Final = 100_000
MAX_FACTOR: Final = 1000
_MAX_BYTES: Final = 16 * MAX_VALUES + 4096
_MAGIC: Final = b"\x93NUMPY"
_START: Final = 2.0
"""Values at the beginning above this multiple of the median contain what was started."""
_SMALL, _LARGE = 1e-15, 1e15
_ALLOWED: Final = (
    f"allowed: a .npy file of one dimension with 1 to {MAX_VALUES} numbers from {_SMALL:g} to "
    f"{_LARGE:g}"
)


def read_jitter(path: str) -> tuple[int, ...]:
    """Factors in parts per million: the values of a NumPy file divided by their median.

    Values at its beginning that are more than twice the median of all are left out.

    Raises
    ------
    SpecError
        If it cannot be read, or holds anything else.
    """
    try:
        return _factors(_array(Path(path)))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(Problem(file=path, field="emulate.jitter", message=reason)) from None


def _array(path: Path) -> npt.NDArray[np.float64]:
    if path.exists() and not path.is_file():
        raise ValueError("is not a file")
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES or not content.startswith(_MAGIC):
        raise ValueError(f"is not such a file; {_ALLOWED}")
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # a damaged header raises what its tokens lead to
        raise ValueError(f"is damaged, or holds no numbers; {_ALLOWED}") from None
    if found.dtype.kind not in "iuf":
        raise ValueError(f"holds values of type {found.dtype}; {_ALLOWED}")
    if found.ndim != 1 or not 1 <= found.size <= MAX_VALUES:
        raise ValueError(f"has the shape {found.shape}; {_ALLOWED}")
    return np.asarray(found, dtype=np.float64)


def _factors(values: npt.NDArray[np.float64]) -> tuple[int, ...]:
    wrong = np.flatnonzero(~((values >= _SMALL) & (values <= _LARGE)))
    if wrong.size:
        raise ValueError(f"value {wrong[0]} is {values[wrong[0]]}; {_ALLOWED}")
    started = int(np.argmax(values <= _START * np.median(values)))
    kept = values[started:]
    factors = kept / np.median(kept)
    if factors.max() > MAX_FACTOR:
        raise ValueError(f"a value is more than {MAX_FACTOR} times the median")
    return tuple(max(1, round(factor)) for factor in (factors * PPM).tolist())
