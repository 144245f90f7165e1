"""Jobs that learn from real data over the links of a testbed, drawn by seeds.

Ten jobs of two workers and as many servers on the four hosts of ``rings/bed4.yaml`` with four
devices each, so that eight are at work at once: digits of scikit-learn, nets of 2 to 4 MB whose
rounds compute 100 ms (padded) and send for longer, learning rates of 0.002 to 0.05.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from _common import ROOT

APP: Final = f"{ROOT / 'examples/apps/digits.py'}:Digits"
WIDTHS: Final = {2: 6667, 3: 10000, 4: 13333}
"""Of the net whose parameters have so many MB."""
JOBS: Final = 10
HOSTS: Final = tuple(f"h-{at}" for at in range(4))
DEVICES: Final = 4
INTERVAL_S: Final = 4.0
ROUNDS: Final = (70, 130)
LEARNING_RATES: Final = (0.002, 0.05)
EVERY: Final = 4
PERIOD_S: Final = 5.0


def drawn(seed: int) -> dict[str, Any]:
    """The run of a seed; nothing is looked at but the seed."""
    draw = random.Random(f"jpas-live-{seed}")
    jobs, at_s = [], 0.0
    for index in range(JOBS):
        jobs.append(_job(draw, index, at_s))
        at_s += draw.expovariate(1 / INTERVAL_S)
    return {
        "format": 1,
        "name": f"jpas-live-{seed}",
        "cluster": {
            "format": 1,
            "hosts": [{"name": "h", "count": 4, "devices": {"CPU": DEVICES}, "nic": "200 Mbps"}],
            "engine": "local",
            "local": {"testbed": "rings"},
            "emulate": {"time_scale": 1},
        },
        "profiles": {
            f"digits-{mb}": {
                "model": f"{300 * width + 40} B",
                "comp": {"CPU": "100 ms"},
                "sync": {"CPU": "100 ms"},
                "build": {"CPU": "60 ms"},
            }
            for mb, width in WIDTHS.items()
        },
        "workload": {"jobs": jobs},
        "scheduler": {"place": "fifo", "shape": "fixed"},
        "seed": seed,
    }


def _job(draw: random.Random, index: int, at_s: float) -> dict[str, Any]:
    mb = draw.choice(list(WIDTHS))
    width, (low, high) = WIDTHS[mb], LEARNING_RATES
    return {
        "name": f"digits-{mb}-{index}",
        "app": APP,
        "params": {"hidden": width, "lr": round(low * (high / low) ** draw.random(), 5)},
        "model": f"digits-{mb}",
        "sync": "ps",
        "scale": 2,
        # Servers hold whole tensors: the first layer's weights, and the others.
        "servers": {"hosts": draw.sample(HOSTS, 2), "bytes": [256 * width, 44 * width + 40]},
        "rounds": draw.randint(*ROUNDS),
        "batch": 16,
        "arrival": f"{at_s:.3f} s",
        "evaluate": {"every": EVERY},
        # Never met: a job makes all its rounds, and what it has then is what it converges to.
        "stop": {"metric": "accuracy", "reaches": 1.01},
    }


def folder_files(folder: Path) -> dict[str, bytes]:
    """What ``load_record`` needs of a result folder."""
    names = ("run.yaml", "profile.csv", "journal", "summary.json")
    return {name: (folder / name).read_bytes() for name in names}
