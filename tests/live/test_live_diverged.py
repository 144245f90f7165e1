"""A job whose loss is NaN ends as diverged, or trains on, the same in every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_worlds import APPS, drive, ended, job, of, shuffled, world

from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.decision import Assignment
from warren.model.errors import SpecError
from warren.model.events import JobFailed, ParamsSaved
from warren.model.job import Job
from warren.model.run import Run

pytestmark = pytest.mark.live

BLOWS = """

class Blows(Tiny):
    def model(self):
        return nn.Linear(4, 1)

    def optimizer(self, named_parameters):
        return torch.optim.SGD([p for _, p in named_parameters], lr=1e30)
"""
PATIENT, SERVED, RING, PATIENT_RING = range(4)


def _jobs() -> list[Job]:
    return [
        job(PATIENT, "Blows", rounds=6, nan_loss="train"),
        job(SERVED, "Blows", rounds=6),
        job(RING, "Blows", rounds=6, sync="ring"),
        job(PATIENT_RING, "Blows", rounds=6, sync="ring", nan_loss="train"),
    ]


def _plain(run: Run, index: int) -> str:
    """The hash of what the plain loop gives."""
    one = run.workload.jobs[index]
    app = build_app(one, run.base)
    numerics.pin()
    return train(app, one).digest


@pytest.mark.parametrize("servers", [1, 2])
def test_a_job_whose_loss_is_nan_fails_as_diverged_unless_it_says_otherwise(
    tmp_path: Path, servers: int
) -> None:
    run, costs = world(tmp_path, _jobs(), servers=servers)
    (tmp_path / "apps.py").write_text(APPS + BLOWS)
    served = [one for one in shuffled(run, seed=1) if one.job in (PATIENT, SERVED)]
    rings = [Assignment(d, j, 0, 6, (d,)) for j in (RING, PATIENT_RING) for d in (0, 1)]
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, [*served, *rings])
    assert ended(events) == {
        PATIENT: "finished", SERVED: "failed", RING: "failed", PATIENT_RING: "finished",
    }  # fmt: skip
    for index in (SERVED, RING):
        with pytest.raises(SpecError, match=r"^diverged: the loss of round [1-4] is NaN") as told:
            _plain(run, index)
        assert {event.reason for event in of(events, JobFailed, index)} == {str(told.value)}
    saved = {event.job: event.sha256 for event in of(events, ParamsSaved)}
    assert saved == {index: _plain(run, index) for index in (PATIENT, PATIENT_RING)}
