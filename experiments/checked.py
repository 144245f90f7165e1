"""Every policy on every kind of workload: simulated, exported, and checked from its files alone.

Each case is a run file with what is set there. ``warren simulate --out DIR`` must finish every job
and ``warren report DIR --check`` must find nothing; a case that a policy refuses is counted with
its reason. The cases cover generated, hand-written and traced jobs, arrivals and none, grains,
synchronization that queues and not, hidden noise, copies of late tasks, measured overheads, types
that a job does not fit, one device, and jobs of more tasks than devices. All runs share a process.

``checks_of`` is what the tests call, on cases of their own.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import _common

from warren.cli.main import call
from warren.policy.registry import POLICIES

SPINE: Final = Path(__file__).parent / "spine"
HARE: Final = Path(__file__).parent / "hare" / "mix.yaml"
QUICKSTART: Final = _common.ROOT / "examples" / "quickstart" / "run.yaml"
BURSTS: Final = _common.ROOT / "examples" / "traces" / "bursts.csv"


@dataclass(frozen=True, slots=True)
class Case:
    """A run file and what is set there; ``public`` if it needs public data."""

    name: str
    file: Path
    sets: Sequence[str] = ()
    public: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """Exit code, JSON and lines on standard error of a command."""

    code: int
    values: Mapping[str, Any]
    said: Sequence[str]


REFUSED: Final = 2
SMALL: Final = ("workload.jobs=24", "cluster.hosts.devices=12", "workload.rounds_factor=0.02")
NOISE: Final = "truth={task_cv: 0.3, job_cv: 0.2, seed: 5}"
OVERHEADS: Final = (
    "cluster.overheads={format: 1, constants: {cores: 2, dispatch: 2 ms, task_cpu: 4 ms, "
    "round_cpu: 3 ms, task_cpu_rate: 2.5 GB/s, round_cpu_rate: 1 GB/s, slowdown: 1.3}}"
)
LANE: Final = "cluster.network.model=lane"
PHILLY: Final = ("workload.trace.limit=150", "cluster.hosts=[{name: n, devices: {GPU: 12}}]")
GAVEL: Final = ("workload.jobs=60", "cluster.hosts.devices=12")

CASES: Final = (
    Case("hare-mix, all at once", HARE, SMALL),
    Case("hare-mix, arrivals", HARE, (*SMALL, "workload.load=1")),
    Case("hare-mix, arrivals, lane", HARE, (*SMALL, "workload.load=1", LANE)),
    Case("hare-mix, grain 4 rounds", HARE, (*SMALL, "workload.load=1", "grain=4 rounds")),
    Case("hare-mix, grain 2 s, lane", HARE, (*SMALL, "workload.load=1", "grain=2 s", LANE)),
    Case("hare-mix, noise", HARE, (*SMALL, "workload.load=1", NOISE)),
    Case("hare-mix, noise, grain, lane", HARE, (*SMALL, NOISE, "grain=3 rounds", LANE)),
    Case("hare-mix, noise, copies", HARE, (*SMALL, NOISE, "scheduler.copies_after=1.5")),
    Case("hare-mix, overheads", HARE, (*SMALL, "workload.load=1", OVERHEADS)),
    Case("hare-mix, overheads, lane, noise", HARE, (*SMALL, OVERHEADS, LANE, NOISE)),
    Case("hare-mix, one device", HARE, (*SMALL, "cluster.hosts.devices=1")),
    Case("hare-mix, wide jobs", HARE, (*SMALL, "workload.scales=[16, 5]",
                                       "workload.rounds_factor=0.005")),
    Case("hare-mix, batch 2, slow network", HARE, (*SMALL, "workload.batch_factor=2",
                                                   "cluster.hosts.nic=1 Gbps")),
    Case("hare-mix, a type too small", HARE, (
        *SMALL, "cluster.hosts.mix={V100: 1, T4: 1}",
        "cluster.device_types={V100: {memory: 16 GB}, T4: {memory: 4 GB}}")),
    Case("quickstart", QUICKSTART),
    Case("bursts", QUICKSTART, (
        f"workload={{trace: {{path: {BURSTS}}}}}", "grain=10 min")),
    Case("gavel-mix", SPINE / "gavel-mix.yaml", (*GAVEL, "workload.gap=400 s"), True),
    Case("gavel-mix, gang", SPINE / "gavel-mix.yaml", (
        *GAVEL, "workload.gap=400 s", "workload.gang=true", "grain=1 h"), True),
    Case("gavel-mix, overloaded, lane", SPINE / "gavel-mix.yaml", (
        *GAVEL, "workload.gap=40 s", LANE), True),
    Case("philly, 150 jobs", SPINE / "philly.yaml", PHILLY, True),
    Case("philly, 150 jobs, grain 1", SPINE / "philly.yaml", (
        *PHILLY, "grain=1", "workload.trace.round_s=600 s"), True),
    Case("philly, wide, grain 6 h", SPINE / "philly-2500.yaml", (
        "workload.trace.limit=1000", "cluster.hosts=[{name: n, devices: {GPU: 24}}]"), True),
)  # fmt: skip


def main() -> None:
    """Run all cases, save, and stop with an error where one was not whole."""
    rows = []
    scratch = Path(tempfile.mkdtemp(prefix="warren-checked-"))
    try:
        for case in CASES:
            if case.public and not _common.DATA.is_dir():
                print(f"{case.name} skipped: no traces at {_common.DATA} (set WARREN_DATA)")
                continue
            found = checks_of(case, scratch)
            rows += found
            done = [row for row in found if "refused" not in row]
            print(
                f"{case.name}: {len(done)} policies, {len(found) - len(done)} refuse it; "
                f"{done[0]['tasks']} tasks, {sum(len(row['faults']) for row in done)} faults",
                flush=True,
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _common.save("checked", 1, {"rows": rows})
    if bad := [row for row in rows if not whole(row)]:
        sys.exit("\n".join(map(str, bad)))


def whole(row: Mapping[str, Any]) -> bool:
    """Refused, or every job done and nothing found."""
    return "refused" in row or (not row["faults"] and row["finished"] == row["jobs"])


def checks_of(case: Case, scratch: Path) -> list[dict[str, Any]]:
    """One row a policy: what ran, and what the check of the folder found."""
    rows = []
    words = [word for one in case.sets for word in ("--set", one)]
    for place in sorted(POLICIES):
        row: dict[str, Any] = {"case": case.name, "place": place}
        out = scratch / f"{case.name} {place}"
        told = called("simulate", str(case.file), "--place", place, "--out", str(out), *words)
        if told.code == REFUSED:
            rows.append(row | {"refused": told.said[-1]})
            continue
        if told.code:
            sys.exit(f"{case.name}, {place}: {told.said}")
        found = called("report", str(out), "--check").values["faults"]
        shutil.rmtree(out)
        jobs, finished, tasks = (told.values[key] for key in ("jobs", "finished", "tasks"))
        rows.append(row | {"jobs": jobs, "finished": finished, "tasks": tasks, "faults": found})
    return rows


def called(*arguments: str) -> Told:
    """Exit code of a command, and what it printed."""
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = call([*arguments, "--json"])
    return Told(code, json.loads(printed.getvalue() or "{}"), said.getvalue().splitlines())


if __name__ == "__main__":
    main()
