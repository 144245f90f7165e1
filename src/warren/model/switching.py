"""What a device pays for going from one job's task to another job's. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SCHEMES: Final = ("default", "pipeswitch", "hare")
"""The ways to switch that ``warren.cost.switching`` has a closed form for."""
PCIE3_X16_BYTES_PER_S: Final = 15.75e9
"""Hare (HPDC'22) 7.1: between main memory and every device of its testbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """How a simulation times a switch: by a scheme, else by ``time_ns`` of each device type.

    ``scheme`` is one of ``SCHEMES`` or empty; ``bus_bytes_per_s`` is what it loads a model with.
    """

    scheme: str = ""
    bus_bytes_per_s: float = PCIE3_X16_BYTES_PER_S
    time_ns: Mapping[str, int] = field(default_factory=dict)
