"""The service as a process, with its agent: killed, stopped, and started once more."""

from __future__ import annotations

import stat
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Timer

import pytest
from service_process import ServiceProcess, service

from warren.serve.client.client import Client
from warren.serve.client.errors import ServiceError

pytestmark = pytest.mark.live


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_each_answered_job_runs_once_though_the_service_is_killed_while_they_come(
    home: Path,
) -> None:
    random = Random(3)
    marks = home.with_name("marks")
    marks.mkdir()
    command = ["sh", "-c", f"echo $$ >> {marks}/$WARREN_JOB_ID; exit 3"]
    answered: list[str] = []
    for _ in range(2):
        with service(home) as running:
            timer = Timer(random.random() / 2, running.process.kill)
            timer.start()
            with suppress(ServiceError), Client(running.server) as client:
                while True:  # until it is gone
                    answered.append(client.submit(command))
            timer.join()
            running.process.wait()
    with service(home) as running, Client(running.server) as client:
        states = {job: client.wait(job) for job in answered}
        jobs = [row["id"] for row in client.queue()]
        for job in jobs:
            client.wait(job)
    assert len(answered) > 10
    assert len(set(answered)) == len(answered)
    assert {(one["state"], one["exit_code"]) for one in states.values()} == {("failed", 3)}
    counts = {file.name: len(file.read_text().split()) for file in marks.iterdir()}
    assert set(answered) <= set(counts)
    assert set(counts.values()) == {1}


def test_a_job_runs_on_while_the_service_is_stopped_and_is_found_again(home: Path) -> None:
    with service(home) as running, Client(running.server) as client:
        begun, go = home.with_name("begun"), home.with_name("go")
        job = client.submit(
            ["sh", "-c", f"touch {begun}; while [ ! -e {go} ]; do sleep 0.05; done; exit 5"]
        )
        while not begun.exists():
            time.sleep(0.01)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) & 0o077 for file in home.iterdir()}
        assert {name for name, mode in modes.items() if mode} <= {"socket", "agent"}
        second = ServiceProcess(home)
        assert second.process.wait() == 1
        assert "another warren serve runs here" in second.said
        assert running.end() == 0
        assert not (home / "socket").exists()
    go.touch()
    with service(home) as running, Client(running.server) as client:
        found = client.wait(job)
    assert (found["state"], found["exit_code"], found["attempt"]) == ("failed", 5, 1)


def test_a_service_asked_to_stop_its_jobs_leaves_none(home: Path) -> None:
    with service(home, "stop") as running, Client(running.server) as client:
        begun = home.with_name("begun")
        job = client.submit(["sh", "-c", f"touch {begun}; sleep 600"])
        while not begun.exists():
            time.sleep(0.01)
        assert running.end() == 0
    with service(home) as running, Client(running.server) as client:
        assert client.show(job)["state"] == "cancelled"
