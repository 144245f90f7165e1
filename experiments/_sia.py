"""Workloads of Pollux (OSDI'21) and Sia (SOSP'23) as rigid jobs, at the measured times of steps.

A job keeps the GPUs and the batch of its row. A step is a round with a task for each GPU. Its time
on a device type is the measurement of that many GPUs on the fewest nodes. All of it is T^c: rigid
jobs hold their GPUs during the all-reduce, and nothing is gained by running the tasks of a round
one after the other. Rings hold them by themselves, and so have the measured all-reduce as T^s. A
batch that is too large for a GPU is accumulated in equal parts, as in Pollux's simulator.

A job's steps are those in which Pollux's validation curve of its batch reaches the application's
last epoch; of the two applications without curves here, epochs times items over batch, with the
items that the package's reader of these traces has.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

EPOCHS: Final[Mapping[str, int]] = {
    "bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50,
}  # fmt: skip
ITEMS: Final[Mapping[str, int]] = {"deepspeech2": 7_150, "yolov3": 16_551}
"""Items of an epoch of the applications without a curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A device type: the end of its files' names, its folder there, and GPUs of a node."""

    name: str
    suffix: str
    folder: str
    node_gpus: int


KINDS: Final[Mapping[str, Kind]] = {
    "T4": Kind(name="T4", suffix="aws", folder="pollux", node_gpus=4),
    "A100": Kind(name="A100", suffix="dgx-ext", folder="sia", node_gpus=8),
    "2080Ti": Kind(name="2080Ti", suffix="rtx", folder="sia", node_gpus=8),
}

Steps = Mapping[str, Sequence[tuple[float, float, float]]]
"""By placement, or ``NODESxGPUS``: rising batches of a GPU, with step and all-reduce, s."""


def read_steps(folder: Path, suffix: str) -> Steps:
    """Read the measurements of an application on a device type; equal points become their mean."""
    found: dict[str, dict[float, list[tuple[float, float]]]] = {}
    for name in ("placements", "scalability"):
        path = folder / f"{name}-{suffix}.csv"
        with path.open() as file:
            for row in csv.DictReader(file):
                key = row.get("placement") or f"{row['num_nodes']}x{row['num_replicas']}"
                point = (float(row["step_time"]), float(row["sync_time"]))
                found.setdefault(key, {}).setdefault(float(row["local_bsz"]), []).append(point)
    return {
        key: [
            (batch, *np.mean(points, axis=0).tolist()) for batch, points in sorted(batches.items())
        ]
        for key, batches in found.items()
    }


def placement(gpus: int, node_gpus: int) -> str:
    """The fewest nodes for a job, as the files write it: the least rotation of GPUs by node."""
    full, rest = divmod(gpus, node_gpus)
    nodes = [str(node_gpus)] * full + [str(rest)] * (rest > 0)
    return min("".join(nodes[at:] + nodes[:at]) for at in range(len(nodes)))


def step_s(steps: Steps, gpus: int, node_gpus: int, batch: int) -> tuple[float, float] | None:
    """T^c and T^s of a step with this batch in all, s; None if not measured on as many GPUs."""
    key = placement(gpus, node_gpus)
    points = steps.get(key) or steps.get(f"{len(key)}x{gpus}")
    if not points:
        return None
    sizes, step, sync = (np.array(column) for column in zip(*points, strict=True))
    local = -(-batch // gpus)
    parts = max(1, -(-local // int(sizes[-1])))
    part = -(-local // parts)
    one_s, sync_s = float(np.interp(part, sizes, step)), float(np.interp(part, sizes, sync))
    return parts * max(one_s - sync_s, 1e-6), sync_s


def read_iterations(folder: Path, application: str) -> dict[int, int]:
    """Iterations to the last epoch by batch, from the validation curves of an application."""
    found = {}
    for path in sorted((folder / application).glob("validation-*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        found[int(path.stem.rpartition("-")[2])] = int(rows[EPOCHS[application] - 1]["iteration"])
    return found


def rounds(application: str, batch: int, iterations: Mapping[int, int]) -> int:
    """Steps of a job of this application."""
    if batch in iterations:
        return iterations[batch]
    return -(-EPOCHS[application] * ITEMS[application] // batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a workload."""

    name: str
    arrival_s: float
    application: str
    gpus: int
    batch: int

    @property
    def model(self) -> str:
        """The row's profile."""
        return f"{self.application}-{self.gpus}x{self.batch}"


def read_rows(path: Path) -> list[Row]:
    """Read a workload."""
    with path.open() as file:
        return [
            Row(
                name=row["name"],
                arrival_s=float(row["time"]),
                application=row["application"],
                gpus=int(row["num_replicas"]),
                batch=int(row["batch_size"]),
            )
            for row in csv.DictReader(file)
        ]


def priced(known: Mapping[str, tuple[float, float]], *, rings: bool) -> dict[str, Any]:
    """A profile row of steps (T^c, T^s) by device type."""
    times = {
        name: (comp_s, sync_s) if rings else (comp_s + sync_s, 0.0)
        for name, (comp_s, sync_s) in known.items()
    }
    return {
        "model": "1 MB",
        "comp": {name: f"{comp_s:.6f} s" for name, (comp_s, _) in times.items()},
        "sync": {name: f"{sync_s:.6f} s" for name, (_, sync_s) in times.items()},
    }


def run_of(
    rows: Sequence[Row], nodes: Mapping[str, int], data: Path, *, rings: bool = False
) -> dict[str, Any]:
    """A run file of these jobs on this number of nodes of each device type."""
    kinds = {name: KINDS[name] for name in nodes}
    applications = sorted({row.application for row in rows})
    measured = {
        (one, name): read_steps(data / "profiles" / kind.folder / one, kind.suffix)
        for one in applications
        for name, kind in kinds.items()
    }
    iterations = {one: read_iterations(data / "curves" / "pollux", one) for one in applications}
    profiles: dict[str, Any] = {}
    for row in rows:
        found = {
            name: step_s(measured[row.application, name], row.gpus, kind.node_gpus, row.batch)
            for name, kind in kinds.items()
        }
        profiles[row.model] = priced(
            {name: step for name, step in found.items() if step is not None}, rings=rings
        )
    return {
        "format": 1,
        "name": "rigid",
        "cluster": {
            "format": 1,
            "hosts": [
                {"name": name.lower(), "count": count, "devices": {name: kinds[name].node_gpus}}
                for name, count in nodes.items()
            ],
        },
        "workload": {
            "jobs": [
                {
                    "name": row.name,
                    "model": row.model,
                    "scale": row.gpus,
                    "rounds": rounds(row.application, row.batch, iterations[row.application]),
                    "arrival": f"{row.arrival_s:.6f} s",
                    **({"sync": "ring"} if rings else {}),
                }
                for row in rows
            ]
        },
        "profiles": profiles,
        "scheduler": {"place": "gavel-fifo"},
        "grain": "360 s",
        "seed": 1,
    }
