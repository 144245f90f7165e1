"""Same job, any schedule, same bits, on a GPU: every example app, against the plain loop on it.

Trains the jobs of ``spine/gpu.yaml`` with the plain engine on the processor and on the GPU, then
under three policies on the GPU, and once more while trainers are killed and the controller too,
with a resume. Then the same of rings (``spine/gpu-rings.yaml``), one of whose ranks is killed.
Compares the SHA-256 of all final parameters. ``--processor`` does the same without a GPU, and saves
nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _common
import _processes

import warren
from warren.live.gpu.discovery import gpus_here

PLACES = ("hare", "gavel-fifo", "srtf")
SPINE = Path(__file__).parent / "spine"
RUN, RINGS = SPINE / "gpu.yaml", SPINE / "gpu-rings.yaml"
CPU = ("--set", "cluster.hosts=[{name: h, devices: {cpu: 1}}]")
KILLS = 4


def main() -> None:
    """Run, compare, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processor", action="store_true")
    on_cpu = parser.parse_args().processor
    if not on_cpu and not gpus_here():
        print("skipped: there is no GPU here that torch can use")
        return
    there = CPU if on_cpu else ()
    scratch = Path(tempfile.mkdtemp(prefix="warren-gpu-bits-"))
    kept = True
    try:
        tables = {"processor": hashes(scratch / "cpu", *CPU, "--set", "cluster.engine=plain")}
        oracle = hashes(scratch / "plain", *there, "--set", "cluster.engine=plain")
        rows = []
        for place in PLACES:
            found = hashes(scratch / place, *there, "--place", place)
            rows.append(shown({"run": place, "wrong": differing(oracle, found)}))
        found, killed = under_fire(scratch / "killed", *there)
        rows.append(shown({"run": killed, "wrong": differing(oracle, found)}))
        rings = of_rings(scratch, *there)
        kept = any(row["wrong"] for row in [*rows, *rings["runs"]]) or not all(oracle.values())
    finally:
        if kept:
            print(f"the runs and their logs are in {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    tables["device"] = oracle
    agree = [name for name, row in oracle.items() if row == tables["processor"][name]]
    print(f"jobs with the same bits on the processor: {', '.join(agree) or 'none'}")
    if not on_cpu:
        save(tables, rows, rings)
    if kept:
        sys.exit("the promise does not hold")


def save(
    tables: dict[str, dict[str, Any]], rows: list[dict[str, Any]], rings: dict[str, Any]
) -> None:
    """Save what was found on this GPU beside what was on others."""
    part = {
        "made_by": _common.made_by(),
        "numerics": next(row[1] for row in tables["device"].values() if row),
        "hashes": {name: row and row[0] for name, row in tables["device"].items()},
        "processor": {name: row and row[0] for name, row in tables["processor"].items()},
        "runs": rows,
        "rings": rings,
    }
    parts = _common.earlier("gpu_bits") | {gpus_here()[0].name: part}
    _common.save("gpu_bits", 1, {"parts": parts})


def of_rings(scratch: Path, *arguments: str) -> dict[str, Any]:
    """Hashes of rings from the plain loop, and who differs in runs without and with a loss."""
    plain = (*arguments, "--set", "cluster.engine=plain")
    oracle = hashes(scratch / "plain-rings", *plain, run=RINGS)
    found = hashes(scratch / "rings", *arguments, run=RINGS)
    rows = [shown({"run": "gavel-fifo", "wrong": differing(oracle, found)})]
    out = scratch / "killed-rings"
    process = started(out, RINGS, *arguments)
    trained(out, process)
    killed = struck(process, "rank", 1, random.Random(1))
    process.wait()
    wrong = differing(oracle, found_in(out))
    rows.append(shown({"run": f"gavel-fifo, {killed} ranks killed", "wrong": wrong}))
    return {"hashes": {name: row and row[0] for name, row in oracle.items()}, "runs": rows}


def hashes(out: Path, *arguments: str, run: Path = RUN) -> dict[str, Any]:
    """Train into ``out``; hash and class of every job."""
    begin = time.monotonic()
    done = _common.warren("run", str(run), "--out", str(out), *arguments)
    if done.returncode:
        print(done.stderr[-3000:], flush=True)
    print(f"{out.name}: {time.monotonic() - begin:.0f} s, exit {done.returncode}", flush=True)
    return found_in(out)


def found_in(out: Path) -> dict[str, Any]:
    """Hash and class of every job of a run; None where it has not finished."""
    found = {}
    for name, job in warren.load(out).jobs.items():
        sha256 = job.row["params_sha256"]
        found[name] = [sha256, job.row["numerics"]] if sha256 else None
        if not sha256:
            print(f"  {name}: {job.row.get('reason')}", flush=True)
    return found


def differing(oracle: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Jobs whose bits are not the oracle's."""
    return [name for name in oracle if oracle[name] != found[name]]


def under_fire(out: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Kill trainers, then the controller, and resume; hashes, and what was killed."""
    process = started(out, RUN, *arguments)
    trained(out, process)
    killed = struck(process, "trainer", KILLS, random.Random(1))
    if process.poll() is None:
        process.kill()
        process.wait()
        words = f"hare, {killed} trainers and the controller killed"
        _common.warren("run", "--resume", str(out))
    else:
        words = f"hare, {killed} trainers killed"
    return found_in(out), words


def started(out: Path, run: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Begin a run into ``out``."""
    command = [sys.executable, "-m", "warren", "run", str(run), "--out", str(out), *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def struck(process: subprocess.Popen[bytes], kind: str, times: int, draw: random.Random) -> int:
    """Kill a run's processes of a kind, one after another, while it lasts; how many were killed."""
    killed = 0
    for _ in range(times):
        mark = _processes.mark_of(process.pid) if process.poll() is None else ""
        victims = _processes.of_kind(_processes.marked(mark), kind) if mark else []
        if victims:
            os.kill(draw.choice(victims), signal.SIGKILL)
            killed += 1
        time.sleep(0.7)
    return killed


def trained(out: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until rounds have passed."""
    while process.poll() is None:
        rows = [len(path.read_text().splitlines()) for path in (out / "metrics").glob("*.csv")]
        if sum(rows) > 20:
            return
        time.sleep(0.02)


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row."""
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
