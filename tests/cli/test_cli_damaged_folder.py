"""A finished run's folder, of which somebody damaged a file: commands that read it say so."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Warren, write_run

import warren as from_python
from warren.model.errors import SpecError

DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda file: file.write_bytes(b""),
    "no text": lambda file: file.write_bytes(bytes(range(256)) * 9),
    "nested": lambda file: file.write_text("[" * 200_000),
    "cut": lambda file: os.truncate(file, file.stat().st_size // 2),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "of 1 TiB": lambda file: os.truncate(file, 1 << 40),
}
FILES = ("jobs.csv", "summary.json", "journal", "timeline.parquet", "profile.csv", "run.yaml")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    from_python.simulate(write_run(folder / "in"), out=folder / "out")
    return folder / "out"


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_one_line_or_no_matter(
    warren: Warren, finished: Path, tmp_path: Path, name: str, damage: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    DAMAGE[damage](out / name)
    for words in (("report", out, "--check"), ("compare", out, finished), ("report", out)):
        told = warren(*words)
        assert told.code in (0, 1, 2)
        assert "internal error" not in "\n".join(told.err)
        if told.code == 2:
            assert f"{out}/{name}" in told.complaint
    if name in ("jobs.csv", "summary.json"):
        if (out / name).is_file():  # written again by the report
            DAMAGE[damage](out / name)
        with contextlib.suppress(SpecError):
            from_python.load(out)


@pytest.mark.parametrize("value", ["1e999", "1" + "0" * 4000, "NaN", '"x"', "-1"])
def test_a_figure_that_is_no_number_of_seconds_is_no_matter(
    warren: Warren, finished: Path, tmp_path: Path, value: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / "summary.json").write_text(f'{{"decide_s": {value}, "wall_s": {value}}}')
    assert warren("report", out).code == 0
