"""Runs of Warren for gpu_alone.py: their files, what their timelines say, and what went wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

SEED: Final = 1
COMMAND: Final = (sys.executable, "-m", "warren", "run")
ERROR_LINES: Final = 12
"""Lines kept of what a failed program printed."""


class PartError(Exception):
    """Why a part of the benchmark has no result."""


class RefusedError(PartError):
    """What Warren says of a run file that it refuses."""


class SkippedError(Exception):
    """Why a part was left out."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a run file; ``ms``: what a task is expected to take."""

    name: str
    app: str
    batch: int
    rounds: int
    params: dict[str, Any]
    ms: float
    scale: int = 1
    more: Mapping[str, Any]


def run_of(jobs: Sequence[Job], place: str, device: str, **more: Any) -> dict[str, Any]:
    """A run of jobs on one device, as its file would say it."""
    rows = {
        job.name: {
            "model": "1 MB",
            "comp": {device: f"{max(job.ms, 0.01):.6f} ms"},
            "sync": {device: "1 ms"},
        }
        for job in jobs
    }
    workload = [
        {
            "name": job.name,
            "app": job.app,
            "cost": job.name,
            "batch": job.batch,
            "rounds": job.rounds,
            "scale": job.scale,
            "params": job.params,
            **job.more,
        }
        for job in jobs
    ]
    return {
        "format": 1,
        "name": "gpu-alone",
        "cluster": {"hosts": [{"name": "h", "devices": {device: 1}}]},
        "workload": workload,
        "profiles": rows,
        "scheduler": {"place": place},
        "seed": SEED,
        **more,
    }


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run has left: its summary, and the rows of its timeline by start."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    wall_s: float

    def ends_s(self, job: str) -> dict[int, float]:
        """When each round of a job ended; a row may stand for several rounds."""
        ends: dict[int, float] = {}
        for row in self.rows:
            if row["job"] == job:
                last = row["round"] + row["rounds"] - 1
                ends[last] = max(ends.get(last, 0.0), row["end_s"])
        return dict(sorted(ends.items()))

    def round_ms(self, job: str, warm: int, block: int) -> dict[str, Any]:
        """Median of blocks of rounds after the first ``warm`` ones, in milliseconds a round."""
        ends = [(at, end) for at, end in self.ends_s(job).items() if at >= warm]
        if len(ends) < 2:
            raise PartError(f"{job}: the timeline has {len(ends)} rounds after the first {warm}")
        marks = [ends[0]]
        for at, end in ends[1:]:
            if at - marks[-1][0] >= block:
                marks.append((at, end))
        if len(marks) < 2:
            marks.append(ends[-1])
        blocks = [1000 * (e - s) / (j - i) for (i, s), (j, e) in pairwise(marks)]
        return {"ms": median(blocks), "blocks_ms": blocks, "mean_ms": mean_ms(ends)}

    def task_ms(self, job: str, warm: int) -> float:
        """Median time of a task until its gradients are there, in milliseconds."""
        rows = [row for row in self.rows if row["job"] == job and row["round"] >= warm]
        return 1000 * median((row["comp_end_s"] - row["start_s"]) / row["rounds"] for row in rows)

    def gaps_ms(self, since_s: float = 0.0) -> dict[str, list[float]]:
        """Times that the device has no task, before another job's task and before its own's."""
        gaps: dict[str, list[float]] = defaultdict(list)
        for before, after in pairwise(row for row in self.rows if row["start_s"] >= since_s):
            kind = "own" if before["job"] == after["job"] else "switch"
            gaps[kind].append(1000 * max(0.0, after["start_s"] - before["comp_end_s"]))
        return dict(gaps)


def mean_ms(ends: list[tuple[int, float]]) -> float:
    """Milliseconds a round from the first of some ends to the last."""
    return 1000 * (ends[-1][1] - ends[0][1]) / (ends[-1][0] - ends[0][0])


def started(run: Mapping[str, Any], out: Path, *arguments: str) -> subprocess.Popen[str]:
    """Begin a run into ``out``; its file and what it prints are beside that folder."""
    file = out.with_suffix(".yaml")
    file.write_text(json.dumps(run))  # JSON is YAML
    command = [*COMMAND, str(file), "--out", str(out), "--no-history", *arguments]
    with out.with_suffix(".out").open("w") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, text=True)


def ended(process: subprocess.Popen[str], out: Path, limit_s: float) -> int:
    """Wait for a run, and interrupt it after ``limit_s``; its exit status."""
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # leaves no process behind
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise PartError(f"{out.name}: not over after {limit_s:.0f} s: {said_by(out)}") from None


def said_by(out: Path) -> str:
    """The last lines of what a run printed, and of its jobs' logs."""
    texts = [out.with_suffix(".out"), *sorted(out.glob("logs/*"))]
    lines = [line for path in texts for line in path.read_text(errors="replace").splitlines()]
    return " | ".join(lines[-ERROR_LINES:])


def trained(run: Mapping[str, Any], out: Path, limit_s: float, *arguments: str) -> Trained:
    """Train, and read what the run has left.

    Raises
    ------
    PartError
        The run failed or took longer than ``limit_s`` seconds.
    RefusedError
        The run file is refused, for example a key of it.
    """
    begin = time.monotonic()
    code = ended(started(run, out, *arguments), out, limit_s)
    if code == 2:
        raise RefusedError(said_by(out))
    summary_path = out / "summary.json"
    if not summary_path.exists():
        raise PartError(f"exit {code}: {said_by(out)}")
    summary = json.loads(summary_path.read_text())
    if summary["failed"] or summary["unfinished"]:
        raise PartError(f"{summary['failed']} failed: {said_by(out)}")
    return Trained(summary=summary, rows=timeline(out), wall_s=time.monotonic() - begin)


def timeline(out: Path) -> list[dict[str, Any]]:
    """Rows of a run's timeline in order of start."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(out / "timeline.parquet")
    return sorted(table.to_pylist(), key=lambda row: row["start_s"])


def hashes(out: Path) -> dict[str, str]:
    """The hash of the parameters of each job of a run; empty where a job has not finished."""
    import csv

    with (out / "jobs.csv").open() as file:
        return {row["job"]: row["params_sha256"] for row in csv.DictReader(file)}


def own_loops(script: Path, cases: str, limit_s: float) -> dict[str, dict[str, Any]]:
    """What the user's own loops take, by case; a case without a row was not reached in time."""
    command = [sys.executable, str(script)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, errors = process.communicate(cases, timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the workers of its DataLoader
        said, errors = process.communicate()
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if not rows:
        raise PartError(f"own loops: {' | '.join(errors.splitlines()[-ERROR_LINES:])}")
    return {row.pop("name"): row for row in rows}
