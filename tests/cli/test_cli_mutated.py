"""Wrong input through the real command: clear lines, exit code 2, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import processes
from cli_mutations import mutate

SIMULATED = 50


def attempt(command: str, folder: Path, seed: int) -> tuple[int, list[str]]:
    """Run one mutated input in a process of its own; gives exit code and standard error."""
    run = mutate(folder / "in", seed)
    out = folder / "out"
    done = subprocess.run(
        [sys.executable, "-m", "warren", command, run, "--out", out],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    assert "internal error" not in done.stderr, done.stderr
    if done.returncode == 2:
        assert done.stdout == ""
        assert not out.exists()
    return done.returncode, done.stderr.splitlines()


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


def test_fifty_mutated_inputs_simulate_or_are_refused_in_clear_lines(tmp_path: Path) -> None:
    processes.adopt_orphans()
    before = processes.descendants(os.getpid())
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(lambda s: attempt("simulate", tmp_path / str(s), s), range(SIMULATED))
        )
    for seed, (code, lines) in enumerate(found):
        assert code in (0, 2), (seed, code, lines)
        check_lines(code, lines, tmp_path)
    codes = [code for code, _ in found]
    assert 3 <= codes.count(0) <= SIMULATED - 20
    assert processes.wait_until_gone(before, timeout_s=5.0) == []
