"""Logs of foreign jobs are read, whatever happens to them, and jobs are ordered by their gain."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from warren.live.enforcement import connections
from warren.live.enforcement.job_classes import SILENT_PERIODS, WatchedJob, classes_by_gain
from warren.live.enforcement.nccl import environment_of
from warren.live.enforcement.requests import Endpoint, FlowRequest, MarkFlows, UnmarkFlows
from warren.live.enforcement.training_log import PATTERN, TrainingLog, compiled
from warren.live.enforcement.watch import FlowWatch
from warren.live.enforcement.watched_jobs import WatchedFlows, WatchedJobs, stated_kind
from warren.model.errors import EngineError, SpecError


def test_a_log_is_followed_through_halves_of_lines_cuts_and_another_attempt(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    log = TrainingLog(path, compiled(PATTERN))
    assert log.read() == 0
    path.write_text("start\nstep 1 loss 3.0 acc 0.1\nstep 2 loss 2.5 accuracy=0.2\nstep 3 lo")
    assert log.read() == 2
    with path.open("a") as file:
        file.write("ss 2.4 acc: 0.25\nstep 3 acc nan\n")
    assert (log.read(), log.steps, log.values) == (1, [1, 2, 3], [0.1, 0.2, 0.25])
    path.write_text("step 1 acc 0.15\n")  # shorter than what was read: another file
    log.read()
    assert (log.steps, log.values) == ([1], [0.15])


@pytest.mark.parametrize("pattern", ["(", "acc ([0-9]+)", "(?P<step>x)"])
def test_a_pattern_without_a_value_is_refused(pattern: str) -> None:
    with pytest.raises(SpecError, match="--pattern"):
        compiled(pattern)


def test_a_match_inside_a_number_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    log = TrainingLog(path, compiled(r"step (?P<step>\d+): loss=(?P<value>[0-9.]+)"))
    path.write_text("step 1: loss=1.25E+01\nstep 2: loss=9.5e-1\nstep 1,000: loss=nan\n")
    log.read()
    assert (log.steps, log.values) == ([1, 2], [12.5, 0.95])


def test_classes_are_the_order_of_gains_and_0_for_who_is_not_known() -> None:
    assert classes_by_gain({"a": 0.1, "b": None, "c": 0.4}) == {"a": 2, "b": 0, "c": 1}
    many = classes_by_gain({f"j{i}": float(-i) for i in range(10)})
    assert [many[f"j{i}"] for i in range(10)] == [1, 2, 3, 4, 5, 6, 7, 7, 7, 7]


def _curve(
    path: Path, first: int, last: int, tau: float, top: float = 0.9, noise: float = 0.0
) -> None:
    with path.open("a") as file:
        for step in range(first, last):
            value = top * (1 - np.exp(-step / tau)) + noise * (step % 2)
            file.write(f"step {step} acc {value:.5f}\n")


def test_the_job_that_gains_more_goes_first_and_a_silent_one_keeps_its_class(
    tmp_path: Path,
) -> None:
    late, early = tmp_path / "late.log", tmp_path / "early.log"
    _curve(late, 1, 300, 30.0)
    _curve(early, 1, 20, 60.0)
    asked: list[FlowRequest] = []
    ends = (Endpoint("", ((1, 1),)),)
    jobs = [WatchedFlows(name=x.stem, log=x, endpoints=ends) for x in (late, early)]
    watch = FlowWatch(WatchedJobs("t", jobs, PATTERN, ask=asked.append), 10.0, 0)
    first = watch.step(0.0)
    assert [row["class"] for row in first] == [0, 0]  # no speed is known yet
    _curve(late, 300, 310, 30.0)
    _curve(early, 20, 30, 60.0)
    assert [row["class"] for row in watch.step(10.0)] == [2, 1]
    marked = [(x.job, x.flow_class) for x in asked if isinstance(x, MarkFlows)]
    assert marked == [("late", 0), ("early", 0), ("late", 2), ("early", 1)]
    asked.clear()
    watch.step(10.0)
    assert asked == []  # what stands is not set again
    for step in range(SILENT_PERIODS):
        _curve(early, 30 + step, 31 + step, 60.0)
        rows = watch.step(10.0)
    assert [(row["class"], row["state"]) for row in rows] == [
        (2, "silent"),
        (1, "watched"),
    ]
    assert asked == []  # unmarked it would go first


def test_a_job_that_is_silent_before_it_is_known_goes_last(tmp_path: Path) -> None:
    """Two lines and then none; and a log in which no line ever counts."""
    short, empty, known = tmp_path / "short.log", tmp_path / "empty.log", tmp_path / "known.log"
    _curve(short, 1, 3, 30.0)
    empty.write_text("no step here\n")
    _curve(known, 1, 20, 60.0)
    ends = (Endpoint("", ((1, 1),)),)
    jobs = [WatchedFlows(name=x.stem, log=x, endpoints=ends) for x in (short, empty, known)]
    watch = FlowWatch(WatchedJobs("t", jobs, PATTERN), 10.0, 0)
    assert [row["class"] for row in watch.step(0.0)] == [0, 0, 0]
    for step in range(SILENT_PERIODS):
        _curve(known, 20 + step, 21 + step, 60.0)
        rows = watch.step(10.0)
    assert [row["class"] for row in rows] == [7, 7, 1]
    _curve(short, 3, 10, 30.0)  # it goes on, and is known at once
    assert watch.step(10.0)[0]["class"] in (1, 2)


def test_a_job_whose_process_has_no_connection_any_more_is_unmarked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    _curve(log, 1, 20, 30.0)
    ends = [(Endpoint("10.0.0.1", ((1, 1),)),), ()]
    monkeypatch.setattr("warren.live.enforcement.watched_jobs.endpoints_of", lambda _: ends.pop(0))
    asked: list[FlowRequest] = []
    jobs = [WatchedFlows(name="a", log=log, pid=4711)]
    watch = FlowWatch(WatchedJobs("t", jobs, PATTERN, ask=asked.append), 10.0, 0)
    watch.step(0.0)
    watch.step(10.0)
    assert asked[1:] == [UnmarkFlows(label="t", job="a")]


@pytest.mark.parametrize("every_s", [1.0, 3.5, 5.0, 7.0, 20.0, 31.0])
def test_equal_jobs_have_equal_speeds_however_often_they_log(
    every_s: float, tmp_path: Path
) -> None:
    """Two steps a second; the log has a line each 1 to 31 s, a look comes each 5 s."""
    log = tmp_path / "a.log"
    job = WatchedJob("a", TrainingLog(log, compiled(PATTERN)))
    written_s = 0.0
    for now_s in np.arange(0.3, 200.0, 5.0).tolist():
        while written_s + every_s <= now_s:
            written_s += every_s
            with log.open("a") as file:
                file.write(f"step {2 * written_s:g} acc 0.5\n")
            at_s = time.time() - (now_s - written_s)
            os.utime(log, (at_s, at_s))
        job.read(0.0 if now_s < 5 else 5.0)
        if job.step_s is not None:
            assert job.step_s == pytest.approx(0.5, rel=0.03)
    assert job.step_s is not None
    assert job.comes_rarely(5.0) == (every_s > 7.5)


def test_a_log_that_comes_more_rarely_than_the_period_is_reported_once(tmp_path: Path) -> None:
    often, rare = tmp_path / "often.log", tmp_path / "rare.log"
    jobs = [
        WatchedFlows(name=x.stem, log=x, endpoints=(Endpoint("", ((1, 1),)),))
        for x in (often, rare)
    ]
    told = list[str]()
    watch = FlowWatch(WatchedJobs("t", jobs, PATTERN), 10.0, 0, told.append)
    for period in range(12):
        _curve(often, 1 + period, 2 + period, 30.0)
        if period % 3 == 0:
            _curve(rare, 1 + period, 2 + period, 30.0)
        watch.step(10.0 if period else 0.0)
    (line,) = told
    assert line.startswith("rare: its log has a line every 30 s, and the period is 10 s")


@pytest.mark.parametrize(
    ("metric", "cuts", "classes"),
    [
        (None, None, [2, 1]),
        ("accuracy", "none", [2, 1]),
        ("accuracy", "130,400", [1, 2]),  # within the period: who seemed to be done will jump
        ("accuracy", "400", [2, 1]),  # after it
        ("F1", None, [2, 1]),
    ],
)
def test_a_cut_that_is_stated_puts_who_seemed_to_be_done_first(
    tmp_path: Path, metric: str | None, cuts: str | None, classes: list[int]
) -> None:
    flat, young = tmp_path / "flat.log", tmp_path / "young.log"
    ends = (Endpoint("", ((1, 1),)),)
    jobs = [WatchedFlows(name=x.stem, log=x, endpoints=ends) for x in (flat, young)]
    kind = stated_kind(metric, cuts)
    watch = FlowWatch(WatchedJobs("t", jobs, PATTERN, kind), 50.0, 0)
    _curve(flat, 1, 100, 10.0, 0.5, 0.02)
    _curve(young, 1, 50, 15.0)
    watch.step(0.0)
    _curve(flat, 100, 110, 10.0, 0.5, 0.02)
    _curve(young, 50, 60, 15.0)
    assert [row["class"] for row in watch.step(10.0)] == classes


def test_a_helper_that_fails_stops_no_watch_and_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    _curve(path, 1, 10, 5.0)
    calls: list[FlowRequest] = []

    def fails(request: FlowRequest) -> None:
        calls.append(request)
        raise EngineError("flow: the helper has ended")

    jobs = [WatchedFlows(name="a", log=path, endpoints=(Endpoint("", ((1, 1),)),))]
    watch = FlowWatch(WatchedJobs("t", jobs, PATTERN, ask=fails), 10.0, 0)
    for _ in range(2):
        (row,) = watch.step(10.0)
        assert (row["class"], row["state"]) == (None, "flow: the helper has ended")
    assert len(calls) == 2


def test_connections_of_a_process_are_found_but_those_of_loopback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inode = "4242"
    row = " {}: {}:{:04X} 0200000A:0050 {} 00000000:00000000 00:00000000 00000000 0 0 {} 1 0"
    lines = [
        row.format(0, "0100000A", 29500, "01", inode),
        row.format(1, "0100000A", 29501, "0A", inode),  # listens only
        row.format(2, "0100007F", 29502, "01", inode),  # loopback
        row.format(3, "0100000A", 29503, "01", "77"),  # somebody else's
    ]
    folder = tmp_path / "7"
    (folder / "net").mkdir(parents=True)
    (folder / "net" / "tcp").write_text("\n".join(["  head", *lines, ""]))
    six = row.format(0, "0000000000000000FFFF00000100000A", 29504, "01", inode)
    (folder / "net" / "tcp6").write_text(f"  head\n{six}\n")
    (folder / "fd").mkdir()
    (folder / "fd" / "3").symlink_to(f"socket:[{inode}]")
    monkeypatch.setattr(connections, "_PROC", tmp_path)
    expected = (Endpoint("10.0.0.1", ((29500, 29500), (29504, 29504))),)
    assert connections.endpoints_of(7) == expected
    assert connections.endpoints_of(8) == ()


def test_nccl_gets_the_code_point_as_a_traffic_class() -> None:
    assert environment_of(1) == {"NCCL_IB_TC": "224"}
    assert environment_of(7) == {"NCCL_IB_TC": "32"}
    # What a socket of the same class is marked with.
    assert int(environment_of(3)["NCCL_IB_TC"]) == 40 << 2
    with pytest.raises(SpecError, match=re.escape("--class: 8 is no class")):
        environment_of(8)
