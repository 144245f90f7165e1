"""Fixtures of the command's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import Warren, write_run


@pytest.fixture
def warren(capsys: pytest.CaptureFixture[str]) -> Warren:
    return Warren(capsys)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """The path of a small run file of three jobs on three devices."""
    return write_run(tmp_path / "in")
