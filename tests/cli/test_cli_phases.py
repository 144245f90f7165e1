"""The policy that hands out phases, in virtual time: in order, in full, at rest in between."""

from __future__ import annotations

import worlds

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.job import Job
from warren.model.timeline import Timeline
from warren.runs.calibration.phases import CalibrationPhase, PhasePolicy
from warren.sim.port import SimPort

PHASES = (
    CalibrationPhase(name="ahead", jobs=(0, 1), devices=2, rounds=3),
    CalibrationPhase(name="scaled", jobs=(2,), devices=2, rounds=2),
    CalibrationPhase(name="decided", jobs=(1,), devices=1, rounds=4, decided=True),
    CalibrationPhase(name="again", jobs=(0, 2), devices=1, rounds=1),
)


def ran(phases: tuple[CalibrationPhase, ...], jobs: list[Job]) -> tuple[Timeline, list[int]]:
    """The timeline, and how many assignments lay in queues after each step."""
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    costs = worlds.costs([[1.0]] * len(jobs), [[0.25]] * len(jobs))
    journal: list[bytes] = []
    queued: list[int] = []
    port = SimPort(run, costs)
    core = Core(
        run=run,
        costs=costs,
        policy=PhasePolicy(phases),
        port=port,
        sink=journal.append,
        world="sim",
        observe=lambda state, _events: queued.append(int(sum(map(len, state.queues)))),
    )
    core.execute()
    return read_history(b"".join(journal)).timeline, queued


def jobs_of(phases: tuple[CalibrationPhase, ...]) -> list[Job]:
    rounds = [sum(phase.rounds for phase in phases if job in phase.jobs) for job in range(3)]
    return [worlds.job(j, scale=(1, 1, 4)[j], rounds=rounds[j]) for j in range(3)]


def test_each_phase_runs_in_full_and_ends_before_the_next_begins() -> None:
    timeline, _ = ran(PHASES, jobs_of(PHASES))
    rows = sorted(
        zip(timeline.start_ns_R, timeline.end_ns_R, timeline.job_R, timeline.device_R, strict=True)
    )
    at = 0
    end_before = -1
    for phase in PHASES:
        tasks = sum(phase.rounds * (4 if job == 2 else 1) for job in phase.jobs)
        mine = rows[at : at + tasks]
        assert {int(job) for _, _, job, _ in mine} == set(phase.jobs)
        assert max(int(device) for *_, device in mine) < phase.devices
        assert min(start for start, *_ in mine) > end_before
        end_before = max(end for _, end, *_ in mine)
        at += tasks
    assert at == len(rows)


def test_a_decided_phase_holds_back_each_round_until_the_last_has_ended() -> None:
    jobs = [worlds.job(0, rounds=5)]
    for decided, most in ((True, 1), (False, 5)):
        phase = CalibrationPhase(name="one", jobs=(0,), devices=1, rounds=5, decided=decided)
        _, queued = ran((phase,), jobs)
        assert max(queued) == most
