"""Does the simulator predict the live run? Three cases, under gavel-fifo and hare, three runs each.

(a) ``hare/testbed15.yaml``, nominal pads. A padded task lasts what the profile says, live as in a
simulation: times are computed and not measured, so what is compared is decisions. Those of the
live run must be those of the simulation, task by task; a policy that plans all beforehand, as hare
does, has the same in both worlds anyway. Two controls must be off: live runs in which one device
type is 20 % slower, and a simulator that leaves out synchronization. (b) The same with
pads drawn from measured iteration times that only the live side sees: mean absolute JCT error at
most 5 %. (c) Nothing emulated, costs measured beforehand: at most 10 %. *c*:
``hare/testbed2.yaml``, written by hand; *c1*, *c2*: drawn by the seeds 1 and 2 and not selected
(``hare/make_testbed2.py``).

The simulator decides for itself, from inputs that were committed before. For (c) the jobs are
measured again before each run, and it is predicted before it begins: a machine's own speed may move
by a fifth within minutes. So the run is also simulated afterwards, given its own times of tasks and
its decisions. A run of (a) or (b) in which more than 1 % of the tasks overran their pads is void:
it is kept apart and made again, twice at most. *rounds*: all rounds of (c) that were committed,
good or bad, which are shown; it is made again with every other part.

``--part a`` (or another) makes one part and keeps the results of the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import _common
import _replay
import numpy as np
import yaml
from _fidelity_decisions import differing
from _fidelity_judge import OVERRUNS_MAX, faults, is_void, show
from _fidelity_rounds import all_rounds
from _known_costs import with_live_comp
from _parts import Asked, ask, make_parts

from warren.live.measure.machine import processor
from warren.profile.published import TABLE
from warren.runs.inputs import run_of

HARE: Final = Path(__file__).parent / "hare"
PLACES: Final = ("gavel-fifo", "hare")
SEEDS: Final = (1, 2, 3)
LIMIT_PCT: Final = {"a": 2.0, "b": 5.0, "c": 10.0, "c1": 10.0, "c2": 10.0}
"""In (a) not of its runs, whose times are computed: controls are further off than that."""
ATTEMPTS: Final = 3
MACHINE: Final = "testbed2-machine"
INPUTS: Final = {
    "a": ("testbed15", "testbed15-jobs"),
    "b": ("testbed15", "testbed15-jobs"),
    "c": ("testbed2", "testbed2-jobs", "testbed2-rows", MACHINE),
    "c1": ("testbed2-drawn1", "testbed2-drawn1-jobs", MACHINE),
    "c2": ("testbed2-drawn2", "testbed2-drawn2-jobs", MACHINE),
}
MEASURED: Final = _common.DATA / "profiles" / "chronus_itertime"
TASKS: Final = 100
SLOWER: Final = "cluster.emulate.slower={T4: 1.2}"

Row = dict[str, Any]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where a limit is missed."""
    asked = ask(__doc__, [*MAKE, "rounds"])
    asked = Asked([*(one for one in asked.parts if one != "rounds"), "rounds"])
    parts = make_parts(
        "fidelity",
        asked,
        {name: judged(name) for name in MAKE} | {"rounds": rounds},
        seed=1,
        stated={"overruns_max": OVERRUNS_MAX},
        cannot=cannot,
    )
    missed = [text for name in MAKE if name in parts for text in faults(name, parts[name])]
    if missed:
        sys.exit("\n".join(missed))


def rounds(scratch: Path) -> dict[str, Any]:
    """All rounds of (c) so far."""
    known = _common.earlier("fidelity")
    return all_rounds(known.get("rounds", {}), known)


def judged(name: str) -> Callable[[Path], dict[str, Any]]:
    """A part as it is saved, with its inputs and its limit."""
    return lambda scratch: {
        "inputs": inputs(name), **MAKE[name](scratch), "limit_pct": LIMIT_PCT[name]
    }  # fmt: skip


