"""Warren's own processes import nothing from the folder in which a command is typed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warren
from warren.live.own_programs import own_program
from warren.live.process.process_pool import ProcessPool
from warren.live.training.app.app_loader import load_app
from warren.model.errors import SpecError

SOURCES = Path(warren.__file__).parent
NAMES = ("random", "queue", "statistics", "logging", "tempfile", "numpy", "torch", "typer", "yaml")


@pytest.fixture
def _among_traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with files that are named as modules, and end whoever imports them."""
    for name in (*NAMES, "types"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder')")
    monkeypatch.chdir(tmp_path)


def test_every_python_that_is_started_is_kept_from_the_current_folder() -> None:
    # A program is started by its path; what is installed how is only printed.
    allowed = ("'-I'", "'-P'", "*isolation()", "str(", "'-m', 'pip'")
    found = []
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.List | ast.Tuple):
                texts = [ast.unparse(one) for one in node.elts]
                if "sys.executable" in texts:
                    after = texts[texts.index("sys.executable") + 1 :]
                    found.append((file.name, ", ".join(after)))
    assert len(found) >= 5
    assert [one for one in found if not one[1].startswith(allowed)] == []


@pytest.mark.usefixtures("_among_traps")
def test_a_program_of_warren_s_finds_python_s_own_modules() -> None:
    done = subprocess.run(own_program("warren", "--help"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("_among_traps")
def test_so_does_the_command_as_a_module() -> None:
    Path("types.py").unlink()  # Python itself imports this one before it looks for the module
    command = [sys.executable, "-m", "warren", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_warren_that_is_found_by_the_current_folder_finds_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(SOURCES.parent)
    assert "-P" not in own_program("warren")


@pytest.mark.live
@pytest.mark.usefixtures("_among_traps", "cold_zygotes")
def test_a_zygote_starts_in_a_folder_with_files_named_as_modules(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("run")
    pool = ProcessPool(folder, folder / "log")
    try:
        pool.await_zygote()
    finally:
        pool.close(last=False)


def test_a_module_of_the_current_folder_is_not_found_and_the_way_out_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/mine.py").write_text("import parts_of_mine\n")
    (tmp_path / "parts_of_mine.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if os.path.isabs(one)])
    with pytest.raises(SpecError, match=r"is not searched: set PYTHONPATH=\.$"):
        load_app("apps/mine.py:Mine", str(tmp_path))


@pytest.mark.parametrize("broken", ["", "raise SystemExit(3)\n"])
def test_a_file_beside_the_app_does_not_stand_in_for_a_module_of_python_s(
    broken: str, tmp_path: Path
) -> None:
    (tmp_path / "random.py").write_text(broken)
    lines = "import random", "from warren.apps.protocol import TorchApp", "class A(TorchApp):"
    (tmp_path / "app.py").write_text("\n".join([*lines, "    draws = random.Random\n"]))
    assert load_app("app.py:A", str(tmp_path)).__name__ == "A"
    (tmp_path / "own.py").write_text("from random import mine\n")
    with pytest.raises(SpecError, match=r"random.py beside the app has the name of a module of"):
        load_app("own.py:A", str(tmp_path))
