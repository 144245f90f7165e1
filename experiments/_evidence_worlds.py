"""The section of docs/background/evidence.md about drawn worlds of servers and rings on links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _evidence_live import table


def fluid_worlds(result: Mapping[str, Any]) -> str:
    """How many worlds two simulations were compared in, and what did not hold."""
    broken = result["worlds_broken"]
    kinds = [[kind, count] for kind, count in result["worlds_with"].items()]
    return (
        "## Two simulations of servers and rings on links\n\n"
        f"{result['worlds']} drawn worlds under `network: {{model: fluid}}`, each simulated, and "
        "played once more by a second simulation that shares no code with it "
        "(`tests/sim/fluid_steps.py`), given the assignments and classes that policies answered, "
        "most of them at random. Compared are starts, ends of COMP and ends of tasks, barriers, "
        "and bytes on links over time. Checked is that bytes are conserved, no link is above its "
        "rate, classes are strict or share by weight, rates are max-min fair within one, and "
        "plans have the same times in compiled code as by events.\n\n"
        f"{result['times_compared']:,} times, at most {result['largest_difference_ns']:,.0f} ns "
        f"apart; {result['intervals_checked']:,} intervals of constant rates. "
        f"In {result['worlds_sensitive']} of the worlds some times are left out: a nanosecond on "
        "the way moves them far (jobs slow each other in turn, or a flow ends as another class "
        "comes first), so that the second simulation differs as far from itself when it rounds "
        "otherwise. "
        f"{broken or 'None'} of them {'has' if broken == 1 else 'have'} anything that does "
        "not hold.\n\n" + table(["worlds with", "of them"], kinds)
    )
