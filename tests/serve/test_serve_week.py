"""What an admin reads of a week of the service."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warren.model.errors import SpecError
from warren.serve.records.events import RESTARTED, DeviceFaulted, JobEnded, MachineLost
from warren.serve.records.jobs import JobState
from warren.serve.replay.read_service import load_week
from warren.serve.replay.week import week_lines

sys.path.insert(0, str(Path(__file__).parent))
from service_story import S, Story, at_ns

HOUR = 3600


def story() -> Story:
    """Two jobs of ana and one of bo on two types; one ends since it did nothing."""
    made = Story(("m", "H100", 2), ("n", "A100", 1))
    made.submit(0, "1", devices=2).start(0, "1", "m-0", "m-1").end(10 * HOUR, "1")
    made.submit(0, "2", user="bo").start(HOUR, "2", "n-0", host="n")
    made.submit(0, "3").start(11 * HOUR, "3", "m-0")
    made.tell(
        MachineLost(time_ns=at_ns(12 * HOUR), host="m", reason=RESTARTED),
        *(MachineLost(time_ns=at_ns((12 + at) * HOUR), host="m", reason="silent") for at in (1, 2)),
        DeviceFaulted(time_ns=at_ns(15 * HOUR), host="n", device="n-0", xid=79),
        DeviceFaulted(time_ns=at_ns(15 * HOUR), host="n", device="n-0", xid=31),
    )
    made.end(16 * HOUR, "3", None)
    idle = "idle: its GPU did nothing for 3 h"
    end_ns = at_ns(16 * HOUR)
    return made.tell(JobEnded(time_ns=end_ns, job="3", state=JobState.FAILED, reason=idle))


def test_a_week_names_device_hours_waits_ends_and_faults() -> None:
    assert week_lines(story().events, None) == [
        "device hours of A100: 15.0 (bo 15.0)",
        "device hours of H100: 25.0 (ana 25.0)",
        "median wait until the first start: 1 h",
        "jobs ended: 1 finished, 1 failed, 1 of them since they did nothing",
        "fault: Xid 79: the GPU has fallen off the bus, on n-0 of n",
        "host m was away, 2 times",
    ]


def test_of_a_span_only_the_time_in_it_counts() -> None:
    assert week_lines(story().events, int(5.5 * HOUR) * S) == [
        "device hours of A100: 5.5 (bo 5.5)",
        "device hours of H100: 5.0 (ana 5.0)",
        "median wait until the first start: 11 h",
        "jobs ended: 1 failed, 1 of them since they did nothing",
        "fault: Xid 79: the GPU has fallen off the bus, on n-0 of n",
        "host m was away, 2 times",
    ]
    assert not week_lines([], None)


def test_the_journal_is_read_beside_its_service_and_a_wrong_span_is_named(tmp_path: Path) -> None:
    home = story().home(tmp_path / "home")
    assert load_week(home) == week_lines(story().events, None)
    assert load_week(home, "5h") != load_week(home)
    with pytest.raises(SpecError, match="--since"):
        load_week(home, "soon")
