"""The numerics class is asked of PyTorch once, and again when anything it follows from changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warren.live.training import numerics
from warren.runs import machine as numerics_known
from warren.runs.machine import known_numerics


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that PyTorch was asked."""
    found: list[str] = []

    def numerics_class(threads: int | None = None) -> str:
        assert threads == 1
        found.append("asked")
        return f"torch {len(found)}"

    monkeypatch.setattr(numerics, "numerics_class", numerics_class)
    return found


def test_it_is_asked_once_and_kept_beside_the_history(tmp_path: Path, asked: list[str]) -> None:
    history = tmp_path / "history.db"
    assert [known_numerics(history) for _ in range(3)] == ["torch 1"] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["history.numerics.json"]
    assert len(asked) == 1


def test_it_is_asked_again_where_what_it_follows_from_has_changed(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = tmp_path / "history.db"
    assert known_numerics(history) == "torch 1"
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert known_numerics(history) == "torch 2"
    monkeypatch.setattr(numerics_known, "version", lambda name: "9.9.9")
    assert known_numerics(history) == "torch 3"
    assert len(asked) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "7", json.dumps({"of": 3}), "\xff"])
def test_a_damaged_file_costs_a_question(tmp_path: Path, asked: list[str], text: str) -> None:
    history = tmp_path / "history.db"
    (tmp_path / "history.numerics.json").write_bytes(text.encode("latin-1"))
    assert known_numerics(history) == known_numerics(history) == "torch 1"
    assert len(asked) == 1


def test_without_a_history_or_where_nothing_can_be_kept_it_is_asked_each_time(
    tmp_path: Path, asked: list[str]
) -> None:
    assert known_numerics(None) == "torch 1"
    assert known_numerics(tmp_path / "none" / "history.db") == "torch 2"
    assert known_numerics(tmp_path / "none" / "history.db") == "torch 3"


def test_what_is_kept_is_what_pytorch_says(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    told = numerics.numerics_class(threads=1)
    assert known_numerics(history) == known_numerics(history) == told
