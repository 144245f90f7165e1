"""The demo's words, from results as they are loaded: it trains for real only by ``make demo``."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_runs import CHECKOUT

import warren


def test_the_demo_tells_bits_and_losses_of_loaded_results(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"params_sha256": "ab" * 32, "final_loss": 0.1234567891}
    job = SimpleNamespace(row=row)
    loaded: list[str] = []

    def load(folder: Path) -> SimpleNamespace:
        loaded.append(folder.name)
        return SimpleNamespace(jobs={"digits": job}, job=lambda name: job)

    monkeypatch.setattr(warren, "load", load)
    runpy.run_path(str(CHECKOUT / "examples" / "demo.py"))["show_bits"]()
    out = capsys.readouterr().out
    assert "  digits           abababababababab  abababababababab  loss 0.123457\n" in out
    assert "1 of 1 jobs have the same bits" in out
    assert len(set(loaded)) == 2
