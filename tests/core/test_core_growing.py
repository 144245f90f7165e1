"""Jobs that the core does not know at its beginning: they come with their arrival."""

from __future__ import annotations

import random
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_faults import Cut, Disk, FaultyPort, Trouble

from warren.core.journal import JobsAdded, Step, added_costs, jobs_added
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.core.ports import Restart
from warren.core.resume import catch_up
from warren.cost.run_rings import with_rings
from warren.model.cluster import Network
from warren.model.costs import CostTable
from warren.model.errors import InfeasibleDecision
from warren.model.events import AnyEvent
from warren.model.job import Evaluate, Job, Stop, Workload
from warren.model.run import Grain, Run
from warren.policy.protocol import AnyPolicy, takes_new_jobs
from warren.policy.registry import JOINT_POLICIES, POLICIES, place_policy, policy_of
from warren.sim.build import sim_port
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds
import worlds

ONLINE = sorted(name for name in POLICIES if takes_new_jobs(place_policy(name)))
S = 10**9


def rows(costs: CostTable, first: int, last: int) -> CostTable:
    """The costs of some jobs alone."""
    columns: dict[str, Any] = {one.name: getattr(costs, one.name) for one in fields(CostTable)}
    some = {name: one[first:last] for name, one in columns.items() if one is not None}
    return CostTable(**some)


class Coming:
    """A world in which each job becomes known at the instant of its first event."""

    def __init__(self, inner: Any, run: Run, costs: CostTable) -> None:
        self.inner, self.jobs, self.costs = inner, run.workload.jobs, costs
        self.known, self.last = 0, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def next_events(self) -> tuple[AnyEvent, ...]:
        events: tuple[AnyEvent, ...] = self.inner.next_events()
        self.last = max([self.last, *(getattr(event, "job", -1) for event in events)])
        return events

    def new_jobs(self) -> tuple[tuple[Job, ...], CostTable] | None:
        first, self.known = self.known, max(self.known, self.last + 1)
        if first == self.known:
            return None
        return self.jobs[first : self.known], rows(self.costs, first, self.known)

    def resume(self, restart: Restart) -> None:
        self.known = len(restart.rounds_J)
        unknown = len(self.jobs) - self.known
        self.inner.resume(
            replace(
                restart,
                rounds_J=restart.rounds_J + (0,) * unknown,
                arrived_J=restart.arrived_J + (False,) * unknown,
                ended_J=restart.ended_J + (False,) * unknown,
            )
        )


def core_of(
    run: Run, costs: CostTable, policy: AnyPolicy, port: Any, journal: bytearray, **more: Any
) -> Core:
    """Make a core; it knows no job before it comes where the port is one of ``Coming``."""
    if isinstance(port, Coming):
        run, costs = replace(run, workload=Workload(jobs=())), rows(costs, 0, 0)
    return Core(
        run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="sim",
        check=True, **more,
    )  # fmt: skip


def both_ways(run: Run, costs: CostTable, policy: AnyPolicy, **more: Any) -> tuple[bytes, bytes]:
    """Return the journals of a run whose jobs are known before, and of one to which they come."""
    journals = bytearray(), bytearray()
    ports = sim_port(run, costs), Coming(sim_port(run, costs), run, costs)
    for port, journal in zip(ports, journals, strict=True):
        core_of(run, costs, policy, port, journal, **more).execute()
    before, growing = map(bytes, journals)
    return before, growing


def check_alike(before: bytes, growing: bytes, jobs: tuple[Job, ...]) -> None:
    """Check that every step is the same, and that the reader knows all jobs."""
    kept = [[one for one in decode(data) if isinstance(one, Step)] for data in (before, growing)]
    assert kept[1] == kept[0]
    known, grown = read_history(before), read_history(growing)
    assert grown.header == known.header
    assert grown.finish_ns_J.tolist() == known.finish_ns_J.tolist()
    assert np.array_equal(grown.timeline.start_ns_R, known.timeline.start_ns_R)
    assert [job for added in grown.added for job in added.jobs] == list(jobs)


@pytest.mark.parametrize("place", ONLINE)
@pytest.mark.parametrize("grain", [Grain(), Grain(text="3 s", rounds=None, time_ns=3 * S)])
def test_an_online_policy_decides_alike_whether_jobs_were_known_before_or_not(
    place: str, grain: Grain
) -> None:
    for seed in range(4):
        run, costs = worlds.random_world(seed, jobs=9, grain=grain)
        check_alike(*both_ways(run, costs, place_policy(place)), run.workload.jobs)


@pytest.mark.parametrize("place", ["braid-online", "fifo", "gavel-fifo"])
def test_rings_that_come_are_placed_as_rings_that_were_known(place: str) -> None:
    for seed in range(3):
        run, costs = worlds.random_world(seed, jobs=8, devices=6)
        jobs = [replace(job, sync="ring" if job.index % 3 else "ps") for job in run.workload.jobs]
        network = Network(model="contention", xi1=0.5, xi2_s=0.01)
        cluster = replace(run.cluster, network=network)
        run = replace(run, cluster=cluster, workload=Workload(jobs=tuple(jobs)))
        run, costs = question_worlds.on_hosts(run, costs, 3)
        costs = replace(costs, fits_JT=costs.fits_JT | True, model_bytes_J=np.full(8, 10**8))
        costs = with_rings(run, replace(costs, comp_ns_JT=np.minimum(costs.comp_ns_JT, S),
                                        sync_ns_JT=np.minimum(costs.sync_ns_JT, S)))  # fmt: skip
        check_alike(*both_ways(run, costs, place_policy(place)), jobs=run.workload.jobs)


