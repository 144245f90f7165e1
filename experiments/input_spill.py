"""Eight jobs whose data are 2.5 times the memory of their host (Harmony, 4.4.8, Figure 4.19).

Two jobs each of mlr, lasso, nmf and lda of ``examples/apps``, on drawn data of two sizes, train on
one host of two devices under round robin, so that each has a trainer on both. Each trainer has its
own copy of the data; ``data_bytes`` counts these copies and not those of servers, which let go of
theirs. Data of lda are the numbers of its documents, so they stay in memory.

Runs: all in memory; a fixed share alpha of the data on disk, with a budget that never binds; and
alpha by hill climbing within ``BUDGET``. All processes of a run are in one cgroup of their own
(version 1, as root): ``peak_bytes`` is the most of ``memory.usage_in_bytes``, which counts the page
cache too, read every 50 ms, ``kernel_peak_bytes`` the kernel's own maximum. Hashes of parameters
must be those of the run in memory.

``--only NAME`` repeats one run: of each the median makespan and the largest peak are kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import _common
import _disturb
import yaml

BUDGET: Final = 2_200_000_000
NEVER_BINDS: Final = 100 * BUDGET
ROUNDS: Final = 400
BATCH: Final = 256
WIDTH: Final = 1024
CGROUP: Final = Path(f"/sys/fs/cgroup/memory/warren-input-spill-{os.getpid()}")
APPS: Final = _common.ROOT / "examples"
RATIOS: Final = (0.2, 0.4, 0.6, 0.8, 0.9, 0.92, 0.95, 1.0)
"""Around 0.9 the memory begins to suffice: shares on both sides of that."""
SAMPLED_S: Final = 0.05
ROWS: Final = {"mlr": (102_000, 83_000), "lasso": (63_000, 53_500), "nmf": (205_000, 165_000)}
"""Rows of ``WIDTH`` numbers of 4 bytes. While they are drawn mlr takes twice that, lasso thrice."""
COPIES: Final = 2
"""Trainers of a job."""

Row = dict[str, Any]


def main() -> None:
    """Make all runs, print and save them; stop with an error where bits or the budget differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="this run")
    only = parser.parse_args().only
    wanted: dict[str, Row] = {"in memory": {}}
    for ratio in RATIOS:
        wanted[f"alpha {ratio}"] = {"spill": True, "disk_ratio": ratio}
    wanted["adaptive"] = {"spill": True}
    if only and only not in wanted:
        parser.error(f"--only {only}: one of {', '.join(wanted)}")
    CGROUP.mkdir()
    try:
        with tempfile.TemporaryDirectory(prefix="warren-spill-") as scratch:
            for name in [only] if only else list(wanted):
                save(row_of(Path(scratch), name, wanted[name]), list(wanted))
    finally:
        remove_cgroup(CGROUP)


def save(row: Row, order: list[str]) -> None:
    """Put a row into the results; stop with an error where bits or the budget differ."""
    path = _common.RESULTS / "input_spill.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    found = {one["run"]: one for one in rows}
    name = row["run"]
    found[name] = merged(found.get(name), row) | {"made_by": _common.made_by()}
    rows = sorted(found.values(), key=lambda one: order.index(one["run"]))
    same = all(one["sha256"] == rows[0]["sha256"] for one in rows)
    within = "adaptive" not in found or found["adaptive"]["kernel_peak_bytes"] <= BUDGET
    data_bytes = COPIES * WIDTH * 4 * sum(map(sum, ROWS.values()))
    content = {"budget_bytes": BUDGET, "data_bytes": data_bytes, "same_bits": same, "rows": rows}
    _common.save("input_spill", 1, content)
    if not (same and within and len(row["sha256"]) == len(jobs())):
        sys.exit("a job did not finish, has other bits, or the budget was exceeded")


