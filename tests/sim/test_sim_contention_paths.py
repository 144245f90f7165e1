"""Stretches, plans, policies and copies on a machine whose devices at work are counted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from contention_worlds import MS, SPARE, TINY, copying, full, on, rounds_on, run, run_late, spans_ms
from sim_worlds import (
    Planned,
    World,
    assignments_of,
    random_plan,
    random_world,
    run_events,
    world_of,
)

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.cluster import Emulate
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, RoundsDone, TaskDropped, TasksDone
from warren.model.run import Grain, Run, Truth
from warren.policy.registry import place_policy
from warren.sim.build import parts_of, sim_port
from warren.sim.port import SimPort
from warren.sim.shared_cpu import raised_costs


def own_stretches(made: World, seed: int) -> tuple[Assignment, ...]:
    """Each stretch on one device: no device waits inside of one."""
    devices = range(len(made.run.cluster.devices))
    fits_JT, kinds = made.costs.fits_JT, made.run.cluster.type_of_device
    rng, found = random.Random(seed), []
    for job in made.run.workload.jobs:
        at, shards = 0, tuple(range(job.scale))
        while at < (job.rounds or 0):
            rounds = min(rng.randint(1, 4), (job.rounds or 0) - at)
            device = rng.choice([one for one in devices if fits_JT[job.index, kinds[one]]])
            found.append(Assignment(device, job.index, at, rounds, shards))
            at += rounds
    return tuple(found)


def expand(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    return tuple(
        Assignment(one.device, one.job, one.round + at, 1, one.shards)
        for one in assignments
        for at in range(one.rounds)
    )


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("network", ["constant", "lane"])
def test_a_stretch_counts_in_every_round_what_is_at_work(network: str, noisy: bool) -> None:
    for seed in range(30):
        made = on(TINY, random_world(seed, network, noisy))
        stretches = own_stretches(made, seed)
        single = {(one.job, one.round): one for one in of(run(made, *expand(stretches)))}
        for one in of(run(made, *stretches)):
            rounds = [single[one.job, one.round + at] for at in range(one.rounds)]
            assert one.start_ns == rounds[0].start_ns
            assert (one.comp_end_ns, one.time_ns) == (rounds[-1].comp_end_ns, rounds[-1].time_ns)
            assert one.busy_ns == sum(each.busy_ns for each in rounds)


def test_stretches_over_several_devices_end_as_their_rounds_where_all_are_alike() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        jobs = [(rng.choice([0, 7, 30]), 2, rng.randint(2, 9)) for _ in range(4)]
        comp = [[rng.randint(1, 20)] for _ in jobs]
        made = on(TINY, world_of(sorted(jobs), comp, [[3] for _ in jobs], ["A"] * 4))
        stretches = tuple(
            Assignment(device + 2 * (job % 2), job, 0, rounds, (device,))
            for job, (_, _, rounds) in enumerate(sorted(jobs))
            for device in range(2)
        )
        at_once, singly = run(made, *stretches), run(made, *expand(stretches))
        assert finishes(at_once) == finishes(singly)


def without(run: Run) -> Run:
    """The run on a machine whose overheads are not known."""
    return replace(run, cluster=replace(run.cluster, overheads=None))


def finishes(events: list[AnyEvent]) -> dict[int, int]:
    return {one.job: one.time_ns for one in events if isinstance(one, RoundsDone) and one.finished}


def test_a_stretch_of_a_billion_rounds_is_cut_where_others_come_and_go() -> None:
    rounds = 10**9
    made = full([(0, 1, rounds), (50 * MS, 1, 2)], 2)
    events = run_late(made, 50, [Assignment(0, 0, 0, rounds, (0,))], rounds_on(1, 1, 2))
    # Job 1 is at work from 50 to 120 ms; rounds of job 0 start at 63 and 98 ms meanwhile.
    assert spans_ms(events, 1) == [(50, 85), (85, 120)]
    (end_ns,) = [one.time_ns for one in events if isinstance(one, RoundsDone) and one.job == 0]
    assert end_ns == ((rounds - 2) * 21 + 2 * 35) * MS


def test_where_the_number_does_not_matter_a_stretch_takes_what_it_takes_in_one_step() -> None:
    for seed in range(40):
        made = on(SPARE, random_world(seed, ("constant", "lane")[seed % 2], noisy=seed % 3 > 0))
        plan = assignments_of(random_plan(made, seed, 6))
        raised = World(made.run, raised_costs(made.run, made.costs, 1))
        counting, at_once = run(made, *plan), run_events(raised, plan)
        assert of(counting) == of(at_once)
        assert finishes(counting) == finishes(at_once)


def test_a_first_run_that_is_let_go_when_its_copy_has_won_still_begins() -> None:
    # Device 0 leaves a run that has lost at 100, where the copy of what waits there ends its round.
    jobs = [(0, 2, 1), (0, 1, 1), (5, 1, 1), (50, 1, 1)]
    comp = [[98, 18, 498], [98, 38, 500], [1, 1, 1], [1, 1, 1]]
    sync = [[12, 12, 12] for _ in jobs]
    made = on(SPARE, world_of(jobs, comp, sync, ["A", "B", "C"]))
    lost, other = Assignment(0, 0, 0, 1, (0,)), Assignment(2, 0, 0, 1, (1,))
    waits = Assignment(0, 1, 0, 1, (0,))

    def seen(port: SimPort) -> list[AnyEvent]:
        port.submit((lost, other, waits))
        events: list[AnyEvent] = []
        while batch := port.next_events():
            events += batch
            if batch[0].time_ns == 5:
                port.copy((Assignment(1, 0, 0, 1, (0,)),))
            if batch[0].time_ns == 50:
                port.copy((Assignment(1, 1, 0, 1, (0,)),))
        return events

    raised = raised_costs(made.run, made.costs, 1)
    found = seen(copying(made.run, made.costs))
    assert found == seen(copying(without(made.run), raised))
    assert (1, 100) in [(one.job, one.time_ns) for one in found if isinstance(one, RoundsDone)]
    assert [one.time_ns for one in found if isinstance(one, TaskDropped) and one.job == 1] == [200]


def journal_of(made: World, place: str, port: SimPort) -> bytes:
    """``place`` is a policy's name, or ``planned`` for a random plan."""
    journal = bytearray()
    plan = random_plan(made, 1, made.run.grain.rounds or 1)
    policy = Planned(plan) if place == "planned" else place_policy(place)
    Core(
        run=made.run, costs=made.costs, policy=policy, port=port,  # type: ignore[arg-type]
        sink=journal.extend, world="sim", check=True, compiled=False,
    ).execute()  # fmt: skip
    return bytes(journal)


