"""Rules on tasks: each counts once, starts after arrival and barrier, and ends by the finish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.report.checks.fault import Fault, listed
from warren.report.checks.run_folder import FolderTables


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroups:
    """Timeline rows grouped by (job, first round), sorted; G groups, R rows.

    ``row_R`` lists rows group by group (by shard within one) and ``first_G`` is where each group
    begins in it. ``next_G``: whether the group before it is of the same job.
    """

    row_R: IntArray
    first_G: IntArray
    job_G: IntArray
    round_G: IntArray
    rounds_G: IntArray
    tasks_G: IntArray
    start_ns_G: IntArray
    end_ns_G: IntArray
    next_G: BoolArray


def groups_of(run: FolderTables) -> TaskGroups:
    """Return the rounds (at grain 1) or stretches of rounds that the timeline consists of."""
    line = run.timeline
    # By job, round and shard: the rows of a group are neighbors, and a job's groups in order.
    row_R = np.lexsort((line.shard_R, line.round_R, line.job_R))
    job, first_round = line.job_R[row_R], line.round_R[row_R]
    new_R = np.ones(len(row_R), dtype=bool)
    new_R[1:] = (np.diff(job) != 0) | (np.diff(first_round) != 0)
    first_G = np.flatnonzero(new_R)
    same_job = np.zeros(len(first_G), dtype=bool)
    same_job[1:] = np.diff(job[first_G]) == 0
    return TaskGroups(
        row_R=row_R,
        first_G=first_G,
        job_G=job[first_G],
        round_G=first_round[first_G],
        rounds_G=_reduced(np.maximum, line.rounds_R[row_R], first_G),
        tasks_G=_reduced(np.add, line.tasks_R[row_R], first_G),
        start_ns_G=_reduced(np.minimum, line.start_ns_R[row_R], first_G),
        end_ns_G=_reduced(np.maximum, line.end_ns_R[row_R], first_G),
        next_G=same_job,
    )


def _reduced(how: np.ufunc, column: IntArray, first_G: IntArray) -> IntArray:
    """Reduce a column, sorted by group, to one value a group."""
    # ``reduceat`` refuses an empty list of beginnings.
    if not len(first_G):
        return np.zeros(0, dtype=np.int64)
    reduced: IntArray = how.reduceat(column, first_G)
    return reduced


def check_tasks(run: FolderTables) -> list[Fault]:
    """Return all faults of tasks and barriers."""
    groups = groups_of(run)
    return [
        *_row_shapes(run),
        *_arrivals(run),
        *_once(run, groups),
        *_complete(run, groups),
        *_round_order(run, groups),
        *_barriers(run, groups),
        *_ends(run, groups),
    ]


def _row_shapes(run: FolderTables) -> list[Fault]:
    """Return the rows whose rounds, shard and number of tasks do not go together."""
    line = run.timeline
    scale_R = run.scale_J[line.job_R]
    # Shard -1 stands for several shards; then tasks are a multiple of rounds, else as many.
    one_R = line.shard_R >= 0
    wrong_R = (line.rounds_R < 1) | (line.round_R < 0) | (line.shard_R < -1)
    wrong_R |= (line.shard_R >= scale_R) | (line.tasks_R < line.rounds_R)
    wrong_R |= np.where(
        one_R, line.tasks_R != line.rounds_R, line.tasks_R % np.maximum(1, line.rounds_R) != 0
    )
    return listed(
        wrong_R,
        lambda i: Fault(
            place=run.row(i),
            what=f"{line.rounds_R[i]} rounds and {line.tasks_R[i]} tasks",
            expected=f"shards 0 to {scale_R[i] - 1} (-1: several), rounds x shards tasks",
        ),
    )


def _arrivals(run: FolderTables) -> list[Fault]:
    """Return the rows that start before their job arrives."""
    line = run.timeline
    arrival_ns_R = run.arrival_ns_J[line.job_R]
    return listed(
        line.start_ns_R < arrival_ns_R - run.rules.slack_ns,
        lambda i: Fault(
            place=run.row(i),
            what=f"starts at {line.start_ns_R[i] / 1e9} s before the job arrives",
            expected=f"a start at or after {arrival_ns_R[i] / 1e9} s",
        ),
    )


def _once(run: FolderTables, groups: TaskGroups) -> list[Fault]:
    """Return the rows whose (job, round, shard) an earlier row has too."""
    line, row_R = run.timeline, groups.row_R
    # Sorted rows that are equal are neighbors. Rows of several shards (-1) do not say which, so
    # they are left to ``_complete``, which counts.
    again_R = np.zeros(len(row_R), dtype=bool)
    again_R[1:] = (np.diff(line.job_R[row_R]) == 0) & (np.diff(line.round_R[row_R]) == 0)
    again_R[1:] &= (np.diff(line.shard_R[row_R]) == 0) & (line.shard_R[row_R[1:]] >= 0)
    return listed(
        again_R,
        lambda i: Fault(
            place=run.row(int(row_R[i])), what="the task is counted twice", expected="once"
        ),
    )


def _complete(run: FolderTables, groups: TaskGroups) -> list[Fault]:
    """Demand ``scale`` tasks a round; only the last one of an unfinished job may lack some."""
    want_G = run.scale_J[groups.job_G] * groups.rounds_G
    last_G = np.ones(len(want_G), dtype=bool)
    last_G[:-1] = ~groups.next_G[1:]
    open_G = last_G & ~run.finished_J[groups.job_G]
    wrong_G = (groups.tasks_G > want_G) | ((groups.tasks_G < want_G) & ~open_G)
    return listed(
        wrong_G,
        lambda g: Fault(
            place=_group(run, groups, g),
            what=f"{groups.tasks_G[g]} tasks done",
            expected=f"{want_G[g]}, each shard once a round",
        ),
    )


def _round_order(run: FolderTables, groups: TaskGroups) -> list[Fault]:
    """Return the groups that do not begin with the round after the group before."""
    # A job's first group begins with round 0, each other one where the one before it ends.
    after_G = np.zeros(len(groups.job_G), dtype=np.int64)
    after_G[1:] = groups.round_G[:-1] + groups.rounds_G[:-1]
    want_G = np.where(groups.next_G, after_G, 0)
    return listed(
        groups.round_G != want_G,
        lambda g: Fault(
            place=_group(run, groups, g),
            what=f"round {groups.round_G[g]} comes next",
            expected=f"round {want_G[g]}",
        ),
    )


def _barriers(run: FolderTables, groups: TaskGroups) -> list[Fault]:
    """Return the groups that start before the last synchronization of the group before."""
    before_ns_G = np.zeros(len(groups.job_G), dtype=np.int64)
    before_ns_G[1:] = groups.end_ns_G[:-1]
    return listed(
        groups.next_G & (groups.start_ns_G < before_ns_G - run.rules.slack_ns),
        lambda g: Fault(
            place=_group(run, groups, g),
            what=f"starts at {groups.start_ns_G[g] / 1e9} s before the barrier",
            expected=f"a start at or after {before_ns_G[g] / 1e9} s, when the round before ended",
        ),
    )


def _ends(run: FolderTables, groups: TaskGroups) -> list[Fault]:
    """Demand that a job runs no round beyond those asked, and nothing after its finish."""
    # -1: the job did not say how many rounds it has.
    asked_G = run.rounds_J[groups.job_G]
    last_G = groups.round_G + groups.rounds_G
    finish_ns_G = run.finish_ns_J[groups.job_G]
    known_G = run.finished_J[groups.job_G] & (finish_ns_G >= 0)
    return [
        *listed(
            (asked_G >= 0) & (last_G > asked_G),
            lambda g: Fault(
                place=_group(run, groups, g),
                what=f"runs to round {last_G[g] - 1} after the end of the job",
                expected=f"no round after {asked_G[g] - 1}",
            ),
        ),
        *listed(
            known_G & (groups.end_ns_G > finish_ns_G + run.rules.slack_ns),
            lambda g: Fault(
                place=_group(run, groups, g),
                what=f"ends at {groups.end_ns_G[g] / 1e9} s after the finish of the job",
                expected=f"an end by {finish_ns_G[g] / 1e9} s",
            ),
        ),
    ]


def _group(run: FolderTables, groups: TaskGroups, group: int) -> str:
    """Return the place of a group for people: that of its first row."""
    return run.row(int(groups.row_R[groups.first_G[group]]))
