"""Two jobs that know nothing of Warren share a link; what each has of it, by their classes.

Two hosts of a testbed, links of 100 Mbit/s. Each job has a rank of ``torch.distributed`` (gloo) on
each host and sums 1 MB a step, again and again (``_foreign_train.py``). Job *quick* learns within
60 steps, job *slow* within 1000, by the accuracies in their logs. For 15 s nobody watches. Then
``warren flow watch`` runs on each host for 45 s, with a period of 3 s and the connections of the
ranks' processes, and is ended. A job's share is that of its steps, since all send equal bytes.

In the first part a period counts as *ordered* if it and the one before it have the same classes. In
those where a job is first, what it gained stands beside what the watch predicted when they began.

Part *silent*: links of 20 Mbit/s; *quick* logs each second and learns, *slow* has learned all and
logs each 30 s, which is each tenth period. Part *equal*: two equal jobs of a step a second, one
logs each 5 s, the other each 20 s; the gains that a watch with a period of 5 s predicts of them. In
both parts periods count after the first in which both gains are known.

Needs a testbed's rights and `nft`. Wall time matters: a busy machine makes fewer steps.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import _common
from _rights import cannot

from warren.live.testbed.class_counters import sent_bytes
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.names import namespace
from warren.model.testbed import Bed, BedHost

NAME: Final = "foreign"
SEED: Final = 0


class Training(NamedTuple):
    """A job: its curve, seconds between lines of its log, the step it begins at, pause a step."""

    tau: float
    every_s: float = 0.0
    first: int = 0
    pause_s: float = 0.0


TAUS: Final = {"quick": Training(60), "slow": Training(1000)}
SILENT: Final = {"quick": Training(3000, 1.0), "slow": Training(60, 30.0, 2000)}
EQUAL: Final = {"each 5 s": Training(200, 5.0, 0, 1.0), "each 20 s": Training(200, 20.0, 0, 1.0)}
BEFORE_S: Final = 15.0
PERIOD_S: Final = 3.0
PERIODS: Final = 15
TRAIN: Final = Path(__file__).with_name("_foreign_train.py")
SILENT_PERIODS: Final = 80
EQUAL_PERIODS: Final = 40
EQUAL_PERIOD_S: Final = 5.0
_CLASS: Final = re.compile(r"([\w-]+): class (\d)")
_GAIN: Final = re.compile(r"([\w-]+): (?:class \d|no class) \(gain ([0-9.]+)")

Processes = list[subprocess.Popen[str]]


def main() -> None:
    """Run both jobs, watch them, and save what each had."""
    if reason := cannot("nft"):
        print(f"not made here: {reason}")
        return
    found = _on_bed(100_000_000, _measured)
    found["silent"] = _on_bed(20_000_000, _silent)
    found["equal"] = _on_bed(100_000_000, _equal)
    _common.table(
        [["", "quick", "slow"], *([k, *map(_common.short, v)] for k, v in found["shares"].items())]
    )
    print(json.dumps({part: found[part] for part in ("silent", "equal")}))
    _common.save("foreign_jobs", SEED, found)


def _on_bed(
    link_bps: int, measured: Callable[[Bed, Path, Processes], dict[str, Any]]
) -> dict[str, Any]:
    """Make two hosts with links of this rate, measure there, and remove all."""
    bed = Bed(
        name=NAME,
        subnet="10.79.0.0/24",
        hosts=tuple(BedHost(name=f"h{i}", link_bps=link_bps) for i in range(2)),
    )
    started: Processes = []
    make(bed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return measured(bed, Path(folder), started)
    finally:
        for one in started:
            one.kill()
            one.wait()
        remove(NAME)


def _begun(
    bed: Bed, folder: Path, jobs: Mapping[str, Training], started: Processes
) -> dict[str, list[int]]:
    """Start the jobs; return the processes of their ranks when both have made five steps."""
    ranks = {
        job: _job(bed, folder, _file(job), training, 29500 + i, started)
        for i, (job, training) in enumerate(jobs.items())
    }
    while min(_steps(folder, jobs)) < 5:
        time.sleep(0.2)
        if any(one.poll() is not None for one in started):
            sys.exit("a rank has ended")
    return ranks


def _measured(bed: Bed, folder: Path, started: Processes) -> dict[str, Any]:
    ranks = _begun(bed, folder, TAUS, started)
    begin = _steps(folder, TAUS)
    time.sleep(BEFORE_S)
    before = _share(begin, _steps(folder, TAUS))
    bytes_before = sent_bytes(bed, 0)
    watches = [_watch(folder, host, ranks, PERIOD_S, PERIODS) for host in range(2)]
    started += watches
    rows = _followed(folder, watches[0])
    bytes_after = sent_bytes(bed, 0)
    for one in watches:
        one.wait(30)
    begin = _steps(folder, TAUS)
    time.sleep(BEFORE_S)
    shares = {"not watched": before, "watch has ended": _share(begin, _steps(folder, TAUS))}
    for name, first in (("quick first", "quick"), ("slow first", "slow")):
        chosen = [row for row in rows if row["settled"] and row["first"] == first]
        if chosen:
            total = [sum(row["steps"][i] for row in chosen) for i in range(2)]
            shares[name] = _share([0, 0], total)
    gains = {
        job: {
            "predicted": sum(row["predicted_gain"] or 0.0 for row in chosen),
            "gained": sum(row["gained"] for row in chosen),
            "periods": len(chosen),
        }
        for job in TAUS
        if (chosen := [row for row in rows if row["settled"] and row["first"] == job])
    }
    sent = [after - earlier for earlier, after in zip(bytes_before, bytes_after, strict=True)]
    return {"shares": shares, "gains": gains, "periods": rows, "sent_by_class_watched": sent}


def _silent(bed: Bed, folder: Path, started: Processes) -> dict[str, Any]:
    """The steps of a job that learns, beside a job that has learned and whose log is silent."""
    rows = _lines_of_watch(bed, folder, SILENT, PERIOD_S, SILENT_PERIODS, started)
    counted = _counted(rows)
    total = [sum(row["steps"][i] for row in counted) for i in range(2)]
    return {"share": _share([0, 0], total), "counted": len(counted), "periods": rows}


def _equal(bed: Bed, folder: Path, started: Processes) -> dict[str, Any]:
    """The gains that are predicted of two equal jobs with other intervals of their logs."""
    rows = _lines_of_watch(bed, folder, EQUAL, EQUAL_PERIOD_S, EQUAL_PERIODS, started)
    counted = _counted(rows)
    middle = {job: median(row["gains"][_file(job)] for row in counted) for job in EQUAL}
    return {"median_gain": middle, "counted": len(counted), "periods": rows}


def _counted(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The periods after the first in which both gains are known."""
    known = [len(row["gains"]) == 2 for row in rows]
    return [row for at, row in enumerate(rows) if any(known[:at]) and known[at]]


