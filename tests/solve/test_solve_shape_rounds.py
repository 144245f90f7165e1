"""Who works and who serves a job of whole tasks: by hand, and against all that can be chosen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.shapes.task_rounds import TaskMachines, TaskRound, best_task_round, task_round


def machines(*rows: tuple[float, float, int]) -> TaskMachines:
    """Rows are seconds a task, bytes a second, devices."""
    task_s, rate, devices = zip(*rows, strict=True)
    return TaskMachines(
        task_s_N=np.array(task_s, dtype=float), rate_N=np.array(rate, dtype=float),
        devices_N=np.array(devices),
    )  # fmt: skip


def of(
    one: TaskMachines, works: str, shares: list[float], model_bytes: float, tasks: int
) -> TaskRound:
    """The round where machines with a ``w`` work."""
    works_N = np.array([letter == "w" for letter in works])
    return task_round(one, works_N, np.array(shares), model_bytes, tasks)


def test_a_task_a_worker_is_a_pull_then_comp_then_a_push() -> None:
    """Four workers pull 8 bytes each over 2 servers of 4 bytes/s: 4 s, and 4 s to push."""
    six = machines(*[(3.0, 4.0, 1)] * 6)
    found = of(six, "wwww..", [0, 0, 0, 0, 0.5, 0.5], 8.0, 4)
    assert (found.pull_s, found.comp_s, found.round_s) == (4.0, 3.0, 11.0)
    # Of one that is alone its own link, not the servers', is what holds back: 2 s each way.
    assert of(six, "w.....", [0, *[0.2] * 5], 8.0, 1).round_s == 2 + 3 + 2


def test_updates_flow_while_the_next_task_computes_and_may_be_what_takes_longest() -> None:
    """Two workers, six tasks: 3 each. Pushes of 2 s are hidden behind tasks of 3 s but for the
    last wave; behind tasks of 1 s the links are never free: 6 updates of 8 bytes at 8 bytes/s."""
    slow = of(machines(*[(3.0, 4.0, 1)] * 4), "ww..", [0, 0, 0.5, 0.5], 8.0, 6)
    assert slow.round_s == 2 + 9 + 2
    fast = of(machines(*[(1.0, 4.0, 1)] * 4), "ww..", [0, 0, 0.5, 0.5], 8.0, 6)
    assert fast.round_s == 2 + 1 + 6


def test_who_works_and_serves_sends_itself_nothing() -> None:
    """Four machines of 4 bytes/s hold 2 of 8 bytes each: 6 to pull, 6 to send others, 1.5 s."""
    four = machines(*[(3.0, 4.0, 1)] * 4)
    assert of(four, "wwww", [0.25] * 4, 8.0, 4).round_s == 1.5 + 3 + 1.5
    assert best_task_round(four, 8.0, 4, both=True).round_s == 6.0
    assert best_task_round(four, 8.0, 4).round_s > 6.0
    assert of(machines((3.0, 4.0, 1)), "w", [1.0], 8.0, 2).round_s == 6.0


def test_faster_machines_have_more_tasks() -> None:
    found = of(
        machines((1, 1e9, 1), (1, 1e9, 1), (2, 1e9, 1), (2, 1e9, 1)), "www.", [0, 0, 0, 1], 1.0, 5
    )
    assert found.comp_s == 2.0


def test_machines_that_are_to_serve_first_do() -> None:
    """Of equal ones those that stand first in the order."""
    one = machines(*[(1.0, 4.0, 1)] * 5)
    found = best_task_round(one, 8.0, 4, prefer=np.array([3, 1, 0, 2, 4]))
    serving = np.flatnonzero(found.share_N).tolist()
    assert serving == sorted([3, 1, 0, 2, 4][: len(serving)])
    assert not (found.works_N & (found.share_N > 0)).any()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.5, 1.0, 1.5, np.inf]),
            st.sampled_from([1.0, 2.0, 5.0]),
            st.integers(1, 2),
        ),
        min_size=1, max_size=6,
    ),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.integers(1, 9),
)  # fmt: skip
def test_no_choice_of_servers_has_a_shorter_round(
    rows: list[tuple[float, float, int]], model_bytes: float, tasks: int
) -> None:
    """Nor is one worse where machines may do both."""
    one = machines(*rows)
    least = min(
        (by_hand(rows, serve, model_bytes, tasks)
         for serve in itertools.product([False, True], repeat=len(rows))),
        default=np.inf,
    )  # fmt: skip
    if np.isinf(least):
        with pytest.raises(ValueError, match="need two machines"):
            best_task_round(one, model_bytes, tasks)
        return
    found = best_task_round(one, model_bytes, tasks)
    assert found.round_s == pytest.approx(least, rel=1e-6)
    assert best_task_round(one, model_bytes, tasks, both=True).round_s <= found.round_s * (1 + 1e-6)


def by_hand(
    rows: list[tuple[float, float, int]], serve: tuple[bool, ...], model_bytes: float, tasks: int
) -> float:
    """A round, machine by machine; infinite where nobody serves or works. The model is split by
    bandwidth, and the last of equal machines have a task fewer."""
    working = [at for at, row in enumerate(rows) if not serve[at] and np.isfinite(row[0])]
    serving = [at for at in range(len(rows)) if serve[at]]
    if not working or not serving:
        return np.inf
    devices = [at for at in working for _ in range(rows[at][2])]
    comp_s = min(
        end for end in {rows[at][0] * n for at in working for n in range(1, tasks + 1)}
        if sum(int(end / rows[at][0] + 1e-9) for at in devices) >= tasks
    )  # fmt: skip
    n = {at: int(comp_s / rows[at][0] + 1e-9) * rows[at][2] for at in working}
    for at in reversed(working):
        n[at] -= min(sum(n.values()) - tasks, n[at], rows[at][2])
    at_work = sum(min(rows[at][2], n[at]) for at in working)
    served = sum(rows[at][1] for at in serving)

    def passes_s(each: dict[int, int], total: int) -> float:
        own = [each[at] * model_bytes / rows[at][1] for at in working]
        return max(total * model_bytes / served, *own)

    pull_s = passes_s({at: min(rows[at][2], n[at]) for at in working}, at_work)
    first_s = min(rows[at][0] for at in working if n[at])
    return pull_s + max(comp_s + pull_s, first_s + passes_s(n, tasks))
