"""The part ``bits`` of gpu_alone.py: jobs by the plain loop, by Warren, and under kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import _common
import _gpu_runs as runs
import _processes
from _gpu_bench import ROOT, Bench, attempted


def bits(bench: Bench) -> dict[str, Any]:
    """Hashes of all example apps and of small nets: plain, hare, and under kills with a resume."""
    run = bits_run(bench)
    plain, hare, struck = (bench.out(name) for name in ("plain", "hare", "struck"))
    # Side by side: bits do not hang on times.
    engine = ("--share", "--set", "cluster.engine=plain")
    begun = [runs.started(run, plain, *engine), runs.started(run, hare, "--share")]
    begun.append(runs.started(run, struck, "--share"))
    killed = strike(begun[-1], struck, bench.left_s() / 2)
    row: dict[str, Any] = {"killed": killed}
    if killed["controller"]:
        command = [*runs.COMMAND, "--resume", str(struck), "--share", "--no-history"]
        with struck.with_suffix(".out").open("a") as said:
            begun[-1] = subprocess.Popen(command, stdout=said, stderr=said, text=True)
    for process, out in zip(begun, (plain, hare, struck), strict=True):
        row[out.name.partition("-")[2]] = attempted(bits_of, process, out, bench.left_s())
    if "hashes" not in row["plain"]:
        return row
    wanted = row["plain"]["hashes"]
    for name in ("hare", "struck"):
        got = row[name].get("hashes", {})
        row[name]["missing"] = [job for job in wanted if not got.get(job)]
        row[name]["wrong"] = [job for job in got if got[job] and got[job] != wanted[job]]
    past = _common.earlier("gpu_bits").values()
    row["as_in_gpu_bits"] = [
        job for job, value in wanted.items() if any(value == one["hashes"].get(job) for one in past)
    ]
    faults = [row[name][what] for name in ("hare", "struck") for what in ("wrong", "missing")]
    row["met"] = {"bits": all(wanted.values()) and not any(faults)}
    return row


def bits_of(process: subprocess.Popen[str], out: Path, limit_s: float) -> dict[str, Any]:
    """The hashes of a run, once it has ended; of one that takes too long, those of ended jobs."""
    try:
        end = f"exit {runs.ended(process, out, max(limit_s, 1.0))}"
    except runs.PartError:
        end = f"cut off after {limit_s:.0f} s"
    found = runs.hashes(out)
    said = {} if all(found.values()) else {"said": f"{end}: {runs.said_by(out)}"}
    return {"hashes": found, **said}


def bits_run(bench: Bench) -> dict[str, Any]:
    """The jobs of gpu_bits.py (in a rehearsal the first ones) and the small nets, of one run."""
    import yaml

    spine = ROOT / "experiments" / "spine" / "gpu-jobs.yaml"
    jobs = yaml.safe_load(spine.read_text())["jobs"]
    for job in jobs:
        job["app"] = str((spine.parent / job["app"]).resolve())
    run = runs.run_of([], "hare", bench.device)
    run["profiles"]["some"] = {
        "model": "1 MB", "comp": {bench.device: "10 ms"}, "sync": {bench.device: "1 ms"}
    }  # fmt: skip
    for name in ("gpt2", "resnet50", "bert", "llama", "unet"):
        net = bench.net(name, small=True)
        job = {"app": net.app, "batch": 2, "rounds": 8, "scale": 2, "params": net.params}
        if runnable(name):
            jobs.append({"name": f"net-{name}", "cost": "some", **job})
    run["workload"] = jobs[-7:] if bench.rehearse else jobs
    return run


def runnable(name: str) -> bool:
    """Whether the packages of a net are installed."""
    packages = {"resnet50": ("torchvision",), "unet": (), "llama": ("transformers", "peft")}
    return all(find_spec(one) for one in packages.get(name, ("transformers",)))


def strike(process: subprocess.Popen[str], out: Path, limit_s: float) -> dict[str, int]:
    """Kill trainers of a run that has trained some rounds, then its controller."""
    draw, end_s, trainers = random.Random(runs.SEED), time.monotonic() + limit_s, 0
    while process.poll() is None and time.monotonic() < end_s:
        rows = [len(path.read_text().splitlines()) for path in (out / "metrics").glob("*.csv")]
        if sum(rows) > 20:
            break
        time.sleep(0.02)
    for _ in range(3):
        mark = _processes.mark_of(process.pid) if process.poll() is None else ""
        victims = _processes.of_kind(_processes.marked(mark), "trainer") if mark else []
        if victims:
            os.kill(draw.choice(victims), signal.SIGKILL)
            trainers += 1
        time.sleep(0.5)
    alive = process.poll() is None
    if alive:
        process.kill()
        process.wait()
    return {"trainers": trainers, "controller": int(alive)}