def cannot(part: str) -> str:
    """Why a part cannot be made here; empty if it can."""
    if part == "b" and not MEASURED.is_dir():
        return f"no measured times at {MEASURED} (set WARREN_DATA)"
    if part in ("c", "c1", "c2"):
        constants = yaml.safe_load((HARE / "testbed2-machine.yaml").read_text())
        there = constants["constants"]["cores"], constants["machine"]["processor"]
        here = os.cpu_count(), processor()
        if there != here:
            return f"its costs were measured on {there}, this is {here}; testbed2.yaml says how"
    return ""


def inputs(part: str) -> list[str]:
    """Each input file with the commit it was last changed by; stops where one is not committed."""
    files = [str(HARE / f"{name}.yaml") for name in INPUTS[part]]
    git = ["git", "-C", str(_common.ROOT)]
    changed = subprocess.run([*git, "status", "--porcelain", "--", *files], capture_output=True)
    if changed.stdout:
        sys.exit(f"inputs must be committed before a run:\n{changed.stdout.decode()}")
    found = []
    for file in files:
        log = [*git, "log", "-1", "--format=%h of %cI", "--", file]
        commit = subprocess.run(log, capture_output=True, text=True, check=True).stdout.strip()
        found.append(f"{Path(file).name}: {commit}")
    return found


def nominal(scratch: Path) -> dict[str, Any]:
    """Part (a), and the two controls that must fail it."""
    rows, controls, void = [], [], list[Row]()
    no_sync = scratch / "no-sync.yaml"
    no_sync.write_text(yaml.safe_dump(without_sync()))
    for place in PLACES:
        simulated = simulate("testbed15", place, scratch / f"sim-{place}")
        wrong = simulate("testbed15", place, scratch / f"wrong-{place}", f"profiles={no_sync}")
        for number in SEEDS:
            out = scratch / f"live-{place}-{number}"
            row, ran = valid("a", place, out, (), simulated, void)
            rows.append(row | {"run": number})
            if number == SEEDS[0]:
                row = row | error(ran, wrong) | differing(ran, wrong)
                controls.append(show("no synchronisation", row))
        out = scratch / f"slower-{place}"
        row = train("testbed15", place, out, SLOWER) | error(out, simulated)
        controls.append(show("T4 20 % slower", row | differing(out, simulated)))
    return {"rows": rows, "controls": controls, "void": void}


def jittered(scratch: Path) -> dict[str, Any]:
    """Part (b): another seed draws other times."""
    jitter, rows, void = scratch / "jitter.npy", [], list[Row]()
    np.save(jitter, measured_factors())
    for place in PLACES:
        for seed in SEEDS:
            simulated = simulate(
                "testbed15", place, scratch / f"sim-{place}-{seed}", f"seed={seed}"
            )
            out = scratch / f"live-{place}-{seed}"
            hidden = f"cluster.emulate.jitter={jitter}", f"seed={seed}"
            row, _ = valid("b", place, out, hidden, simulated, void)
            rows.append(row | {"run": seed})
    return {"rows": rows, "void": void}


def valid(
    what: str, place: str, out: Path, sets: Sequence[str], simulated: Path, void: list[Row]
) -> tuple[Row, Path]:
    """A live run of testbed15, and where it is; runs that are void are added to ``void``."""
    for attempt in range(ATTEMPTS):
        ran = out.with_name(f"{out.name}-{attempt}")
        row = train("testbed15", place, ran, *sets) | error(ran, simulated)
        row = show(what, row | differing(ran, simulated))
        if not is_void(row):
            break
        if attempt < ATTEMPTS - 1:
            void.append(row)
    return row, ran


