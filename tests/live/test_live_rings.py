"""Rings of real processes: the bits of the plain loop wherever ranks are, whatever is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from live_worlds import (
    APPS,
    accepted,
    drive,
    ended,
    job,
    of,
    session,
    treat_devices_as_gpus,
    world,
)

from warren.live.control.local_engine import LivePort
from warren.live.control.recovery import LIMIT
from warren.live.oracle.plain import PlainResult, train
from warren.live.process.specs import ExecutorRole, RankRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.decision import Assignment
from warren.model.events import (
    AnyEvent,
    CompDone,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TasksDone,
)
from warren.model.job import Checkpoint, Evaluate, Job, Stop
from warren.model.run import Run

pytestmark = pytest.mark.live

EVERY = 3
JOBS = (
    job(0, sync="ring", scale=3, rounds=9, checkpoint=Checkpoint(every=EVERY)),
    job(1, sync="ring", rounds=7, evaluate=Evaluate(every=4), params={"sleep_s": 0.01}),
    job(2, rounds=8, checkpoint=Checkpoint(every=EVERY)),
    job(3, sync="ring", scale=1, rounds=4, user="bob"),
)


def plain_bits(run: Run) -> dict[int, str]:
    """By job, the hash that the plain engine gives."""
    return {one.index: trained(run, one).digest for one in run.workload.jobs}


def trained(run: Run, one: Job) -> PlainResult:
    """What the plain loop gives."""
    app = build_app(one, run.base)
    numerics.pin()  # the app's module sets what it likes
    return train(app, one)


def bits(events: list[AnyEvent]) -> dict[int, str]:
    """By job, the hash of what was saved."""
    return {event.job: event.sha256 for event in of(events, ParamsSaved)}


SOON = 5
"""So many barriers later who has lost a rank is told to have gone back, if it does."""


def scattered(run: Run, seed: int, devices: int) -> list[Assignment]:
    """All jobs, some rounds at a time, each time on other devices; rings on as many as ranks."""
    draw = random.Random(seed)
    done = [0] * len(run.workload.jobs)
    found: list[Assignment] = []
    while left := [one for one in run.workload.jobs if done[one.index] < (one.rounds or 0)]:
        one = draw.choice(left)
        first = done[one.index]
        rounds = min(draw.randint(1, 4), (one.rounds or 0) - first)
        for shard, device in enumerate(draw.sample(range(devices), one.scale)):
            found.append(Assignment(device, one.index, first, rounds, (shard,)))
        done[one.index] += rounds
    return found


def killer(moments: dict[int, type], port: LivePort) -> Callable[[AnyEvent], None]:
    """When so many barriers have passed, kills one process of a role: a rank of a gang that is on
    its way. Where none is, it waits for the next barrier: who loses a gang that has not begun goes
    back nowhere. Nor does who loses one that has just made its last round: then, as no job is told
    to have gone back within some barriers, it does so once more, on a busy machine too early. A job
    that has met it once less than fails it is spared."""
    left, passed, under_way = dict(moments), [0], set[int]()
    struck: dict[int, type] = {}
    met = Counter[int]()

    def is_meant(role: object, kind: type) -> bool:
        if isinstance(role, RankRole) and kind is RankRole:
            return role.job.index in under_way and met[role.job.index] < LIMIT - 1
        return isinstance(role, kind)

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RolledBack):
            struck.clear()
        if not isinstance(event, RoundsDone):
            return
        passed[0] += 1
        under_way.add(event.job)
        if event.finished:
            under_way.remove(event.job)
        for at in [one for one in struck if one + SOON <= passed[0]]:
            left[at + SOON] = struck.pop(at)
        for moment in [one for one in left if one <= passed[0]]:
            kind = left[moment]
            meant = [one for one in port.processes().items() if is_meant(one[1], kind)]
            for pid, role in meant[-1:]:
                struck[passed[0]] = left.pop(moment)
                met.update([role.job.index] if isinstance(role, RankRole) else [])
                with contextlib.suppress(ProcessLookupError):  # it has left meanwhile
                    os.kill(pid, signal.SIGKILL)

    return watch


def _on(role: object, device: int | None) -> bool:
    return device in (None, getattr(role, "device", None))


def killer_on(
    moments: dict[int, tuple[type, int | None]], port: LivePort
) -> Callable[[AnyEvent], None]:
    """When so many barriers have passed, kills one process of a role, on one device if named."""
    left, passed = dict(moments), [0]

    def watch(event: AnyEvent) -> None:
        passed[0] += isinstance(event, RoundsDone)
        if isinstance(event, RoundsDone) and passed[0] in left:
            kind, device = left.pop(passed[0])
            roles = port.processes().items()
            pids = [pid for pid, role in roles if isinstance(role, kind) and _on(role, device)]
            for pid in pids[-1:]:
                os.kill(pid, signal.SIGKILL)

    return watch


def test_ranks_that_move_between_devices_give_the_bits_of_one_process(tmp_path: Path) -> None:
    run, costs = world(tmp_path, JOBS, devices=4)
    expected = plain_bits(run)
    with LivePort(run, costs, tmp_path / "run") as port:
        pid = port.session
        events = drive(port, scattered(run, 1, 4))
        (folder,) = {
            role.folder for role in port.processes().values() if isinstance(role, ExecutorRole)
        }
        left = [path.name for path in Path(folder).iterdir()]
    assert not [name for name in left if name.startswith(("meeting", "g"))]
    assert bits(events) == expected
    assert not of(events, RolledBack)
    assert not session(pid)
    tasks = Counter(
        (row.job, round_no, shard)
        for row in accepted(events)
        for round_no in range(row.round, row.round + row.rounds)
        for shard in row.shards
    )
    assert tasks == Counter(
        (one.index, round_no, shard)
        for one in JOBS
        for round_no in range(one.rounds or 0)
        for shard in range(one.scale)
    )


@pytest.mark.parametrize("moments", [{5: RankRole, 14: RankRole}, {9: ExecutorRole, 16: RankRole}])
def test_a_gang_that_loses_a_rank_or_a_device_goes_back_to_a_checkpoint_with_the_same_bits(
    moments: dict[int, type], tmp_path: Path
) -> None:
    run, costs = world(tmp_path, JOBS, devices=4)
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(port, scattered(run, 3, 4), killer(moments, port))
    assert not of(events, JobFailed)
    assert of(events, RolledBack)
    assert bits(events) == plain_bits(run)


def test_rings_on_devices_have_the_bits_of_one_process_where_all_but_the_kernels_is_as_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    treat_devices_as_gpus(monkeypatch)
    kept = job(
        3, sync="ring", rounds=6, evaluate=Evaluate(every=2), checkpoint=Checkpoint(every=EVERY)
    )
    run, costs = world(tmp_path, (*JOBS[:3], kept), devices=4)
    moments = {7: RankRole, 15: ExecutorRole}
    with LivePort(replace(run, verify=0.3), costs, tmp_path / "run") as port:
        assert "stand-in" in port.numerics
        events = drive(port, scattered(run, 2, 4), killer(moments, port))
    assert not of(events, JobFailed)
    assert of(events, RolledBack)
    assert bits(events) == plain_bits(run)


@pytest.mark.parametrize(
    "moments", [{3: (RankRole, 1)}, {3: (RankRole, 1), 6: (ExecutorRole, 0)}], ids=["rank", "both"]
)
def test_a_gang_that_is_lost_before_its_job_arrives_is_formed_again(
    moments: dict[int, tuple[type, int | None]], tmp_path: Path
) -> None:
    """Whatever is lost: a rank that asks for an executor of the past would wait for ever.

    On a slow machine the job arrives later, so that the loss comes before it.
    """
    clock = job(0, scale=1, rounds=12, params={"sleep_s": 0.03})
    early = [Assignment(d, 1, r, 2, (d,)) for r in (0, 2) for d in (0, 1)]
    for arrival_ns in (1_800_000_000, 15_000_000_000, 100_000_000_000):
        late = job(1, sync="ring", rounds=4, arrival_ns=arrival_ns)
        run, costs = world(tmp_path, (clock, late), devices=3)
        with LivePort(run, costs, tmp_path / f"run-{arrival_ns}") as port:
            rows = [Assignment(2, 0, 0, 12, (0,)), *early]
            events = drive(port, rows, killer_on(moments, port))
        if not of(events, RolledBack):
            break
    assert not of(events, RolledBack)
    assert min(row.start_ns for row in of(events, TasksDone, 1)) >= late.arrival_ns
    assert bits(events) == plain_bits(run)


def test_a_ring_holds_its_devices_from_its_first_task_to_its_last_barrier(tmp_path: Path) -> None:
    """Emulated: rounds of the slowest COMP and T^s, and nothing else beside them."""
    jobs = (
        job(0, sync="ring", rounds=4),
        job(1, sync="ring", rounds=3),
        job(2, rounds=4, scale=1),
    )
    run, costs = world(tmp_path, jobs, devices=2, scale=1.0, comp_s=0.04, sync_s=0.03)
    stretches = [Assignment(d, j, 0, jobs[j].rounds or 0, (d,)) for j in (0, 1) for d in (0, 1)]
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(port, [*stretches, Assignment(1, 2, 0, 4, (0,))])
    assert set(ended(events).values()) == {"finished"}
    rows = sorted(of(events, TasksDone), key=lambda row: row.start_ns)
    for row in rows:
        if row.job < 2:
            rounds, length_ns = row.rounds, row.end_ns - row.start_ns
            assert length_ns >= rounds * 70_000_000
            assert row.busy_ns >= rounds * 40_000_000
    for device in (0, 1):
        mine = [row for row in rows if row.device == device]
        for before, after in pairwise(mine):
            assert after.start_ns >= (before.end_ns if before.job < 2 else before.comp_end_ns)
    left = {(event.job, event.device): event.time_ns for event in of(events, CompDone)}
    for row in rows:
        if row.job < 2:
            assert left[row.job, row.device] == row.end_ns


def test_a_ring_ends_by_its_stop_rule_in_the_round_of_the_plain_loop(tmp_path: Path) -> None:
    stops = job(
        0, sync="ring", scale=2, rounds=40, evaluate=Evaluate(every=2),
        stop=Stop(metric="mse", falls_to=1.5),
    )  # fmt: skip
    run, costs = world(tmp_path, (stops,), devices=2)
    result = trained(run, stops)
    assert 2 < result.rounds < 40
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(port, [Assignment(d, 0, 0, 40, (d,)) for d in (0, 1)])
    assert of(events, RoundsDone)[-1].round + 1 == result.rounds
    assert bits(events) == {0: result.digest}


FAILING = {
    "Raises": "app failed in rank",
    "RaisesAtBirth": "no such data",
    "Dies": "ended again and again, last: killed by SIGKILL",
    "Exits": "app failed in rank",
    "DiesInServer": "ended again and again, last: exit status 7",
    "StepsElsewhere": "of its ring has other parameters",
}
"""App, and what is said of its end."""
OF_A_KIND = """

