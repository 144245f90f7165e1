"""Eight kinds of neighbors beside five correct jobs: whose bits do they change, whom do they end?

Each neighbor of ``spine/neighbours-jobs.yaml`` changes, or ends, the process that its tasks run
in: kernels, denormal numbers, the default dtype, gradients, folder and environment, a patched
function, a thread that draws, and an end by a timer or by its limit of memory. It trains
beside the five correct jobs on two devices, all of one user, and jobs take turns at each round, so
that each device has tasks of every job after the neighbor's first one (they are counted). The
correct jobs must finish with the parameters of ``engine: plain``.

``--only NAME`` takes one neighbor and saves nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import _common
import _disturb
import pyarrow.parquet as parquet
import yaml

import warren

SPINE: Final = Path(__file__).resolve().parent / "spine"
APPS: Final = SPINE.parents[1] / "tests" / "apps"
CORRECT: Final = "correct_apps.py"

Row = dict[str, Any]


def main() -> None:
    """Make a run for each neighbor, save, and stop with an error where one did harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="this neighbour")
    only = parser.parse_args().only
    jobs = yaml.safe_load((SPINE / "neighbours-jobs.yaml").read_text())["jobs"]
    correct = [job["name"] for job in jobs if CORRECT in job["app"]]
    kinds = [job["name"] for job in jobs if job["name"] not in correct]
    if only and only not in kinds:
        parser.error(f"--only {only}: one of {', '.join(kinds)}")
    scratch = Path(tempfile.mkdtemp(prefix="warren-neighbours-"))
    try:
        with contextlib.chdir(scratch):  # one job reads files that the working folder leads to
            write_samples(scratch / "samples")
            oracle = hashes(scratch / "plain", correct, "--set", "cluster.engine=plain")
            rows = [row_of(scratch, oracle, kind) for kind in ([only] if only else kinds)]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    held = sum(end == "same bits" for row in rows for end in row["correct"].values())
    pairs = len(rows) * len(correct)
    print(f"{held} of {pairs} pairs: the correct job finished with its bits")
    if not only:
        _common.save("neighbours", 1, {"pairs": pairs, "held": held, "rows": rows})
    if held < pairs or any(not least for row in rows for least in row["tasks_after"].values()):
        sys.exit("a neighbour did harm, or did not meet a job on a device")


def write_samples(folder: Path) -> None:
    """Write the files that the job ``scheduled`` reads."""
    spec = importlib.util.spec_from_file_location("correct_apps", APPS / CORRECT)
    assert spec is not None
    assert spec.loader is not None
    apps = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(apps)
    apps.write_samples(folder)


def hashes(out: Path, names: Collection[str], *options: str) -> dict[str, str]:
    """Train these jobs into ``out``; the hash of each that finished."""
    run = yaml.safe_load((SPINE / "neighbours.yaml").read_text())
    jobs = yaml.safe_load((SPINE / "neighbours-jobs.yaml").read_text())["jobs"]
    chosen = [job for job in jobs if job["name"] in names]
    run["workload"] = {"jobs": [job | {"app": absolute(job["app"])} for job in chosen]}
    run["scheduler"]["place"] = absolute(run["scheduler"]["place"])
    file = out.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(run))
    done = _common.warren("run", str(file), "--out", str(out), "--no-history", *options)
    if not (out / "jobs.csv").exists():
        sys.exit(done.stderr)
    return _disturb.hashes(out)


def absolute(named: str) -> str:
    """``FILE.py:Class`` from the folder ``spine`` as it can be used from any."""
    file, _, name = named.rpartition(":")
    return f"{(SPINE / file).resolve()}:{name}"


def row_of(scratch: Path, oracle: dict[str, str], kind: str) -> Row:
    """What became of the correct jobs beside one neighbor."""
    out = scratch / kind
    found = hashes(out, [kind, *oracle])
    ends = {}
    for name, good in oracle.items():
        bits = "same bits" if found.get(name) == good else "other bits"
        ends[name] = bits if name in found else "failed"
    row: Row = {"neighbour": kind, "correct": ends, "tasks_after": tasks_after(out, kind)}
    row["neighbour_ended"] = str(warren.load(out).jobs[kind].row["status"])
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def tasks_after(out: Path, kind: str) -> dict[str, int]:
    """Tasks of correct jobs after the neighbor's first one, by device that it was on."""
    rows = parquet.read_table(out / "timeline.parquet").to_pylist()
    first: dict[str, float] = {}
    for row in rows:
        if row["job"] == kind:
            first[row["device"]] = min(row["start_s"], first.get(row["device"], row["start_s"]))
    return {
        device: sum(
            row["job"] != kind and row["device"] == device and row["start_s"] > begun
            for row in rows
        )
        for device, begun in sorted(first.items())
    }


if __name__ == "__main__":
    main()
