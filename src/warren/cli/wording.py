"""A summary in sentences, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.report.losses import loss_sentence

OVERRUN_SHARE: Final = 0.05
"""Overruns above this share of the tasks are told."""


def summary_lines(values: Mapping[str, Any], notes: Sequence[str] = ()) -> list[str]:
    """What a run's ``summary.json`` says, in a few lines; ``notes`` come first."""
    lines = [*notes]
    lines.append(
        f"{values['run']}: {values['scheduler']['place']}, grain {values['grain']}: "
        f"{values['finished']}/{values['jobs']} jobs finished, {values['tasks']} tasks"
    )
    if values["mean_jct_s"] is not None:
        lines.append(
            f"mean JCT {values['mean_jct_s']:.1f} s, p95 {values['p95_jct_s']:.1f} s, weighted "
            f"{values['weighted_jct_s']:.1f} s, makespan {values['makespan_s']:.1f} s, "
            f"utilization {100 * values['utilization']:.1f} % (cluster seconds)"
        )
    gap = (values.get("gap") or {}).get("weighted_jct")
    if gap is not None:
        lines.append(
            f"weighted JCT is at most {100 * gap:.1f} % above the best any schedule can do"
        )
    elif reason := values.get("gap_reason") or values.get("lower_bound_reason"):
        lines.append(f"no lower bound: {reason}")
    lines += _overruns(values)
    if losses := loss_sentence(values):
        lines.append(losses)
    if values["decide_s"] is not None and values["wall_s"] is not None:
        lines.append(
            f"decided in {values['decide_s']:.3f} real s, {values['wall_s']:.2f} real s in all"
        )
    return lines


def _overruns(values: Mapping[str, Any]) -> list[str]:
    """A warning where so many tasks outlasted their pad that the times say little."""
    overruns, tasks = int(values.get("overruns") or 0), int(values["tasks"])
    if overruns <= OVERRUN_SHARE * tasks:
        return []
    return [
        f"{overruns} of {tasks} tasks took longer than their emulated time, so this machine is "
        "too slow for these times; raise emulate.time_scale"
    ]