class OfAKind(Tiny):
    def loss(self, model, batch):  # as where rank 1 is on another kind of device
        with open("/proc/self/comm") as file:
            last = file.read().strip().endswith(".1")
        return super().loss(model, batch) * (1 + 1e-6 * last)
"""
STEPS_ELSEWHERE = """

class StepsElsewhere(Tiny):
    def optimizer(self, named_parameters):
        with open("/proc/self/comm") as file:
            last = file.read().strip().endswith(".1")  # rank 1 of a ring
        return torch.optim.SGD([p for _, p in named_parameters], lr=0.05 + 0.01 * last)
"""


def test_a_ring_that_fails_says_why_and_fails_no_other(tmp_path: Path) -> None:
    good = job(0, sync="ring", rounds=6)
    bad = [
        job(index, app, sync="ring", rounds=6, evaluate=Evaluate(every=1))
        for index, app in enumerate(FAILING, start=1)
    ]
    run, costs = world(tmp_path, (good, *bad), devices=2)
    (tmp_path / "apps.py").write_text(APPS + STEPS_ELSEWHERE)
    order = [Assignment(d, j, r, 1, (d,)) for r in range(6) for j in range(7) for d in (0, 1)]
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(port, order)
    assert ended(events) == {0: "finished"} | dict.fromkeys(range(1, 7), "failed")
    reasons = {event.job: event.reason for event in of(events, JobFailed)}
    for index, said in enumerate(FAILING.values(), start=1):
        assert said in reasons[index], reasons[index]
    assert bits(events) == {0: trained(run, good).digest}


def test_the_ranks_of_a_mixed_ring_may_compute_other_bits_on_their_devices(tmp_path: Path) -> None:
    rings = [
        job(0, "OfAKind", sync="ring", rounds=8, numerics="mixed"),
        job(1, "OfAKind", sync="ring", rounds=8),
    ]
    run, costs = world(tmp_path, rings, devices=2)
    (tmp_path / "apps.py").write_text(APPS + OF_A_KIND)
    with LivePort(replace(run, verify=0.3), costs, tmp_path / "run") as port:
        events = drive(port, [Assignment(d, one, 0, 8, (d,)) for one in (0, 1) for d in (0, 1)])
    assert ended(events) == {0: "finished", 1: "failed"}
    (failed,) = of(events, JobFailed)
    assert "app is not deterministic" in failed.reason


def test_a_ring_that_gives_other_bits_when_it_runs_again_is_reported_of(tmp_path: Path) -> None:
    rings = (job(0, "Random", sync="ring", rounds=9, checkpoint=Checkpoint(every=3)),)
    run, costs = world(tmp_path, rings, devices=2)
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(
            port, [Assignment(d, 0, 0, 9, (d,)) for d in (0, 1)], killer({5: RankRole}, port)
        )
    (failed,) = of(events, JobFailed)
    assert "app is not deterministic" in failed.reason


def test_a_ring_that_runs_too_long_ends_at_its_limit(tmp_path: Path) -> None:
    hangs: Job = job(0, "Hangs", sync="ring", rounds=2, task_limit_ns=2_000_000_000)
    run, costs = world(tmp_path, (hangs,), devices=2)
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(port, [Assignment(d, 0, 0, 2, (d,)) for d in (0, 1)])
    (failed,) = of(events, JobFailed)
    assert "round 0 did not end within its limit of 2 s" in failed.reason
