"""Two jobs that know nothing of Warren share a link; what each has of it, by their classes.

Two hosts of a testbed, links of 100 Mbit/s. Each job has a rank of ``torch.distributed`` (gloo) on
each host and sums 1 MB a step, again and again (``_foreign_train.py``). Job *quick* learns within
60 steps, job *slow* within 1000, by the accuracies in their logs. For 15 s nobody watches. Then
``warren flow watch`` runs on each host for 45 s, with a period of 3 s and the connections of the
ranks' processes, and is ended. A job's share is that of its steps, since all send equal bytes.

A period counts as *ordered* if it and the one before it have the same classes. In those where a job
is first, what it gained stands beside what the watch predicted when they began. Needs a testbed's
rights and `nft`. Wall time matters: on a machine with nothing else to do.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import _common
from _rights import cannot

from warren.live.testbed.class_counters import sent_bytes
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.names import namespace
from warren.model.testbed import Bed, BedHost

NAME: Final = "foreign"
SEED: Final = 0
BED: Final = Bed(
    name=NAME,
    subnet="10.79.0.0/24",
    hosts=tuple(BedHost(name=f"h{i}", link_bps=100_000_000) for i in range(2)),
)
TAUS: Final = {"quick": 60, "slow": 1000}
BEFORE_S: Final = 15.0
PERIOD_S: Final = 3.0
PERIODS: Final = 15
TRAIN: Final = Path(__file__).with_name("_foreign_train.py")
_CLASS: Final = re.compile(r"(\w+): class (\d)")
_GAIN: Final = re.compile(r"(\w+): class \d \(gain ([0-9.]+)\)")

Processes = list[subprocess.Popen[str]]


def main() -> None:
    """Run both jobs, watch them, and save what each had."""
    if reason := cannot("nft"):
        print(f"not made here: {reason}")
        return
    started: Processes = []
    make(BED)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = _measured(Path(folder), started)
    finally:
        for one in started:
            one.kill()
            one.wait()
        remove(NAME)
    _common.table(
        [["", "quick", "slow"], *([k, *map(_common.short, v)] for k, v in found["shares"].items())]
    )
    _common.save("foreign_jobs", SEED, found)


def _measured(folder: Path, started: Processes) -> dict[str, Any]:
    ranks = {job: _job(folder, job, 29500 + i, started) for i, job in enumerate(TAUS)}
    while min(_steps(folder)) < 5:
        time.sleep(0.2)
        if any(one.poll() is not None for one in started):
            sys.exit("a rank has ended")
    begin = _steps(folder)
    time.sleep(BEFORE_S)
    before = _share(begin, _steps(folder))
    bytes_before = sent_bytes(BED, 0)
    watches = [_watch(folder, host, ranks) for host in range(2)]
    started += watches
    rows = _followed(folder, watches[0])
    bytes_after = sent_bytes(BED, 0)
    for one in watches:
        one.wait(30)
    begin = _steps(folder)
    time.sleep(BEFORE_S)
    shares = {"not watched": before, "watch has ended": _share(begin, _steps(folder))}
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


def _job(folder: Path, job: str, port: int, started: Processes) -> list[int]:
    """Start the ranks of a job; return their processes, one a host."""
    found = []
    for host in range(2):
        environment = {
            **os.environ,
            "MASTER_ADDR": BED.address(0),
            "MASTER_PORT": str(port),
            "RANK": str(host),
            "WORLD_SIZE": "2",
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        command = [sys.executable, str(TRAIN), str(TAUS[job]), str(folder / f"{job}.log")]
        process = subprocess.Popen(_inside(host, command), env=environment, text=True)
        started.append(process)
        found.append(process.pid)  # ``ip netns exec`` becomes the command
    return found


def _watch(folder: Path, host: int, ranks: dict[str, list[int]]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "warren", "flow", "watch", "--label", NAME]
    for job, pids in ranks.items():
        command += ["--log", str(folder / f"{job}.log"), "--pid", str(pids[host])]
    command += ["--period", str(PERIOD_S), "--periods", str(PERIODS)]
    return subprocess.Popen(_inside(host, command), stderr=subprocess.PIPE, text=True)


def _inside(host: int, command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", namespace(NAME, host), *command]


def _followed(folder: Path, watch: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """One row a period: the classes that stood in it, and the steps of both jobs."""
    rows: list[dict[str, Any]] = []
    last: tuple[dict[str, int], dict[str, float], list[int], list[float]] | None = None
    assert watch.stderr
    for line in watch.stderr:
        steps = _steps(folder)
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


def _steps(folder: Path) -> list[int]:
    return [_lines(folder / f"{job}.log") for job in TAUS]


def _accuracies(folder: Path) -> list[float]:
    """The last accuracy in each log; 0 before the first."""
    lines = [(folder / f"{job}.log").read_text().splitlines(keepends=True) for job in TAUS]
    return [
        next((float(one.split()[3]) for one in reversed(log) if one.endswith("\n")), 0.0)
        for log in lines
    ]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _share(begin: list[int], end: list[int]) -> list[float]:
    done = [b - a for a, b in zip(begin, end, strict=True)]
    return [one / max(1, sum(done)) for one in done]


if __name__ == "__main__":
    main()
