"""The command with real processes: trained, cut off at any moment, out of disk, wrong input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest
import warm_program
from cli_runs import CHECKOUT, JOBS, QUICKSTART, Told, Warren, write_run
from processes import PATIENCE_S, wait_until
from test_cli_mutated import attempt, check_lines

import warren as from_python
from warren.core.journal_reader import read_history
from warren.live.training.app.app_loader import build_app
from warren.store.files import OUTPUT_FILES, read
from warren.workload.run_file import load_run

pytestmark = pytest.mark.live

LIVE_FILES = {*OUTPUT_FILES, "users.csv", "params", "logs", "metrics", "apps", "run.log"}


class Command:
    """``warren`` in a process of its own, with a temporary folder of its own.

    A ``cold`` one starts and loads all that it needs as a user's does.
    """

    def __init__(
        self, folder: Path, *arguments: str | Path, limit: int | None = None, cold: bool = False
    ) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._printed = self.temporary / "stdout", self.temporary / "stderr"
        command = ["-m", "warren", *arguments]
        environment = os.environ | {"TMPDIR": str(self.temporary)}
        start = _start_cold if cold else warm_program.start
        with self._printed[0].open("w") as out, self._printed[1].open("w") as err:
            self._process = start(command, environment, out, err, limit)

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Until something is so; the command must still be at work."""
        assert wait_until(lambda: holds() or self._process.poll() is not None)
        assert self._process.poll() is None, self._said()

    def kill(self) -> None:
        """It cannot clean up itself."""
        self._process.kill()
        self._process.wait(timeout=PATIENCE_S)

    def end(self, signum: signal.Signals | None = None) -> tuple[int, str, list[str]]:
        """Send a signal, wait; gives exit code and both outputs."""
        if signum is not None:
            self._process.send_signal(signum)
        code = self._process.wait(timeout=PATIENCE_S)
        out, err = self._said()
        assert "Traceback" not in err, err
        assert [path.name for path in self.temporary.glob("warren-*")] == []
        return code, out, err.splitlines()

    def _said(self) -> tuple[str, str]:
        out, err = (path.read_text() for path in self._printed)
        return out, err


def _start_cold(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str],
    output: IO[str],
    errors: IO[str],
    limit: int | None,
) -> subprocess.Popen[bytes]:
    assert limit is None
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, stdout=output, stderr=errors, env=environment)


@pytest.fixture
def long(tmp_path: Path) -> Iterator[str]:
    """A run of some tens of seconds."""
    jobs = JOBS.replace("rounds: 6", "rounds: 4000").replace("rounds: 8", "rounds: 5000")
    return write_run(tmp_path / "in", jobs=jobs)


def has_lines(path: Path, least: int) -> Callable[[], bool]:
    """Whether a file has got so many lines."""
    return lambda: path.is_file() and path.read_bytes().count(b"\n") >= least


def has_journalled_end(journal: Path, job: int) -> Callable[[], bool]:
    """Whether the journal tells that a job finished."""
    return lambda: journal.is_file() and read_history(journal.read_bytes()).finish_ns_J[job] >= 0


def files_in(out: Path) -> set[str]:
    """What a run left there, but for the checkpoints of jobs that did not finish."""
    return {path.name for path in out.iterdir()} - {"checkpoints"}


