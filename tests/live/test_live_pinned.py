"""A run trains the text that its apps had when it began, in every process, to its end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from live_worlds import drive, ended, job, of, world
from test_live_losses import after, kill, kill_zygote
from test_live_rings import bits, plain_bits, scattered

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.oracle.determinism_check import check_jobs
from warren.live.process.specs import ServerRole, TrainerRole
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import JobFailed, RoundsDone
from warren.model.job import Checkpoint, Evaluate, Job
from warren.model.run import Run

pytestmark = pytest.mark.live

OWN = """
from pathlib import Path
from apps import Tiny
from parts.scale import SCALE

class Own(Tiny):
    def loss(self, model, batch):
        return super().loss(model, batch) * SCALE

    def evaluate(self, model):
        # Beside the file, where it always was: data is not pinned.
        return super().evaluate(model) | {"data": float(Path(__file__).with_name("d").read_text())}
"""
ROUNDS = 8


def an_app(folder: Path) -> tuple[Run, CostTable, dict[int, str]]:
    """A run of two jobs, one of an app in three files, and what the plain loop makes of them."""
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "scale.py").write_text("SCALE = 0.5\n")
    (folder / "own.py").write_text(OWN)
    (folder / "d").write_text("7")
    more = {"checkpoint": Checkpoint(every=3), "evaluate": Evaluate(every=4), "rounds": ROUNDS}
    jobs = [own(job(0, params={"sleep_s": 0.01}, **more)), own(job(1, sync="ring", **more))]
    run, costs = world(folder, jobs)
    return run, costs, plain_bits(run)


def own(one: Job) -> Job:
    """The job, of the app in three files."""
    return Job(**{name: getattr(one, name) for name in one.__slots__} | {"app": "own.py:Own"})


def edit(folder: Path) -> None:
    """What a user does who goes on working while a run goes on."""
    (folder / "own.py").write_text(OWN.replace("* SCALE", "* SCALE + 1e-3 * model[0].bias.sum()"))
    (folder / "apps.py").unlink()
    shutil.rmtree(folder / "parts")
    (folder / "parts.py").write_text("raise SystemExit\n")


def test_an_app_edited_while_its_run_goes_on_changes_nothing_whoever_is_forked_again(
    tmp_path: Path,
) -> None:
    run, costs, expected = an_app(tmp_path)
    with LivePort(run, costs, tmp_path / "out") as port:
        edit(tmp_path)
        moments: dict[int, Callable[[LivePort], None]] = {
            3: kill(TrainerRole, 2), 6: kill(ServerRole), 9: kill_zygote,
        }  # fmt: skip
        events = drive(port, scattered(run, 1, 2), after(moments, port))
    assert ended(events) == {0: "finished", 1: "finished"}, of(events, JobFailed)
    assert bits(events) == expected
    assert {dict(one.metrics)["data"] for one in of(events, RoundsDone) if one.metrics} == {7.0}


def test_the_plain_engine_trains_the_text_that_its_run_began_with(tmp_path: Path) -> None:
    run, _, expected = an_app(tmp_path)
    whole = [Assignment(0, job, 0, ROUNDS, (0, 1)) for job in range(2)]
    with PlainPort(run, tmp_path / "out") as port:
        edit(tmp_path)
        events = drive(port, whole)
    assert bits(events) == expected


def test_both_processes_of_a_check_run_one_text(tmp_path: Path) -> None:
    """An app that changes its own file is the same in the second process."""
    run, _, _ = an_app(tmp_path)
    changes = "\nPath(__file__).with_name('apps.py').write_text('raise SystemExit')\n"
    (tmp_path / "own.py").write_text(OWN + changes)
    (report,) = check_jobs(run.workload.jobs[:1], run.base)
    assert report.same, report
