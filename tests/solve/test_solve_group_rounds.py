"""What idle devices of groups take, against the same rules written once more without heaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.solve.gpu_groups.round_dispatch import DispatchRules, GroupedDevices, JobColumns
from warren.solve.gpu_groups.waiting_walk import WaitingColumns, serve

NOW = 100
FAR = 2**40


class Case(NamedTuple):
    """Jobs in their order, times by type, devices with their group, the time at which each was
    expected to be free, and whether it is idle.

    ``begun``: of each job that has begun, its first task without a device, its group, and before
    which of the others it is asked; these stand behind all others in the columns of jobs.
    """

    scales: list[int]
    begun: list[tuple[int, int, int]]
    comp: list[list[int]]
    sync: list[list[int]]
    fits: list[list[bool]]
    kinds: list[int]
    groups: list[int]
    free: list[int]
    idle: list[bool]
    rounds: int
    grain: int
    by_completion: bool
    declined: int = 99


def random_case(seed: int) -> Case:
    """Without Hypothesis, for the test of kernels within their bounds."""
    random = np.random.default_rng(seed)
    many = seed % 2 == 0  # narrow jobs, so that several batches are asked
    waiting = int(random.integers(12, 40)) if many else int(random.integers(1, 7))
    types, devices = (int(random.integers(1, top)) for top in (4, 7))
    begun = int(random.integers(3))
    jobs, groups = waiting + begun, 1 + int(random.integers(2))
    scales = random.integers(1, 3 if many else 5, jobs)
    scales[waiting:] += 1
    rounds, grain = [(1, 0), (3, 0), (0, 10), (0, 25)][int(random.integers(4))]
    return Case(
        scales=scales.tolist(),
        begun=sorted(
            [
                (int(random.integers(1, scale)), int(random.integers(groups)), place)
                for scale, place in zip(
                    scales[waiting:], np.sort(random.integers(0, waiting + 1, begun)), strict=True
                )
            ],
            key=lambda one: one[2],
        ),
        comp=random.integers(1, 10, (jobs, types)).tolist(),
        sync=random.integers(1, 10, (jobs, types)).tolist(),
        fits=(random.random((jobs, types)) < 0.8).tolist(),
        kinds=random.integers(0, types, devices).tolist(),
        groups=random.permutation(np.arange(devices) % groups).tolist(),
        free=random.choice([NOW - 5, NOW, NOW + 3, NOW + 8], devices).tolist(),
        idle=(random.random(devices) < 0.5).tolist(),
        rounds=rounds,
        grain=grain,
        by_completion=bool(random.integers(2)),
        declined=int(random.choice([1, 2, 3, 6, 12])),
    )


def by_kernel(case: Case) -> tuple[list[tuple[int, ...]], list[int]]:
    """What starts, as (job, device, tasks, rounds), and when devices are free after it."""
    jobs, waiting = len(case.scales), len(case.scales) - len(case.begun)
    comp, sync, fits = np.array(case.comp), np.array(case.sync), np.array(case.fits)
    types, kind_D = comp.shape[1], np.array(case.kinds)
    row_D = np.array(case.groups) * types + kind_D
    cells_R = np.bincount(row_D, minlength=(max(case.groups) + 1) * types)
    first_R = np.concatenate(([0], np.cumsum(cells_R)))
    shard_J = np.zeros(jobs, np.int64)
    shard_J[waiting:] = [shard for shard, _, _ in case.begun]
    asked = WaitingColumns(
        np.arange(waiting),
        np.zeros(waiting, np.bool_),
        np.array(
            [(waiting + p, group, at) for p, (_, group, at) in enumerate(case.begun)], np.int64
        ).reshape(-1, 3),
    )
    columns = JobColumns(
        np.array(case.scales), shard_J, comp, np.where(fits, comp + sync, 0), fits,
    )  # fmt: skip
    queued_D = 1 - np.array(case.idle).astype(np.int64)
    for seen in (*columns[:3], columns.fits_JT, kind_D, queued_D):
        seen.flags.writeable = False  # as a view's are, so that one compiled kernel does for both
    scratch = GroupedDevices(
        np.array([first_R[first : first + types + 1] for first in range(0, len(cells_R), types)]),
        np.zeros(len(kind_D), np.int64), np.argsort(row_D, kind="stable"), kind_D,
        np.zeros(len(kind_D), np.int64), np.zeros(types, np.bool_),
        np.zeros(max(case.scales), np.int64),
    )  # fmt: skip
    free_ns_D = np.array(case.free)
    rows = np.zeros((4, max(1, case.idle.count(True))), np.int64)
    rules = DispatchRules(NOW, case.rounds, case.grain, case.by_completion, case.declined)
    groups_N = np.arange(max(case.groups) + 1)
    count = serve(asked, columns, scratch, rules, groups_N, queued_D, free_ns_D, rows)
    assert not scratch.load_D.any()
    found = [tuple(row) for row in rows[:, :count].T.tolist()]
    named = [(row[0] if row[0] >= 0 else waiting - 1 - row[0], *row[1:]) for row in found]
    return named, free_ns_D.tolist()


class Hand:
    """The same, one device after the other."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.free = [
            NOW if idle else max(free, NOW + 1)
            for free, idle in zip(case.free, case.idle, strict=True)
        ]
        self.seen = self.free.copy()
        self.rows: list[tuple[int, ...]] = []
        self.left = 0

    def best(self, job: int, group: int, rounds: int) -> int:
        """The device of a group that a task chooses."""
        case = self.case

        def key(device: int) -> tuple[int, int, int, int, int]:
            kind = case.kinds[device]
            turn = case.comp[job][kind] + case.sync[job][kind]
            when = max(NOW, self.seen[device]) + (rounds * turn if case.by_completion else 0)
            # Of a type only the first is looked at: the one that is free first.
            return when, case.comp[job][kind], kind, self.seen[device], device

        return min(self.fitting(job, group), key=key)

    def fitting(self, job: int, group: int) -> list[int]:
        """The devices of a group that fit a job."""
        case = self.case
        return [
            device
            for device, kind in enumerate(case.kinds)
            if case.groups[device] == group and case.fits[job][kind]
        ]

    def rounds_of(self, job: int, group: int) -> int:
        """Rounds of a stretch, if all tasks were on devices of the fastest type."""
        case = self.case
        if case.rounds:
            return case.rounds
        tasks = -(-case.scales[job] // case.groups.count(group))
        least = min(
            tasks * case.comp[job][case.kinds[device]] + case.sync[job][case.kinds[device]]
            for device in self.fitting(job, group)
        )
        return max(1, min(FAR, case.grain // least))

    def walk(self, group: int, order: list[tuple[int, int]]) -> None:
        """Ask (job, its first task) in their order."""
        case, idle = self.case, self.case.idle
        self.left = sum(idle[d] and case.groups[d] == group for d in range(len(idle)))
        ends = {0, 2, 6, 14, *range(30, 99, 16)}  # of the batches 0, 1-2, 3-6, 7-14, 15-30
        asked, declined = 0, 0
        for job, shard in order:
            if not self.left or (asked - 1 in ends and declined >= case.declined):
                break
            if not any(idle[device] for device in self.fitting(job, group)):
                continue
            asked += 1
            before = len(self.rows)
            rounds = 1 if shard else self.rounds_of(job, group)
            if rounds == 1:
                self.tasks(job, group, shard)
            else:
                self.stretch(job, group, rounds)
            declined += len(self.rows) == before and not shard

    def tasks(self, job: int, group: int, shard: int) -> None:
        """Single tasks of a round."""
        case = self.case
        for _ in range(shard, case.scales[job]):
            device = self.best(job, group, 1)
            comp = case.comp[job][case.kinds[device]]
            if self.seen[device] > NOW:
                if not case.by_completion:
                    return
                self.seen[device] += comp
                continue
            self.seen[device] = self.free[device] = NOW + comp
            self.rows.append((job, device, 1, 1))
            self.left -= 1
            if not self.left:
                return

    def stretch(self, job: int, group: int, rounds: int) -> None:
        """All tasks of several rounds at once."""
        case, chosen, idle = self.case, list[int](), True
        for _ in range(case.scales[job]):
            device = self.best(job, group, rounds)
            if device not in chosen:
                idle &= self.seen[device] <= NOW
                self.left -= self.seen[device] <= NOW
            chosen.append(device)
            comp = case.comp[job][case.kinds[device]]
            self.seen[device] = max(NOW, self.seen[device]) + rounds * comp
        if not idle:
            return
        work = {
            device: chosen.count(device) * case.comp[job][case.kinds[device]] for device in chosen
        }
        period = max(work[device] + case.sync[job][case.kinds[device]] for device in chosen)
        if case.grain:
            rounds = max(1, min(rounds, case.grain // period))
        for device in dict.fromkeys(chosen):
            self.free[device] = NOW + (rounds - 1) * period + work[device]
            self.rows.append((job, device, chosen.count(device), rounds))


def by_hand(case: Case) -> tuple[list[tuple[int, ...]], list[int]]:
    """Group by group, who has begun there before the others of its place."""
    hand, waiting = Hand(case), len(case.scales) - len(case.begun)
    for group in range(max(case.groups) + 1):
        started, order = {row[0] for row in hand.rows}, list[tuple[int, int]]()
        for place in range(waiting + 1):
            order += [
                (waiting + p, shard)
                for p, (shard, where, at) in enumerate(case.begun)
                if at == place and where == group
            ]
            order += [(place, 0)] if place < waiting and place not in started else []
        hand.walk(group, order)
    return hand.rows, hand.free


def test_groups_take_what_the_same_rules_without_heaps_take() -> None:
    """So many, as few of them come to the end of a batch with enough who have declined."""
    for seed in range(2500):
        case = random_case(seed)
        assert by_kernel(case) == by_hand(case), seed


def test_a_stretch_that_would_last_for_ever_is_cut_however_wide_its_job_is() -> None:
    """Its tasks are as many as the square of its scale on one device: no product overflows."""
    case = Case(
        scales=[65_536], begun=[], comp=[[4 * 10**9]], sync=[[3 * 10**8]], fits=[[True]],
        kinds=[0], groups=[0], free=[NOW], idle=[True], rounds=9, grain=0, by_completion=True,
    )  # fmt: skip
    assert by_kernel(case)[0] == [(0, 0, 1, 1)]