def test_a_run_writes_what_a_simulation_writes_and_what_was_trained(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    live, simulated = tmp_path / "live", tmp_path / "simulated"
    told = warren("run", tiny, "--out", live, "--json")
    assert told.code == 0, told.err
    first = f"training 3 jobs on 3 devices under srtf into {live}; times are cluster seconds"
    assert told.err[:2] == ["tiny: planning 3 jobs, starting 3 devices", first]
    assert told.json == json.loads((live / "summary.json").read_text())
    assert {path.name for path in live.iterdir()} == LIVE_FILES
    assert warren("simulate", tiny, "--out", simulated).code == 0
    result = from_python.load(live)
    for name in "abc":
        assert len(result.job(name).row["params_sha256"]) == 64
        assert result.job(name).params()
    assert repr(result.job("a")) == f"JobResult('a', finished, {str(live)!r})"
    resolved = load_run(str(live / "run.yaml"), read)
    model = build_app(resolved.workload.jobs[0], resolved.base).model()
    model.load_state_dict(result.job("a").params())
    found = warren("compare", live, simulated, "--json").json
    assert found[0]["jct_errors"][0]["jobs"] == 3
    assert warren("report", live, "--check").code == 0


@pytest.mark.parametrize("delay_s", [0.3, 1.0, 2.0])
def test_a_run_cut_off_while_it_starts_leaves_nothing_or_all(
    long: str, tmp_path: Path, delay_s: float
) -> None:
    out = tmp_path / "new" / "out"
    command = Command(tmp_path, "run", long, "--out", out, cold=True)
    time.sleep(delay_s)
    code, printed, err = command.end(signal.SIGINT)
    assert code in (130, -signal.SIGINT)
    assert printed == ""
    begins = "warren: ", "stopped ", "training ", "cut off", "tiny: planning "
    assert all(line.startswith(begins) for line in err)
    kept = out.exists()
    assert not kept or files_in(out) == LIVE_FILES
    assert kept or not out.parent.exists()


def test_the_plain_engine_cut_off_keeps_the_jobs_it_finished(
    warren: Warren, long: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    jobs = Path(long).with_name("jobs.yaml")
    jobs.write_text(jobs.read_text().replace("rounds: 4000", "rounds: 40"))
    command = Command(tmp_path, "run", long, "--out", out, "--set", "cluster.engine=plain")
    command.wait_for(has_lines(out / "metrics" / "a.csv", 20))
    command.wait_for(has_journalled_end(out / "journal", 0))
    code, _, _ = command.end(signal.SIGTERM)
    assert code == 130
    rows = from_python.load(out).jobs
    assert rows["a"].row["status"] == "finished"
    assert "unfinished" in {job.row["status"] for job in rows.values()}


def test_a_disk_that_fills_up_ends_the_run_in_clear_lines(long: str, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk.

    It holds for memory that processes share, too: no job may need so much.
    """
    jobs, out = Path(long).with_name("jobs.yaml"), tmp_path / "out"
    jobs.write_text(jobs.read_text().replace("rounds: 9,", "rounds: 9, params: {hidden: 4},"))
    code, _, err = Command(tmp_path, "run", long, "--out", out, limit=30_000).end()
    assert code == 2, err
    assert err[-2].startswith("cut off; the journal of what ran is in ")
    assert err[-1].startswith(f"warren: {out}")
    assert err[-1].endswith("File too large")


def test_a_policy_that_raises_in_a_run_ends_it_in_one_line(tiny: str, tmp_path: Path) -> None:
    source = (CHECKOUT / "examples" / "policies" / "round_robin.py").read_text()
    raising = source.replace("assign:", "assert view.round_J.sum() < 3, 'boom'\n        assign:", 1)
    (tmp_path / "mine.py").write_text(raising)
    out, place = tmp_path / "out", f"{tmp_path}/mine.py:RoundRobin"
    command = Command(tmp_path, "run", tiny, "--place", place, "--out", out)
    command._process.wait(timeout=PATIENCE_S)
    (path,) = command.temporary.glob("warren-error-*")
    assert "boom" in path.read_text()
    path.unlink()
    code, _, err = command.end()
    assert code == 1
    assert err[-1].startswith("warren: policy round-robin: decide raised ")
    assert files_in(out) == LIVE_FILES


def test_an_app_that_fails_fails_its_job_alone(warren: Warren, tiny: str, tmp_path: Path) -> None:
    jobs = Path(tiny).with_name("jobs.yaml")
    jobs.write_text(jobs.read_text().replace("rounds: 8,", "rounds: 8, params: {colour: red},"))
    told = warren("run", tiny, "--out", tmp_path / "out")
    assert told.code == 1
    assert [line for line in told.err if " b FAILED: " in line and "colour" in line]
    assert told.err[-1] == f"1 of 3 jobs did not finish; see {tmp_path / 'out'}"
    statuses = [job.row["status"] for job in from_python.load(tmp_path / "out").jobs.values()]
    assert statuses == ["finished", "failed", "finished"]


@pytest.mark.parametrize("seed", [10, 22, 26])
def test_mutated_inputs_train_or_are_refused(tmp_path: Path, seed: int) -> None:
    def apart(*arguments: str | Path) -> Told:
        return Told(*Command(tmp_path, *arguments).end())

    code, lines = attempt("run", tmp_path, seed, apart)
    assert code in (0, 1, 2)
    check_lines(code, lines, tmp_path)


def test_check_tells_that_the_quickstarts_app_is_deterministic(warren: Warren) -> None:
    jobs = QUICKSTART.with_name("jobs.yaml")
    found = warren("check", jobs, "--job", "cancer-logistic", "--json")
    assert (found.code, found.err) == (0, ["checking cancer-logistic"])
    assert [report["same"] for report in found.json] == [True]
    assert "allowed: digits-mlp, " in warren("check", jobs, "--job", "none").complaint


def test_check_tells_what_deterministic_kernels_cost_on_the_device_of_a_run(warren: Warren) -> None:
    found = warren("check", QUICKSTART, "--job", "cancer-logistic", "--cost", "--json")
    assert (found.code, found.err) == (0, ["timing cancer-logistic"])
    (report,) = found.json
    assert (report["job"], report["device"]) == ("cancer-logistic", "a processor")
    assert report["cost"]["deterministic_ms"] > 0
    assert report["cost"]["error"] == ""
