"""Runs of JPAS's evaluation: its testbed, its Table 2, arrivals drawn by seeds.

The paper prints the bytes of its models, not what they compute nor how many rounds they make; Fig.
15 has the intervals of arrivals as a curve that is not readable as numbers. So what a round
computes is assumed here, ``LENGTH_S`` is how long a job takes alone, and intervals are lognormal.
"""

from __future__ import annotations

import random
from typing import Any, Final

MODELS: Final = {
    "ResNext-110": (6.8, 1.5),
    "RNN-LSTM": (18.0, 1.5),
    "DenseNet121": (32.0, 2.0),
    "Inception_V3": (95.0, 2.0),
    "ResNet50": (100.0, 2.0),
    "DeepSpeech2": (152.0, 2.0),
    "AlexNet": (244.0, 1.5),
    "VGG19": (578.0, 4.0),
}
"""Table 2: MB, as printed; and the seconds that a round computes on a CPU server, assumed."""
NIC_MB_PER_S: Final = 125.0
GPU_GAIN: Final = 2.0
LENGTH_S: Final = (600.0, 1800.0)
"""How long a job would compute and send alone."""
INTERVAL_S: Final = 400.0
"""The mean interval between arrivals at load 1, where few jobs wait for devices."""
EARLY: Final = 0.27
"""Of a job's epochs, after which it has 95 % of its final accuracy: the paper's 2.2 and Fig. 3."""
SIGMA: Final = 1.0
PERIOD_S: Final = 120.0
JOBS: Final = 24

ALONE: Final = "alone"
"""The jobs of a seed under *fair*, each when all before it have ended: no link is shared."""
APART_S: Final = 20_000.0
"""Seconds between arrivals of *alone*; a job is done within a half of that."""
SIZES_KNOWN: Final = "baraat-sized"
HEAVY: Final = 0.8
"""The share of jobs that are not heavy, of *baraat-sized*."""
DEVICES: Final = (2, 2)
"""Devices of a CPU host and of a GPU host."""

GAINS: Final = {"maif-smoothed": "smoothed", "maif-expected": "expected"}


def drawn(
    seed: int,
    flow: str,
    *,
    load: float = 1.0,
    share_to_95: float | None = EARLY,
    computes: float = 1.0,
    devices: tuple[int, int] = DEVICES,
    **options: Any,
) -> dict[str, Any]:
    """A run of the jobs of a seed under a flow policy, with the policy's options.

    *maif-expected* is ``maif`` with the gain that is ours, *maif-smoothed* with (22) less the
    curve's value in place of y_t. ``computes``: how long rounds compute,
    in parts of what is assumed; jobs take as long alone, and have more rounds.
    ``share_to_95``: of the rounds, after which curves are at 95 % of what they end with; None: they
    bend as Warren draws them. ``devices``: those of a CPU host and of a GPU host. The flow *alone*
    has each job by itself: its times are what taking away all contention would give.
    """
    draw = random.Random(f"jpas-{seed}")
    bent = {} if share_to_95 is None else {"share_to_95": share_to_95}
    jobs, at_s = [], 0.0
    for index in range(JOBS):
        begin_s = index * APART_S if flow == ALONE else at_s / load
        jobs.append(_job(draw, index, begin_s, computes))
        at_s += INTERVAL_S * draw.lognormvariate(-SIGMA * SIGMA / 2, SIGMA)
    if flow == ALONE:
        flow = "fair"
    if flow == SIZES_KNOWN:
        flow, options = "baraat", {"heavy_bytes": _heavy_bytes(jobs), **options}
    if flow in GAINS:
        flow, options = "maif", {"gain": GAINS[flow], **options}
    if flow == "maif":
        options = {"period_s": PERIOD_S, **options}
    return {
        "format": 1,
        "name": f"jpas-{seed}",
        "cluster": {
            "format": 1,
            "hosts": [
                {"name": "cpu", "count": 10, "devices": {"CPU": devices[0]}, "nic": "1 Gbps"},
                {"name": "gpu", "count": 3, "devices": {"GPU": devices[1]}, "nic": "1 Gbps"},
            ],
            "network": {"model": "fluid"},
        },
        "workload": {"jobs": jobs},
        "profiles": {
            name: {
                "model": f"{size_mb} MB",
                "comp": {
                    "CPU": f"{computes * comp_s} s",
                    "GPU": f"{computes * comp_s / GPU_GAIN} s",
                },
                "sync": {"CPU": "1 s", "GPU": "1 s"},
            }
            for name, (size_mb, comp_s) in MODELS.items()
        },
        "scheduler": {"place": "fifo", "shape": "fixed", "flow": flow},
        **({"policy": {"flow": options}} if options else {}),
        "truth": {"losses": {"noise": 0.01, **bent}, "seed": seed},
        "seed": seed,
    }


def _heavy_bytes(jobs: list[dict[str, Any]]) -> float:
    """The size above which one job in five lies: a pull and a push of each task, as Baraat counts.

    Baraat has it from history; here from the jobs themselves.
    """
    sizes = sorted(2e6 * MODELS[job["cost"]][0] * job["scale"] * job["rounds"] for job in jobs)
    return float(sizes[int(HEAVY * len(sizes))])


def _job(draw: random.Random, index: int, at_s: float, computes: float) -> dict[str, Any]:
    model = draw.choice(list(MODELS))
    size_mb, comp_s = MODELS[model]
    alone_s = computes * comp_s + 2 * size_mb / NIC_MB_PER_S
    rounds = round(draw.uniform(*LENGTH_S) / alone_s)
    workers = draw.randint(2, 4)
    # As many servers as workers (5.1), on hosts drawn evenly, since the paper says nothing of them.
    hosts = [f"cpu-{at}" for at in range(10)] + [f"gpu-{at}" for at in range(3)]
    return {
        "name": f"{model}-{index}",
        "cost": model,
        "sync": "ps",
        "scale": workers,
        "servers": {"hosts": draw.sample(hosts, workers)},
        "rounds": rounds,
        "batch": 32,
        "arrival": f"{at_s:.3f} s",
        "evaluate": {"every": max(1, rounds // 100)},
        "stop": {"metric": "accuracy", "reaches": round(draw.uniform(0.7, 0.98), 3)},
    }
