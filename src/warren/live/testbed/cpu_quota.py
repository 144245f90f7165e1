"""A host's share of the processors: a cgroup under the cpu controller, of version 1 or 2.

It is made at the top of the controller's tree as mounted here, not below the caller's cgroup: a
testbed outlives that, and in version 2 a cgroup that holds processes has no children with a
controller.
children with a controller.

A quota holds for one short period at a time: time that a host has not used by its end is lost. With
the kernel's usual 100 ms, work after a wait takes half as long as other work, whereas on a slow
processor all work takes equally long (``experiments/quota_periods.py``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from warren.live.process.linux import child_controllers, kernel_lines
from warren.live.testbed.iproute import refusal

_PERIOD_US: Final = 10_000
"""Period of a quota in microseconds, if the quota is at least the least one."""
_LEAST_QUOTA_US: Final = 1000
"""Least quota in us that the kernel allows."""
_MOUNTS: Final = Path("/proc/self/mountinfo")


def cgroup_roots(mounts: Path = _MOUNTS) -> list[Path]:
    """Return the folders in which a cgroup with a quota may be made.

    There is one or none: the cpu controller stands in one hierarchy only.
    """
    found = []
    # A line of mountinfo: identity, parent, device, root, mount point, options ... " - " type,
    # source, options of the file system, which name the controllers of version 1.
    for line in kernel_lines(mounts):
        place, _, kind = line.partition(" - ")
        top = Path(place.split()[4])
        first = kind.startswith("cgroup ") and "cpu" in kind.split()[2].split(",")
        if first or (kind.startswith("cgroup2 ") and "cpu" in child_controllers(top)):
            found.append(top)
    return found


def quota_home() -> Path:
    """Return the folder in which cgroups of hosts are made.

    Raises
    ------
    SpecError
        If no cpu controller can be used here.
    """
    found = next((home for home in cgroup_roots() if os.access(home, os.W_OK)), None)
    if found is None:
        raise refusal(
            "cpus: no cgroup with a cpu quota can be made here (no writable cgroup v1 with `cpu`, "
            "and no v2 with `cpu` in its topmost cgroup.subtree_control); leave cpus out"
        )
    return found


def make_quota(cgroup: Path, cpus: float) -> None:
    """Make a cgroup whose processes together get ``cpus`` processors."""
    cgroup.mkdir(exist_ok=True)
    period_us = quota_period_us(cpus)
    quota_us = round(cpus * period_us)
    # ``cpu.max`` is version 2; version 1 has a file for the period and one for the quota.
    if (cgroup / "cpu.max").exists():
        (cgroup / "cpu.max").write_text(f"{quota_us} {period_us}")
    else:
        (cgroup / "cpu.cfs_period_us").write_text(str(period_us))
        (cgroup / "cpu.cfs_quota_us").write_text(str(quota_us))


def quota_period_us(cpus: float) -> int:
    """Return the period in us of a quota of ``cpus`` processors."""
    return max(_PERIOD_US, round(_LEAST_QUOTA_US / cpus))


def quota_of(cgroup: Path) -> tuple[float, int] | None:
    """Return the quota that a cgroup has now, in processors, and for how long it holds, in us.

    None where there is none.
    """
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota = (cgroup / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu.cfs_period_us").read_text()
        # No limit: "max" in version 2, -1 in version 1.
        return None if quota in ("max", "-1") else (int(quota) / int(period), int(period))
    except OSError:
        return None


def enter(cgroup: Path) -> None:
    """Move this process into a cgroup: from now on it and its children share the quota."""
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
