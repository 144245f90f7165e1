"""What a service has recorded, as a run: what is kept, and what a simulation makes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from warren.model.errors import SpecError
from warren.runs.comparison.observed import replayed
from warren.runs.compose import simulate
from warren.serve.records.events import AttemptEnded
from warren.serve.records.jobs import Dependency
from warren.serve.replay.past_jobs import past_service
from warren.serve.replay.read_service import load_service
from warren.serve.replay.window import window_of

sys.path.insert(0, str(Path(__file__).parent))
from service_story import S, Story, at_ns, eventful, three_jobs


def finish_s(run: Any, place: str) -> dict[str, float]:
    record = simulate(replayed(run, place, ()))
    names = [job.name for job in record.run.workload.jobs]
    return dict(zip(names, (record.history.finish_ns_J / S).tolist(), strict=True))


def test_in_the_order_of_arrival_a_service_is_replayed_to_the_second(tmp_path: Path) -> None:
    found = load_service(three_jobs().home(tmp_path / "home"))
    really = found.record
    assert (really.history.finish_ns_J / S).tolist() == [100, 110, 130]
    assert finish_s(really.run, "gavel-fifo") == {"1": 100, "2": 110, "3": 130}
    assert really.place == "service"
    assert really.bound is not None
    assert really.bound.makespan_s is not None
    assert [job.user for job in really.run.workload.jobs] == ["ana", "bo", "bo"]


def test_a_policy_that_starts_short_jobs_first_shows_another_history() -> None:
    story = Story(("m", "H100", 1)).submit(0, "1").submit(1, "2").submit(2, "3")
    story.start(0, "1", "m-0").end(10, "1").start(10, "2", "m-0").end(110, "2")
    story.start(110, "3", "m-0").end(115, "3")
    run = story.run().run
    assert finish_s(run, "fifo") == {"1": 10, "2": 110, "3": 115}
    assert finish_s(run, "srtf") == {"1": 10, "2": 115, "3": 15}


def test_a_gang_is_started_whole_and_keeps_its_devices() -> None:
    run = three_jobs().run().run
    assert [(job.scale, job.sync, job.rounds) for job in run.workload.jobs] == [
        (2, "ring", 1),
        (1, "ps", 1),
        (1, "ps", 1),
    ]
    with pytest.raises(SpecError, match="policy 'srtf' cannot place ring jobs"):
        finish_s(run, "srtf")


def test_a_gang_waits_for_devices_of_one_host_as_it_did() -> None:
    # At 0 s one device is left on each host; 3 needs two of one host, and 4 must not pass it.
    story = Story(("m", "H100", 3), ("n", "H100", 3))
    story.submit(0, "1", devices=2).submit(0, "2", devices=2)
    story.start(0, "1", "m-0", "m-1").start(0, "2", "n-0", "n-1", host="n")
    story.submit(1, "3", devices=2).submit(2, "4").end(50, "1")
    story.start(50, "3", "m-0", "m-1").start(50, "4", "n-2", host="n")
    story.end(60, "4").end(70, "2").end(90, "3")
    run = story.run().run
    expected = {"1": 50, "2": 70, "3": 90, "4": 60}
    assert finish_s(run, "gavel-fifo") == finish_s(run, "fifo") == expected
    anywhere = replayed(run, "gavel-fifo", ["policy.one_host=false"])
    assert simulate(anywhere).history.finish_ns_J.tolist()[2] == 41 * S


def test_a_job_that_waited_for_others_comes_when_they_end_in_the_simulation() -> None:
    story = Story(("m", "H100", 1)).submit(0, "1").submit(0, "2")
    story.submit(0, "3_0", array="3").submit(0, "3_1", array="3")
    story.submit(1, "4", after=(Dependency("2"), Dependency("3", "any")))
    at = 0
    for job, took in (("1", 100), ("2", 10), ("3_0", 5), ("3_1", 5), ("4", 7)):
        story.start(at, job, "m-0").end(at + took, job)
        at += took
    run = story.run().run
    assert run.truth.after == {"4": ("2", "3_0", "3_1")}
    # Shortest first: the long first job is last, and 4 comes after those that it waits for.
    assert finish_s(run, "srtf") == {"3_0": 5, "3_1": 10, "2": 20, "4": 27, "1": 127}


def test_a_window_takes_over_what_was_there_with_the_rest_of_its_time() -> None:
    story = Story()
    story.submit(0, "1").start(0, "1", "m-0").end(50, "1")
    story.submit(1, "2").start(1, "2", "m-1")
    story.submit(2, "3").submit(60, "4").end(400, "2").start(400, "3", "m-0").end(420, "3")
    story.start(420, "4", "m-1").end(430, "4")
    story.submit(440, "5").start(440, "5", "m-0").end(450, "5")
    found = story.run(since=100)
    jobs = found.run.workload.jobs
    # 1 had ended; 2 was running, 3 and 4 waited.
    assert [(job.name, job.arrival_ns // S) for job in jobs] == [
        ("2", 0), ("3", 0), ("4", 0), ("5", 340),
    ]  # fmt: skip
    assert [round(row.comp_s["H100"]) for row in found.run.profiles] == [300, 20, 10, 10]
    assert found.run.workload.notes == (
        "there before, so they come at the beginning, running ones first, with the rest of their "
        "time: 3 jobs",
    )


def test_what_a_simulation_cannot_express_is_said() -> None:
    found = eventful().run()
    assert [(job.name, job.arrival_ns // S) for job in found.run.workload.jobs] == [
        ("1", 0), ("2", 1), ("4", 3), ("5", 4), ("3", 30), ("7", 70),
    ]  # fmt: skip
    assert {row.model: round(min(row.comp_s.values())) for row in found.run.profiles} == {
        "1": 10, "2": 20, "3": 5, "4": 17, "5": 75, "7": 1,
    }  # fmt: skip
    assert [job.types for job in found.run.workload.jobs] == [(), (), ("H100",), (), (), ()]
    assert found.run.workload.notes == (
        "left out, since they did not run: 1 job",
        "still running at the last event, counted with their time so far: 1 job",
        "failed or cancelled after they had run, counted with that time: 2 jobs",
        "started more than once, run once for the sum of the times: 1 job",
        "held, so they come when they were released: 1 job",
        "ready to share devices, which they have alone in a simulation: 1 job",
        "bound to a host, which a simulation does not do: 1 job",
        "allowed on several device types, on each of which they take the same time: 5 jobs",
        "priorities of jobs, and limits and shares of users, play no part in a simulation",
        "hosts that came, went, were lost or drained count as there all the time",
    )


def test_a_report_says_how_jobs_ended_and_a_comparison_counts_them_all(tmp_path: Path) -> None:
    home = eventful().home(tmp_path / "home")
    report = load_service(home, ends_count=False).record
    status = {job.name: report.history.status(job.index) for job in report.run.workload.jobs}
    assert status == {
        "1": "failed", "2": "cancelled", "3": "finished", "4": "finished", "5": "unfinished",
        "7": "finished",
    }  # fmt: skip
    assert (load_service(home).record.history.finish_ns_J >= 0).all()


@pytest.mark.parametrize(("cause", "ran_s"), [("preempt", 90), ("requeue", 90), ("host", 50)])
def test_a_job_that_went_on_has_the_time_of_all_its_attempts(
    cause: Any, ran_s: int, tmp_path: Path
) -> None:
    story = Story(("m", "H100", 1)).submit(0, "1").start(0, "1", "m-0")
    story.tell(AttemptEnded(time_ns=at_ns(40), job="1", attempt=1, cause=cause))
    story.start(60, "1", "m-0").end(110, "1")
    (job,) = window_of(past_service(story.events), 0).jobs
    assert job.run_ns(all_attempts=False) == ran_s * S
    record = load_service(story.home(tmp_path / "home"), ends_count=False).record
    assert (record.history.finish_ns_J / S).tolist() == [110]
