"""A run with losses: only what counts is in its tables, and what it cost is told."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.cluster import Emulate
from warren.model.job import Checkpoint
from warren.model.run import Grain
from warren.policy.registry import place_policy
from warren.report.checks.check import check
from warren.report.metrics import loss_sentence, summary
from warren.report.page.page import page
from warren.report.record import Record

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
import worlds
from core_faults import FaultyPort, Trouble
from report_files import edit_summary, files_of

COARSE = Grain(text="3 rounds", rounds=3)


def record_of(seed: int, **changes: Any) -> Record:
    """A live run of three-round stretches that lost jobs now and then."""
    run, costs = worlds.random_world(seed, jobs=5, devices=3, grain=COARSE)
    jobs = tuple(replace(job, checkpoint=Checkpoint(every=2)) for job in run.workload.jobs)
    run = replace(
        run,
        workload=replace(run.workload, jobs=jobs),
        cluster=replace(run.cluster, emulate=Emulate(time_scale=1.0)),
    )
    journal = bytearray()
    port: Any = FaultyPort(run, costs, replace(Trouble(seed=seed, older=0.0), **changes))
    Core(
        run=run, costs=costs, policy=place_policy("srtf"), port=port, sink=journal.extend,
        world="live", check=True,
    ).execute()  # fmt: skip
    return Record(run=run, history=read_history(bytes(journal)), costs=costs)


@pytest.mark.parametrize("seed", range(12))
def test_a_run_with_losses_keeps_its_promises(seed: int) -> None:
    record = record_of(seed, failing=seed % 3 == 0)
    assert check(files_of(record)) == []
    told = summary(record)
    done = sum(job.scale * (job.rounds or 0) for job in record.run.workload.jobs)
    if not told["failed"]:
        assert told["tasks"] == done


def test_what_was_lost_is_counted_and_reported_on_the_page_and_in_the_closing_lines() -> None:
    record = record_of(1)
    found = summary(record)
    assert found["rollbacks"] == len(found["rolled_back"]) == len(record.history.rollbacks) > 0
    assert found["redone_tasks"] >= len(record.history.lost)
    assert found["resumed"] == 0
    one = found["rolled_back"][0]
    assert one["passed"] - one["round"] <= one["checkpoint"] == 2
    sentence = loss_sentence(found)
    assert f"jobs went back to a checkpoint {found['rollbacks']} time" in sentence
    assert f"{found['redone_tasks']} tasks ran again after a loss" in sentence
    assert sentence in page(record)
    assert "its server was lost" in page(record)


def test_without_losses_nothing_is_said_and_a_simulation_has_no_such_keys() -> None:
    record = record_of(1, rate=0.0)
    found = summary(record)
    assert (found["redone_tasks"], found["rollbacks"], found["resumed"]) == (0, 0, 0)
    assert loss_sentence(found) == ""
    assert "Losses" not in page(record)
    header = structs.replace(record.history.header, world="sim")
    history = replace(record.history, header=header)
    assert "redone_tasks" not in summary(replace(record, history=history))


def test_a_loss_of_more_than_a_checkpoint_interval_is_a_fault() -> None:
    found = [
        str(fault) for seed in range(20) for fault in check(files_of(record_of(seed, older=1.0)))
    ]
    assert found
    assert all("expected at most 2 rounds, its checkpoint.every" in fault for fault in found)


def test_a_summary_whose_losses_do_not_add_up_is_a_fault() -> None:
    files = files_of(record_of(1))
    (fault,) = check(edit_summary(files, rollbacks=0))
    assert "summary.json rollbacks: is 0" in str(fault)
    broken = json.loads(files["summary.json"])["rolled_back"]
    broken[0]["passed"] = "many"
    (fault,) = check(edit_summary(files, rolled_back=broken))
    assert "rolled_back is not a list of jobs and rounds" in str(fault)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"resumed": 1}, "the run was cut off and went on 1 time"),
        ({"rollbacks": 2, "redone_tasks": 1}, "checkpoint 2 times, 1 task ran again after a loss"),
        ({}, ""),
    ],
)
def test_losses_are_reported_in_one_sentence(values: dict[str, Any], words: str) -> None:
    assert loss_sentence(values).endswith(words)