def _lines_of_watch(
    bed: Bed,
    folder: Path,
    jobs: Mapping[str, Training],
    period_s: float,
    periods: int,
    started: Processes,
) -> list[dict[str, Any]]:
    """A row a period of a watch on both hosts: classes and gains said, steps made in it."""
    ranks = _begun(bed, folder, jobs, started)
    watches = [_watch(folder, host, ranks, period_s, periods) for host in range(2)]
    started += watches
    rows: list[dict[str, Any]] = []
    begin = _steps(folder, jobs)
    stream = watches[0].stderr
    assert stream
    for line in stream:
        end = _steps(folder, jobs)
        rows.append({
            "classes": {job: int(kind) for job, kind in _CLASS.findall(line)},
            "gains": {job: float(gain) for job, gain in _GAIN.findall(line)},
            "steps": [after - before for before, after in zip(begin, end, strict=True)],
            "line": line.strip(),
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
        begin = end
    return rows


def _file(job: str) -> str:
    return job.replace(" ", "-")


def _job(
    bed: Bed, folder: Path, job: str, training: Training, port: int, started: Processes
) -> list[int]:
    """Start the ranks of a job; return their processes, one a host."""
    found = []
    for host in range(2):
        environment = {
            **os.environ,
            "MASTER_ADDR": bed.address(0),
            "MASTER_PORT": str(port),
            "RANK": str(host),
            "WORLD_SIZE": "2",
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        command = [sys.executable, str(TRAIN), str(training.tau), str(folder / f"{job}.log")]
        command += [str(training.every_s), str(training.first), str(training.pause_s)]
        process = subprocess.Popen(_inside(host, command), env=environment, text=True)
        started.append(process)
        found.append(process.pid)  # ``ip netns exec`` becomes the command
    return found


def _watch(
    folder: Path, host: int, ranks: dict[str, list[int]], period_s: float, periods: int
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "warren", "flow", "watch", "--label", NAME]
    for job, pids in ranks.items():
        command += ["--log", str(folder / f"{_file(job)}.log"), "--pid", str(pids[host])]
    command += ["--period", str(period_s), "--periods", str(periods)]
    return subprocess.Popen(_inside(host, command), stderr=subprocess.PIPE, text=True)


def _inside(host: int, command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", namespace(NAME, host), *command]


def _followed(folder: Path, watch: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """One row a period: the classes that stood in it, and the steps of both jobs."""
    rows: list[dict[str, Any]] = []
    last: tuple[dict[str, int], dict[str, float], list[int], list[float]] | None = None
    assert watch.stderr
    for line in watch.stderr:
        steps = _steps(folder, TAUS)
        if last is not None:
            classes, gains, begin, values = last
            known = len(set(classes.values())) == 2
            first = min(classes, key=lambda job: classes[job]) if known else None
            settled = bool(rows) and known and rows[-1]["classes"] == classes
            done = [b - a for a, b in zip(begin, steps, strict=True)]
            row = {"classes": classes, "first": first, "settled": settled, "steps": done}
            if first is not None:
                at = list(TAUS).index(first)
                row["predicted_gain"] = gains.get(first)
                row["gained"] = _accuracies(folder)[at] - values[at]
            rows.append(row)
            print(json.dumps(rows[-1]), flush=True)
        classes = {job: int(kind) for job, kind in _CLASS.findall(line)}
        gains = {job: float(gain) for job, gain in _GAIN.findall(line)}
        last = classes, gains, steps, _accuracies(folder)
    return rows


def _steps(folder: Path, jobs: Iterable[str]) -> list[int]:
    return [_size(folder / f"{_file(job)}.log.steps") for job in jobs]


def _accuracies(folder: Path) -> list[float]:
    """The last accuracy in each log; 0 before the first."""
    lines = [(folder / f"{job}.log").read_text().splitlines(keepends=True) for job in TAUS]
    return [
        next((float(one.split()[3]) for one in reversed(log) if one.endswith("\n")), 0.0)
        for log in lines
    ]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _share(begin: list[int], end: list[int]) -> list[float]:
    done = [b - a for a, b in zip(begin, end, strict=True)]
    return [one / max(1, sum(done)) for one in done]


if __name__ == "__main__":
    main()
