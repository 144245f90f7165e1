"""Hare's Algorithm 1, lines 9-16, to the letter and with our choice of device."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_solve_dispatch import random_problem

from warren.solve.common.instance import Instance
from warren.solve.lists.hare_algorithm1 import AVAILABLE, COMPLETION, FASTEST, algorithm1


def sequence(problem: Instance, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random order of all tasks in which rounds follow one another."""
    rng = random.Random(seed)
    left = [int(n * r) for n, r in zip(problem.scale_J, problem.rounds_J, strict=True)]
    rows = []
    while any(left):
        job = rng.choice([j for j, count in enumerate(left) if count])
        done = int(problem.scale_J[job] * problem.rounds_J[job]) - left[job]
        rows.append((job, done // int(problem.scale_J[job])))
        left[job] -= 1
    table = np.array(rows)
    return table[:, 0], table[:, 1]


def place(problem: Instance, pi: tuple[np.ndarray, np.ndarray], choice: int) -> list[list[int]]:
    p = problem
    result = algorithm1(
        *pi, p.arrival_ns_J, p.scale_J, p.rounds_J, p.comp_ns_JT, p.sync_ns_JT, p.fits_JT,
        p.type_D, choice,
    )  # fmt: skip
    return [column.tolist() for column in result]


def plain(p: Instance, pi: tuple[np.ndarray, np.ndarray], choice: int) -> list[list[int]]:
    phi = [0 for _ in p.type_D]
    ends: dict[tuple[int, int], list[int]] = {}
    devices, starts = [], []
    for job, round_ in zip(*(column.tolist() for column in pi), strict=True):
        t = max(ends.get((job, round_ - 1), [int(p.arrival_ns_J[job])]))

        def key(m: int, job: int = job, t: int = t) -> tuple[int, ...]:
            turn = int(p.comp_ns_JT[job, p.type_D[m]] + p.sync_ns_JT[job, p.type_D[m]])
            begin = max(t, phi[m])
            return {
                AVAILABLE: (phi[m], phi[m], m),
                FASTEST: (begin, turn, phi[m], m),
                COMPLETION: (begin + turn, phi[m], m),
            }[choice]

        best = min((m for m in range(len(phi)) if p.fits_JT[job, p.type_D[m]]), key=key)
        start = max(t, phi[best])
        phi[best] = start + int(p.comp_ns_JT[job, p.type_D[best]])
        ends.setdefault((job, round_), []).append(
            phi[best] + int(p.sync_ns_JT[job, p.type_D[best]])
        )
        devices.append(best)
        starts.append(start)
    finish = [max(ends[j, int(r) - 1]) for j, r in enumerate(p.rounds_J)]
    return [devices, starts, finish]


@pytest.mark.parametrize("choice", [AVAILABLE, FASTEST, COMPLETION])
def test_the_sequence_is_placed_as_lines_9_to_16_say(choice: int) -> None:
    for seed in range(80):
        problem, *_ = random_problem(seed)
        pi = sequence(problem, seed)
        assert place(problem, pi, choice) == plain(problem, pi, choice)


def test_line_12_takes_the_earliest_available_device_whatever_its_speed() -> None:
    problem = random_problem(0)[0]._replace(
        arrival_ns_J=np.array([0]), scale_J=np.array([2]), rounds_J=np.array([1]),
        comp_ns_JT=np.array([[10, 100]]), sync_ns_JT=np.array([[0, 0]]),
        fits_JT=np.array([[True, True]]), type_D=np.array([0, 1]),
    )  # fmt: skip
    pi = (np.array([0, 0]), np.array([0, 0]))
    assert place(problem, pi, AVAILABLE) == [[0, 1], [0, 0], [100]]
    assert place(problem, pi, FASTEST) == [[0, 1], [0, 0], [100]]
    assert place(problem, pi, COMPLETION) == [[0, 0], [0, 10], [20]]


def test_of_idle_devices_line_12_takes_the_one_idle_longest_and_the_other_reading_the_fastest() -> (
    None
):
    problem = random_problem(0)[0]._replace(
        arrival_ns_J=np.array([0, 50]), scale_J=np.array([1, 1]), rounds_J=np.array([1, 1]),
        comp_ns_JT=np.array([[10, 900], [10, 100]]), sync_ns_JT=np.zeros((2, 2), np.int64),
        fits_JT=np.array([[True, False], [True, True]]), type_D=np.array([0, 1]),
    )  # fmt: skip
    pi = (np.array([0, 1]), np.array([0, 0]))
    assert place(problem, pi, AVAILABLE) == [[0, 1], [0, 50], [10, 150]]
    assert place(problem, pi, FASTEST) == [[0, 0], [0, 50], [10, 60]]


def test_a_sequence_out_of_order_is_read_no_further() -> None:
    problem, *_ = random_problem(3)
    devices, starts, finish = place(problem, (np.array([0, 0]), np.array([1, 0])), AVAILABLE)
    assert (devices, starts, set(finish)) == ([-1, -1], [-1, -1], {-1})
