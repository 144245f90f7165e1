"""Take away the servers of jobs whose optimizers, schedules and hooks keep something.

*process*: 180 jobs or more are drawn over all kinds of ``_restored_kinds.py`` and those of public
packages that are installed, each kind once at least; servers are restored or moved after drawn
rounds, in this process. *live*: 20
jobs on real processes, ten a run: servers are killed by SIGKILL at drawn rounds, or the controller
is, and the run is resumed. Each job must have the parameters and metrics of the plain loop, or be
refused by the line that the plain loop says. Anything else counts as silent, and is an error.

``--part NAME`` makes one part and keeps the results of the other.
"""

from __future__ import annotations

import contextlib
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import _processes
from _parts import ask, make_parts
from _restored_base import Base
from _restored_kinds import own_kinds
from _restored_packages import MISSING, PACKAGED
from _restored_run import Ended, Loss, alone, struck

from warren.live.training.app.app_loader import build_app, forget_apps
from warren.live.training.numerics import pin
from warren.model.job import Evaluate, Job

HERE: Final = Path(__file__).parent
IN_PROCESS: Final = 180
LIVE_RUNS: Final = 2
JOBS_A_RUN: Final = 10
ROUNDS: Final = 24
SEED: Final = 1
EVERY: Final = 4
SLEEP_S: Final = 0.04

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where something was silent."""
    warnings.simplefilter("ignore")
    pin()
    make = {"process": in_process, "live": live}
    stated = {"packages_missing": list(MISSING)}
    parts = make_parts("restored_state", ask(__doc__, list(make)), make, seed=SEED, stated=stated)
    silent = [row for part in parts.values() for row in part["rows"] if row["outcome"] == "silent"]
    if silent:
        sys.exit("\n".join(map(str, silent)))


def kinds() -> dict[str, type[Base]]:
    """All kinds, by ``file.py:Class``."""
    return own_kinds() | {f"_restored_packages.py:{name}": one for name, one in PACKAGED.items()}


def in_process(_: Path) -> Row:
    """Jobs in this process: every kind once, then drawn ones."""
    draw = random.Random(SEED)
    names = list(kinds())
    draw.shuffle(names)
    names += draw.choices(names, k=max(0, IN_PROCESS - len(names)))
    return counted([drawn_job(name, draw) for name in names])


def drawn_job(app: str, draw: random.Random) -> Row:
    """One job, and what became of it."""
    job = Job(
        index=0, name="j", scale=draw.randint(1, 2), rounds=draw.randint(8, 16), batch=8, app=app,
        seed=draw.randrange(1000), evaluate=Evaluate(every=draw.randint(1, 4)), nan_loss="train",
    )  # fmt: skip
    most = 3 if kinds()[app].separable else 1
    rounds = sorted(draw.sample(range(1, job.rounds or 1), draw.randint(1, 4)))
    losses = [Loss(one, draw.randint(1, most), draw.random() < 0.5) for one in rounds]
    expected = alone(lambda: fresh(job), job)
    found = struck(lambda: fresh(job), job, losses)
    shown = [[loss.rounds, "moved" if loss.moved else "restored", loss.parts] for loss in losses]
    return row_of(app, expected, found, losses=shown)


def fresh(job: Job) -> Any:
    """The app as a new process has it."""
    forget_apps()
    return build_app(job, str(HERE))


def row_of(app: str, expected: Ended, found: Ended, **more: Any) -> Row:
    """What became of a job, against the plain loop."""
    outcome = "same" if found == expected else "silent"
    line = found.line or expected.line
    if found.line:
        # With several servers there is more that cannot be saved; it is said all the same.
        outcome = "refused"
    elif expected.line:
        outcome = "silent"
    row = {"app": app, "outcome": outcome, "line": line[:160], **more}
    print(*(str(one) for one in row.values()), flush=True)
    return row


def counted(rows: list[Row]) -> Row:
    """A part as it is saved."""
    return {"outcomes": dict(Counter(row["outcome"] for row in rows)), "rows": rows}


def live(scratch: Path) -> Row:
    """Jobs on real processes."""
    draw = random.Random(SEED)
    names = draw.sample([name for name in kinds() if "_packages" not in name], 20)
    for path in HERE.glob("_restored_*.py"):
        shutil.copy(path, scratch)
    rows: list[Row] = []
    for number in range(LIVE_RUNS):
        chosen = names[number * JOBS_A_RUN : (number + 1) * JOBS_A_RUN]
        rows += live_run(scratch, number, chosen, draw)
    return counted(rows)


def live_run(scratch: Path, number: int, chosen: list[str], draw: random.Random) -> list[Row]:
    """One run of some jobs that loses servers, or its controller."""
    jobs = "\n".join(
        f"  - {{name: j{at}, app: '{app}', scale: 1, rounds: {ROUNDS}, batch: 8, nan_loss: train,"
        f" params: {{sleep_s: {SLEEP_S}}}, evaluate: {{every: {EVERY}}},"
        f" checkpoint: {{every: {draw.randint(3, 6)}}}}}"
        for at, app in enumerate(chosen)
    )
    path, out = scratch / f"run-{number}.yaml", scratch / f"out-{number}"
    path.write_text(
        "cluster: {hosts: [{name: h, devices: {CPU: 2}}]}\n"
        f"workload:\n{jobs}\nscheduler: {{place: gavel-fifo}}\nseed: {number}\n"
    )
    resumed = number % 2 == 1
    hits = strike(["run", str(path), "--out", str(out)], out, draw, controller=resumed)
    if resumed:
        strike(["run", "--resume", str(out)], out, draw, controller=False)
    with (out / "jobs.csv").open() as file:
        ended = list(csv.DictReader(file))
    return [
        row_of(app, *compared(app, found, out), killed=hits)
        for app, found in zip(chosen, ended, strict=True)
    ]


def strike(arguments: list[str], out: Path, draw: random.Random, *, controller: bool) -> list[str]:
    """Run the command; kill servers at drawn rounds of some jobs, or the command itself at one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "warren", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    hits: list[str] = []
    wanted = sorted(draw.sample(range(6, 5 * ROUNDS), 1 if controller else 8))
    while process.poll() is None:
        time.sleep(0.02)
        if not wanted or sum(rounds_done(out)) < wanted[0]:
            continue
        if controller:
            process.send_signal(signal.SIGKILL)
            hits.append(f"controller at {wanted.pop(0)}")
            continue
        living = _processes.marked(_processes.mark_of(process.pid))
        servers = _processes.of_kind(living, "server")
        if servers:
            victim = draw.choice(servers)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                hits.append(f"{living[victim]} at {wanted.pop(0)}")
    return hits


def rounds_done(out: Path) -> Iterator[int]:
    """How many rounds each job has passed."""
    for path in (out / "metrics").glob("*.csv"):
        yield max(0, len(path.read_text().splitlines()) - 1)


def compared(app: str, row: dict[str, str], out: Path) -> tuple[Ended, Ended]:
    """What the plain loop gives for a job of a live run, and what that gave."""
    job = Job(
        index=0, name=row["job"], scale=1, rounds=ROUNDS, batch=8, seed=int(row["seed"]), app=app,
        evaluate=Evaluate(every=EVERY), nan_loss="train",
    )  # fmt: skip
    expected = alone(lambda: fresh(job), job)
    if row["status"] != "finished":
        return expected, Ended("", "", f"{row['status']}: {expected.line}")
    with (out / "metrics" / f"{row['job']}.csv").open() as file:
        lines = list(csv.DictReader(file))
    found = {
        int(line["round"]) + 1: {
            key: float(value)
            for key, value in sorted(line.items())
            if key not in ("round", "time_s", "loss") and value
        }
        for line in lines
    }
    metrics = {done: one for done, one in found.items() if one}
    return expected, Ended(row["params_sha256"], repr(metrics))


if __name__ == "__main__":
    main()
