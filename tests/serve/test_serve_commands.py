"""The service as its users type it: the command's own processes, from submission to restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import processes
import pytest

pytestmark = pytest.mark.live

STATES = {"queued", "held", "running", "finished", "failed", "cancelled"}


class Shell:
    """What a user types, with the service of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said = home.with_name("said")
        self.pid = 0

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; its answer is read from it."""
        return subprocess.Popen(
            [sys.executable, "-m", "warren", *self._words(arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run a command that ends with this exit code, and return its answer."""
        words = [sys.executable, "-m", "warren", *self._words(arguments)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout

    def _words(self, arguments: tuple[str, ...]) -> list[str]:
        """Return arguments with the server, before the command that is submitted."""
        words = list(arguments)
        at = words.index("--") if "--" in words else len(words)
        return [*words[:at], "--server", str(self.home), *words[at:]]

    def submit(self, *arguments: str) -> str:
        """Submit, and return the id."""
        return str(json.loads(self("submit", "--json", *arguments))["id"])

    def show(self, job: str) -> Any:
        """Return all about a job."""
        return json.loads(self("show", job, "--json"))

    @contextmanager
    def service(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run ``warren serve`` until the block ends, where it still runs then."""
        joined = self.said.read_text().count(" joined: ") if self.said.exists() else 0
        with self.said.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "warren", "serve", "--home", str(self.home)], stderr=said
            )
        try:
            processes.wait_until(
                lambda: self.said.read_text().count(" joined: ") > joined or process.poll()
            )
            self.pid = process.pid
            yield process
        finally:
            process.terminate()
            process.wait(processes.PATIENCE_S)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose service runs for all tests that do not stop it."""
    found = Shell(tmp_path_factory.mktemp("shell") / "home")
    with found.service():
        yield found


def test_a_users_commands_do_what_the_contract_says(shell: Shell, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    job = shell.submit("--name", "first", "--", "sh", "-c", f"echo one; {wait}; echo two >&2")
    after = shell.submit("--after", "first", "--", "sh", "-c", "exit 3")
    held = shell.submit("--hold", "--", "true")
    rows = {row["id"]: row for row in json.loads(shell("queue", "--json"))}
    assert {job, after, held} <= set(rows)
    wanted = {"id", "name", "user", "state", "reason", "submitted_s", "started_s"}
    assert all(wanted <= set(row) and row["state"] in STATES for row in rows.values())
    assert rows[held]["state"] == "held"
    assert f"job {job}" in rows[after]["reason"]
    followed = shell.start("logs", "-f", job)
    assert followed.stdout is not None
    assert followed.stdout.readline() == "one\n"
    go.touch()
    assert followed.communicate(timeout=processes.PATIENCE_S) == ("two\n", "")
    assert followed.returncode == 0
    shell("wait", job)
    shell("wait", after, code=1)
    assert {"exit_code", "devices", "log"} <= set(shell.show(after))
    assert shell.show(after)["exit_code"] == 3
    assert shell("logs", job) == "one\ntwo\n"
    shell("release", held)
    shell("wait", held)
    assert shell("queue").splitlines() == []


def test_arrays_and_sweeps_become_jobs_with_their_values(shell: Shell) -> None:
    array = shell.submit("--array", "2-3", "--", "echo", "index {index}")
    sweep = shell.submit("--sweep", "a=x,y", "--sweep", "b=z", "--", "echo", "{a}{b}")
    shell("wait", array, sweep)
    rows = [
        row
        for array in (array, sweep)
        for row in json.loads(shell("queue", "--array", array, "--json"))
    ]
    printed = [shell("logs", row["id"]) for row in rows]
    assert printed == ["index 2\n", "index 3\n", "xz\n", "yz\n"]


def test_a_cancelled_job_is_gone_with_its_processes(shell: Shell, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    stubborn = f"trap '' TERM; (setsid sleep 600 & echo $! > {alive}); sleep 600"
    job = shell.submit("--grace", "1s", "--", "sh", "-c", stubborn)
    assert processes.wait_until(lambda: alive.exists() and alive.read_text().strip())
    shell("cancel", job)
    shell("wait", job, code=1)
    assert shell.show(job)["state"] == "cancelled"
    assert not Path(f"/proc/{alive.read_text().strip()}").exists()


def test_jobs_run_on_without_the_service_and_waiting_goes_on_with_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    for number in (signal.SIGKILL, signal.SIGTERM):
        go = tmp_path / f"go{number}"
        script = f"echo begun; while [ ! -e {go} ]; do sleep 0.02; done; echo done; exit 5"
        with shell.service() as process:
            waiting = shell.start("submit", "--wait", "--", "sh", "-c", script)
            assert waiting.stdout is not None
            job = waiting.stdout.readline().strip()
            followed = shell.start("logs", "-f", job)
            assert followed.stdout is not None
            assert followed.stdout.readline() == "begun\n"
            process.send_signal(number)
            process.wait(processes.PATIENCE_S)
        go.touch()
        with shell.service():
            ended = waiting.communicate(timeout=processes.PATIENCE_S)
            assert (waiting.returncode, ended[0]) == (1, "")
            assert followed.communicate(timeout=processes.PATIENCE_S)[0] == "done\n"
            shown = shell.show(job)
        assert followed.returncode == 0
        assert (shown["state"], shown["exit_code"], len(shown["attempts"])) == ("failed", 5, 1)


def test_a_shell_is_attached_to_a_running_job(shell: Shell, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    job = shell.submit("--", "sh", "-c", f"touch {begun}; sleep 600")
    assert processes.wait_until(begun.exists)
    assert shell("attach", job, "--", "sh", "-c", "echo $WARREN_JOB_ID; exit 7", code=7) == (
        f"{job}\n"
    )
    shell("cancel", job)
    shell("wait", job, code=1)
    shell("attach", job, code=2)


def test_a_followed_log_is_whole_though_the_agent_is_killed_meanwhile(tmp_path: Path) -> None:
    shell, go = Shell(tmp_path / "home"), tmp_path / "go"
    script = f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two"
    with shell.service():
        followed = shell.start("logs", "-f", shell.submit("--", "sh", "-c", script))
        assert followed.stdout is not None
        assert followed.stdout.readline() == "one\n"
        joined = shell.said.read_text().count(" joined: ")
        (agent,) = processes.children(shell.pid)
        os.kill(agent, signal.SIGKILL)
        assert processes.wait_until(lambda: shell.said.read_text().count(" joined: ") > joined)
        go.touch()
        assert followed.communicate(timeout=processes.PATIENCE_S)[0] == "two\n"
        assert followed.returncode == 0


TRAINS = """
if [ "$1" ]; then echo "goes on from $2"; exit; fi
trap 'echo x >"$WARREN_CHECKPOINT_DIR/state.pt"; exit' TERM
echo on
while :; do sleep 0.02; done
"""


def test_a_preempted_command_saves_and_goes_on_from_its_checkpoint(
    shell: Shell, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text(TRAINS)
    job = shell.submit("--resume", "--from {latest}", "--", "sh", str(script))
    assert processes.wait_until(lambda: "on\n" in shell("logs", job))
    shell("preempt", job)
    shell("wait", job)
    first, second = shell.show(job)["attempts"]
    assert (first["cause"], first["saved"], second["exit_code"]) == ("preempt", True, 0)
    assert "/state.pt" in shell("logs", job)
    assert "preempted by" in shell("show", job)
