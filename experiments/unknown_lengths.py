"""Jobs of which nobody knows how long they run, live on the 15 emulated devices of ``testbed15``.

``hare/testbed15-open.yaml``: each job ends when what it is evaluated by reaches its target. Under
each policy: every job finishes, its parameters are those of the plain loop to the bit, and a
simulation that is told the true rounds, and decides for itself, predicts the JCTs: at most 5 %
error in the mean. Policies see neither rounds nor what is to come (decision 0018). hlas-p is not
among them: it looks at the values on the way, which a simulation can only make up.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import _common
import yaml

RUN: Final = Path(__file__).parent / "hare" / "testbed15-open.yaml"
PLACES: Final = ("hlas", "gittins")
LIMIT_PCT: Final = 5.0

Row = dict[str, Any]


def main() -> None:
    """Train and predict under each policy, save, and stop with an error where a limit is missed."""
    with tempfile.TemporaryDirectory(prefix="warren-unknown-") as scratch:
        plain = trained("plain", Path(scratch) / "plain", "--set", "cluster.engine=plain")
        rows = [row_of(place, plain, Path(scratch)) for place in PLACES]
    _common.save("unknown_lengths", 1, {"limit_pct": LIMIT_PCT, "rows": rows})
    missed = [text for row in rows for text in faults(row)]
    if missed:
        sys.exit("\n".join(missed))


def row_of(place: str, plain: dict[str, Row], scratch: Path) -> Row:
    """One live run, beside the plain loop and beside its prediction."""
    out, told = scratch / place, scratch / f"{place}-simulated"
    jobs = trained(place, out)
    _common.warren_json(
        "simulate", str(told_run(jobs, scratch)), "--place", place, "--out", str(told)
    )
    error = _common.jct_error(_common.warren_json("compare", str(out), str(told)))
    summary = json.loads((out / "summary.json").read_text())
    same = [name for name, job in jobs.items() if ended(job) == ended(plain[name])]
    row = {
        "place": place,
        "jobs": len(jobs),
        "finished": sum(job["status"] == "finished" for job in jobs.values()),
        "same_bits": len(same),
        "tasks": summary["tasks"],
        "overruns": summary["overruns"],
        "rounds": sum(int(job["rounds"]) for job in jobs.values()),
        **{key: error[key] for key in ("mean_error_pct", "max_error_pct", "bias_pct", "left_out")},
    }
    print(
        f"{place}: {row['finished']} of {row['jobs']} finished, {row['same_bits']} with plain's "
        f"bits; JCT error mean {row['mean_error_pct']:.2f} %, largest {row['max_error_pct']:.2f} %",
        flush=True,
    )
    return row


def trained(place: str, out: Path, *more: str) -> dict[str, Row]:
    """The jobs of a live run, by name."""
    _common.warren_json("run", str(RUN), "--place", place, "--out", str(out), *more)
    with (out / "jobs.csv").open(newline="") as file:
        return {row["job"]: row for row in csv.DictReader(file)}


def ended(job: Row) -> tuple[str, str]:
    """What must be the same under any schedule."""
    return job["rounds"], job["params_sha256"]


def told_run(jobs: dict[str, Row], scratch: Path) -> Path:
    """The run file with the rounds that the jobs ran."""
    run = yaml.safe_load(RUN.read_text())
    open_jobs = yaml.safe_load((RUN.parent / run["workload"]["jobs"]).read_text())["jobs"]
    run["workload"] = [
        {**job, "rounds": int(jobs[job["name"]]["rounds"]), "app": str(RUN.parent / job["app"])}
        for job in open_jobs
    ]
    path = scratch / "told.yaml"
    path.write_text(yaml.safe_dump(run, sort_keys=False))
    return path


def faults(row: Row) -> list[str]:
    """What a run misses, one line each."""
    place, found = row["place"], []
    if row["finished"] < row["jobs"] or row["left_out"]:
        found.append(f"{place}: {row['jobs'] - row['finished']} jobs did not finish")
    if row["same_bits"] < row["jobs"]:
        found.append(f"{place}: {row['jobs'] - row['same_bits']} jobs with other bits than plain")
    if row["mean_error_pct"] > LIMIT_PCT:
        found.append(f"{place}: {row['mean_error_pct']:.2f} % is above {LIMIT_PCT:g} %")
    return found


if __name__ == "__main__":
    main()
