"""The parts of agents by themselves: locks, watches, names of nodes, numbers of controllers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from warren.live.control.agent_hosts import epoch_of, next_epoch
from warren.live.process.agents.folder_watch import FolderWatch
from warren.live.process.agents.machine_lock import MachineLock
from warren.live.process.agents.ray_helper import RayPlan, lacking, nodes_of
from warren.model.errors import SpecError


def let_go(lock: MachineLock) -> None:
    """As the kernel does when the process ends."""
    os.close(lock.fileno())


def test_a_lock_counts_agents_of_one_machine_and_lets_in_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = MachineLock(path, tmp_path / "a")
    with pytest.raises(TimeoutError, match="another agent holds"):
        MachineLock(path, tmp_path / "b", wait_s=0.05)
    let_go(first)
    second = MachineLock(path, tmp_path / "b")
    assert (first.agent, second.agent) == (0, 1)
    assert first.machine == second.machine
    let_go(second)


def test_after_a_lock_was_removed_it_is_that_of_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = MachineLock(path, tmp_path / "a")
    path.unlink()
    other = MachineLock(path, tmp_path / "a")
    assert other.machine != first.machine
    let_go(first)
    let_go(other)


def test_a_lock_that_is_no_file_of_this_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        MachineLock(tmp_path / "lock", tmp_path / "a")
    assert not (tmp_path / "elsewhere").exists()
    if not os.geteuid():
        (tmp_path / "theirs").write_text("x 0 /tmp/somebody-elses-run")
        os.chown(tmp_path / "theirs", 12345, 12345)
        with pytest.raises(PermissionError, match="another user's"):
            MachineLock(tmp_path / "theirs", tmp_path / "a")


def test_what_is_written_in_place_is_reported_when_it_is_whole(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path)
    (tmp_path / "c.tcp.part").write_text("half")
    assert list(watch.names()) == []
    for name in ("c.tcp", "long-" + "x" * 200):
        (tmp_path / "part").write_text("whole")
        os.replace(tmp_path / "part", tmp_path / name)
    assert list(watch.names()) == ["c.tcp", "long-" + "x" * 200]
    watch.close()


def node(number: int, name: str = "", label: str = "", alive: bool = True) -> dict[str, Any]:
    return {
        "NodeID": f"id-{number}", "Alive": alive, "NodeName": name or f"10.0.0.{number}",
        "NodeManagerHostname": f"machine-{number}", "NodeManagerAddress": f"10.0.0.{number}",
        "Labels": {"warren/host": label} if label else None,
    }  # fmt: skip


def test_a_host_is_the_living_node_that_is_called_so_by_name_label_host_name_or_address() -> None:
    rows = [node(1, "a"), node(2, label="b"), node(3), node(4), node(5, "a", alive=False)]
    wanted = ["a", "b", "machine-3", "10.0.0.4", "nobody"]
    assert nodes_of(rows, wanted) == {
        "a": "id-1", "b": "id-2", "machine-3": "id-3", "10.0.0.4": "id-4"
    }  # fmt: skip
    # Of two that are called the same nobody knows which is meant.
    assert nodes_of([node(1, "a"), node(2, "a")], ["a"]) == {}


def test_a_node_with_fewer_gpus_in_ray_than_its_devices_need_is_named() -> None:
    rows = [node(1, "a") | {"Resources": {"GPU": 2.0}}, node(2, "b"), node(3, "c")]
    names = ("a", "b", "c", "away")
    plan = RayPlan("", names, ("",) * 4, "", (2, 1, 0, 1))
    assert lacking(rows, nodes_of(rows, names), plan) == [
        "the node of b has 0 GPUs in Ray, and its devices need 1"
    ]


def test_controllers_of_a_run_are_counted_in_its_folder(tmp_path: Path) -> None:
    assert epoch_of(tmp_path) == 0
    assert [next_epoch(tmp_path) for _ in range(3)] == [1, 2, 3]
    assert epoch_of(tmp_path) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch"]
    for damage in (b"", b"\xff", b"three"):
        (tmp_path / "epoch").write_bytes(damage)
        with pytest.raises(SpecError, match="epoch: is damaged"):
            next_epoch(tmp_path)
        assert (tmp_path / "epoch").read_bytes() == damage
