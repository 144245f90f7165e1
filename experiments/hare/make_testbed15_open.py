"""Write testbed15's jobs as they are when nobody knows how long they run: each stops at a target.

The jobs of ``testbed15-jobs.yaml`` without ``rounds``, evaluated eight times as often as they would
end. The plain engine trains them with their rounds; of the evaluations that are better than all
before, one is drawn by a seed and becomes the job's end: its target lies halfway between that value
and the best before, so that no rounding decides.

Writes ``testbed15-open-jobs.yaml``.
"""

from __future__ import annotations

import csv
import math
import random
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

import warren

SEED: Final = 1
EVALUATIONS: Final = 8
HERE: Final = Path(__file__).parent
OUT: Final = HERE / "testbed15-open-jobs.yaml"
HEAD: Final = f"# Made by {Path(__file__).name} with seed {SEED}; what is drawn how stands there.\n"
Job = dict[str, Any]
FALLS: Final = ("bits",)
"""Metrics of which less is better."""


def main() -> None:
    """Train, draw, write."""
    jobs = yaml.safe_load((HERE / "testbed15-jobs.yaml").read_text())["jobs"]
    for job in jobs:
        job["evaluate"] = {"every": max(1, math.ceil(job["rounds"] / EVALUATIONS))}
    with tempfile.TemporaryDirectory(prefix="warren-open-") as scratch:
        measured = trained(jobs, Path(scratch))
    draw = random.Random(SEED)
    lines = [f"  - {line(opened(job, measured[job['name']], draw))}" for job in jobs]
    OUT.write_text(HEAD + "format: 1\njobs:\n" + "\n".join(lines) + "\n")


def trained(jobs: list[Job], scratch: Path) -> dict[str, list[tuple[int, str, float]]]:
    """By job: round, metric and value of each evaluation, in order."""
    run = yaml.safe_load((HERE / "testbed15.yaml").read_text())
    run["cluster"]["engine"] = "plain"
    del run["cluster"]["emulate"]
    run["workload"] = {"jobs": [{**job, "app": str(HERE / job["app"])} for job in jobs]}
    warren.run(run, out=scratch / "plain")
    metrics = scratch / "plain" / "metrics"
    return {job["name"]: evaluations(metrics / f"{job['name']}.csv") for job in jobs}


def evaluations(path: Path) -> list[tuple[int, str, float]]:
    """Rounds in which a job was evaluated, with the metric's name and value."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (int(row["round"]), name, float(value))
        for row in rows
        for name, value in row.items()
        if name not in ("round", "time_s", "loss") and value
    ]


def opened(job: Job, seen: list[tuple[int, str, float]], draw: random.Random) -> Job:
    """The job without its rounds, and with a target instead."""
    sign = -1.0 if seen[0][1] in FALLS else 1.0
    best, ends = sign * seen[0][2], list[tuple[str, float]]()
    for _, name, value in seen[1:]:
        if sign * value > best:
            ends.append((name, sign * (best + sign * value) / 2))
            best = sign * value
    if not ends:
        raise SystemExit(f"{job['name']}: its metric never gets better")
    name, target = draw.choice(ends)
    reaching = "falls_to" if sign < 0 else "reaches"
    found = {key: value for key, value in job.items() if key != "rounds"}
    return {**found, "stop": {"metric": name, reaching: round(target, 6)}}


def line(job: Job) -> str:
    """One job as a line of YAML."""
    return yaml.safe_dump(job, default_flow_style=True, sort_keys=False, width=10_000).strip()


if __name__ == "__main__":
    main()
