"""Wrong input through the real command: clear lines, exit code 2, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import processes
import pytest
from cli_mutations import mutate
from cli_runs import Told, Warren

pytestmark = pytest.mark.slow

SIMULATED = 50
APART = 10
"""In a process of their own each, as a user has it; the others are spared its start."""


def attempt(
    command: str, folder: Path, seed: int, warren: Callable[..., Told]
) -> tuple[int, list[str]]:
    """Run one mutated input; gives exit code and what it says."""
    run = mutate(folder / "in", seed)
    out = folder / "out"
    told = warren(command, run, "--out", out)
    said = told.out + "\n".join(told.err)
    assert "Traceback" not in said, said
    assert "internal error" not in said, said
    if told.code == 2:
        assert told.out == ""
        assert not out.exists()
    return told.code, told.err


def _apart(*arguments: str | Path) -> Told:
    command = [sys.executable, "-m", "warren", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=processes.PATIENCE_S)
    return Told(done.returncode, done.stdout, done.stderr.splitlines())


def check_lines(code: int, lines: list[str], folder: Path) -> None:
    """Every line of wrong input names a file of the user's and is one printable sentence."""
    if code != 2:
        return
    assert lines
    for line in lines:
        assert line.startswith("warren: "), line
        assert line.isprintable(), line
        assert ": " in line.removeprefix("warren: "), line
        assert len(line) < 1000 + len(str(folder)), line


def test_fifty_mutated_inputs_simulate_or_are_refused_in_clear_lines(
    tmp_path: Path, warren: Warren
) -> None:
    processes.adopt_orphans()
    before = processes.descendants(os.getpid())
    found = [
        attempt("simulate", tmp_path / str(seed), seed, warren if seed >= APART else _apart)
        for seed in range(SIMULATED)
    ]
    for seed, (code, lines) in enumerate(found):
        assert code in (0, 2), (seed, code, lines)
        check_lines(code, lines, tmp_path)
    codes = [code for code, _ in found]
    assert 3 <= codes.count(0) <= SIMULATED - 20
    assert processes.wait_until_gone(before) == []
