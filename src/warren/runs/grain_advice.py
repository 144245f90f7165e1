"""The number of stretches of a run, and a grain that makes it smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.errors import SpecError
from warren.model.run import Grain
from warren.model.timeline import Timeline
from warren.model.units import NEVER_NS
from warren.policy.common.round_times import rounds_alone_ns_J
from warren.policy.protocol import holds_devices
from warren.report.number_text import duration
from warren.report.record import Record
from warren.runs.choose_policy import choose
from warren.runs.compose import PreparedRun
from warren.workload.specs.run import parse_grain

MANY_BY_EVENTS: Final = 1_000_000
"""Number of stretches above which a run that goes event by event takes minutes."""
MANY_COMPILED: Final = 10_000_000
"""Number of stretches above which a plan in compiled code takes minutes."""
_BY_EVENTS_A_SECOND: Final = 10_000
_COMPILED_A_SECOND: Final = 500_000
"""Stretches that a simulation does in a second, about."""
MANY_SINGLE: Final = 1000
"""Number of stretches below which the length of each does not matter."""
_MOSTLY: Final = 0.9
"""Share of rounds handed out singly from which on the user gets a remark about the policy."""
_TIMES: Final = ("1 min", "10 min", "1 h", "6 h", "1 d", "7 d")
_ROUNDS: Final = ("10 rounds", "100 rounds", "1000 rounds", "10000 rounds")


def size_note(prepared: PreparedRun, *, events: bool = False) -> str:
    """Return a line for a run of very many stretches; empty for any other.

    At any grain there are at most as many as tasks, so runs of fewer than ``MANY_BY_EVENTS`` tasks
    need no call. ``events``: it goes event by event whatever its policy. Faults of the run are not
    reported here; its simulation reports them.
    """
    run = prepared.run
    rounds_J = np.array([job.rounds or 0 for job in run.workload.jobs], dtype=np.int64)
    scale_J = np.array([job.scale for job in run.workload.jobs], dtype=np.int64)
    try:
        policy = prepared.named_policy
        by_plan = policy.offline and run.scheduler.copies_after is None and not events
        costs = prepared.stated_costs
    except SpecError:
        return ""
    if holds_devices(policy) and run.grain.rounds != 1:
        return ""
    type_D = np.array(run.cluster.type_of_device, dtype=np.int64)
    # A job of more tasks than devices has them one after the other: its round takes that longer.
    round_ns_J = None if costs is None else rounds_alone_ns_J(costs, type_D, scale_J)
    most = MANY_COMPILED if by_plan else MANY_BY_EVENTS

    def count(grain: Grain) -> int:
        """Return the stretches of all tasks of the run at this grain."""
        return int(_stretches(grain, rounds_J, round_ns_J) @ scale_J)

    found = count(run.grain)
    if found <= most:
        return ""
    what = "tasks" if run.grain.rounds == 1 else f"stretches of tasks at grain {run.grain.text}"
    takes_s = found / (_COMPILED_A_SECOND if by_plan else _BY_EVENTS_A_SECOND)
    line = f"{found:,} {what}, each scheduled on its own, which takes about {duration(takes_s)}"
    better = _coarser(count, found, most, _ROUNDS if round_ns_J is None else _TIMES)
    if better:
        return f"{line}; `grain: {better}` (`--set grain='{better}'`) makes it coarser and quicker"
    wide, devices = int(np.count_nonzero(scale_J > len(type_D))), len(type_D)
    jobs = "1 job has" if wide == 1 else f"{wide:,} jobs have"
    way = f"{jobs} more tasks a round than there are devices; `gpus_max: {devices}` of a trace"
    return f"{line}; {way} leaves such jobs out" if wide else line


def fine_note(record: Record) -> str:
    """Return a line if a policy assigns single rounds though the run's grain allows more.

    Empty for any other run, and for policies that plan all at once. Runs of fewer than
    ``MANY_SINGLE`` stretches need no call.
    """
    grain, line = record.run.grain, record.history.timeline
    if grain.rounds == 1 or choose(record.run).offline:
        return ""
    single_R = line.rounds_R == 1
    took_ns = np.median(_rounds_took_ns(line, single_R)) if any(single_R) else 0
    # A grain of time allows more only if two rounds, at the times of single ones, fit into it.
    may = grain.time_ns is None or 2 * took_ns <= grain.time_ns
    if not may or line.rounds_R[single_R].sum() < _MOSTLY * line.rounds_R.sum():
        return ""
    return (
        f"{record.place} handed out one round at a time, {len(line):,} stretches, though the grain "
        f"is {grain.text}; view.grain.rounds_for(...) tells a policy how many rounds one may have"
    )


def _rounds_took_ns(line: Timeline, row_R: BoolArray) -> IntArray:
    """Return the time of the round of each of these rows, from its first task to its end.

    Tasks of one round may run one after the other on one device, so a task tells too little.
    """
    # One number a round of a job: of two columns the first counts in rounds of the longest job.
    round_R = line.round_R[row_R]
    _, place = np.unique(line.job_R[row_R] * (round_R.max() + 1) + round_R, return_inverse=True)
    start_ns = np.full(int(place.max()) + 1, NEVER_NS)
    end_ns = np.zeros_like(start_ns)
    np.minimum.at(start_ns, place, line.start_ns_R[row_R])
    np.maximum.at(end_ns, place, line.end_ns_R[row_R])
    found: IntArray = (end_ns - start_ns)[place]
    return found


def _coarser(count: Callable[[Grain], int], found: int, most: int, grains: Sequence[str]) -> str:
    """Return the finest grain that gives few enough stretches; empty if none helps.

    If none gives few enough, it is the grain of fewest stretches, if that at least halves them.
    """
    counts = {text: count(parse_grain(text)) for text in grains}
    fine = [text for text, number in counts.items() if number <= most]
    if fine:
        return fine[0]
    least = min(counts, key=lambda text: counts[text])
    return least if counts[least] <= found // 2 else ""


def _stretches(grain: Grain, rounds_J: IntArray, round_ns_J: IntArray | None) -> IntArray:
    """Return the stretches of each task's rounds, by job; without times each has one."""
    if grain.rounds is not None:
        each_J = np.full_like(rounds_J, grain.rounds)
    elif round_ns_J is None:
        each_J = np.maximum(rounds_J, 1)
    else:
        each_J = np.maximum(grain.time_ns // np.maximum(round_ns_J, 1), 1)
    # Division rounded up.
    found: IntArray = -(-rounds_J // each_J)
    return found
