"""What switching took is told, and a folder in which it is left out is found."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_files import edit_csv, edit_summary, edit_timeline, files_of

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.model.timeline import Timeline
from warren.model.units import NS_PER_S
from warren.policy.registry import place_policy
from warren.report.checks.check import check
from warren.report.devices.switches import measured
from warren.report.record import Record
from warren.runs.results import load_costs
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def simulated(run: Run, costs: CostTable, place: str = "srtf") -> Record:
    journal = bytearray()
    Core(
        run=run, costs=costs, policy=place_policy(place), port=SimPort(run, costs),
        sink=journal.extend, world="sim", check=True,
    ).execute()  # fmt: skip
    return Record(run=run, history=read_history(bytes(journal)), costs=costs)


def charged(seed: int, **fields: object) -> Record:
    """A random small run whose switches take 0.25 s and 1 s by type; the record of it."""
    run, costs = worlds.random_world(seed, **fields)  # type: ignore[arg-type]
    jobs, types = costs.comp_ns_JT.shape
    times = np.array([NS_PER_S // 4, NS_PER_S, NS_PER_S][:types])
    return simulated(run, replace(costs, switch_ns_JT=np.tile(times, (jobs, 1))))


@pytest.mark.parametrize("place", ["srtf", "gavel-fifo", "hare"])
def test_a_run_that_charges_switching_passes_every_check(place: str) -> None:
    for seed in range(6):
        record = charged(seed, network="lane" if seed % 2 else "constant")
        assert check(files_of(simulated(record.run, record.costs, place))) == []


def test_the_summary_counts_switches_and_their_time_and_a_free_run_has_no_such_key() -> None:
    record = charged(2, jobs=3, devices=1)
    found = json.loads(files_of(record)["summary.json"])
    job_R = record.history.timeline.job_R  # in order of start on the only device
    changes = int((np.diff(job_R) != 0).sum())
    assert changes > 2
    assert found["switches"] == changes
    assert found["switching_s"] == pytest.approx(changes / 4)
    free = simulated(record.run, replace(record.costs, switch_ns_JT=None))
    assert "switches" not in json.loads(files_of(free)["summary.json"])
    assert "switch_s" not in files_of(free)["profile.csv"].decode()


def test_a_folder_made_without_the_switches_it_states_is_found() -> None:
    record = charged(1, jobs=4, devices=2)
    free = simulated(record.run, replace(record.costs, switch_ns_JT=None))
    faults = [str(fault) for fault in check(files_of(replace(free, costs=record.costs)))]
    assert any("too soon after another job's" in fault for fault in faults), faults


def test_a_switch_that_began_before_its_task_could_start_is_found() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0), worlds.job(1, arrival_ns=9 * NS_PER_S)])
    costs = worlds.costs([[1], [1]], [[0], [0]])
    switch_ns_JT = np.full((2, 1), NS_PER_S)
    record = simulated(run, replace(costs, switch_ns_JT=switch_ns_JT), "gavel-fifo")
    assert check(files_of(record)) == []

    def early(c: dict[str, np.ndarray]) -> None:
        """The switch happened while the device waited for the job to arrive."""
        for name in ("start_ns_R", "comp_end_ns_R", "end_ns_R"):
            c[name][1] -= NS_PER_S // 2

    faults = [str(fault) for fault in check(edit_timeline(record, files_of(record), early))]
    assert any("too soon after another job's" in fault for fault in faults), faults


@pytest.mark.parametrize("values", [{"switches": 1}, {"switching_s": 0.0}])
def test_a_wrong_count_of_switches_is_found(values: dict[str, float]) -> None:
    record = charged(2, jobs=3, devices=1)
    (key,) = values
    faults = [str(fault) for fault in check(edit_summary(files_of(record), **values))]
    assert any(f"summary.json {key}" in fault for fault in faults)


def of_rows(*rows: tuple[int, int, int, int, float]) -> Timeline:
    """Assignments (device, start, job, tasks, busy) on devices of their own, in seconds."""
    device, start, job, tasks, busy = (np.array(column) for column in zip(*rows, strict=True))
    busy_ns = (busy * NS_PER_S).astype(np.int64)
    end_ns, nothing = start * NS_PER_S + busy_ns, np.zeros_like(job)
    return Timeline.from_columns(
        [job, nothing, nothing + 1, nothing, tasks, device, start * NS_PER_S, end_ns, end_ns,
         busy_ns]
    )  # fmt: skip


def test_a_live_switch_is_what_a_task_after_another_job_took_longer() -> None:
    rows = [
        # Two devices of one type; job 0 takes 1 s and 0.5 s more after another job.
        (0, 0, 0, 1, 9.0),  # the first of a device follows none
        (0, 10, 0, 1, 1.0), (0, 12, 1, 1, 4.0), (0, 17, 0, 2, 2.5), (0, 20, 0, 1, 1.0),
        (1, 0, 1, 1, 7.0), (1, 10, 0, 1, 1.5), (1, 12, 0, 1, 1.2),
        # Another type has a median of its own.
        (2, 0, 1, 1, 2.0), (2, 3, 0, 1, 3.0), (2, 7, 0, 1, 2.75),
    ]  # fmt: skip
    found = measured(of_rows(*rows), np.array([0, 0, 1]), ["a", "b"])
    assert found["switches"] == 4
    assert found["switch_s"] == {"a": pytest.approx(0.5)}  # b never follows itself
    assert found["switching_s"] == pytest.approx(0.5 + 0.5 + 0.25)


def test_times_of_switches_come_back_with_the_costs_of_a_folder() -> None:
    record = charged(3)
    costs = load_costs("d", files_of(record), record.run)
    assert costs.switch_ns_JT is not None
    fits_JT = record.costs.fits_JT
    assert record.costs.switch_ns_JT is not None
    assert (costs.switch_ns_JT[fits_JT] == record.costs.switch_ns_JT[fits_JT]).all()
    free = simulated(record.run, replace(record.costs, switch_ns_JT=None))
    assert load_costs("d", files_of(free), record.run).switch_ns_JT is None


def test_a_time_of_a_switch_that_is_no_number_is_refused() -> None:
    def spoil(rows: list[list[str]]) -> None:
        rows[1][4] = "soon"

    faults = check(edit_csv(files_of(charged(3)), "profile.csv", spoil))
    assert any("switch_s: 'soon' is not a number" in str(fault) for fault in faults)
