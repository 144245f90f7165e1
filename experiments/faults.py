"""Same bits under faults, same bits under every schedule, and a fault of an app that is caught.

*faults*: all example apps under hare on four devices, with one and with two servers a job. One
trainer, executor, server, zygote or the controller is killed at a drawn moment, five moments each:
one of them before anything trains, and of zygotes and controllers another one in the first second
of a resume. Devices are emulated and so compute a small part of the time: a strike waits until what
it takes down is at work (state R), and says what that was; a trainer or an executor has met a task
if one ran again. A run that ends by it is resumed; one that ends before its moment is made again,
and struck earlier.
*schedules*: four policies on 1, 2 and 4 devices, with look-ahead and without. Every job must finish
with the parameters of ``engine: plain``, and no more tasks may run again than promised.
*rings*: rings beside jobs with servers. A rank is killed at ten drawn moments, the others at two
each: the gang forms again, with the same bits.
*planted*: an app whose tasks depend on a counter of its process must be caught, and the tensor
named, when tasks run again.

``--part NAME`` makes one part and keeps the results of the others.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import _common
import _disturb
import yaml
from _disturb import Fault, Outcome
from _parts import ask, make_parts

SPINE: Final = Path(__file__).parent / "spine"
KINDS: Final = ("trainer", "executor", "server", "zygote", "controller")
MOMENTS: Final = 5
RING_MOMENTS: Final[Mapping[str, int]] = {
    "rank": 10, "executor": 2, "server": 2, "zygote": 2, "controller": 2
}  # fmt: skip
SERVERS: Final = (1, 2)
PLACES: Final = ("hare", "hare-published", "gavel-fifo", "srtf")
IN_FLIGHT: Final = 4
"""Tasks a device may have begun and not reported: one on COMP, the others on COMM."""
SEED: Final = 1
EARLIEST: Final = 0.1
"""Before this share of the training time no moment is drawn anew."""

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where something is wrong."""
    make = {name: rows_of(part) for name, part in MAKE.items()}
    parts = make_parts(
        "faults", ask(__doc__, list(make)), make, seed=SEED, stated={"moments": MOMENTS}
    )
    wrong = [row for part in parts.values() for row in part["rows"] if row["wrong"]]
    if wrong:
        sys.exit("\n".join(str(row) for row in wrong))


def rows_of(part: Callable[[Path], list[Row]]) -> Callable[[Path], dict[str, Any]]:
    """A part as it is saved."""
    return lambda scratch: {"rows": part(scratch)}


def under_faults(scratch: Path) -> list[Row]:
    """Kill something in run after run."""
    run = SPINE / "faults.yaml"
    oracle = plain(run, scratch)
    rows = []
    for servers in SERVERS:
        options = ["--set", f"scheduler.servers={servers}"]
        calm = scratch / f"calm-{servers}"
        found = _common.warren_json("run", str(run), "--out", str(calm), *options)
        train_s = found["makespan_s"] * time_scale(run)
        rows.append(show({"kind": "none", "servers": servers, "wrong": differing(oracle, calm)}))
        for kind in KINDS:
            for moment in range(MOMENTS):
                out = scratch / f"{kind}-{servers}-{moment}"
                fault = _disturb.drawn(
                    kind, moment, MOMENTS, SEED, servers, when=when(kind, moment)
                )
                fault, outcome = struck([str(run), *options], out, train_s, fault)
                row = row_of(oracle, out, fault, outcome)
                rows.append(show({"kind": kind, "servers": servers, **row}))
    return rows


def struck(arguments: list[str], out: Path, train_s: float, fault: Fault) -> tuple[Fault, Outcome]:
    """One run with a fault; where it ends before the moment comes, another with an earlier one."""
    outcome = _disturb.disturbed(arguments, out, train_s, fault)
    while not outcome.victim and not outcome.left and fault.fraction > EARLIEST:
        shutil.rmtree(out)
        fault = replace(fault, fraction=0.9 * fault.fraction)
        outcome = _disturb.disturbed(arguments, out, train_s, fault)
    return fault, outcome


def when(kind: str, moment: int) -> _disturb.When:
    """In the start at the first moment; at the last, where a run may end by it, in a resume."""
    if moment == 0:
        return "start"
    last = moment == MOMENTS - 1 and kind in _disturb.RESUMED
    return "resume" if last else "training"


def rings_under_faults(scratch: Path) -> list[Row]:
    """The same where jobs are rings."""
    run = SPINE / "rings.yaml"
    oracle = plain(run, scratch)
    calm = scratch / "calm"
    found = _common.warren_json("run", str(run), "--out", str(calm))
    train_s = found["makespan_s"] * time_scale(run)
    rows = [show({"kind": "none", "wrong": differing(oracle, calm) + unchecked(calm)})]
    for kind, moments in RING_MOMENTS.items():
        for moment in range(moments):
            out = scratch / f"{kind}-{moment}"
            fault = _disturb.drawn(kind, moment, moments, SEED)
            fault, outcome = struck([str(run)], out, train_s, fault)
            row = row_of(oracle, out, fault, outcome, SPINE / "rings-jobs.yaml")
            rows.append(show({"kind": kind, **row}))
    return rows


