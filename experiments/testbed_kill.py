"""Kill what makes or removes a testbed, at any moment, and look for what stays after `down`.

100 times: a process makes a testbed of four hosts, two of them with a cpu quota where this machine
has such, and begins to measure it. It gets SIGKILL at a moment drawn up to 1.6 times what making
takes here; every third time its children (`ip`, `tc`, the ends of a measured flow) get it too.
Every fourth time it is struck while it removes a testbed that is up. Then another process takes the
testbed down, every second time after a new `up`, which has to succeed. No namespace, link, hosts
file, cgroup, record or process of it may be left, and the machine's own links have to be those from
before.

``--cycles N`` makes fewer and saves nothing; ``--within S`` allows more time, on a busy machine.
Needs the rights that a testbed needs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, Final

import _common
from _rights import cannot

from warren.live.testbed import orphans as leftovers
from warren.live.testbed.cpu_quota import cgroup_roots
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.link_test import measure
from warren.live.testbed.records import FOLDER, TestbedRecords
from warren.model.testbed import Bed, BedHost

CYCLES: Final = 100
SEED: Final = 1
TRIED: Final = 5
CLEAN_S: Final = 5.0
NAME: Final = f"kill-{os.getpid()}"

Row = dict[str, Any]


def main() -> None:
    """Make the cycles, save, and stop with an error where something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--within", type=float, default=CLEAN_S)
    asked = parser.parse_args()
    cycles = asked.cycles
    if reason := cannot():
        print(f"not made here: {reason}")
        return
    quota = 0.5 if cgroup_roots() else None
    hosts = tuple(
        BedHost(name=f"h{i}", link_bps=200_000_000, cpus=quota if i % 2 else None) for i in range(4)
    )
    bed = Bed(name=NAME, subnet="10.77.0.0/24", hosts=hosts)
    before = _links()
    longest_s = _longest_s(bed)
    rows = [cycle(bed, number, longest_s, before, asked.within) for number in range(cycles)]
    bad = [row for row in rows if row["left"]]
    struck = Counter(row["struck"] for row in rows)
    _common.table([["struck while", "cycles"], *sorted(struck.items())])
    print(f"{len(rows)} cycles, {len(bad)} left something")
    if cycles == CYCLES:
        content = {"cycles": len(rows), "struck": dict(sorted(struck.items())), "left": bad}
        _common.save("testbed_kill", SEED, content)
    if bad:
        sys.exit("\n".join(str(row) for row in bad))


def cycle(
    bed: Bed, number: int, longest_s: tuple[float, float], before: str, within_s: float
) -> Row:
    """One testbed, from its start to what its removal leaves; ``left`` is empty if that is none."""
    draw = random.Random(f"{SEED}-{number}")
    removing = number % 4 == 3
    if removing:
        make(bed)
    child = _start(bed, removing)
    moment_s = draw.uniform(0.0, longest_s[removing])
    time.sleep(moment_s)
    # The child leads a group, in which all it started are too.
    (os.killpg if number % 3 == 0 else os.kill)(child, signal.SIGKILL)
    os.waitpid(child, 0)
    row: Row = {"cycle": number, "moment_s": round(moment_s, 3), "struck": _struck(bed, removing)}
    row["left"] = []
    if number % 8 < 4:
        made = make(bed)
        row["again"] = "repaired" if made.repaired else "made" if made.changed else "was up"
    remove(bed.name)
    row["left"] = _left(bed, child, before, within_s)
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def _longest_s(bed: Bed) -> tuple[float, float]:
    """So long a child that makes, and one that removes, lives at most: by the median of a few."""
    took_s: list[tuple[float, float]] = []
    for _ in range(TRIED):
        begin_s = time.perf_counter()
        make(bed)
        made_s = time.perf_counter()
        remove(bed.name)
        took_s.append((made_s - begin_s, time.perf_counter() - made_s))
    making_s, removing_s = zip(*took_s, strict=True)
    return 1.6 * median(making_s), median(removing_s)


def _start(bed: Bed, removing: bool) -> int:
    """Fork a child that makes and measures the testbed, or removes it."""
    ready, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            os.write(says, b"x")
            if removing:
                remove(bed.name)
            else:
                make(bed)
                measure(bed, lambda *_: None)
        finally:
            os._exit(0)  # not back into the program that it was forked from
    os.read(ready, 1)
    os.close(ready)
    os.close(says)
    return pid


def _struck(bed: Bed, removing: bool) -> str:
    """How far the child had come, by what it left; waits for its children as `down` does."""
    with TestbedRecords() as records:
        record = records.read(bed.name)
    if removing:
        return "removing" if record is not None else "removing: done"
    if record is None:
        return "starting"
    return "measuring" if record.made else "making"


def _left(bed: Bed, child: int, before: str, within_s: float) -> list[str]:
    """What is there after so long: things by name, records, processes, links."""
    end_s = time.monotonic() + within_s
    while (found := _all_left(bed, child, before)) and time.monotonic() < end_s:
        time.sleep(0.05)
    return found


def _all_left(bed: Bed, child: int, before: str) -> list[str]:
    found = [str(one) for part in leftovers.found(bed.name) for one in part]
    found += [str(path) for path in FOLDER.glob(f"*{bed.name}*")]
    found += [f"process {pid}" for pid in _of_group(child)]
    if not leftovers.found() and leftovers.HOSTS_FILES.exists():
        found += [str(path) for path in leftovers.HOSTS_FILES.glob("*warren*")]
    return found + (["other links than before"] if _links() != before else [])


def _of_group(leader: int) -> list[int]:
    """Living processes of a group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(group) == leader and state not in "ZX":
                found.append(int(entry.name))
    return found


def _links() -> str:
    """The machine's own links and what shapes them, without their counters."""
    commands = (["ip", "-o", "link"], ["tc", "qdisc", "show"])
    return "".join(subprocess.run(one, capture_output=True, text=True).stdout for one in commands)


if __name__ == "__main__":
    main()
