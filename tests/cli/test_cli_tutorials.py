"""Each tutorial works as written: its files are saved, its commands are run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cli_runs import Warren

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


def follow(name: str, warren: Warren) -> list[str]:
    """Do what a tutorial says, in this folder; return what its commands printed."""
    printed = []
    for kind, file, text in FENCE.findall((TUTORIALS / f"{name}.md").read_text()):
        if file:
            Path(file).write_text(text)
            continue
        assert kind == "sh"
        for line in text.splitlines():
            program, *words = shlex.split(line)
            assert program == "warren"
            done = warren(*words)
            assert done.code == 0, (line, done.err)
            printed.append(done.out)
    return printed


def test_schedulers_are_compared_and_a_policy_is_written_as_the_tutorials_say(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inspected, _, compared, resampled, _, swept = follow("compare-schedulers", warren)
    assert "columns: {name: name, submitted: submitted, run: run, gpus: gpus, user: user}" in (
        inspected
    )
    assert all(place in compared for place in ("fifo", "srtf", "las-2d", "gittins"))
    assert "mean of 5" in resampled
    assert (tmp_path / "means.png").is_file()
    assert len(swept.splitlines()) >= 7
    assert (tmp_path / "fifo" / "report.html").is_file()
    *_, last = follow("write-a-policy", warren)
    assert "12/12 jobs finished" in last


@pytest.mark.live
def test_three_models_are_trained_to_the_same_bits_as_the_tutorial_says(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    *_, compared = follow("train-three-models", warren)
    assert "3 of 3" in compared
