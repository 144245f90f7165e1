"""Every example app: the server's loop, in any order on any trainer, equals the plain loop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from training_bench import APPS, drive, serve

from warren.live.oracle.plain import train
from warren.live.training.app.app_loader import build_app
from warren.live.training.parameter_store import ParameterStore
from warren.model.job import Evaluate, Job

pytestmark = pytest.mark.slow

pytest.importorskip("sklearn", reason="scikit-learn (extra: examples) is not installed")

EXAMPLES = {
    "mlp": ("digits.py:Digits", 3, 32, {}),
    "cnn": ("digits.py:DigitsCNN", 3, 16, {}),
    "cancer": ("cancer.py:Cancer", 2, 32, {}),
    "cancer-mlp": ("cancer.py:Cancer", 4, 16, {"hidden": 8}),
    "diabetes": ("diabetes.py:Diabetes", 1, 32, {}),
    "charlm": ("charlm.py:CharLM", 2, 8, {}),
}


def _job(name: str) -> Job:
    app, scale, batch, params = EXAMPLES[name]
    return Job(
        index=0,
        name=name,
        app=app,
        scale=scale,
        batch=batch,
        rounds=14,
        seed=11,
        params=params,
        evaluate=Evaluate(every=5),
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_order_on_any_trainer_gives_the_bits_of_the_plain_loop(name: str) -> None:
    job = _job(name)
    make = partial(build_app, job, str(APPS))
    plain = train(make(), job)
    store, outcomes = serve(make, job, trainers=3)
    assert store.digest() == plain.digest
    assert tuple(outcome.loss for outcome in outcomes) == plain.losses
    metrics = {o.round + 1: o.metrics for o in outcomes if o.metrics is not None}
    assert metrics == plain.metrics
    assert sorted(metrics) == [5, 10, 14]
    assert [outcome.finished for outcome in outcomes] == [False] * 13 + [True]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_loss_falls_and_another_seed_gives_other_bits(name: str) -> None:
    job = replace(_job(name), rounds=30)
    plain = train(build_app(job, str(APPS)), job)
    other = replace(job, seed=12)
    assert sum(plain.losses[-5:]) < 0.8 * sum(plain.losses[:5])
    assert train(build_app(other, str(APPS)), other).digest != plain.digest


@pytest.mark.parametrize("name", ["cnn", "diabetes", "charlm"])
def test_a_restored_checkpoint_goes_on_with_the_same_bits(name: str) -> None:
    job = _job(name)
    make = partial(build_app, job, str(APPS))
    whole, _ = serve(make, job, trainers=1)
    first, _ = serve(make, job, trainers=1, stop_at=6)
    copy = first.checkpoint_part()
    second = ParameterStore(make(), job)
    second.restore([copy])
    assert b"".join(second.state()) == b"".join(first.state())
    drive(second, make, job, trainers=2)
    assert second.digest() == whole.digest()
