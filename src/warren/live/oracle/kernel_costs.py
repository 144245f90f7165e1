"""The cost of deterministic kernels for a job's task, operator by operator: table and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

_ROWS: Final = 8
"""Most operators that are listed."""
_SMALL: Final = 0.05
"""Share of a task below which a difference of times is not listed."""


class OperatorCost(msgspec.Struct, frozen=True):
    """The time of one operator's own work in a task, in ms, in both ways; 0: it did not run."""

    operator: str
    free_ms: float
    deterministic_ms: float


class TaskCost(msgspec.Struct, frozen=True):
    """The time of a task, in ms, free and with deterministic kernels, and why they differ.

    ``operators``: those that differ most, the largest difference first. ``without``: operators that
    have no deterministic kernel on the device. ``error``: the error of the app, if there was one.
    """

    free_ms: float = 0.0
    deterministic_ms: float = 0.0
    operators: tuple[OperatorCost, ...] = ()
    without: tuple[str, ...] = ()
    error: str = ""


class CostReport(msgspec.Struct, frozen=True):
    """The cost of a job's task on a device."""

    job: str
    device: str
    cost: TaskCost

    @property
    def lines(self) -> list[str]:
        """Return the report as a line, and a table of operators where there is a difference."""
        head, cost = f"{self.job} on {self.device}", self.cost
        if cost.error:
            return [f"{head}: the app failed: {cost.error}"]
        found = [f"{head}: {_sentence(cost)}"]
        if cost.operators:
            width = max(len("operator"), *(len(one.operator) for one in cost.operators))
            found.append(f"  {'operator':{width}}  {'free, ms':>10}  {'deterministic, ms':>17}")
            found += [
                f"  {one.operator:{width}}  {one.free_ms:10.3f}  {one.deterministic_ms:17.3f}"
                for one in cost.operators
            ]
        if cost.without:
            names = ", ".join(cost.without)
            found.append(f"  no deterministic kernel: {names}; a run fails there")
        return found


def _sentence(cost: TaskCost) -> str:
    both = f"{cost.deterministic_ms:.3g} ms with deterministic kernels, {cost.free_ms:.3g} ms free"
    if abs(cost.deterministic_ms - cost.free_ms) < _SMALL * cost.free_ms:
        return f"deterministic kernels make no difference: a task takes {both}"
    return f"a task takes {both} ({cost.deterministic_ms / cost.free_ms:.2f} times)"


def dearest(
    free: Mapping[str, float], deterministic: Mapping[str, float], free_ms: float, task_ms: float
) -> tuple[OperatorCost, ...]:
    """Return the operators whose times differ most, the largest difference first.

    ``free`` and ``deterministic`` have the times of operators, in ms, ``free_ms`` and ``task_ms``
    those of the whole task. None if these differ by little; nor what differs by little of them.
    """
    if abs(task_ms - free_ms) < _SMALL * free_ms:
        return ()
    found = [
        OperatorCost(name, free.get(name, 0.0), deterministic.get(name, 0.0))
        for name in {**free, **deterministic}
    ]
    found = [one for one in found if _difference_ms(one) >= _SMALL * free_ms]
    return tuple(sorted(found, key=_difference_ms, reverse=True)[:_ROWS])


def _difference_ms(one: OperatorCost) -> float:
    return abs(one.deterministic_ms - one.free_ms)
