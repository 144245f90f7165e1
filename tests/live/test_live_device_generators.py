"""Tasks, steps and evaluations of one process draw what they draw in processes of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import drive, job, of, shuffled, treat_devices_as_gpus, virtual

from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.events import JobFailed, ParamsSaved
from warren.model.job import Evaluate

pytestmark = pytest.mark.live

APPS = """
import torch
from torch import nn
from torch.nn import functional
from warren.apps.protocol import TorchApp


class Noisy(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for one in group["params"]:
                one.add_(torch.randn(one.shape), alpha=0.01)


class Drops(TorchApp):
    noisy: bool = False

    def model(self):
        return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))

    def dataset(self):
        return torch.randn(64, 8), torch.randint(3, (64,))

    def loss(self, model, batch):
        return functional.cross_entropy(model(batch[0]), batch[1])

    def optimizer(self, named):
        return (Noisy if self.noisy else torch.optim.SGD)([p for _, p in named], lr=0.1)

    def evaluate(self, model):
        return {"sum": float(model(torch.ones(1, 8)).sum())}
"""


def test_draws_of_tasks_steps_and_evaluations_in_one_process_are_those_of_plain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "apps.py").write_text(APPS)
    jobs = [
        replace(job(0, "Drops", rounds=8, scale=2), evaluate=Evaluate(every=2)),
        replace(job(1, "Drops", rounds=8, scale=2), params={"noisy": True}),
        replace(job(2, "Drops", rounds=8), params={"noisy": True}, evaluate=Evaluate(every=3)),
    ]
    treat_devices_as_gpus(monkeypatch)
    run, costs = virtual(jobs, 1, str(tmp_path))
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert not of(events, JobFailed)
    saved = {event.job: event.sha256 for event in of(events, ParamsSaved)}
    for one in jobs:
        app = build_app(one, run.base)
        numerics.pin()
        assert saved[one.index] == train(app, one).digest, one.index
