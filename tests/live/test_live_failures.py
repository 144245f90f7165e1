"""One job's crash never fails another, and leaves its reason where the user looks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from live_worlds import drive, ended, job, of, session, shuffled, world

from warren.core.ports import Restart
from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.errors import SpecError
from warren.model.events import AnyEvent, JobArrived, JobFailed, RolledBack, TasksLost
from warren.model.job import Checkpoint, Evaluate
from warren.runs.api import JobResult

pytestmark = pytest.mark.live

JOBS = range(11)
GOOD, RAISES, AT_BIRTH, IN_SERVER, EXITS, DIES, FORKS, OTHER, PARENT, LATER, PRINTS = JOBS


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[AnyEvent]]:
    folder = tmp_path_factory.mktemp("crashes")
    jobs = [
        job(GOOD),
        job(RAISES, "Raises", checkpoint=Checkpoint(every=1)),
        job(AT_BIRTH, "RaisesAtBirth"),
        job(IN_SERVER, "RaisesInServer", evaluate=Evaluate(every=1)),
        job(EXITS, "Exits"),
        job(DIES, "Dies"),
        job(FORKS, "Forks"),
        job(OTHER, user="bob"),
        job(PARENT, "KillsItsParent"),
        job(LATER, "DiesLater", arrival_ns=86_400_000_000_000),
        job(PRINTS, "Prints"),
    ]
    run, costs = world(folder, jobs, 2)
    cluster = replace(run.cluster, local=replace(run.cluster.local, log_bytes=500_000))
    run = replace(run, cluster=cluster)
    with LivePort(run, costs, folder / "out") as port:
        events = drive(port, shuffled(run, seed=1))
        pid = port.session
    assert session(pid) == []
    return folder / "out", events


def test_a_job_fails_alone(crashes: tuple[Path, list[AnyEvent]]) -> None:
    _, events = crashes
    fine = {GOOD, FORKS, OTHER}
    assert ended(events) == {n: "finished" if n in fine else "failed" for n in JOBS}


def test_the_reason_is_one_line_that_says_what_the_app_did(
    crashes: tuple[Path, list[AnyEvent]],
) -> None:
    reasons = {event.job: event.reason for event in of(crashes[1], JobFailed)}
    assert "ValueError: the third batch is bad" in reasons[RAISES]
    assert "in round" in reasons[RAISES]
    assert "OSError: no such data" in reasons[AT_BIRTH]
    assert "RuntimeError: cannot evaluate" in reasons[IN_SERVER]
    assert "SystemExit: 3" in reasons[EXITS]
    assert "killed by SIGKILL" in reasons[DIES]
    assert "killed by SIGKILL" in reasons[PARENT]
    assert "between its tasks, exit status 3" in reasons[LATER]
    assert "killed: over its log limit of 0.5 MB (cluster file, local.log_limit)" in reasons[PRINTS]
    assert all("\n" not in reason for reason in reasons.values())


def test_what_a_failed_job_had_come_to_stays_and_can_be_loaded(
    crashes: tuple[Path, list[AnyEvent]],
) -> None:
    out, _ = crashes
    failed = JobResult(name=f"job-{RAISES}", row={}, folder=out)
    rounds, tensors = failed.checkpoint()
    same = job(RAISES, rounds=rounds)
    app = build_app(same, str(out.parent))
    numerics.pin()
    expected = train(app, same).state_dict
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    for none in (GOOD, AT_BIRTH):
        with pytest.raises(SpecError, match=f"job-{none}: no checkpoint"):
            JobResult(name=f"job-{none}", row={}, folder=out).checkpoint()


def test_a_run_that_goes_on_drops_the_checkpoints_of_finished_jobs_alone(tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0), job(1)])
    port: Any = LivePort(run, costs, tmp_path / "out")
    for index in (0, 1):
        port._outputs.checkpoints(index).mkdir(parents=True)
    Path(port._outputs.params(0)).touch()
    port._servers = SimpleNamespace()
    over = (True, True)
    port._restore(Restart(now_ns=9, rounds_J=(3, 2), arrived_J=over, ended_J=over))
    assert [path.name for path in (tmp_path / "out/checkpoints").iterdir()] == ["job-1"]


def test_the_traceback_is_in_the_job_s_log(crashes: tuple[Path, list[AnyEvent]]) -> None:
    out, _ = crashes
    for index, line in ((RAISES, "the third batch is bad"), (IN_SERVER, "cannot evaluate")):
        text = (out / f"logs/job-{index}.log").read_text()
        assert "Traceback" in text
        assert "apps.py" in text
        assert line in text
    assert (out / f"logs/job-{OTHER}.log").read_text() == ""


def test_no_job_but_those_that_ended_their_processes_has_to_run_a_task_again(
    crashes: tuple[Path, list[AnyEvent]],
) -> None:
    events = crashes[1]
    assert {event.job for event in of(events, TasksLost)} <= {EXITS, DIES, PARENT, LATER, PRINTS}
    assert of(events, RolledBack) == []


def test_a_job_that_fails_before_time_zero_never_arrives(
    crashes: tuple[Path, list[AnyEvent]],
) -> None:
    _, events = crashes
    assert of(events, JobFailed, AT_BIRTH)[0].time_ns == 0
    assert of(events, JobArrived, AT_BIRTH) == []


def test_nothing_of_a_failed_job_happens_later(crashes: tuple[Path, list[AnyEvent]]) -> None:
    _, events = crashes
    failed: set[int] = set()
    for event in events:
        assert getattr(event, "job", None) not in failed
        if isinstance(event, JobFailed):
            failed.add(event.job)


def test_a_name_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0, name="../up")], 1)
    with pytest.raises(SpecError, match="name"):
        LivePort(run, costs, tmp_path / "out")
