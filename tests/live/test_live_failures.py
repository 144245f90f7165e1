"""One job's crash never fails another, and leaves its reason where the user looks for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from live_worlds import drive, ended, job, of, session, shuffled, world

from warren.live.controller import LivePort
from warren.live.roles import ExecutorRole, ServerRole, TrainerRole
from warren.model.errors import EngineError, SpecError
from warren.model.events import AnyEvent, CompDone, JobArrived, JobFailed, TasksDone
from warren.model.job import Evaluate
from warren.model.plan import Assignment

pytestmark = pytest.mark.live

GOOD, RAISES, AT_BIRTH, IN_SERVER, EXITS, DIES, FORKS, OTHER = range(8)


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[AnyEvent]]:
    folder = tmp_path_factory.mktemp("crashes")
    jobs = [
        job(GOOD),
        job(RAISES, "Raises"),
        job(AT_BIRTH, "RaisesAtBirth"),
        job(IN_SERVER, "RaisesInServer", evaluate=Evaluate(every=1)),
        job(EXITS, "Exits"),
        job(DIES, "Dies"),
        job(FORKS, "Forks"),
        job(OTHER, user="bob"),
    ]
    run, costs = world(folder, jobs, 2)
    with LivePort(run, costs, folder / "out") as port:
        events = drive(port, shuffled(run, seed=1))
        pid = port.session
    assert session(pid) == []
    return folder / "out", events


def test_a_job_fails_alone(crashes: tuple[Path, list[AnyEvent]]) -> None:
    _, events = crashes
    fine = {GOOD, FORKS, OTHER}
    assert ended(events) == {n: "finished" if n in fine else "failed" for n in range(8)}


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
    assert all("\n" not in reason for reason in reasons.values())


def test_the_traceback_is_in_the_job_s_log(crashes: tuple[Path, list[AnyEvent]]) -> None:
    out, _ = crashes
    for index, line in ((RAISES, "the third batch is bad"), (IN_SERVER, "cannot evaluate")):
        text = (out / f"logs/job-{index}.log").read_text()
        assert "Traceback" in text
        assert "apps.py" in text
        assert line in text
    assert (out / f"logs/job-{OTHER}.log").read_text() == ""


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


def _pid(port: LivePort, kind: type, wanted: object) -> int:
    for pid, role in port.processes().items():
        if isinstance(role, kind) and wanted in (
            getattr(role, "user", None),
            getattr(getattr(role, "job", None), "index", None),
            getattr(role, "device", None),
        ):
            return pid
    raise AssertionError(f"no {kind.__name__} of {wanted}")


def test_a_killed_trainer_or_server_fails_only_its_job(tmp_path: Path) -> None:
    slow = {"sleep_s": 0.4}
    jobs = [
        job(0, user="ana", rounds=12, scale=1),
        job(1, user="carl", rounds=4, scale=1, params=slow),
        job(2, user="dan", rounds=4, scale=1, params=slow),
    ]
    run, costs = world(tmp_path, jobs, 3)
    with LivePort(run, costs, tmp_path / "out") as port:
        rows = [Assignment(j, j, r, 1, (0,)) for j in range(3) for r in range(jobs[j].rounds or 0)]
        port.submit(tuple(rows))
        events: list[AnyEvent] = []
        while got := port.next_events():
            events += got
            done = of(got, CompDone)
            if any(event.job == 1 and event.round == 1 for event in done):
                time.sleep(0.2)  # half way through the next task
                os.kill(_trainer_of(port, 1, "carl"), signal.SIGKILL)
            if any(event.job == 2 and event.round == 1 for event in done):
                os.kill(_pid(port, ServerRole, 2), signal.SIGKILL)
    assert ended(events) == {0: "finished", 1: "failed", 2: "failed"}
    reasons = {event.job: event.reason for event in of(events, JobFailed)}
    assert "trainer" in reasons[1]
    assert "server" in reasons[2]
    assert len(of(events, TasksDone, 0)) == 12


def _trainer_of(port: LivePort, device: int, user: str) -> int:
    for pid, role in port.processes().items():
        if isinstance(role, TrainerRole) and (role.device, role.user) == (device, user):
            return pid
    raise AssertionError("no such trainer")


def test_a_lost_executor_ends_the_run_with_one_clear_line(tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0, rounds=200)], 2)
    with LivePort(run, costs, tmp_path / "out") as port:
        os.kill(_pid(port, ExecutorRole, 1), signal.SIGKILL)
        with pytest.raises(EngineError, match="of device h/cpu-1 ended: killed by SIGKILL"):
            drive(port, shuffled(run, seed=1))


def test_a_name_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0, name="../up")], 1)
    with pytest.raises(SpecError, match="name"):
        LivePort(run, costs, tmp_path / "out")
