"""The part ``jpeg`` of gpu_alone.py: JPEG files beside the own loop with a DataLoader."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import Pool
from typing import Any, Final

import _gpu_runs as runs
from _gpu_bench import HERE, WARM, Bench, Net, attempted, checked, ratios
from _gpu_nets import write_picture

WORKERS: Final = 8


def jpeg(bench: Bench) -> dict[str, Any]:
    """A ResNet on JPEG files, beside the own loop with a DataLoader."""
    folder = bench.scratch / "jpeg"
    folder.mkdir()
    count, size = (64, (96, 64)) if bench.rehearse else (2000, (500, 375))
    with Pool() as pool:
        paths = [(folder / f"{at:04}.jpg", at, *size) for at in range(count)]
        pool.starmap(write_picture, paths, chunksize=16)
    params = {"folder": str(folder)}
    params |= {"net": "resnet18", "side": 32} if bench.rehearse else {}
    workers = min(WORKERS, os.cpu_count() or 1)
    net = Net(
        app=f"{HERE}/_gpu_nets.py:Jpegs",
        batch=8 if bench.rehearse else 64,
        rounds=WARM + (12 if bench.rehearse else 93),
        params=params,
        steps=31,
    )
    ways = ("free", "deterministic")
    case = bench.case("jpeg", net, workers=workers, ways=ways, blocks=2, warm=20)
    own = checked(bench.own([case])["jpeg"])
    row: dict[str, Any] = {"own": own, "workers": workers}
    # Each way that a job may ask for workers; without them, batches are built in the trainer.
    for label, more in (("workers", {"workers": workers}), ("without", {})):
        row[label] = attempted(jpeg_one, bench, net, own, more)
    return row


def jpeg_one(
    bench: Bench, net: Net, own: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """A run on JPEG files."""
    rounds = net.rounds if more else WARM + 10
    job = bench.job("jpeg", replace(net, rounds=rounds), own["deterministic"]["ms"], **more)
    try:
        run = bench.trained("jpeg", [job], "srtf")
    except runs.RefusedError as error:
        raise runs.SkippedError(str(error)) from None
    step = run.round_ms("jpeg", WARM, 31 if more else 5)
    rates = {way: ratio**-1 for way, ratio in ratios(step["ms"], own).items()}
    met = {"of the DataLoader's rate, 0.95": rates["deterministic"] >= 0.95}
    return {"warren": step, "images_s": 1000 * net.batch / step["ms"], "rates": rates, "met": met}
