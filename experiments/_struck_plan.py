"""What is drawn for a run that is struck: its jobs, its policy, and who is struck how and when."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROUND_ROBIN: Final = Path(__file__).resolve().parents[1] / "examples/policies/round_robin.py"
FOR_RINGS: Final = (
    "fifo", "gavel-fifo", "braid", "braid-online", "sjf-bco", "first-fit", "list-scheduling",
    "random",
)  # fmt: skip
FOR_SERVERS: Final = (
    "hare", "srtf", "sched-homo", "sched-allox", "gittins", "hlas", "hlas-p", "las-2d",
    f"{ROUND_ROBIN}:RoundRobin",
)  # fmt: skip
MOST_STRIKES: Final = 6
MOST_KILLS: Final = 2
"""Of one kind of process that works for a job: the third loss at one place fails the job."""
WEIGHTS: Final[Mapping[str, int]] = {
    "controller": 3, "zygote": 2, "executor": 2, "trainer": 3, "parent": 1, "server": 3, "rank": 2,
    "guard": 1,
}  # fmt: skip
"""How often each kind is drawn; *parent*: the one that trainers are forked from."""
SIGNALS: Final[Mapping[str, Sequence[signal.Signals]]] = {
    "controller": (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT)
}
OTHERS: Final = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP)
ENDS: Final = ("controller", "zygote")
"""A run may end by the loss of one of these, and is resumed."""

Job = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Send ``signum`` to a process of ``kind``; ``draw`` picks which.

    ``delay_s`` is from when the process is there if ``early``, else from when the run has devices,
    or from the strike before if that was later. After SIGSTOP, SIGCONT comes in ``pause_s``.
    """

    kind: str
    signum: signal.Signals
    early: bool
    delay_s: float
    pause_s: float
    draw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run and what happens to it."""

    place: str
    servers: int
    grain: int | str
    jobs: tuple[Job, ...]
    strikes: tuple[Strike, ...]


def draw_plan(seed: int, jobs: Sequence[Job]) -> Plan:
    """What this seed stands for; ``jobs`` are all there are to choose from."""
    draw = random.Random(f"struck {seed}")
    rings = [job for job in jobs if job.get("sync") == "ring"]
    others = [job for job in jobs if job.get("sync") != "ring"]
    ring = draw.random() < 0.6
    chosen = draw.sample(others, 2) + draw.sample(rings, 1) if ring else draw.sample(others, 3)
    return Plan(
        place=draw.choice(FOR_RINGS if ring else FOR_SERVERS),
        servers=draw.choice((1, 2)),
        grain=draw.choice((1, 1, "4 rounds")),
        jobs=tuple(_told(draw, job) for job in chosen),
        strikes=_strikes(draw, "trainer rank server" if ring else "trainer server"),
    )


def _told(draw: random.Random, job: Job) -> Job:
    """What of a job may differ and changes no bit."""
    return job | {
        "user": draw.choice(("ana", "ana", "ben")),
        "arrival": draw.choice((0, 0, 0.3, 0.8)),
        "checkpoint": {"every": draw.randint(2, 15)},
    }


def _strikes(draw: random.Random, workers: str) -> tuple[Strike, ...]:
    kinds = [kind for kind in WEIGHTS if kind != "rank" or "rank" in workers]
    found: list[Strike] = []
    kills: Counter[str] = Counter()
    early_chance = 0.35
    for _ in range(draw.randint(1, MOST_STRIKES)):
        early = draw.random() < early_chance
        known = ("controller", "zygote", "guard") if early else kinds
        kind = draw.choices(known, [WEIGHTS[one] for one in known])[0]
        signum = draw.choice(SIGNALS.get(kind, OTHERS))
        works = "trainer" if kind == "parent" else kind  # its loss is that of trainers
        if kills[works] == MOST_KILLS and works in workers:
            signum = signal.SIGSTOP
        kills[works] += signum == signal.SIGKILL
        ends = kind == "controller" and signum != signal.SIGSTOP
        early_chance = 0.75 if ends else 0.0
        found.append(
            Strike(
                kind=kind,
                signum=signum,
                early=early,
                delay_s=draw.uniform(0.0, 1.5 if early else 0.9),
                pause_s=draw.choice((0.01, 0.1, 0.5, 1.0)),
                draw=draw.randrange(2**30),
            )
        )
    return tuple(found)