def measured(name: str, scratch: Path) -> dict[str, Any]:
    """Part (c), of one workload."""
    rows = []
    for place in PLACES:
        for number in SEEDS:
            costs = scratch / f"rows-{place}-{number}.yaml"
            comp_ms = measure_rows(name, costs)
            stated = f"profiles={costs}"
            simulated = simulate(name, place, scratch / f"sim-{place}-{number}", stated)
            out = scratch / f"live-{place}-{number}"
            row = train(name, place, out, stated) | error(out, simulated)
            row |= {"run": number, "measured_comp_ms": comp_ms}
            known = with_live_comp(costs, out, simulated, scratch / f"known-{place}-{number}.yaml")
            run = run_of(str(HARE / f"{name}.yaml"), place, [f"profiles={known}"])
            ratio_J = _replay.given_ratio_J(run, out) - 1
            given = {
                "given_pct": 100 * np.abs(ratio_J).mean(),
                "given_bias_pct": 100 * ratio_J.mean(),
            }
            rows.append(show(name, row | {key: float(one) for key, one in given.items()}))
    return {"rows": rows}


def measure_rows(name: str, out: Path) -> dict[str, float]:
    """Measure the jobs of a workload into ``out``; milliseconds of T^c by job."""
    options = ("--local", "--pin", "--tasks", str(TASKS), "--out", str(out))
    _common.warren_json("calibrate", *options, "--jobs", str(HARE / f"{name}.yaml"))
    found = yaml.safe_load(out.read_text())
    return {
        job.partition(":")[2]: round(1000 * row["comp"]["CPU"], 2)
        for job, row in found.items()
        if job != "format"
    }


MAKE: Final[dict[str, Callable[[Path], dict[str, Any]]]] = {
    "a": nominal,
    "b": jittered,
    **{part: partial(measured, INPUTS[part][0]) for part in ("c", "c1", "c2")},
}


def measured_factors() -> np.ndarray[Any, np.dtype[np.float64]]:
    """All published iteration times, each series over its median; its first holds the start-up."""
    series = [np.load(path)[1:] for path in sorted(MEASURED.glob("*.npy"))]
    return np.concatenate([one / np.median(one) for one in series])


def without_sync() -> dict[str, Any]:
    """The shipped profile with every T^s zero."""
    return {
        name: {
            "model": row.model_bytes,
            "memory": row.memory_bytes,
            "batch": row.batch,
            "comp": dict(row.comp_s),
            "sync": dict.fromkeys(row.comp_s, 0),
        }
        for name, row in TABLE.items()
    }


def simulate(name: str, place: str, out: Path, *sets: str) -> Path:
    """Predict into ``out``."""
    _common.warren_json("simulate", *_command(name, place, out, sets))
    return out


def train(name: str, place: str, out: Path, *sets: str) -> Row:
    """Train into ``out``: what ran, and the machine's load before."""
    load = os.getloadavg()[0]
    found = _common.warren_json("run", *_command(name, place, out, sets))
    return {
        "place": place,
        "load_before": load,
        "jobs": found["finished"],
        "tasks": found["tasks"],
        "overruns": found["overruns"],
        "makespan_s": found["makespan_s"],
        "wall_s": found["wall_s"],
    }


def _command(name: str, place: str, out: Path, sets: Sequence[str]) -> list[str]:
    overrides = [word for one in sets for word in ("--set", one)]
    return [str(HARE / f"{name}.yaml"), "--place", place, "--out", str(out), *overrides]


def error(live: Path, simulated: Path) -> Row:
    """The JCT error over jobs, in percent of the live JCT.

    ``comp_over_predicted``: seconds that devices computed, live over simulated. It tells a machine
    that is slower or faster than when its costs were measured from a model that is wrong.
    """
    found = _common.jct_error(_common.warren_json("compare", str(live), str(simulated)))
    keys = ("mean_error_pct", "p95_error_pct", "max_error_pct", "bias_pct", "left_out")
    ratio = computed_s(live) / computed_s(simulated)
    return {key: found[key] for key in keys} | {"comp_over_predicted": ratio}


def computed_s(out: Path) -> float:
    """Mean over the devices of the seconds that each computed."""
    summary = json.loads((out / "summary.json").read_text())
    return float(summary["utilization"] * summary["makespan_s"])


if __name__ == "__main__":
    main()
