"""Shapes on a testbed: a quota grows beside a run and is put back; rounds are told over time."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event

import pytest
from processes import PATIENCE_S

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
import _host_speed
import _shapes_pictures

from warren.live.testbed.cpu_quota import make_quota, quota_of


def limited(folder: Path) -> Path:
    """A folder like a cgroup's of version 2, limited to a fifth of a processor."""
    (folder / "cpu.max").write_text("")
    make_quota(folder, 0.2)
    return folder


def test_a_quota_doubles_at_a_barrier_and_is_put_back_when_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, int] | None] = []
    cgroup, changed = limited(tmp_path), Event()
    times = iter([0.0, 59.0, 61.5, 61.5])

    def passed(_: Path) -> float:
        seen.append(quota_of(cgroup))
        if len(seen) == 4:
            changed.set()
        return next(times)

    monkeypatch.setattr(_host_speed, "LOOKS_S", 0.001)
    monkeypatch.setattr(_host_speed, "passed_s", passed)
    quicker = _host_speed.Quicker(cgroup, 60.0)
    with _host_speed.beside(quicker, tmp_path):
        assert changed.wait(PATIENCE_S)
    assert seen == [*[(0.2, 10_000)] * 3, (0.4, 10_000)]
    assert quota_of(cgroup) == (0.2, 10_000)
    assert quicker.done_s == [61.5]


def test_a_run_that_ends_before_leaves_the_quota_and_says_nothing_was_done(tmp_path: Path) -> None:
    """A folder without a journal, or with one that has just begun, has passed no barrier."""
    cgroup = limited(tmp_path)
    (tmp_path / "journal").write_bytes(b"")
    quicker = _host_speed.Quicker(cgroup, 0.5)
    failing = pytest.raises(RuntimeError, match="the run failed")
    with failing, _host_speed.beside(quicker, tmp_path):
        raise RuntimeError("the run failed")
    assert (quota_of(cgroup), quicker.done_s) == ((0.2, 10_000), [])
    assert _host_speed.passed_s(tmp_path) == 0
    assert _host_speed.passed_s(tmp_path / "no such folder") == 0


def test_rounds_are_reported_over_time_by_what_was_kept_of_them() -> None:
    row = {"jct_s": 10.0, "times_s": [2.0, 3.0]}
    assert _shapes_pictures.rounds_of(row) == [(7.0, 2.0), (10.0, 3.0)]
    assert _shapes_pictures.rounds_of({"rounds_s": [[4.0, 1.5]]}) == [(4.0, 1.5)]
