"""Gavel's measured throughputs as costs of tasks.

*Source.* Narayanan et al., OSDI'20 (stanford-futuredata/gavel, ``simulation_throughputs.json``):
``{worker type: {"('JOB TYPE', GPUS)": {"null": steps a second alone}}}``.

*Differs.* T^c is the least of the step on one GPU and the step on k GPUs, and T^s = max(0, step on
k GPUs - T^c): k devices of one type take a step in Gavel's time, and a task alone does not pay for
devices that it does not wait for. As a ``gang`` T^c is the step on k GPUs and T^s is 0: nothing is
gained by running the tasks of a round one after the other. A throughput of 0 means that the job
does not fit that type. Throughputs of shared GPUs are not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.workload.text import decoded, shown, unpacked

_KEY: Final = re.compile(r"\('(.{1,150})', (\d{1,6})\)")

Throughputs = Mapping[tuple[str, int], Mapping[str, float]]
"""Steps a second alone, by (job type, GPUs) and by device type."""


def read_throughputs(file: str, content: bytes, types: tuple[str, ...]) -> Throughputs:
    """The table for these device types; its worker types match them in any case.

    Raises
    ------
    SpecError
        If it is no such table.
    """
    try:
        table = json.loads(decoded(file, unpacked(file, content)))
    except (ValueError, RecursionError):
        raise SpecError(Problem(file=file, message="is not JSON")) from None
    result: dict[tuple[str, int], dict[str, float]] = {}
    for name in types:
        for key, rate in _rates(file, table, name):
            result.setdefault(key, {})[name] = rate
    return result


def prices(
    throughputs: Throughputs, job_type: str, gpus: int, types: tuple[str, ...], *, gang: bool
) -> dict[str, tuple[float, float]]:
    """T^c and T^s in seconds by device type, without the types that it does not fit."""
    together = throughputs.get((job_type, gpus), {})
    alone = throughputs.get((job_type, 1), {})
    found: dict[str, tuple[float, float]] = {}
    for name in types:
        rate, single = together.get(name, 0.0), alone.get(name, 0.0)
        if rate > 0:
            step_s = 1.0 / rate
            comp_s = min(step_s, 1.0 / single) if single > 0 and not gang else step_s
            found[name] = comp_s, max(0.0, step_s - comp_s)
    return found


def _rates(file: str, table: Any, device_type: str) -> Iterator[tuple[tuple[str, int], float]]:
    if not isinstance(table, dict):
        raise SpecError(Problem(file=file, message="expected a mapping of worker types"))
    matching = [name for name in table if name.casefold() == device_type.casefold()]
    for worker in matching[:1]:
        pairs = table[worker] if isinstance(table[worker], dict) else {}
        for text, entry in pairs.items():
            key = _KEY.fullmatch(text)
            rate: Any = entry.get("null") if isinstance(entry, dict) else None
            if key is None or not _is_rate(rate):
                message = 'expected {"(\'TYPE\', GPUS)": {"null": STEPS_PER_S}}'
                raise SpecError(
                    Problem(file=file, field=f"{worker}.{shown(text)}", message=message)
                )
            yield (key[1], int(key[2])), float(rate)


def _is_rate(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or 1e-9 <= value <= 1e12
