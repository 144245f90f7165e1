"""What waits for a checkpoint, and what a checkpoint waits for: the rules of decision 0011."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from live_worlds import APPS, job
from server_world import first_server

from warren.live.control.recovery import Recovery
from warren.live.server.checkpoint_schedule import CheckpointSchedule
from warren.live.training.checkpoints.files import latest_round, load_parts, save_part
from warren.live.transport.server_messages import BeginRound, PartSaved, RoundReport
from warren.model.events import RoundsDone
from warren.model.job import Checkpoint

EACH = Checkpoint(every=1)


def test_a_barrier_waits_until_all_servers_have_put_the_state_before_it_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apps.py").write_text(APPS)
    one = job(0, scale=1, rounds=9, checkpoint=EACH)
    with first_server(tmp_path, one, monkeypatch) as stage:
        stage.compute(0)
        assert stage.passed(0)  # the state that round 0 begins with is not saved
        assert stage.second.hear(BeginRound) == BeginRound(1, save=True)
        stage.compute(1)
        assert stage.controller.hears_none(RoundReport)
        for other in (PartSaved(1, 0), PartSaved(1, 2)):
            stage.second.say(other)
        assert stage.controller.hears_none(RoundReport)
        assert not list(stage.store.glob("*.json"))
        stage.second.say(PartSaved(1, 1))
        assert stage.passed(1)
        assert [path.name for path in stage.store.glob("*.json")] == ["1.json"]
        assert stage.second.hear(BeginRound) == BeginRound(2, save=True)


def _schedule(folder: Path, begin: int = 0) -> CheckpointSchedule:
    store: Any = SimpleNamespace(
        checkpoint_part=lambda: b"state",
        restore=lambda parts: None,
        version=begin,
        disk=None,
        device=None,
    )
    return CheckpointSchedule(store, job(0, checkpoint=EACH), str(folder), begin, 0, 1)


def _rounds(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.json"))


def test_no_checkpoint_goes_before_the_journal_has_passed_a_newer_one(tmp_path: Path) -> None:
    """A journal that was cut off may go back to any round that it has reached."""
    schedule = _schedule(tmp_path)
    for round_no in range(1, 7):
        schedule.save(round_no)
    assert _rounds(tmp_path) == [1, 2, 3, 4, 5, 6]
    schedule.kept = 4
    schedule.save(7)
    assert _rounds(tmp_path) == [4, 5, 6, 7]
    assert [latest_round(tmp_path, at_most=at) for at in (3, 4, 5)] == [0, 4, 5]
    again = _schedule(tmp_path, begin=5)  # it went back: nothing newer counts for the journal
    again.save(6)
    again.save(7)
    assert _rounds(tmp_path) == [5, 6, 7]
    assert load_parts(tmp_path, 5) == [b"state"]


def test_rounds_of_a_device_go_on_while_a_thread_writes_their_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: Any = SimpleNamespace(
        begin_checkpoint=lambda: lambda: b"state", restore=None, version=0, disk=None, device="gpu"
    )
    schedule = CheckpointSchedule(there, job(0, checkpoint=EACH), str(tmp_path), 0, 0, 1)
    may_write = Event()

    def slow(*given: Any, **named: Any) -> None:
        assert may_write.wait(60)
        save_part(*given, **named)

    monkeypatch.setattr("warren.live.server.checkpoint_schedule.save_part", slow)
    schedule.save(1)
    schedule.settle()
    assert schedule.published  # no barrier waits
    assert (schedule.last, _rounds(tmp_path)) == (0, [])  # a loss goes back to the one before
    may_write.set()
    schedule.save(2)  # the next one waits for the one under way
    assert (schedule.previous, schedule.last) == (0, 1)
    schedule.settle(wait=True)
    assert (schedule.previous, schedule.last, _rounds(tmp_path)) == (1, 2, [1, 2])
    assert load_parts(tmp_path, 2) == [b"state"]
    monkeypatch.setattr(
        "warren.live.server.checkpoint_schedule.save_part", lambda *_, **__: tmp_path.read_bytes()
    )
    schedule.save(3)
    with pytest.raises(IsADirectoryError):
        schedule.settle(wait=True)
    assert schedule.last == 2


def test_servers_hear_of_a_checkpoint_when_its_barrier_is_in_the_journal_and_not_before() -> None:
    told: list[object] = []
    owners: Any = SimpleNamespace(checkpoint_committed=lambda *what: told.append(what))
    ledger: Any = SimpleNamespace(passed=lambda job: 9)
    outputs = SimpleNamespace(drop_checkpoints=lambda job: told.append("dropped"))
    context: Any = SimpleNamespace(outputs=outputs)
    manager: Any = None
    recovery = Recovery(context, ledger, manager, owners)
    recovery.saved(RoundReport(0, 0, 4, 1.0, None, False, 7, (), 3))

    def delivered(round_no: int, *, finished: bool = False) -> None:
        recovery.delivered(RoundsDone(7, 0, round_no, 1, finished))

    for before in (1, 2):
        delivered(before)
        recovery.journalled()
    assert not told  # the journal has not come to the checkpoint
    delivered(3)
    assert not told  # it is with the core
    recovery.journalled()
    assert told == [(0, 3)]
    delivered(8, finished=True)
    assert told == [(0, 3)]
    recovery.journalled()
    assert told == [(0, 3), "dropped"]
