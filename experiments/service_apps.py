"""Apps in the service keep the bits of the plain loop while other jobs come, go and are cancelled.

A service on this machine gets 100 jobs that train small apps (``warren submit --app``), 20 of five
kinds each, with 20 seeds, and beside them commands of other users of the devices, half of which are
cancelled. Meanwhile processes are killed by SIGKILL at drawn moments: the daemon, which is started
again, its agent, a job's runner, or the run itself. A job that was hit is started again and goes on
from its checkpoints. Each job must end with the parameters that the plain loop has.

    python experiments/service_apps.py --jobs 20    # fewer jobs
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import _common

import warren
from warren.serve.client.client import Client

SEED: Final = 1
JOBS: Final = 100
APPS: Final = _common.ROOT / "examples/apps"
KINDS: Final[Mapping[str, dict[str, Any]]] = {
    "mlr": {"app": f"{APPS}/mlr.py:Mlr", "batch": 40, "params": {"data": "synthetic", "rows": 200}},
    "lasso": {
        "app": f"{APPS}/lasso.py:Lasso",
        "batch": 40,
        "params": {"data": "synthetic", "rows": 200},
    },
    "nmf": {"app": f"{APPS}/nmf.py:Nmf", "batch": 20, "params": {"data": "synthetic"}},
    "digits": {"app": f"{APPS}/digits.py:Digits", "batch": 32},
    "cancer": {"app": f"{APPS}/cancer.py:Cancer", "batch": 32},
}
ROUNDS: Final = 150
RETRIES: Final = 20
EVERY_S: Final = (6.0, 18.0)
"""Least and longest time between two kills, in seconds."""
VICTIMS: Final = ("daemon", "agent", "runner", "run")


def main() -> None:
    """Run, compare, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=JOBS)
    count = parser.parse_args().jobs
    scratch = Path(tempfile.mkdtemp(prefix="warren-service-apps-"))
    try:
        names = [f"{list(KINDS)[at % len(KINDS)]}-{at // len(KINDS)}" for at in range(count)]
        plain = _plain(scratch, names)
        found = _served(scratch, names)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rows = [{"job": name, "same": found["hashes"][name] == plain[name]} for name in names]
    same = sum(row["same"] for row in rows)
    print(f"{same} of {count} jobs have the bits of the plain loop; {found['kills']}")
    kept = {"jobs": count, "same": same, "rows": rows, **{k: found[k] for k in ("kills", "states")}}
    _common.save("service_apps", SEED, kept)
    if same < count:
        sys.exit("a job has other bits, or has not ended")


def _run(name: str) -> dict[str, Any]:
    """The run of a job: one app, its seed by the number in its name."""
    kind, _, number = name.partition("-")
    job = {
        "name": name,
        "scale": 2,
        "rounds": ROUNDS,
        "seed": int(number),
        "checkpoint": {"every": 10},
        **KINDS[kind],
    }
    return {
        "format": 1,
        "workload": [job],
        "scheduler": {"place": "srtf"},
        "seed": 1,
        "cluster": {"hosts": [{"name": "here", "devices": {"CPU": 1}}]},
    }


def _plain(scratch: Path, names: list[str]) -> dict[str, str]:
    """The hash of each job's parameters after the plain loop; all jobs are in one run."""
    run = _run(names[0])
    run["workload"] = [_run(name)["workload"][0] for name in names]
    (scratch / "plain.yaml").write_text(json.dumps(run))
    out = scratch / "plain"
    command = ["run", str(scratch / "plain.yaml"), "--set", "cluster.engine=plain"]
    _common.warren_json(*command, "--out", str(out))
    return {name: str(job.row["params_sha256"]) for name, job in warren.load(out).jobs.items()}


def _served(scratch: Path, names: list[str]) -> dict[str, Any]:
    """Hand all jobs to a service, strike it until they have ended, and read what they trained."""
    draw = random.Random(SEED)
    home, kills = scratch / "service", Counter[str]()
    daemon = _daemon(home)
    try:
        jobs = {}
        with Client(str(home / "socket")) as service:
            for name in names:
                file = scratch / f"{name}.yaml"
                file.write_text(json.dumps(_run(name)))
                command = [sys.executable, "-m", "warren.serve.app_run", str(file), "--no-history"]
                fields: dict[str, Any] = {"folder": str(scratch), "retries": RETRIES, "name": name}
                jobs[name] = service.submit(command, **fields)
                other = service.submit(["sleep", "2"], name="other", priority=1)
                if draw.random() < 0.5:
                    service.cancel(other)
        while True:
            rows = _rows(home)
            waiting = [row for row in rows if row["state"] in ("queued", "running", "held")]
            if rows and not waiting:
                break
            time.sleep(draw.uniform(*EVERY_S))
            victim = draw.choice(VICTIMS)
            kills[victim] += _struck(victim, home, daemon, draw)
            if daemon.poll() is not None:
                daemon = _daemon(home)
            print(f"{len(waiting)} jobs left, killed {dict(kills)}", flush=True)
    finally:
        daemon.terminate()
        daemon.wait(60)
    for name, job in jobs.items():
        if next(row["state"] for row in rows if row["id"] == job) != "finished":
            log = sorted(home.glob(f"agent/attempts/{job}.*/output"))[-1].read_text()
            print(f"{name} did not finish: {log[-400:]}", flush=True)
    hashes = {name: _trained(home / f"agent/checkpoints/{job}/run") for name, job in jobs.items()}
    states = Counter(row["state"] for row in rows)
    return {"hashes": hashes, "kills": dict(kills), "states": dict(states)}


def _daemon(home: Path) -> subprocess.Popen[bytes]:
    """Start a service, and wait for its socket."""
    command = [sys.executable, "-m", "warren", "serve", "--home", str(home)]
    found = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while _rows(home, missing=None) is None:
        if found.poll() is not None:
            sys.exit("the service does not start")
        time.sleep(0.1)
    return found


def _rows(home: Path, missing: Any = ()) -> Any:
    """All jobs of the service; ``missing`` where it does not answer."""
    command = [sys.executable, "-m", "warren", "queue", "--all", "--json"]
    done = subprocess.run(
        [*command, "--server", str(home / "socket")], capture_output=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else missing


def _struck(victim: str, home: Path, daemon: subprocess.Popen[bytes], draw: random.Random) -> int:
    """Kill a process by SIGKILL; return how many were killed."""
    forked = _with("warren.serve.agent", str(home))
    runners = [pid for pid in forked if _name(pid).startswith("warren ")]
    pids = {
        "daemon": [daemon.pid],
        "agent": [pid for pid in forked if pid not in runners],
        "runner": runners,
        "run": _with("warren", "run", str(home)),
    }[victim]
    if not pids:
        return 0
    os.kill(draw.choice(pids), signal.SIGKILL)
    if victim == "daemon":
        daemon.wait()
    return 1


def _name(pid: int) -> str:
    """The name of a process, which a runner sets; empty if it has gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def _with(*words: str) -> list[int]:
    """The processes whose command line has all of these words."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in found if all(word in _line(pid) for word in words)]


def _line(pid: int) -> str:
    """The command line of a process; empty if it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _trained(folder: Path) -> str | None:
    """The hash of what a job has trained; None where it has not ended."""
    try:
        (job,) = warren.load(folder).jobs.values()
    except Exception as error:
        print(f"{folder}: {error}", flush=True)
        return None
    return str(job.row["params_sha256"])


if __name__ == "__main__":
    main()
