"""A history from the run file to the policy, the results and back."""

from __future__ import annotations

from typing import Any

from warren.cli.commands.run import _notes
from warren.model.run import Run
from warren.profile.published import TABLE
from warren.runs.compose import simulate
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run

JOBS = [
    {"name": "7-long", "model": "vgg19", "rounds": 9},
    {"name": "8-short", "model": "vgg19", "rounds": 1},
]
ENDED = [{**job, "name": str(job["name"]).replace("-", f"{k}-")} for k in range(5) for job in JOBS]


def run_of(history: Any) -> Run:
    data = {
        "cluster": {"hosts": [{"name": "v", "devices": {"V100": 1}}]},
        "workload": JOBS,
        "history": history,
        "scheduler": {"place": "gittins"},
    }
    return run_from_dict(data, "", lambda _: b"", rows=TABLE)


def test_what_the_past_tells_changes_a_simulation_and_a_repeated_run_has_the_same_past() -> None:
    without, told = simulate(run_of(None)), simulate(run_of({"jobs": ENDED}))
    assert without.history.finish_ns_J[1] > told.history.finish_ns_J[1]
    again = load_run("run.yaml", lambda _: dump_run(told.run).encode())
    assert simulate(again).history.finish_ns_J.tolist() == told.history.finish_ns_J.tolist()


def test_remarks_on_the_history_are_reported_as_such() -> None:
    assert _notes(run_of({"jobs": ENDED, "notes": ["3 rows left out"]})) == (
        "history: 3 rows left out",
    )
