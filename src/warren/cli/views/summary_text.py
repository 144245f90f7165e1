"""A summary in sentences, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warren.report.metrics import loss_sentence
from warren.report.number_text import count, duration, percent, seconds
from warren.report.overruns import slow_machine
from warren.report.phases import phase_lines


def summary_lines(
    values: Mapping[str, Any], notes: Sequence[str] = (), time_scale: float | None = None
) -> list[str]:
    """Return a run's ``summary.json`` in a few lines; ``notes`` come first.

    ``time_scale`` is a scale at which nearly all tasks would have kept their emulated time.
    """
    lines = [*notes]
    lines.append(
        f"{values['run']}: {values['scheduler']['place']}, grain {values['grain']}: "
        f"{values['finished']:,}/{values['jobs']:,} jobs finished, {count(values['tasks'], 'task')}"
    )
    if values["mean_jct_s"] is not None:
        lines.append(
            f"mean JCT {duration(values['mean_jct_s'])}, p95 {duration(values['p95_jct_s'])}, "
            f"makespan {duration(values['makespan_s'])}, sum of weighted JCTs "
            f"{seconds(values['weighted_jct_s'])}, utilization {percent(values['utilization'])} "
            "(cluster time)"
        )
    # The gap to the lower bound, or why there is none.
    gap = (values.get("gap") or {}).get("weighted_jct")
    if gap is not None:
        lines.append(
            f"the sum of weighted JCTs is at most {percent(gap)} above the best any schedule can do"
        )
    elif reason := values.get("gap_reason") or values.get("lower_bound_reason"):
        lines.append(f"no lower bound: {reason}")
    if switches := values.get("switches"):
        # Measured on tasks, which vary: their sum may come out below zero.
        cost_s = values["switching_s"]
        cost = duration(cost_s) if cost_s > 0 else "nothing that could be measured"
        said = "switch between jobs" if switches == 1 else "switches between jobs"
        lines.append(f"{switches:,} {said} cost {cost}")
    lines += phase_lines(values)
    if slow := slow_machine(values, time_scale):
        lines.append(slow)
    if losses := loss_sentence(values):
        lines.append(losses)
    # Only the run itself could measure these: a run that was cut off has none.
    if values["decide_s"] is not None and values["wall_s"] is not None:
        parts = [f"decided in {duration(values['decide_s'])}"]
        if "compile_s" in values:
            parts.append(f"compiled in {duration(values['compile_s'])} (once)")
        parts.append(f"{duration(values['wall_s'])} in all (real time)")
        lines.append(", ".join(parts))
    return lines
