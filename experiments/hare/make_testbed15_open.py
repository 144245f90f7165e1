"""Write testbed15's jobs as they are when nobody knows how long they run: each stops at a target.

The jobs of ``testbed15-jobs.yaml`` without ``rounds``, evaluated eight times as often as they would
end. The plain engine trains them with their rounds; of the evaluations that are better than all
before, one is drawn by a seed and becomes the job's end: its target lies halfway between that value
and the best before, so that no rounding decides.

*Arrivals* come four times as slowly as in testbed15, and the grain is 2 s: policies that decide
again at every event, by what has run so far, stand at a knife edge all the time where twice the
work arrives as the devices can do. There a JCT error measures luck.
*The seed* is the first whose simulated JCTs, under each policy, are moved by at most 3 % on average
by task times drawn 0.2 % around the profile. All was chosen by simulation, before the live runs
that count. ``--conditioning`` prints how far each seed moves.

Writes ``testbed15-open-jobs.yaml``.
"""

from __future__ import annotations

import csv
import math
import random
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any, Final

import yaml

import warren

SEED: Final = 2
EVALUATIONS: Final = 8
SLOWER: Final = 4
"""Times the arrivals of testbed15."""
PLACES: Final = ("hlas", "las-2d", "gittins")
NOISE: Final = 0.002
NOISES: Final = 3
HERE: Final = Path(__file__).parent
RUN: Final = HERE / "testbed15-open.yaml"
OUT: Final = HERE / "testbed15-open-jobs.yaml"
HEAD: Final = f"# Made by {Path(__file__).name} with seed {SEED}; what is drawn how stands there.\n"
Job = dict[str, Any]
FALLS: Final = ("bits",)
"""Metrics of which less is better."""


def main() -> None:
    """Train, draw, write."""
    jobs = yaml.safe_load((HERE / "testbed15-jobs.yaml").read_text())["jobs"]
    for job in jobs:
        job["arrival"] = f"{SLOWER * float(job['arrival'].split()[0]):.1f} s"
        job["evaluate"] = {"every": max(1, math.ceil(job["rounds"] / EVALUATIONS))}
    with tempfile.TemporaryDirectory(prefix="warren-open-") as scratch:
        measured = trained(jobs, Path(scratch))
    if "--conditioning" in sys.argv[1:]:
        for seed in range(1, 13):
            drawn = [rounds for _, rounds in ends(jobs, measured, seed)]
            moved = {place: moved_pct(jobs, drawn, place) for place in PLACES}
            print(seed, {place: [round(one, 1) for one in by] for place, by in moved.items()})
        return
    lines = [f"  - {line(job)}" for job, _ in ends(jobs, measured, SEED)]
    OUT.write_text(HEAD + "format: 1\njobs:\n" + "\n".join(lines) + "\n")


def ends(
    jobs: list[Job], measured: dict[str, list[tuple[int, str, float]]], seed: int
) -> list[tuple[Job, int]]:
    """The jobs with targets, and the rounds in which they come to them."""
    draw = random.Random(seed)
    return [opened(job, measured[job["name"]], draw) for job in jobs]


def moved_pct(jobs: list[Job], rounds: list[int], place: str) -> list[float]:
    """Mean absolute change of the simulated JCTs under each noise, in percent."""
    run = yaml.safe_load(RUN.read_text())
    bare = [{key: value for key, value in job.items() if key != "app"} for job in jobs]
    run["workload"] = [{**job, "rounds": count} for job, count in zip(bare, rounds, strict=True)]
    run["scheduler"] = {"place": place}
    exact, *noisy = (jct_s(run, noise) for noise in range(NOISES + 1))
    return [
        100 * mean(abs(ours / plain - 1) for ours, plain in zip(one, exact, strict=True))
        for one in noisy
    ]


def jct_s(run: dict[str, Any], noise: int) -> list[float]:
    """The simulated JCTs; noise 0: none."""
    truth = {"task_cv": NOISE if noise else 0, "seed": noise}
    return [
        float(job.row["jct_s"]) for job in warren.simulate({**run, "truth": truth}).jobs.values()
    ]


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


def opened(job: Job, seen: list[tuple[int, str, float]], draw: random.Random) -> tuple[Job, int]:
    """The job without its rounds and with a target instead, and the rounds until it gets there."""
    sign = -1.0 if seen[0][1] in FALLS else 1.0
    best, better = sign * seen[0][2], list[tuple[str, float, int]]()
    for number, name, value in seen[1:]:
        if sign * value > best:
            better.append((name, sign * (best + sign * value) / 2, number + 1))
            best = sign * value
    if not better:
        raise SystemExit(f"{job['name']}: its metric never gets better")
    name, target, rounds = draw.choice(better)
    reaching = "falls_to" if sign < 0 else "reaches"
    found = {key: value for key, value in job.items() if key != "rounds"}
    return {**found, "stop": {"metric": name, reaching: round(target, 6)}}, rounds


def line(job: Job) -> str:
    """One job as a line of YAML."""
    return yaml.safe_dump(job, default_flow_style=True, sort_keys=False, width=10_000).strip()


if __name__ == "__main__":
    main()