def test_answers_to_shape_group_and_flow_are_the_same_for_jobs_that_come() -> None:
    run, costs = question_worlds.on_hosts(*worlds.random_world(5, jobs=7))
    journals = bytearray(), bytearray()
    for journal, comes in zip(journals, (False, True), strict=True):
        inner: Any = question_worlds.RecordingPort(SimPort(run, costs))
        port = Coming(inner, run, costs) if comes else inner
        others = question_worlds.drawn_policies()
        core_of(run, costs, question_worlds.Bound(), port, journal, others=others).execute()
    check_alike(bytes(journals[0]), bytes(journals[1]), run.workload.jobs)


def test_copies_of_late_tasks_are_the_same_for_jobs_that_come() -> None:
    run, costs = worlds.random_world(2, jobs=8, devices=5)
    scheduler = replace(run.scheduler, copies_after=0.4)
    before, growing = both_ways(replace(run, scheduler=scheduler), costs, place_policy("srtf"))
    assert read_history(before).copies
    check_alike(before, growing, run.workload.jobs)


@pytest.mark.parametrize("place", ["srtf", "braid-online", "gittins", "hlas-p"])
def test_a_run_to_which_jobs_come_goes_on_wherever_it_was_cut_off(place: str) -> None:
    draw, cuts = random.Random(3), 0
    for seed in range(6):
        run, costs = worlds.random_world(seed, jobs=6, devices=3)
        journal, disk = bytearray(), Disk()
        for cut_at in (draw.randint(2, 25), draw.randint(2, 25), None):
            port = Coming(FaultyPort(run, costs, Trouble(seed=1), disk, cut_at), run, costs)
            core = core_of(run, costs, place_policy(place), port, journal)
            restart, size = catch_up(core, bytes(journal))
            del journal[size:]
            port.resume(restart)
            try:
                core.execute()
            except Cut:
                cuts += 1
                del journal[draw.randint(len(journal) // 2, len(journal)) :]
            else:
                break
        history = read_history(bytes(journal))
        assert (history.finish_ns_J >= 0).all()
        assert history.header.jobs == tuple(job.name for job in run.workload.jobs)
        assert core.state.done_J.all()
    assert cuts > 5


AHEAD = [place_policy(name) for name in sorted(POLICIES) if name not in ONLINE]
AHEAD += [policy_of("joint", name) for name in sorted(JOINT_POLICIES)]


@pytest.mark.parametrize("policy", AHEAD, ids=lambda policy: policy.name)
def test_a_policy_that_has_to_know_all_jobs_is_refused_where_jobs_come(policy: AnyPolicy) -> None:
    run, costs = worlds.random_world(1)
    port = Coming(question_worlds.RecordingPort(SimPort(run, costs)), run, costs)
    with pytest.raises(InfeasibleDecision, match=f"{policy.name} must know all jobs before"):
        core_of(run, costs, policy, port, bytearray())


def test_a_record_of_jobs_that_came_holds_all_of_them_and_their_costs() -> None:
    job = Job(
        index=0, name="a", scale=2, rounds=None, app="a.py:A", stop=Stop(metric="loss", reaches=1),
        evaluate=Evaluate(every=2), params={"lr": 0.1, "layers": [1, 2]}, types=("A",),
    )  # fmt: skip
    costs = worlds.costs([[1.0, np.inf]], [[0.5, np.inf]])
    costs = replace(costs, model_bytes_J=np.array([7]), overhead_ns_JT=np.array([[3, -1]]))
    run, port = worlds.run(worlds.cluster(["A", "B"]), []), Coming(object(), worlds.run(
        worlds.cluster(["A", "B"]), [job]), costs)  # fmt: skip
    journal = bytearray()
    core = core_of(run, costs, place_policy("fifo"), port, journal)
    core.begin()
    core.add((job,), costs)
    (_, record) = decode(bytes(journal))
    assert isinstance(record, JobsAdded)
    assert record == jobs_added((job,), costs)
    assert record.jobs == (job,)
    for column in fields(CostTable):
        mine, other = (getattr(one, column.name) for one in (added_costs(record), costs))
        assert (mine is None) is (other is None)
        assert np.array_equal(mine, other) or mine is None


def test_costs_that_some_jobs_lack_are_unknown_for_these_alone() -> None:
    known = worlds.costs([[1.0]], [[0.5]])
    stated = replace(known, model_bytes_J=np.array([7]), overhead_ns_JT=np.array([[3]]))
    both = known.joined(stated)
    assert both.comp_ns_JT.tolist() == [[S], [S]]
    assert both.model_bytes_J is not None
    assert both.overhead_ns_JT is not None
    assert (both.model_bytes_J.tolist(), both.overhead_ns_JT.tolist()) == ([0, 7], [[-1], [3]])
    assert both.switch_ns_JT is None
    with pytest.raises(ValueError, match="read-only"):
        both.comp_ns_JT[0] = 0


def test_jobs_come_with_the_indices_after_those_that_are_known() -> None:
    run, costs = worlds.random_world(1, jobs=3)
    core = core_of(run, costs, place_policy("fifo"), SimPort(run, costs), bytearray())
    core.begin()
    with pytest.raises(ValueError, match="indices from 3 on"):
        core.add((worlds.job(5),), rows(costs, 0, 1))
