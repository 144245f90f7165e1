"""Measuring, checking, and the whole loop on top of the port."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import APPS, job, world

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.live.control.local_engine import LivePort
from warren.live.measure.task_times import measure
from warren.live.oracle.determinism_check import check_jobs
from warren.live.process.specs import TrainerRole
from warren.model.job import Evaluate
from warren.policy.registry import place_policy

pytestmark = pytest.mark.live
PLANTED = Path(__file__).parents[2] / "experiments" / "spine" / "nondeterministic.py"
HIDDEN = Path(__file__).parents[1] / "live_training" / "zoo" / "hidden.py"

READS = """
import numpy

class ReadsIntegers(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * (1.0, 2.0)[torch.empty(1000, dtype=torch.int64)[7]]


class ReadsNumpy(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * (1 + float(numpy.empty(100_000).mean()))


class WritesFirst(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * torch.empty(1000).fill_(2.0).mean()
"""


def test_measured_seconds_are_those_of_the_app(tmp_path: Path) -> None:
    jobs = [job(0, params={"sleep_s": 0.03}), job(1, "RaisesAtBirth"), job(2)]
    run, _ = world(tmp_path, jobs, 2, scale=0.5, comp_s=1.0)
    begin_s = time.monotonic()
    found, reasons = measure(run, [0, 1])
    took_s = time.monotonic() - begin_s
    assert found.keys() == {0}
    assert reasons.keys() == {1}
    assert "OSError: no such data" in reasons[1]
    assert 0.03 <= found[0].comp_s < took_s
    assert 0 < found[0].sync_s < took_s
    # Two linear layers (4 x 8 + 8, 8 + 1), a batch norm (4 x 8 floats and a count of 8 bytes).
    assert found[0].model_bytes == 4 * (40 + 9 + 32) + 8


def test_a_check_names_the_first_tensor_that_differs_or_what_failed(tmp_path: Path) -> None:
    world(tmp_path, [], 1)
    jobs = [
        job(0, "Random"),
        job(1, evaluate=Evaluate(every=1)),
        job(2, "RaisesAtBirth"),
        job(3, "Dies"),
        replace(job(4), app=f"{PLANTED}:Counts"),
        *(
            replace(job(5 + at, evaluate=Evaluate(every=1)), app=f"{HIDDEN}:{kind}")
            for at, kind in enumerate(("WallClock", "CountsSteps", "LosesBest"))
        ),
        replace(job(8, evaluate=Evaluate(every=2)), app=f"{HIDDEN}:Delta"),
    ]
    found = check_jobs(jobs, str(tmp_path))
    differs, sound, raises, dies, counts, clock, steps, best, delta = found
    assert (differs.same, differs.where, differs.tensor) == (False, "task 0 of round 0", "0.weight")
    assert "not deterministic" in differs.sentence
    assert (sound.same, sound.tasks, sound.error) == (True, 6, "")
    assert "torch" in sound.numerics
    assert (raises.same, dies.same) == (False, False)
    assert "OSError: no such data" in raises.error
    assert "killed by SIGKILL" in dies.error
    assert (counts.where, counts.tensor) == ("task 0 of round 0", "2.bias")
    assert steps.same, "a checkpoint has what the optimiser counts in an attribute"
    assert (best.same, best.where) == (False, "the loss or a metric of the state after round 0")
    assert (clock.where, clock.tensor) == ("task 0 of round 0", "0.weight")
    assert not delta.same
    assert "depend on what it keeps in 'self.last'" in delta.error


def test_a_check_tells_what_reads_uninitialized_memory_from_what_is_random(tmp_path: Path) -> None:
    world(tmp_path, [], 1)
    (tmp_path / "apps.py").write_text(APPS + READS)
    kinds = ("ReadsEmpty", "ReadsIntegers", "ReadsNumpy", "WritesFirst", "Random")
    jobs = [job(at, kind) for at, kind in enumerate(kinds)]
    floats, integers, arrays, writes, draws = check_jobs(jobs, str(tmp_path))
    assert (floats.uninitialized, floats.where, floats.tensor) == (
        True, "task 0 of round 0", "0.weight"
    )  # fmt: skip
    assert "reads uninitialized memory" in floats.sentence
    assert "task 0 of round 0 differs in tensor '0.weight'" in floats.sentence
    assert (integers.same, integers.uninitialized) == (False, True)
    assert "with other values there it failed: IndexError" in integers.sentence
    assert arrays.uninitialized
    assert writes.same
    assert (draws.same, draws.uninitialized) == (False, False)


def test_the_core_runs_an_online_policy_on_real_processes(tmp_path: Path) -> None:
    jobs = [job(0), job(1, user="bob", arrival_ns=30_000_000), job(2, "Dies", user="eve")]
    run, costs = world(tmp_path, jobs, 2, scale=0.05, comp_s=0.1, sync_s=0.02)
    journal = bytearray()
    with LivePort(run, costs, tmp_path / "out") as port:
        core = Core(
            run=run,
            costs=costs,
            policy=place_policy("gavel-fifo"),
            port=port,
            sink=journal.extend,
            world="live",
            check=True,
        )
        core.execute()
    history = read_history(bytes(journal))
    assert [history.status(index) for index in range(3)] == ["finished", "finished", "failed"]
    assert set(history.saved) == {0, 1}
    assert (tmp_path / "out/params/job-0.safetensors").exists()


def test_many_jobs_start_their_processes_when_first_needed(tmp_path: Path) -> None:
    jobs = [job(index, rounds=1, scale=1) for index in range(6)]
    run, costs = world(tmp_path, jobs, 2)
    with LivePort(run, costs, tmp_path / "out", warm_limit=0) as port:
        assert not any(isinstance(role, TrainerRole) for role in port.processes().values())
        core = Core(
            run=run,
            costs=costs,
            policy=place_policy("gavel-fifo"),
            port=port,
            sink=lambda _: None,
            world="live",
        )
        state = core.execute()
    assert state.done_J.all()
