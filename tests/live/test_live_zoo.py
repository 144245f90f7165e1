"""Many ways to write an app side by side on real processes: plain's bits, or the line they say."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import drive, job, of, virtual

from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.live.training.weight_average import safetensors_of
from warren.model.decision import Assignment
from warren.model.events import JobFailed, ParamsSaved
from warren.model.job import Evaluate, Job

sys.path.insert(0, str(Path(__file__).parents[1] / "live_training"))
from zoo_table import SAME, TABLE

pytestmark = pytest.mark.live
ZOO = Path(__file__).parents[1] / "live_training" / "zoo"
SERVED = (
    "ClipNormMixed", "AverageOfMixed", "BatchNorm", "AugmentedByNumpy", "SpectralOld",
    "DatasetForEvaluate", "OptimizerForLoss", "RandomOptimizer", "RandomSplit", "Table", "MaxNorm",
    "Adversary", "NumpyGenerator", "Counter", "GlobalCounter", "RunningMean", "Registers",
    "Integers", "Best", "WallClock",
)  # fmt: skip
RINGS = (
    "AverageOfWeights",
    "ClipNorm",
    "Tied",
    "RandomSplit",
    "OptimizerForLoss",
    "ByMetric",
    "Sparse",
    "TorchGenerator",
)
KINDS = {kind.app.partition(":")[2]: kind for kind in TABLE}


def order_of(jobs: list[Job]) -> list[Assignment]:
    """Round by round; the tasks of a round on both devices, this or the other way round."""
    draw, found = random.Random(3), []
    for round_no in range(4):
        for one in draw.sample(jobs, len(jobs)):
            for shard, device in enumerate(draw.sample(range(2), 2)):
                found.append(Assignment(device, one.index, round_no, 1, (shard,)))
    return found


@pytest.fixture(scope="module")
def plain_digest() -> Callable[[Job], str]:
    """Trains a job as plain does, each once: the parameters do not hang on servers."""
    found: dict[tuple[int, str], str] = {}

    def of_job(one: Job) -> str:
        if (key := (one.index, one.app or "")) not in found:
            app = build_app(one, str(ZOO))
            numerics.pin()
            found[key] = train(app, one).digest
        return found[key]

    return of_job


@pytest.mark.parametrize("servers", [1, 2])
def test_kinds_of_apps_side_by_side_have_the_bits_of_plain_or_fail_alone_by_name(
    tmp_path: Path, servers: int, plain_digest: Callable[[Job], str]
) -> None:
    chosen = [(name, "ps") for name in SERVED] + [(name, "ring") for name in RINGS]
    chosen = chosen if servers == 1 else chosen[:14]
    jobs = [
        replace(job(index, rounds=4, sync=sync, evaluate=Evaluate(every=2)), app=KINDS[name].app)
        for index, (name, sync) in enumerate(chosen)
    ]
    run, costs = virtual(jobs, 2, str(ZOO))
    run = replace(run, scheduler=replace(run.scheduler, servers=servers))
    with LivePort(run, costs, tmp_path / "run") as port:
        events = drive(port, order_of(jobs))
    saved = {event.job: event.sha256 for event in of(events, ParamsSaved)}
    reasons = {event.job: event.reason for event in of(events, JobFailed)}
    for one, (name, _) in zip(jobs, chosen, strict=True):
        kind = KINDS[name]
        if kind.outcome == SAME:
            assert saved.get(one.index) == plain_digest(one), reasons.get(one.index, name)
        else:
            assert kind.says in reasons[one.index], name
        if name.startswith("AverageOf"):
            average = train(build_app(one, str(ZOO)), one).averaged_state_dict
            assert average is not None
            file = tmp_path / "run" / "ema" / f"{one.name}.safetensors"
            assert file.read_bytes() == safetensors_of(average)
