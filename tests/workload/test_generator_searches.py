"""Generated targets and searches: what they add to the jobs that would be drawn anyway."""

from __future__ import annotations

from dataclasses import replace

import pytest
from workload_files import reader

from warren.model.job import Evaluate, Job, Stop
from warren.model.run import Run
from warren.profile.published import TABLE
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run


def mix(jobs: int = 200, **options: object) -> Run:
    workload = {"generate": "hare-mix", "jobs": jobs, **options}
    data = {"cluster": {"hosts": {"generate": "hare", "devices": 160}}, "workload": workload}
    return run_from_dict(data, "d", reader({}), rows=TABLE)


def searches_of(run: Run) -> dict[str, list[Job]]:
    groups: dict[str, list[Job]] = {}
    for job in run.workload.jobs:
        if job.group:
            groups.setdefault(job.group, []).append(job)
    return groups


def test_targets_are_added_to_the_jobs_that_would_be_drawn_anyway() -> None:
    run, plain = mix(targets=True), mix()
    stop = Stop(metric="loss", falls_to=0.1)
    bare = [replace(job, stop=None, evaluate=None) for job in run.workload.jobs]
    assert bare == list(plain.workload.jobs)
    assert {(job.stop, job.evaluate) for job in run.workload.jobs} == {(stop, Evaluate(every=1))}
    assert load_run("x.yaml", reader({"x.yaml": dump_run(run)})) == run


def test_jobs_outside_of_searches_stay_as_they_are_but_for_their_arrivals() -> None:
    run, plain = mix(searches=30), mix()
    for job, before in zip(run.workload.jobs, plain.workload.jobs, strict=True):
        if not job.group:
            assert replace(job, arrival_ns=0) == replace(before, arrival_ns=0)
    assert len(searches_of(run)) == 8  # 60 of 200 jobs: 7.5 searches


def test_a_search_is_eight_jobs_in_a_row_that_differ_in_their_rounds_alone() -> None:
    for name, jobs in searches_of(mix(searches=30)).items():
        assert [job.index for job in jobs] == list(range(jobs[0].index, jobs[0].index + 8))
        assert {job.name.split("-", 1)[1] for job in jobs} == {f"{jobs[0].model}-{name}"}
        for what in ("model", "user", "scale", "batch", "weight"):
            assert len({getattr(job, what) for job in jobs}) == 1


def test_one_job_of_a_search_keeps_its_rounds_and_the_others_are_stopped_before() -> None:
    places, plain = set(), mix().workload.jobs
    for jobs in searches_of(mix(searches=30)).values():
        rounds = [job.rounds or 0 for job in jobs]
        leader = plain[jobs[0].index].rounds or 0
        assert (rounds.count(leader), max(rounds)) == (1, leader)
        places.add(rounds.index(leader))
        others = [one / leader for one in rounds if one != leader]
        assert min(others) == pytest.approx(0.4, abs=0.21)
        assert max(others) == pytest.approx(0.4, abs=0.21)
    assert len(places) > 3


def test_all_or_none_of_the_jobs_may_belong_to_searches() -> None:
    assert mix(searches=0).workload.jobs == mix().workload.jobs
    assert all(job.group for job in mix(searches=100).workload.jobs)
    assert not searches_of(mix(jobs=7, searches=100))
