"""What idle devices of a group take, against the same rules written once more without heaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.group_rounds import TAKEABLE, Desk, Front, asked, open_desk, walk
from warren.solve.pool import new_pool

NOW = 100


class Case(NamedTuple):
    """Jobs in their order, times by type, and devices with the time each is free."""

    scales: list[int]
    rounds: list[int]
    comp: list[list[int]]
    sync: list[list[int]]
    kinds: list[int]
    free: list[int]
    grain: int
    by_completion: bool
    declined: int = 99


@st.composite
def cases(draw: st.DrawFn) -> Case:
    jobs, types, devices = (draw(st.integers(1, top)) for top in (4, 3, 5))
    times = st.lists(st.integers(1, 9), min_size=types, max_size=types)
    of_jobs = {"min_size": jobs, "max_size": jobs}
    return Case(
        draw(st.lists(st.integers(1, 4), **of_jobs)),
        draw(st.lists(st.sampled_from([1, 1, 3]), **of_jobs)),
        draw(st.lists(times, **of_jobs)),
        draw(st.lists(times, **of_jobs)),
        draw(st.lists(st.integers(0, types - 1), min_size=devices, max_size=devices)),
        draw(st.lists(st.sampled_from([NOW, NOW, NOW + 3, NOW + 8]), min_size=devices,
                      max_size=devices)),
        draw(st.sampled_from([0, 10])),
        draw(st.booleans()),
        draw(st.integers(1, 3)),
    )  # fmt: skip


def random_case(seed: int) -> Case:
    """Without Hypothesis, for the test of kernels within their bounds."""
    random = np.random.default_rng(seed)
    jobs, types, devices = (int(random.integers(1, top)) for top in (5, 4, 6))
    return Case(
        scales=random.integers(1, 5, jobs).tolist(),
        rounds=random.choice([1, 3], jobs).tolist(),
        comp=random.integers(1, 10, (jobs, types)).tolist(),
        sync=random.integers(1, 10, (jobs, types)).tolist(),
        kinds=random.integers(0, types, devices).tolist(),
        free=random.choice([NOW, NOW + 3], devices).tolist(),
        grain=int(random.choice([0, 10])),
        by_completion=bool(random.integers(2)),
    )


def by_kernel(case: Case) -> tuple[list[tuple[int, ...]], list[int], int]:
    """What starts, when devices are free after it, and how many idle ones nobody took."""
    comp, sync = np.array(case.comp), np.array(case.sync)
    types = comp.shape[1]
    kind_D, free_ns_D = np.array(case.kinds), np.array(case.free)
    jobs = len(case.scales)
    front = Front(
        job_N=np.arange(jobs),
        shard_N=np.zeros(jobs, np.int64),
        rounds_N=np.array(case.rounds),
        begun_N=np.zeros(jobs, np.bool_),
        scale_J=np.array(case.scales),
        comp_ns_JT=comp,
        turn_ns_JT=comp + sync,
        fits_JT=np.ones(comp.shape, np.bool_),
    )
    desk = Desk(new_pool(kind_D, types), kind_D, free_ns_D, np.zeros(len(kind_D), np.int64))
    rows, chosen = np.zeros((4, sum(case.scales)), np.int64), np.zeros(4, np.int64)
    open_desk(desk)
    so_far = asked(case.free.count(NOW))
    count, _ = walk(
        front, desk, NOW, case.grain, case.by_completion, case.declined, so_far, rows, chosen
    )
    assert not desk.load_D.any()
    left = int(so_far[TAKEABLE])
    return [tuple(row) for row in rows[:, :count].T.tolist()], free_ns_D.tolist(), left


def by_hand(case: Case) -> tuple[list[tuple[int, ...]], list[int], int]:
    """The same, one device after the other."""
    seen, free = list(case.free), list(case.free)
    rows: list[tuple[int, ...]] = []
    left = case.free.count(NOW)

    def best(job: int, rounds: int) -> int:
        def key(device: int) -> tuple[int, int, int, int, int]:
            kind = case.kinds[device]
            turn = case.comp[job][kind] + case.sync[job][kind]
            when = max(NOW, seen[device]) + (rounds * turn if case.by_completion else 0)
            # Of a type only the first is looked at: the one that is free first.
            return when, case.comp[job][kind], kind, seen[device], device

        return min(range(len(free)), key=key)

    ends, declined = {0, 2}, set[int]()  # of the batches 0, 1-2 and 3-6
    for job, scale in enumerate(case.scales):
        declined |= {job - 1} - {-1} - {row[0] for row in rows}
        if not left or (job - 1 in ends and len(declined) >= case.declined):
            break
        if case.rounds[job] == 1:
            shard = 0
            for _ in range(scale):
                device = best(job, 1)
                comp = case.comp[job][case.kinds[device]]
                if seen[device] > NOW:
                    if not case.by_completion:
                        break
                    seen[device] += comp
                    continue
                seen[device] = free[device] = NOW + comp
                rows.append((job, shard, device, 1))
                shard, left = shard + 1, left - 1
                if not left:
                    break
            continue
        chosen, idle = [], True
        for _ in range(scale):
            device = best(job, case.rounds[job])
            if device not in chosen:
                idle &= seen[device] <= NOW
                left -= seen[device] <= NOW
            chosen.append(device)
            comp = case.comp[job][case.kinds[device]]
            seen[device] = max(NOW, seen[device]) + case.rounds[job] * comp
        if not idle:
            continue
        work = {device: chosen.count(device) * case.comp[job][case.kinds[device]]
                for device in chosen}  # fmt: skip
        period = max(work[device] + case.sync[job][case.kinds[device]] for device in chosen)
        rounds = case.rounds[job]
        if case.grain:
            rounds = max(1, min(rounds, case.grain // period))
        for shard, device in enumerate(chosen):
            free[device] = NOW + (rounds - 1) * period + work[device]
            rows.append((job, shard, device, rounds))
    return rows, free, left


@given(cases())
def test_a_walk_places_what_the_same_rules_without_heaps_place(case: Case) -> None:
    assert by_kernel(case) == by_hand(case)
