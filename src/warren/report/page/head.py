"""The head of a run's page: key numbers, and the meaning of the lower bound in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warren.report.metrics import Summary
from warren.report.number_text import NOTHING, count, duration, in_unit, number, percent, time_unit

_SHORT: Final = 11
"""Characters that a tile has room for in large type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One key number: its name, its value as text, and what stands below it.

    ``bound_pct``: how much of the value no schedule can save, in per cent; None: not known.
    """

    name: str
    value: str
    below: str
    bound_pct: float | None = None

    @property
    def is_long(self) -> bool:
        """Tell whether the value has no room in large type."""
        return len(self.value) > _SHORT


def tiles(found: Summary, wait_s: float | None = None) -> list[Tile]:
    """Return the key numbers of a summary; ``wait_s``: how long jobs waited, in the mean."""
    gap = found.get("gap") or {}
    # Without a gap the value is not one of all jobs, and the bound may be larger than it.
    bound = (found.get("lower_bound") if gap else None) or {}
    done = f"{found['finished']:,} of {found['jobs']:,}"
    wrong = ", ".join(
        f"{found[key]:,} {key}" for key in ("failed", "cancelled", "unfinished") if found.get(key)
    )
    by_type = found.get("utilization_by_type") or {}
    # One unit a tile, or the eye compares numbers that do not compare.
    jct_unit = time_unit(found["mean_jct_s"] or 0.0)
    return [
        Tile(
            name="mean JCT",
            value=in_unit(found["mean_jct_s"], jct_unit),
            below=", ".join(
                # No line ends between a number and its unit.
                f"{name} {in_unit(found[key], jct_unit)}".replace(" ", "\u00a0")
                for name, key in (("median", "p50_jct_s"), ("p95", "p95_jct_s"))
            ),
        ),
        Tile(name="mean wait", value=duration(wait_s), below=_waiting(found)),
        Tile(
            name="makespan",
            value=duration(found["makespan_s"]),
            below=_against(gap.get("makespan")),
            bound_pct=_bound_pct(found["makespan_s"], bound.get("makespan_s")),
        ),
        Tile(
            name="utilization",
            value=percent(found["utilization"]),
            below=", ".join(f"{name} {_whole(value)}" for name, value in list(by_type.items())[:4]),
        ),
        Tile(
            name="sum of weighted JCTs",
            value=duration(found["weighted_jct_s"]),
            below=_against(gap.get("weighted_jct")),
            bound_pct=_bound_pct(found["weighted_jct_s"], bound.get("weighted_jct_s")),
        ),
        Tile(name="jobs finished", value=done, below=wrong or count(found["tasks"], "task")),
    ]


def _waiting(found: Summary) -> str:
    """Tell what the wait is, and beside it the slow-down where it is known."""
    mean = found.get("mean_slowdown")
    return "from arrival to first task" + ("" if mean is None else f"; slow-down {mean:,.2f}")


def _bound_pct(value: float | None, bound: float | None) -> float | None:
    """Return the bound in per cent of the value; None where either is 0 or not known."""
    if not value or not bound:
        return None
    # A bound above its value can only be a matter of rounding: ``report.checks`` finds any other.
    return 100 * min(1.0, bound / value)


def _whole(share: float | None) -> str:
    """Write a share as whole per cent."""
    return NOTHING if share is None else f"{100 * share:.0f} %"


def _against(gap: float | None) -> str:
    """Return a gap as text: an upper bound on the distance to the best possible schedule."""
    return "gap not known" if gap is None else f"at most {max(0.0, 100 * gap):.1f} % above optimal"


def bound_sentence(found: Summary) -> str:
    """Return the meaning of the lower bound for this run, or the reason why there is none."""
    bound, by = found.get("lower_bound"), found.get("lower_bound_by") or {}
    if not bound:
        return f"No lower bound is stated: {found.get('lower_bound_reason') or 'none is known'}."
    parts = []
    for key, name, word in (
        ("weighted_jct_s", "weighted_jct", "a sum of weighted JCTs"),
        ("makespan_s", "makespan", "a makespan"),
    ):
        if bound.get(key) is not None:
            source = f" ({_WHY.get(by[name], by[name])})" if by.get(name) else ""
            parts.append(f"{word} below {duration(bound[key])}{source}")
    sentence = f"No schedule of this workload on this cluster can have {' or '.join(parts)}."
    if not found.get("gap"):
        why = found.get("gap_reason") or "nothing to compare"
        return f"{sentence} No gap is given: {why}."
    gap = found["gap"].get("weighted_jct")
    if gap is None:
        return sentence
    return (
        f"{sentence} This schedule has {duration(found['weighted_jct_s'])}, so even the best "
        f"possible one could save at most {_saving(gap)} of its sum of weighted JCTs."
    )


_WHY: Final[Mapping[str, str]] = {
    "path": "its jobs' own rounds take that long",
    "area": "the work takes that long on these devices",
    "busy time": "the work takes that long on these devices",
    "gangs": "from rings that find no room beside each other",
    "both": "from its jobs' rounds and the work together",
    "prices": "from its jobs' rounds and the work of each device type over time together",
}
"""Meanings of the names of bounds; other names are shown unchanged."""


def _saving(gap: float) -> str:
    """Write the share of the value that is above the bound: gap / (1 + gap)."""
    # With gap = value / bound - 1, (value - bound) / value = gap / (1 + gap).
    return f"{100 * max(0.0, gap) / (1 + max(0.0, gap)):.1f} %"


def subtitle(found: Summary) -> str:
    """Tell policies, grain, network, cluster and cost of scheduling in one line."""
    chosen = found["scheduler"]
    measured = [
        f"{label} {duration(found[key])}"
        for key, label in (("decide_s", "deciding took"), ("wall_s", "the whole run"))
        if found.get(key) is not None
    ]
    parts = [
        f"place {chosen['place']}, flow {chosen['flow']}, "
        f"group {chosen['group']}, shape {chosen['shape']}",
        f"grain {found['grain']}",
        f"network {found['network']}",
        count(found["devices"], "device"),
        f"seed {found['seed']}",
        *measured,
    ]
    if found.get("overruns"):
        parts.append(f"{number(found['overruns'])} overruns")
    return " · ".join(parts)
