"""Jobs that arrive only once others have ended (``truth.after``)."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from warren.core.journal import Step
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.model.errors import SpecError
from warren.model.events import JobArrived
from warren.model.run import Truth
from warren.policy.registry import place_policy
from warren.runs.choose_policy import choose
from warren.sim.build import sim_port
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

JOBS = [{"name": name, "model": "m", "rounds": 2} for name in "abc"]
RUN = {
    "cluster": {"hosts": [{"name": "h", "devices": {"A": 1}}]},
    "profiles": {"m": {"model": 1, "memory": 1, "batch": 1, "comp": {"A": 1.0}, "sync": {"A": 0}}},
    "workload": {"jobs": JOBS},
}


@pytest.mark.parametrize(
    "place", ["fifo", "gavel-fifo", "srtf", "gittins", "hlas", "las-2d", "sched-allox"]
)
def test_a_job_arrives_when_the_last_of_those_it_waits_for_has_ended(place: str) -> None:
    late = 0
    for seed in range(6):
        run, costs = worlds.random_world(seed, jobs=8)
        draw, jobs = random.Random(seed), run.workload.jobs
        # Some wait for jobs that come later in the file: any order without a cycle is allowed.
        order = draw.sample(range(8), 8)
        after = {
            jobs[job].name: tuple(f"j{other}" for other in draw.sample(order[:at], min(at, 2)))
            for at, job in enumerate(order)
            if at and draw.random() < 0.6
        }
        run, journal = replace(run, truth=Truth(after=after)), bytearray()
        core = Core(
            run=run, costs=costs, policy=place_policy(place), port=sim_port(run, costs),
            sink=journal.extend, world="sim", check=True,
        )  # fmt: skip
        core.execute()
        finish_ns_J = read_history(bytes(journal)).finish_ns_J
        assert (finish_ns_J >= 0).all()
        steps = [one for one in decode(bytes(journal)) if isinstance(one, Step)]
        times = [step.events[0].time_ns for step in steps if step.events]
        assert len({*times}) == len(times), "a job that arrives is known with the end before it"
        came = [one for step in steps for one in step.events if isinstance(one, JobArrived)]
        assert len(came) == 8
        for one in came:
            job = jobs[one.job]
            ends = [int(finish_ns_J[int(name[1:])]) for name in after.get(job.name, ())]
            assert one.time_ns == max([job.arrival_ns, *ends])
            late += one.time_ns > job.arrival_ns
    assert late > 10


def test_after_is_written_and_read_again() -> None:
    run = run_from_dict({**RUN, "truth": {"after": {"c": ["a", "b"]}}}, ".", lambda _: b"")
    assert run.truth.after == {"c": ("a", "b")}
    assert load_run("run.yaml", lambda _: dump_run(run).encode()).truth == run.truth


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"c": ["x"]}, "there is no job 'x'"),
        ({"x": ["a"]}, "there is no job 'x'"),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, "none of them comes: a, b, c"),
        ({"a": ["a"]}, "none of them comes: a"),
    ],
)
def test_jobs_that_could_never_come_are_refused(after: dict[str, list[str]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run_from_dict({**RUN, "truth": {"after": after}}, ".", lambda _: b"")


def test_a_policy_that_plans_ahead_is_refused_where_jobs_wait_for_others() -> None:
    run = run_from_dict({**RUN, "truth": {"after": {"c": ["a"]}}}, ".", lambda _: b"")
    with pytest.raises(SpecError, match="hare plans all jobs before the first one starts"):
        choose(replace(run, scheduler=replace(run.scheduler, place="hare")))
    assert choose(replace(run, scheduler=replace(run.scheduler, place="srtf"))).name == "srtf"