def merged(before: Row | None, row: Row) -> Row:
    """Return the row of all repeats of a run: the median of makespans, the most of memory."""
    earlier = before or {"makespans_s": [], "peak_bytes": 0, "kernel_peak_bytes": 0}
    known = earlier.get("makespans_s") or [earlier["makespan_s"]] if before else []
    makespans_s = [*known, row["makespan_s"]]
    peaks = {key: max(earlier[key], row[key]) for key in ("peak_bytes", "kernel_peak_bytes")}
    return row | peaks | {"makespans_s": makespans_s, "makespan_s": median(makespans_s)}


def jobs() -> list[Row]:
    """The eight jobs."""
    found = []
    for app, sizes in ROWS.items():
        for at, rows in enumerate(sizes):
            width = "columns" if app == "nmf" else "features"
            params = {"data": "synthetic", "rows": rows, width: WIDTH, "seed": at}
            params |= {"lr": 0.02} if app == "lasso" else {}
            found.append(job(f"{app}-{at}", ROUNDS, BATCH, params))
    for at, documents in enumerate((2000, 1000)):
        params = {"documents": documents, "length": 60, "seed": at, "batch": 50}
        found.append(job(f"lda-{at}", ROUNDS // 8, 50, params))
    return found


def job(name: str, rounds: int, batch: int, params: Row) -> Row:
    """One job of one task a round."""
    app = name.partition("-")[0]
    path = f"{APPS / 'apps' / app}.py:{app.capitalize()}"
    task = {"model": "small", "scale": 1, "rounds": rounds, "batch": batch}
    return {"name": name, "app": path, **task, "params": params}


def row_of(scratch: Path, name: str, local: Row) -> Row:
    """Make one run; what it took of memory and time, and what its jobs have trained."""
    host: Row = {"name": "h", "devices": {"cpu": 2}}
    if local:
        host["memory"] = BUDGET if name == "adaptive" else NEVER_BINDS
    run = {
        "format": 1,
        "cluster": {"hosts": [host], "local": local},
        "workload": {"jobs": jobs()},
        "scheduler": {"place": f"{APPS / 'policies/round_robin.py'}:RoundRobin"},
        "profiles": {"small": {"model": "1 MB", "comp": {"cpu": "2 ms"}}},
        "verify": 0,
    }
    out = scratch / name.replace(" ", "-")
    file = out.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(run))
    began_s = time.monotonic()
    peak_bytes, samples = sampled(
        [sys.executable, "-m", "warren", "run", str(file), "--out", str(out), "--no-history"]
    )
    row: Row = {
        "run": name,
        "makespan_s": makespan_s(out),
        "wall_s": round(time.monotonic() - began_s, 1),
        "peak_bytes": peak_bytes,
        "kernel_peak_bytes": int((CGROUP / "memory.max_usage_in_bytes").read_text()),
        "samples": samples,
        "sha256": _disturb.hashes(out),
    }
    print("  ".join(f"{key} {value}" for key, value in row.items() if key != "sha256"), flush=True)
    return row


def sampled(command: list[str]) -> tuple[int, int]:
    """Run a command in the cgroup: the most memory that was seen, and the number of looks."""
    (CGROUP / "memory.force_empty").write_text("0")
    (CGROUP / "memory.max_usage_in_bytes").write_text("0")
    # A shell that moves itself into the cgroup, and becomes the command.
    shell = ["/bin/sh", "-c", f'echo 0 > {CGROUP}/cgroup.procs && exec "$@"', "sh", *command]
    process = subprocess.Popen(shell, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak_bytes = samples = 0
    while process.poll() is None:
        used = int((CGROUP / "memory.usage_in_bytes").read_text())
        peak_bytes, samples = max(peak_bytes, used), samples + 1
        time.sleep(SAMPLED_S)
    return peak_bytes, samples


def makespan_s(out: Path) -> float:
    """When the last job had ended, in seconds from time zero."""
    with (out / "jobs.csv").open() as file:
        return max(float(row["finish_s"]) for row in csv.DictReader(file))


def remove_cgroup(cgroup: Path) -> None:
    """Remove a cgroup once its last process has gone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            cgroup.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    main()
