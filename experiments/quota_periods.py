"""How a quota of processors makes a host slow: work after a wait, and one piece after another.

A process in a cgroup with a fifth of a core does 34 ms of work 40 times after waits of 0.2 to 0.4 s
drawn by the seed, and 40 times in a row, with quotas that hold for 100, 20, 10 and 5 ms at a time.
A slow processor would take 170 ms each time. ``cpu_quota.make_quota`` has the third. Needs a
writable cpu controller.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from statistics import fmean
from typing import Final

import _common

from warren.live.testbed.cpu_quota import enter, make_quota, quota_home
from warren.model.errors import SpecError

SEED: Final = 1
CPUS: Final = 0.2
WORK_S: Final = 0.034
TIMES: Final = 40
PERIODS_MS: Final = (100, 20, 10, 5)


def main() -> None:
    """Measure each period, and save."""
    try:
        cgroup = quota_home() / "warren-quota-periods"
    except SpecError as error:
        print(f"skipped: {error}")
        return
    rows = []
    make_quota(cgroup, CPUS)
    try:
        for period_ms in PERIODS_MS:
            _set(cgroup, 1000 * period_ms)
            waited_s, row_s = _measured(cgroup)
            rows.append({
                "period_ms": period_ms, "after_a_wait_ms": 1e3 * waited_s,
                "in_a_row_ms": 1e3 * row_s,
            })  # fmt: skip
            print({key: _common.short(cell) for key, cell in rows[-1].items()}, flush=True)
    finally:
        cgroup.rmdir()
    _common.save("quota_periods", SEED, {"ideal_ms": 1e3 * WORK_S / CPUS, "rows": rows})


def _set(cgroup: Path, period_us: int) -> None:
    """Let the quota hold for another time, by either version of cgroups."""
    quota_us = round(CPUS * period_us)
    if (cgroup / "cpu.max").exists():
        (cgroup / "cpu.max").write_text(f"{quota_us} {period_us}")
        return
    # Whatever stands there first must allow what is written next.
    (cgroup / "cpu.cfs_quota_us").write_text("-1")
    (cgroup / "cpu.cfs_period_us").write_text(str(period_us))
    (cgroup / "cpu.cfs_quota_us").write_text(str(quota_us))


def _measured(cgroup: Path) -> tuple[float, float]:
    """Seconds of a piece of work, after a wait and in a row: means, in a process of its own."""
    read, write = os.pipe()
    if not (child := os.fork()):
        enter(cgroup)
        draw = random.Random(SEED)
        waited = [_work_s(draw.uniform(0.2, 0.4)) for _ in range(TIMES)]
        in_a_row = [_work_s(0) for _ in range(TIMES)]
        os.write(write, f"{fmean(waited)} {fmean(in_a_row)}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        waited_s, row_s = map(float, told.read().split())
    os.waitpid(child, 0)
    return waited_s, row_s


def _work_s(wait_s: float) -> float:
    """Wait, then use the processor for so long; how long the second took."""
    time.sleep(wait_s)
    begin, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < WORK_S:
        pass
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
