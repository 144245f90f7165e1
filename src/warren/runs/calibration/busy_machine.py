"""Whether other work on this machine would disturb a measurement."""

from __future__ import annotations

from typing import Final

from warren.live.measure.machine import busy_share
from warren.runs.notices import say

_BUSY: Final = 0.2
"""Share of the cores that other work may take without a remark."""


def told_busy_share() -> float:
    """Return the share of the machine that other work takes, 0 to 1; tell it where it is much."""
    share = busy_share()
    if share > _BUSY:
        say(f"this machine is {100 * share:.0f} % busy with other work; times will come out long")
    return share
