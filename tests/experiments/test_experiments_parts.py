"""Parts of an experiment are made one at a time, and others keep their results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _parts


def test_a_part_made_alone_keeps_the_others_and_leaves_no_scratch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    monkeypatch.setattr(_common, "ROOT", tmp_path)
    monkeypatch.setattr(_common, "made_by", dict)
    scratch: list[Path] = []

    def make(value: int) -> _parts.Make:
        def part(folder: Path) -> dict[str, int]:
            assert folder.is_dir()
            scratch.append(folder)
            return {"rows": value}

        return part

    def run(*arguments: str, value: int) -> dict[str, int]:
        monkeypatch.setattr(sys, "argv", ["it", *arguments])
        parts = _parts.make_parts(
            "it", _parts.ask("help", list("abc")), {name: make(value) for name in "abc"},
            seed=7, stated={"k": 2},
            cannot=lambda part: "no disk" if part == "c" else "",
        )  # fmt: skip
        saved = json.loads((tmp_path / "it.json").read_text())
        assert (saved["seed"], saved["k"], saved["parts"]) == (7, 2, parts)
        return {name: part["rows"] for name, part in parts.items()}

    assert run("--part", "b", value=1) == {"b": 1}
    assert run(value=2) == {"b": 2, "a": 2}
    assert run("--part", "a", value=3) == {"b": 2, "a": 3}
    assert run("--part", "[ab]", value=4) == {"b": 4, "a": 4}
    assert not any(folder.exists() for folder in scratch)
    with pytest.raises(SystemExit):
        run("--part", "d", value=4)


def test_rows_of_one_policy_are_made_again_and_those_of_others_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    monkeypatch.setattr(_common, "ROOT", tmp_path)

    def run(commit: str, *arguments: str, value: int) -> list[tuple[object, ...]]:
        monkeypatch.setattr(_common, "made_by", lambda: {"commit": commit})
        monkeypatch.setattr(sys, "argv", ["it", *arguments])
        asked = _parts.ask("help", ["1"], ["hare", "srtf"])
        rows = [
            {"cell": cell, "place": place, "value": value}
            for cell in ("low", "high")
            for place in asked.places
        ]
        found = _parts.make_parts(
            "it", asked, {"1": lambda scratch: {"rows": rows}}, seed=1, stated={},
            finish=lambda part: part | {"total": sum(row["value"] for row in part["rows"])},
        )["1"]  # fmt: skip
        assert found["total"] == sum(row["value"] for row in found["rows"])
        return [
            (row["cell"], row["place"], row["value"], row.get("commit")) for row in found["rows"]
        ]

    run("old", value=1)
    assert run("new", "--place", "srtf", value=2) == [
        ("low", "hare", 1, "old"), ("low", "srtf", 2, "new"),
        ("high", "hare", 1, "old"), ("high", "srtf", 2, "new"),
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        run("new", "--place", "nobody", value=2)