@pytest.mark.parametrize("place", ["gavel-fifo", "srtf", "hare"])
def test_jobs_that_never_meet_take_what_they_took_alone(place: str) -> None:
    # T^c + dispatch and T^s - dispatch: 29 ms a round, whatever the machine has to spare.
    made = full([(at * 400 * MS, 1, 3 + at) for at in range(4)], 2, sync_ns=9 * MS)
    found = read_history(journal_of(made, place, sim_port(made.run, made.costs))).finish_ns_J
    arrivals = [job.arrival_ns for job in made.run.workload.jobs]
    assert [int(end) - at for end, at in zip(found, arrivals, strict=True)] == [
        (3 + at) * 29 * MS for at in range(4)
    ]


def test_while_all_are_at_work_each_task_takes_its_time_on_a_full_machine() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        jobs = [(0, rng.randint(1, 3), rng.randint(3, 8)) for _ in range(rng.randint(1, 4))]
        comp, sync = ([[rng.randint(1, 50)] for _ in jobs] for _ in range(2))
        truth = Truth(task_cv=0.2, job_cv=0.1, seed=seed)
        made = on(TINY, world_of(jobs, comp, sync, ["A"] * len(jobs), "lane", truth))
        plan = [
            Assignment(job, job, at, 1, tuple(range(scale)))
            for job, (_, scale, rounds) in enumerate(jobs)
            for at in range(rounds)
        ]
        counted = of(run(made, *plan))
        full_costs = raised_costs(made.run, made.costs, len(jobs))
        always = of(run_events(World(made.run, full_costs), tuple(plan)))
        last_ns = [0 for _ in jobs]
        for one in always:
            last_ns[one.device] = max(last_ns[one.device], one.time_ns)
        early = [one for one in always if one.start_ns < min(last_ns)]
        assert early == [one for one in counted if one.start_ns < min(last_ns)]
        assert counted[-1].time_ns <= always[-1].time_ns


def of(events: list[AnyEvent]) -> list[TasksDone]:
    done = [event for event in events if isinstance(event, TasksDone)]
    return sorted(done, key=lambda one: (one.time_ns, one.device, one.job, one.shards))


@pytest.mark.parametrize("after", [None, 1.0, 2.0])
@pytest.mark.parametrize("place", ["gavel-fifo", "srtf", "planned"])
def test_where_the_number_does_not_matter_the_journal_is_that_of_a_port_that_does_not_count(
    place: str, after: float | None
) -> None:
    for seed in range(8):
        plain = random_world(seed, ("constant", "lane")[seed % 2], noisy=seed % 3 > 0)
        scheduler = replace(plain.run.scheduler, copies_after=after)
        plain = World(replace(plain.run, scheduler=scheduler), plain.costs)
        made = on(SPARE, plain)
        raised = raised_costs(made.run, made.costs, 1)
        counting = journal_of(made, place, copying(made.run, made.costs))
        assert counting == journal_of(plain, place, copying(plain.run, raised))


@pytest.mark.parametrize("place", ["gavel-fifo", "planned"])
def test_the_same_run_gives_the_same_journal_and_none_of_it_is_compiled(place: str) -> None:
    made = on(TINY, random_world(7, "lane", noisy=True))
    made = World(replace(made.run, grain=Grain(text="3 rounds", rounds=3)), made.costs)
    first, second = (journal_of(made, place, sim_port(made.run, made.costs)) for _ in range(2))
    assert first == second
    port = sim_port(made.run, made.costs)
    assert port.run_plan(random_plan(made, 1, 1)) is None


def test_only_a_run_whose_times_are_raised_counts_who_is_at_work() -> None:
    made = full([(0, 1, 1)], 2)
    assert parts_of(made.run, made.costs).processors is not None
    for cluster in (
        replace(made.run.cluster, overheads=None),
        replace(made.run.cluster, emulate=Emulate()),
        replace(made.run.cluster, engine="plain"),
    ):
        assert parts_of(replace(made.run, cluster=cluster), made.costs).processors is None
