"""A job that takes more memory than it may fails alone, and no cgroup outlives its run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import warm_program
from live_worlds import drive, ended, job, of, shuffled, world
from processes import PATIENCE_S, wait_until

from warren.live.control.local_engine import LivePort
from warren.live.process import memory_limit
from warren.live.process.cleanup_guard import end_cgroups
from warren.live.process.memory_limit import FALLBACK, cgroup_folders
from warren.model.cluster import Local
from warren.model.costs import CostTable
from warren.model.events import JobFailed
from warren.model.job import Evaluate
from warren.model.run import Run

LIMIT_BYTES = 300_000_000
VICTIM = Path(__file__).with_name("live_victim.py")
HOGS = """

class Hog(Tiny):
    def loss(self, model, batch):
        self.held = bytearray(os.urandom(1)) * 500_000_000
        return super().loss(model, batch)


class HogInServer(Tiny):
    def evaluate(self, model):
        self.held = bytearray(os.urandom(1)) * 500_000_000
        return super().evaluate(model)
"""
JOBS = (
    job(0, rounds=12, params={"sleep_s": 0.02}),
    job(1, "Hog", user="bob"),
    job(2, "HogInServer", user="eve", evaluate=Evaluate(every=1)),
)


def limited(folder: Path) -> tuple[Run, CostTable]:
    """A run whose processes have 300 MB each."""
    run, costs = world(folder, JOBS, 2)
    with (folder / "apps.py").open("a") as apps:
        apps.write(HOGS)
    local = Local(memory_bytes=LIMIT_BYTES)
    return replace(run, cluster=replace(run.cluster, local=local)), costs


def cgroups() -> set[Path]:
    """Those of runs, wherever they might be made, without the process that each is of.

    So runs of others that were there before may begin and end processes meanwhile.
    """
    every = (path for home in cgroup_folders() for path in home.glob("warren-*"))
    return {path.with_name(path.name.partition(".")[0]) for path in every}


@pytest.fixture
def before(tmp_path: Path) -> Iterator[set[Path]]:
    """Cgroups of runs that are there before the test; skips where none can be made."""
    paths = memory_limit.cgroups_of(LIMIT_BYTES, f"warren-{tmp_path.name}")
    limit = memory_limit.memory_limit(LIMIT_BYTES, paths, tmp_path / "log")
    if limit is None or not limit.cgroups:
        pytest.skip("no cgroup that limits memory may be made here")
    there = cgroups()
    yield there
    assert cgroups() <= there


def reasons(folder: Path) -> dict[int, str]:
    """Trains the jobs; the first one finishes, the others fail, for these reasons."""
    run, costs = limited(folder)
    with LivePort(run, costs, folder / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert ended(events) == {0: "finished", 1: "failed", 2: "failed"}, of(events, JobFailed)
    return {event.job: event.reason for event in of(events, JobFailed)}


@pytest.mark.live
@pytest.mark.machine
def test_what_takes_more_than_its_cgroup_may_fails_at_once_and_alone(
    tmp_path: Path, before: set[Path]
) -> None:
    said = reasons(tmp_path)
    over = "killed: over its memory limit of 300 MB (cluster file, local.memory)"
    assert said[1].endswith(f"of round 0: its process was {over}")
    assert said[2] == f"its server was {over}"
    assert FALLBACK not in (tmp_path / "out/run.log").read_text()
    assert cgroups() <= before


@pytest.mark.live
@pytest.mark.machine
def test_without_cgroups_an_allocation_fails_and_the_log_says_how_it_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "cgroup_folders", lambda: iter(()))
    said = reasons(tmp_path)
    assert said[1].startswith("app failed in round 0")
    assert "MemoryError (apps.py:" in said[1]
    assert said[2].startswith("app failed in its server: MemoryError (apps.py:")
    assert (tmp_path / "out/run.log").read_text().count(FALLBACK) == 1


@pytest.mark.live
@pytest.mark.machine
def test_killed_together_controller_and_zygote_leave_no_cgroup(
    tmp_path: Path, before: set[Path]
) -> None:
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin", "WARREN_CLAIMS": ""}
    victim, zygote = warm_program.start_and_hear([VICTIM, tmp_path, "limited"], environment)
    assert cgroups() - before
    subprocess.run(["kill", "-9", str(victim.pid), zygote.strip()], check=True)
    victim.wait(PATIENCE_S)
    assert wait_until(lambda: cgroups() <= before), cgroups() - before


def test_only_cgroups_of_the_run_itself_are_removed(tmp_path: Path) -> None:
    for name in ("warren-ab.1", "warren-ab.23", "warren-abc.4", "other"):
        (tmp_path / name).mkdir()
    end_cgroups(str(tmp_path / "warren-ab"))
    assert {path.name for path in tmp_path.iterdir()} == {"warren-abc.4", "other"}


def test_a_run_without_cgroups_removes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".1").mkdir()
    monkeypatch.chdir(tmp_path)
    end_cgroups("")
    end_cgroups(f"{tmp_path}/")
    assert (tmp_path / ".1").exists()


def test_a_process_that_its_limit_did_not_kill_is_not_said_to_be(tmp_path: Path) -> None:
    limit = memory_limit.MemoryLimit(LIMIT_BYTES, str(tmp_path / "run"))
    limit.cgroup(7).mkdir()
    assert memory_limit.over_limit(limit, 7) == ""
    assert not limit.cgroup(7).exists()


TREES = {
    "version 1": (
        "4:memory,hugetlb:/box/a\n0::/b",
        "35 31 0:32 /box {top} rw - cgroup cgroup rw,memory,hugetlb",
        {},
        ["a"],
    ),
    "version 1, seen from elsewhere": (
        "4:memory:/box/a",
        "35 31 0:32 /other {top} rw - cgroup cgroup rw,memory",
        {},
        [],
    ),
    "version 1, another controller": (
        "4:cpu:/a",
        "35 31 0:32 / {top} rw - cgroup cgroup rw,cpu",
        {},
        [],
    ),
    "version 2, delegated above": (
        "0::/up/a",
        "35 31 0:32 / {top} rw - cgroup2 cgroup rw",
        {"up/cgroup.subtree_control": "cpu memory", "up/a/cgroup.subtree_control": ""},
        ["up"],
    ),
    "version 2, delegated above, limited here": (
        "0::/up/a",
        "35 31 0:32 / {top} rw - cgroup2 cgroup rw",
        {"up/cgroup.subtree_control": "memory", "up/a/memory.max": "1000000"},
        [],
    ),
    "version 2, the root": (
        "0::/",
        "35 31 0:32 / {top} rw - cgroup2 cgroup rw",
        {"cgroup.subtree_control": "memory"},
        ["."],
    ),
    "version 2, without memory": (
        "0::/up/a",
        "35 31 0:32 / {top} rw - cgroup2 cgroup rw",
        {"up/cgroup.subtree_control": "cpu"},
        [],
    ),
    "none": ("0::/", "35 31 0:32 / {top} rw - tmpfs tmpfs rw", {}, []),
}


@pytest.mark.parametrize("case", list(TREES))
def test_cgroups_are_made_where_memory_can_be_limited_and_no_limit_is_left(
    tmp_path: Path, case: str
) -> None:
    cgroup, mounts, files, homes = TREES[case]
    top, proc = tmp_path / "top", tmp_path / "proc"
    for folder in (top / "up/a", proc):
        folder.mkdir(parents=True)
    for name, text in files.items():
        (top / name).write_text(text)
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(mounts.format(top=top))
    assert list(cgroup_folders(proc)) == [top / home for home in homes]
