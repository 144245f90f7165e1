"""Which core a device runs on."""

from __future__ import annotations

import os


def core_of(device: int) -> int:
    """The core of device ``device``: device i has the i-th of this process's cores, around."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[device % len(cores)]
