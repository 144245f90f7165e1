"""A plan as assignments, and the plans that could never run to their end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from warren.model.costs import IntArray
from warren.model.decision import Assignment, Plan
from warren.model.errors import InfeasibleDecision


def plan_assignments(plan: Plan) -> list[Assignment]:
    """Return a plan's rows as assignments: rows of one stretch on one device become one."""
    # ``stretch`` collects, by device, the shards of the stretch ``current`` = (job, first round),
    # whose rows follow one another (``check_plan`` has made sure of it).
    result: list[Assignment] = []
    stretch: dict[int, list[int]] = {}
    current: tuple[int, int] | None = None
    columns = (plan.job_R, plan.round_R, plan.rounds_R, plan.shard_R, plan.device_R)
    rounds_of = 1

    def flush() -> None:
        """Add the stretch that was collected, an assignment a device."""
        if current is not None:
            result.extend(
                Assignment(device, current[0], current[1], rounds_of, tuple(shards))
                for device, shards in stretch.items()
            )
        stretch.clear()

    for job, first, rounds, shard, device in zip(*map(_ints, columns), strict=True):
        if rounds == 1:
            flush()
            current = None
            result.append(Assignment(device, job, first, 1, (shard,)))
            continue
        if current != (job, first):
            flush()
            current, rounds_of = (job, first), rounds
        stretch.setdefault(device, []).append(shard)
    flush()
    return result


def _ints(column: IntArray) -> list[int]:
    values: list[int] = column.tolist()
    return values


def refuse_cycle(policy: str, assignments: Iterable[Assignment], scales: IntArray) -> None:
    """Refuse device orders that wait for each other through barriers.

    Runs the plan without times: a device's head can run once its job has passed every earlier
    barrier. If nothing can run, the rows that are left form the cycle.

    Raises
    ------
    InfeasibleDecision
        Naming one assignment that can never start.
    """
    # A topological sort. Edges: a device's next assignment after the one before it, and a round's
    # tasks after the barrier of the round before. Devices whose head has to wait stand in
    # ``waiting`` under the job they wait for, so each assignment is looked at once or twice.
    queues: dict[int, deque[Assignment]] = {}
    for one in assignments:
        queues.setdefault(one.device, deque()).append(one)
    round_of: dict[int, int] = {}
    done: dict[tuple[int, int], int] = {}
    waiting: dict[int, list[int]] = {}
    ready = deque(queues)
    while ready:
        device = ready.popleft()
        queue = queues[device]
        while queue and queue[0].round <= round_of.get(queue[0].job, 0):
            one = queue.popleft()
            key = (one.job, one.round)
            done[key] = done.get(key, 0) + len(one.shards)
            # All shards are done: the barrier passes, and devices that wait for the job may go on.
            if done[key] == scales[one.job]:
                round_of[one.job] = one.round + one.rounds
                ready.extend(waiting.pop(one.job, ()))
        if queue:
            waiting.setdefault(queue[0].job, []).append(device)
    for queue in queues.values():
        if queue:
            raise InfeasibleDecision(
                f"policy {policy}: the plan is a cycle: {queue[0]} waits for a barrier that comes "
                "after it"
            )
