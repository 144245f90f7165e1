"""Same bits and nothing left when runs are struck at drawn moments, as they start and resume too.

Each of 100 runs trains three jobs of ``spine/struck-jobs.yaml`` for some seconds on two devices
that are not emulated. Its seed draws the jobs (with one server or two, mostly one ring among them),
their users, arrivals and checkpoints, the policy, and one to six strikes: SIGKILL, or SIGSTOP and
SIGCONT up to a second later, to a controller, zygote, executor, trainer, the parent of trainers, a
server, rank or guard; SIGTERM and SIGINT to the controller. Strikes come in the first 1.5 seconds
that a process exists, as a run starts or is resumed, or while it trains. A run that ended by that
is resumed, until it has finished. Then all jobs must have the parameters of ``engine: plain``,
``warren report --check`` must agree, and nothing may be left: processes, sockets, temporary
folders, shared memory. No more than two SIGKILLs go to trainers and their parents, nor to servers,
nor to ranks: a job that loses three at one place fails, by rule.

``--seed N`` repeats one run, keeps its folder, and saves nothing; ``--runs N`` makes the first N.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import _common
import _disturb
import yaml
from _struck_plan import Job, Plan, draw_plan
from _struck_run import left_by, run_struck
from neighbours import absolute, write_samples

SPINE: Final = Path(__file__).resolve().parent / "spine"
RUNS: Final = 100
AT_ONCE: Final = 2
SHARED: Final = Path("/dev/shm")

Row = dict[str, Any]


def main() -> None:
    """Make the runs, save, and stop with an error where one has a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, help="this run alone")
    asked = parser.parse_args()
    seeds = [asked.seed] if asked.seed else list(range(1, asked.runs + 1))
    before, begun = set(os.listdir(SHARED)), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="ws-"))
    jobs = pool(folder)
    oracle = plain(folder, jobs)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        rows = list(threads.map(lambda seed: row_of(folder, oracle, jobs, seed), seeds))
    stays = sorted(set(os.listdir(SHARED)) - before)
    wall_s = time.monotonic() - begun
    bad = [row for row in rows if row["wrong"]]
    show(rows, wall_s, stays)
    if asked.seed or bad:
        print(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    if not asked.seed and asked.runs == RUNS:
        content = {"runs": len(rows), "wall_s": round(wall_s, 1), "rows": rows}
        _common.save("struck", 1, content | {"shared_memory": stays})
    if bad or stays:
        sys.exit("\n".join(str(row) for row in [*bad, *stays]))


def pool(folder: Path) -> list[Job]:
    """The jobs there are, as they can be used from any folder."""
    write_samples(folder / "samples")
    jobs: list[Job] = yaml.safe_load((SPINE / "struck-jobs.yaml").read_text())["jobs"]
    for job in jobs:
        job["app"] = absolute(job["app"])
        if job["app"].endswith(":Scheduled"):
            job["params"]["folder"] = str(folder / "samples")
    return jobs


def plain(folder: Path, jobs: list[Job]) -> dict[str, str]:
    """What they compute, by definition."""
    file, out = folder / "plain.yaml", folder / "plain"
    run = described(jobs)
    run["cluster"]["engine"] = "plain"
    file.write_text(yaml.safe_dump(run))
    _common.warren_json("run", str(file), "--out", str(out), "--no-history")
    return _disturb.hashes(out)


def described(jobs: list[Job]) -> dict[str, Any]:
    """The run file of these jobs."""
    run: dict[str, Any] = yaml.safe_load((SPINE / "struck.yaml").read_text())
    return run | {"workload": {"jobs": jobs}}


def row_of(folder: Path, oracle: Mapping[str, str], jobs: list[Job], seed: int) -> Row:
    """One run; ``wrong`` is empty if all is well, else its folder is kept."""
    plan, begun = draw_plan(seed, jobs), time.monotonic()
    file, out, own = folder / f"{seed}.yaml", folder / f"out-{seed}", folder / f"tmp-{seed}"
    own.mkdir()
    run = described(list(plan.jobs))
    run["scheduler"] = {"place": plan.place, "servers": plan.servers}
    file.write_text(yaml.safe_dump(run | {"grain": plan.grain}))
    told = run_struck(file, out, own, plan.strikes)
    wrong = told.wrong + [f"left: {one}" for one in left_by(own)]
    if not told.wrong:
        wrong += differing(out, {job["name"]: oracle[job["name"]] for job in plan.jobs})
    row = stated(seed, plan) | {"resumed": told.resumed, "attempts": told.again}
    found = _disturb.summary(out) if not told.wrong else {}
    row |= {key: found.get(key, 0) for key in ("redone_tasks", "rollbacks")}
    row |= {"strikes": told.strikes, "wall_s": round(time.monotonic() - begun, 1), "wrong": wrong}
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if not wrong:
        shutil.rmtree(own, ignore_errors=True)
    return row


def stated(seed: int, plan: Plan) -> Row:
    """What was drawn, for people."""
    place = plan.place.rpartition(":")[2]
    names = [job["name"] for job in plan.jobs]
    return {"seed": seed, "place": place, "servers": plan.servers, "jobs": names}


def differing(out: Path, oracle: Mapping[str, str]) -> list[str]:
    """Jobs that did not finish, or with other parameters, and what the folder does not hold."""
    found = _disturb.hashes(out)
    wrong = [
        f"{name}: {'other parameters' if name in found else 'not finished'}"
        for name, good in oracle.items()
        if found.get(name) != good
    ]
    done = _common.warren("report", str(out), "--check")
    if done.returncode:
        wrong.append(f"report --check: {done.stdout}{done.stderr}")
    return wrong


def show(rows: list[Row], wall_s: float, stays: list[str]) -> None:
    """Print who was struck when, and the sums."""
    made = [strike for row in rows for strike in row["strikes"]]
    counts = Counter((one["kind"], one["signal"], one["when"]) for one in made)
    _common.table(
        [["who", "signal", "when", "strikes"]]
        + [[*what, count] for what, count in sorted(counts.items())]
    )
    bad = sum(bool(row["wrong"]) for row in rows)
    resumed = sum(row["resumed"] for row in rows)
    print(
        f"{len(rows)} runs, {len(made)} strikes, {resumed} times resumed, {bad} runs with a fault; "
        f"new in shared memory: {len(stays)}; {wall_s:.0f} s"
    )


if __name__ == "__main__":
    main()
