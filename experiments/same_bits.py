"""Same job, any schedule, same bits: every example app, three policies, 1, 2 and 4 devices.

Trains the jobs of ``spine/bits-jobs.yaml`` with the plain engine, then under every policy on
every number of devices, and compares the SHA-256 of the final parameters. Another seed must give
other bits, and the loss must fall.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import _common

import warren

PLACES = ("gavel-fifo", "srtf", "hare")
DEVICES = (1, 2, 4)
RUN = Path(__file__).parent / "spine" / "bits.yaml"


def main() -> None:
    """Run the matrix and write its results."""
    scratch = Path(tempfile.mkdtemp(prefix="warren-bits-"))
    try:
        oracle = hashes(scratch / "plain", "--set", "cluster.engine=plain")
        other = hashes(scratch / "other", "--set", "cluster.engine=plain", "--set", "seed=2")
        rows = [[place, count, differing(oracle, scratch, place, count)] for place in PLACES
                for count in DEVICES]  # fmt: skip
        fell = losses_fell(scratch / "plain")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    same_seed = [name for name in oracle if oracle[name] == other[name]]
    _common.table([["place", "devices", "jobs that differ from plain"], *rows])
    print(f"jobs with the same bits under another seed: {len(same_seed)} of {len(oracle)}")
    print(f"jobs whose loss fell: {sum(fell.values())} of {len(fell)}")
    _common.save(
        "same_bits",
        1,
        {
            "jobs": oracle,
            "differing": [
                {"place": place, "devices": count, "jobs": bad} for place, count, bad in rows
            ],
            "unchanged_by_another_seed": same_seed,
            "loss_fell": fell,
        },
    )
    if same_seed or not all(fell.values()) or any(bad for _, _, bad in rows):
        sys.exit("the promise does not hold")


def hashes(out: Path, *arguments: str) -> dict[str, str]:
    """Train into ``out``; the hash of every job."""
    _common.warren_json("run", str(RUN), "--out", str(out), *arguments)
    return {name: str(job.row["params_sha256"]) for name, job in warren.load(out).jobs.items()}


def differing(oracle: dict[str, str], scratch: Path, place: str, count: int) -> list[str]:
    """Jobs whose bits under a policy on ``count`` devices are not the oracle's."""
    print(f"{place} on {count} device(s)", flush=True)
    cluster = Path(__file__).parent / "spine" / f"bits-{count}.yaml"
    found = hashes(
        scratch / f"{place}-{count}", "--place", place, "--set", f"cluster={cluster.resolve()}"
    )
    return [name for name in oracle if oracle[name] != found[name]]


def losses_fell(folder: Path) -> dict[str, bool]:
    """For each job whether the mean of its last losses is below that of its first."""
    result = {}
    for path in sorted((folder / "metrics").glob("*.csv")):
        losses = [float(line.split(",")[2]) for line in path.read_text().splitlines()[1:]]
        part = max(1, len(losses) // 5)
        result[path.stem] = sum(losses[-part:]) < sum(losses[:part])
    return result


if __name__ == "__main__":
    main()
