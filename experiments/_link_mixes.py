"""Mixes of jobs with servers and rings for the four hosts of ``rings/bed4.yaml``, drawn by seeds.

All of a mix find devices when they arrive, so that what they wait for are links.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import yaml

RINGS: Final = Path(__file__).parent / "rings"
APP: Final = f"{(RINGS / '../../examples/apps/digits.py').resolve()}:Digits"
WIDTHS: Final = {"wide5": 16667, "wide6": 20000, "wide8": 26667}
"""Of the net whose parameters have so many MB."""
DEVICES: Final = 8
ARRIVE_S: Final = 4.0
CLASSES: Final = 3
LOOKED_AT: Final = tuple(range(1, 15))
"""Seeds of mixes whose errors had been looked at when `outer` became the rate of the links."""
FRESH: Final = tuple(range(15, 29))
"""Seeds of the mixes that are judged; trials while the model was written had seeds above 100."""


def drawn(seed: int) -> dict[str, Any]:
    """A run of three to five jobs, at least one with servers and one ring.

    Nothing is looked at but the seed: no mix is left out for what becomes of it.
    """
    draw = random.Random(f"links-{seed}")
    count = draw.randint(3, 5)
    syncs = ["ps", "ring", *(draw.choice(("ps", "ps", "ring")) for _ in range(count - 2))]
    scales = _scales(draw, syncs)
    jobs = [_job(draw, at, *one) for at, one in enumerate(zip(syncs, scales, strict=True))]
    first_ms = min(job["arrival"] for job in jobs)
    for job in jobs:
        job["arrival"] = f"{job['arrival'] - first_ms} ms"
    jobs.sort(key=lambda job: int(job["arrival"].split()[0]))
    return {
        "format": 1,
        "name": f"links-{seed}",
        "cluster": str(RINGS / "hosts4.yaml"),
        "profiles": str(RINGS / "profiles.yaml"),
        "workload": {"jobs": jobs},
        "grain": "1000 rounds",
        "seed": 1,
    }


def network(measured: Path, link_bps: float | None = None) -> dict[str, Any]:
    """``fluid`` with the rates that ``warren calibrate --rings`` has measured.

    ``link_bps``: what ``warren testbed up`` has measured of a link, in place of the rate of rings
    that wait for each other.
    """
    found = yaml.safe_load(measured.read_text())
    rates = {key: found[key] for key in ("outer", "inner") if key in found}
    if link_bps is not None:
        rates["outer"] = f"{link_bps / 1e6:.1f} Mbit"
    return {"model": "fluid", **rates}


def _scales(draw: random.Random, syncs: list[str]) -> list[int]:
    """Devices of each job; all have room at once. A ring has two at least, or it sends nothing."""
    scales = [2 if sync == "ring" else 1 for sync in syncs]
    while sum(scales) < DEVICES:
        scales[draw.randrange(len(scales))] += 1
    return scales


def _job(draw: random.Random, at: int, sync: str, scale: int) -> dict[str, Any]:
    model = draw.choice(list(WIDTHS))
    return {
        "name": f"{sync}-{at}",
        "app": APP,
        "params": {"hidden": WIDTHS[model]},
        "model": model,
        "sync": sync,
        "scale": scale,
        "rounds": draw.randint(10, 20),
        "batch": 16,
        "arrival": round(1000 * draw.uniform(0, ARRIVE_S)),
        "class": draw.randint(1, CLASSES),
    }
