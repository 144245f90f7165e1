"""Apps of ``examples/apps`` whose data hold each row several times, for tasks of large batches.

A batch holds an item at most once. With ``copies`` of its rows an app of few rows computes as long
for a task as is asked for, and its objective, memory and evaluation stay those of few rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import Tensor

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "examples/apps")]
from _deep import Deep as _Deep  # noqa: E402
from lasso import Lasso as _Lasso  # noqa: E402
from mlr import Mlr as _Mlr  # noqa: E402


class Mlr(_Mlr):
    """Multinomial regression; ``copies`` of each row in the data that tasks draw from."""

    copies: int = 1

    def dataset(self) -> tuple[Tensor, Tensor]:
        """All rows, again and again."""
        x, y = super().dataset()
        return x.repeat(self.copies, 1), y.repeat(self.copies)


class Lasso(_Lasso):
    """Lasso; ``copies`` of each row in the data that tasks draw from."""

    copies: int = 1

    def dataset(self) -> tuple[Tensor, Tensor]:
        """All rows, again and again."""
        x, y = super().dataset()
        return x.repeat(self.copies, 1), y.repeat(self.copies)


class Deep(_Deep):
    """The net of ``_deep.py``; ``copies`` of each digit in the data that tasks draw from."""

    copies: int = 1

    def dataset(self) -> tuple[Tensor, Tensor]:
        """All digits, again and again."""
        x, y = super().dataset()
        return x.repeat(self.copies, 1), y.repeat(self.copies)
