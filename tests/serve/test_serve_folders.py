"""What an agent keeps on disk is read back, whatever was cut off in the middle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warren.serve.agent.folders import AgentHome, AgentInUse, RunnerProcess, closed_folders
from warren.serve.hosts.port import CommandEnded, CommandStarted, StartOrder

ORDER = StartOrder("1.1", ("true",), "/", {"A": "b"}, ("cpu:0",))
RUNNER = RunnerProcess(5, 77, "boot", "/group")


def test_a_record_is_read_although_a_full_disk_broke_a_line(tmp_path: Path) -> None:
    folder = AgentHome(tmp_path).make("1.1", ORDER)
    assert folder is not None
    assert folder.record().runner is None
    folder.add(RUNNER)
    with Path(folder.file("record")).open("ab") as file:
        file.write(b'\n{"type":"ended","host":"","att')
    end = CommandEnded("", "1.1", 9, "exit", 0)
    assert folder.record().end is None
    folder.add(CommandStarted("", "1.1", 8))
    folder.add(end, sync=True)
    record = folder.record()
    assert (record.runner, record.started_ns, record.end) == (RUNNER, 8, end)


def test_an_attempt_is_made_once_and_forgotten_but_for_its_log(tmp_path: Path) -> None:
    home = AgentHome(tmp_path)
    folder = home.make("1.1", ORDER)
    assert folder is not None
    assert home.order("1.1") == ORDER
    assert [one.name for one in home.live()] == ["1.1"]
    assert home.make("1.1", ORDER) is None
    folder.add(RUNNER)
    folder.ask_to_stop(1.5)
    assert folder.stop_grace_s() == 1.5
    Path(folder.file("output")).write_bytes(b"line\n")
    home.forget(folder)
    assert home.live() == []
    assert home.make("1.1", ORDER) is None
    assert os.listdir(folder.path) == ["output"]
    assert folder.read_output(1, 3) == b"ine"


def test_an_order_without_a_folder_was_never_begun(tmp_path: Path) -> None:
    home = AgentHome(tmp_path)
    for name in ("1.1", "no name of an attempt"):
        (tmp_path / "live" / name).write_bytes(b"{")
    assert home.live() == []
    assert os.listdir(tmp_path / "live") == []
    assert home.make("1.1", ORDER) is not None


@pytest.mark.parametrize("name", ["", "..", "../1.1", "a/b", ".x", "a" * 101, "1.1\n"])
def test_a_name_that_leads_elsewhere_is_none_of_an_attempt(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an attempt"):
        AgentHome(tmp_path).folder(name)


def test_a_home_has_one_agent_and_one_id(tmp_path: Path) -> None:
    first = AgentHome(tmp_path)
    with pytest.raises(AgentInUse, match="another agent uses"):
        AgentHome(tmp_path)
    os.close(first._lock)
    assert AgentHome(tmp_path).id == first.id


def test_the_folders_that_other_accounts_may_not_enter_are_found_on_the_way(tmp_path: Path) -> None:
    modes = {"open": 0o711, "closed": 0o700, "home": 0o755}
    path, ways = tmp_path, {}
    for name, mode in modes.items():
        path = ways[name] = path / name
        path.mkdir()
        path.chmod(mode)
    found = closed_folders(str(path))
    assert [name for name, way in ways.items() if str(way) in found] == ["closed"]
