"""Who works and who serves a job of whole tasks: by hand, and against all that can be chosen."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

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
            st.sampled_from([1e6, 2e6, 5e6]),
            st.integers(1, 2),
        ),
        min_size=1, max_size=6,
    ),
    st.sampled_from([1e5, 1e6, 4e6]),
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


@pytest.mark.parametrize("part", range(4))
def test_the_split_of_a_round_is_that_of_a_linear_program_for_every_set_of_workers(
    part: int,
) -> None:
    """400 drawn instances, on which any machine may do both; a program in shares and times each."""
    for seed in range(100 * part, 100 * part + 100):
        draw = random.Random(f"split-{seed}")
        kinds = [
            (draw.choice([0.01, 0.05, 0.1, 0.3, 1.0]), draw.choice([2e6, 5e6, 2e7, 5e7]),
             draw.choice([1, 1, 2]))
            for _ in range(draw.randint(1, 3))
        ]  # fmt: skip
        rows = [draw.choice(kinds) for _ in range(draw.choice([2, 3, 3, 4]))]
        model_bytes, tasks = draw.choice([3e5, 3e6, 2e7]), draw.randint(1, 12)
        least = min(
            least_by_program(rows, works, model_bytes, tasks)
            for works in itertools.product([False, True], repeat=len(rows))
            if any(works)
        )
        found = best_task_round(machines(*rows), model_bytes, tasks, both=True)
        assert found.round_s == pytest.approx(least, rel=1e-7), (seed, rows, model_bytes, tasks)


def test_a_machine_with_less_than_a_byte_of_the_model_is_no_server() -> None:
    """A worker to which no other comes pulls nothing if it holds the whole model."""
    four = machines(*[(0.01, 6.25e6, 1)] * 4)
    found = best_task_round(four, 3.6e6, 4, both=True)
    assert sorted(found.share_N.tolist()) == [0.0, 0.0, 0.0, 1.0]
    # Of 5 bytes over links of equal rates no machine of these six can have less than one, or none.
    few = best_task_round(machines(*[(9.0, 1.0, 1)] * 6), 5.0, 6, both=True)
    assert all(share == 0 or 5 * share >= 1 for share in few.share_N.tolist())
    assert few.share_N.sum() == pytest.approx(1)


def by_hand(
    rows: list[tuple[float, float, int]], serve: tuple[bool, ...], model_bytes: float, tasks: int
) -> float:
    """A round, machine by machine; infinite where nobody serves or works. The model is split by
    bandwidth."""
    working = [at for at, row in enumerate(rows) if not serve[at] and np.isfinite(row[0])]
    serving = [at for at in range(len(rows)) if serve[at]]
    if not working or not serving:
        return np.inf
    comp_s, n = spread_by_hand(rows, working, tasks)
    at_work = sum(min(rows[at][2], n[at]) for at in working)
    served = sum(rows[at][1] for at in serving)

    def passes_s(each: dict[int, int], total: int) -> float:
        own = [each[at] * model_bytes / rows[at][1] for at in working]
        return max(total * model_bytes / served, *own)

    pull_s = passes_s({at: min(rows[at][2], n[at]) for at in working}, at_work)
    first_s = min(rows[at][0] for at in working if n[at])
    return pull_s + max(comp_s + pull_s, first_s + passes_s(n, tasks))


def spread_by_hand(
    rows: list[tuple[float, float, int]], working: list[int], tasks: int
) -> tuple[float, dict[int, int]]:
    """How long workers compute, and how many tasks each has. Where there are fewer tasks than
    they could do by then, slow links go without, then slow devices, then the last."""
    comp_s = min(
        end for end in {rows[at][0] * n for at in working for n in range(1, tasks + 1)}
        if sum(int(end / rows[at][0] + 1e-9) * rows[at][2] for at in working) >= tasks
    )  # fmt: skip
    n = {at: int(comp_s / rows[at][0] + 1e-9) * rows[at][2] for at in working}
    for at in sorted(working, key=lambda at: (rows[at][1], -rows[at][0], rows[at][2], -at)):
        n[at] -= min(sum(n.values()) - tasks, n[at], rows[at][2])
    return comp_s, n


def least_by_program(
    rows: list[tuple[float, float, int]], works: tuple[bool, ...], model_bytes: float, tasks: int
) -> float:
    """The shortest round of these workers: a linear program in shares, pull, busy and round."""
    comp_s, spread = spread_by_hand(rows, [at for at, one in enumerate(works) if one], tasks)
    n = np.array([spread.get(at, 0) for at in range(len(rows))])
    at_work = np.minimum(n, [row[2] for row in rows])
    unit_s = model_bytes / np.array([row[1] for row in rows])
    first_s = min(row[0] for row, done in zip(rows, n, strict=True) if done)
    size, above, right = len(rows), [], list[float]()
    for column, sent in ((size, at_work), (size + 1, n)):
        for factor, limit in (((sent.sum() - sent), 0 * n), (-sent, -sent)):
            term = np.zeros((size, size + 3))
            term[:, :size] = np.diag(factor * unit_s)
            term[:, column] = -1
            above.append(term)
            right += (limit * unit_s).tolist()
    above.append(np.array([[0.0] * size + [2, 0, -1], [0.0] * size + [1, 1, -1]]))
    found = linprog(
        [0.0] * (size + 2) + [1],
        A_ub=np.vstack(above), b_ub=[*right, -comp_s, -first_s],
        A_eq=[[1.0] * size + [0, 0, 0]], b_eq=[1.0],
    )  # fmt: skip
    return float(found.fun)
