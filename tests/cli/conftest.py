"""Fixtures of the command's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_runs import Warren, write_run
from scripted_service import ScriptedService, served
from service_script import Script


@pytest.fixture
def warren(capsys: pytest.CaptureFixture[str]) -> Warren:
    return Warren(capsys)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """The path of a small run file of three jobs on three devices."""
    return write_run(tmp_path / "in")


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Lines that the room ``runs`` has said since it was last asked."""

    def told() -> str:
        lines = [one.getMessage() for one in caplog.records if one.name == "warren"]
        caplog.clear()
        return "".join(f"{line}\n" for line in lines)

    return told


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def service(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScriptedService]:
    """The service that commands find without an option."""
    with served(script, tmp_path / "socket") as (server, running):
        monkeypatch.setenv("WARREN_SERVER", server)
        yield running
