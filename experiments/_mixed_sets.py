"""Sets of rings and jobs with servers for the four hosts of ``rings/bed4.yaml``, drawn by seeds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import yaml

RINGS: Final = Path(__file__).parent / "rings"
APPS: Final = "../../examples/apps"
WIDTHS: Final = {"wide5": 16667, "wide6": 20000, "wide8": 26667}
"""Of the net whose parameters have so many MB."""
SERVED: Final = (
    ("digits.py:Digits", 16), ("digits.py:DigitsCNN", 16), ("cancer.py:Cancer", 16),
    ("diabetes.py:Diabetes", 64),
)  # fmt: skip
ARRIVE_S: Final = 12.0
FRESH: Final = tuple(range(21, 41))
"""Seeds of the sets that nobody looked at before the model was settled."""
LOOKED_AT: Final = (
    (range(1, 11), "what an app takes to be built was charged"),
    (range(11, 21), "gangs whose devices are free were formed before others, live too"),
)
"""Seeds that were fresh before, runs of which were looked at, and what was changed after them."""


def drawn(seed: int) -> dict[str, Any]:
    """A run: six rings and four jobs with servers, shorter than those of ``mixed.yaml``.

    Nothing is looked at but the seed: no set is left out for what a simulation of it does.
    """
    draw = random.Random(f"mixed-{seed}")
    jobs = [_ring(draw, at) for at in range(6)] + [_served(draw, at) for at in range(4)]
    arrivals_s = [draw.uniform(0, ARRIVE_S) for _ in jobs]
    for job, arrival_s in zip(jobs, arrivals_s, strict=True):
        job["arrival"] = f"{1000 * (arrival_s - min(arrivals_s)):.0f} ms"
    run: dict[str, Any] = yaml.safe_load((RINGS / "mixed.yaml").read_text())
    return {
        **run,
        "name": f"fresh-{seed}",
        "cluster": str(RINGS / "hosts4.yaml"),
        "profiles": str(RINGS / "profiles.yaml"),
        "workload": {"jobs": jobs},
    }


def _ring(draw: random.Random, at: int) -> dict[str, Any]:
    model = draw.choice(list(WIDTHS))
    return {
        "name": f"ring-{at}",
        "app": f"{(RINGS / APPS / 'digits.py').resolve()}:Digits",
        "params": {"hidden": WIDTHS[model]},
        "model": model,
        "sync": "ring",
        "scale": draw.choice((2, 2, 3, 4)),
        "rounds": draw.randint(12, 30),
        "batch": 16,
    }


def _served(draw: random.Random, at: int) -> dict[str, Any]:
    app, batch = SERVED[at]
    return {
        "name": f"ps-{at}",
        "app": f"{(RINGS / APPS).resolve()}/{app}",
        "model": "small",
        "scale": draw.randint(1, 3),
        "rounds": draw.randint(50, 90),
        "batch": batch,
    }