def time_scale(run: Path) -> float:
    """Real seconds of one cluster second."""
    return float(yaml.safe_load(run.read_text())["cluster"]["emulate"]["time_scale"])


def row_of(
    oracle: Mapping[str, str],
    out: Path,
    fault: Fault,
    outcome: Outcome,
    jobs: Path = SPINE / "faults-jobs.yaml",
) -> Row:
    """One disturbed run; ``wrong`` is empty if all is well."""
    row: Row = {"when": fault.when, "fraction": round(fault.fraction, 3)}
    row |= {"victim": outcome.victim, "met": outcome.met}
    wrong = [f"still alive: {name}" for name in outcome.left]
    if not outcome.victim:
        wrong.append("the run ended before the moment came")
    if outcome.exit_code:
        wrong.append(f"exit code {outcome.exit_code}: {outcome.stderr[-500:]}")
    else:
        found = _disturb.summary(out)
        keys = ("redone_tasks", "rollbacks", "resumed", "tasks")
        row |= {key: found[key] for key in keys}
        if fault.kind in ("trainer", "executor") and fault.when == "training":
            row["met"] = _disturb.TASK if found["redone_tasks"] else _disturb.NOTHING
        losses = 2 if fault.when == "resume" else 1
        row["allowed"] = losses * allowed(fault.kind, outcome.victim, jobs)
        if row["redone_tasks"] > row["allowed"]:
            wrong.append(f"{row['redone_tasks']} tasks ran again, {row['allowed']} are allowed")
        wrong += differing(oracle, out) + unchecked(out)
    return row | {"wrong": wrong}


def allowed(kind: str, victim: str, file: Path) -> int:
    """Most tasks that may run again: those in flight, or one checkpoint interval and its round."""
    jobs = yaml.safe_load(file.read_text())["jobs"]
    rings = [job for job in jobs if job.get("sync") == "ring"]
    if kind == "trainer":
        return 1
    if kind == "executor":  # the ring that was on its device goes back
        return IN_FLIGHT + max((_interval(job) for job in rings), default=0)
    lost = [jobs[_disturb.job_of(victim)]] if kind in ("server", "rank") else jobs
    return sum(_interval(job) for job in lost)


def _interval(job: Row) -> int:
    return int((job["checkpoint"]["every"] + 1) * job["scale"])


def under_schedules(scratch: Path) -> list[Row]:
    """Every policy on every number of devices, with bytes fetched ahead and not."""
    oracle = plain(SPINE / "schedules.yaml", scratch)
    rows = []
    for place in PLACES:
        for devices in (1, 2, 4):
            for ahead in (0, 2):
                out = scratch / f"{place}-{devices}-{ahead}"
                cluster = yaml.safe_load((SPINE / f"bits-{devices}.yaml").read_text())
                cluster["local"] = {"look_ahead": ahead}
                file = scratch / f"cluster-{devices}-{ahead}.yaml"
                file.write_text(yaml.safe_dump(cluster))
                options = ["--place", place, "--out", str(out), "--set", f"cluster={file}"]
                _common.warren_json("run", str(SPINE / "schedules.yaml"), *options)
                row = {"place": place, "devices": devices, "look_ahead": ahead}
                rows.append(show(row | {"wrong": differing(oracle, out) + unchecked(out)}))
    return rows


def planted(scratch: Path) -> list[Row]:
    """Tasks of an app that is not deterministic run again after a loss."""
    run, rows = SPINE / "planted.yaml", []
    good = plain(run, scratch)["digits"]
    for kind in ("server", "controller"):
        out = scratch / kind
        fault = Fault(kind=kind, fraction=0.3, draw=0)
        outcome = _disturb.disturbed([str(run)], out, 10.0, fault)
        reason = "app is not deterministic"
        line = next((one for one in outcome.stderr.splitlines() if reason in one), "")
        wrong = [] if "'2.bias'" in line else [f"not caught: {outcome.stderr[-500:]}"]
        wrong += [f"still alive: {name}" for name in outcome.left]
        if _disturb.hashes(out) != {"digits": good}:
            wrong.append("the other job was disturbed")
        rows.append(show({"kind": kind, "victim": outcome.victim, "line": line, "wrong": wrong}))
    return rows


MAKE: Final[dict[str, Callable[[Path], list[Row]]]] = {
    "faults": under_faults,
    "schedules": under_schedules,
    "rings": rings_under_faults,
    "planted": planted,
}


def plain(run: Path, scratch: Path) -> dict[str, str]:
    """What the jobs compute, by definition."""
    out = scratch / f"plain-{run.stem}"
    options = ["--set", "cluster.engine=plain"]
    _common.warren_json("run", str(run), "--out", str(out), *options)
    return _disturb.hashes(out)


def differing(oracle: Mapping[str, str], out: Path) -> list[str]:
    """Jobs that did not finish, or with other parameters."""
    found = _disturb.hashes(out)
    return [
        f"{name}: {'other parameters' if name in found else 'not finished'}"
        for name in oracle
        if found.get(name) != oracle[name]
    ]


def unchecked(out: Path) -> list[str]:
    """What ``warren report --check`` finds wrong."""
    done = _common.warren("report", str(out), "--check")
    return [f"report --check: {done.stdout}{done.stderr}"] if done.returncode else []


def show(row: Row) -> Row:
    """Print one line; the row."""
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    main()
