"""Small nets of examples/gpu have the bits of the plain loop, and their run files load."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from training_bench import serve

from warren.live.oracle.plain import train
from warren.live.training.app.app_loader import build_app
from warren.model.job import Job
from warren.runs.inputs import run_of

pytestmark = pytest.mark.slow

NETS = Path(__file__).resolve().parents[2] / "examples" / "gpu"
TEXT = {"layers": 1, "heads": 4, "width": 32, "words": 200, "length": 12, "texts": 8}
SMALL = {
    "resnet50.py:ResNet": ({"net": "resnet18", "side": 32, "images": 8}, ["torchvision"]),
    "gpt2.py:Gpt2": (TEXT, ["transformers"]),
    "bert.py:Bert": (TEXT, ["transformers"]),
    "llama_lora.py:Llama": ({**TEXT, "rank": 2}, ["transformers", "peft"]),
    "unet.py:Diffusion": ({"width": 16, "levels": 2, "side": 16, "images": 8}, []),
}


@pytest.mark.parametrize("app", SMALL)
def test_two_rounds_of_a_net_have_the_bits_of_the_plain_loop(app: str) -> None:
    params, packages = SMALL[app]
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed")
    job = Job(index=0, name="a", app=app, scale=2, batch=2, rounds=2, seed=1, params=params)
    make = partial(build_app, job, str(NETS))
    plain = train(make(), job)
    store, outcomes = serve(make, job, trainers=2)
    assert store.digest() == plain.digest
    assert tuple(outcome.loss for outcome in outcomes) == plain.losses


def test_each_net_has_a_run_file_that_names_it() -> None:
    found = [run_of(str(path), None, [], history=False) for path in NETS.glob("*.yaml")]
    assert sorted(SMALL) == sorted(str(job.app) for run in found for job in run.workload.jobs)
