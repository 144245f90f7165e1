from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from training_bench import APPS, a_job

from warren.live.training.app.app_loader import build_app, load_app
from warren.model.errors import SpecError

GOOD = "from warren.apps.protocol import TorchApp\nclass A(TorchApp):\n    x: int = 1\n"


def _line(app: str, base: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_app(app, str(base))
    (problem,) = caught.value.problems
    return str(problem)


def test_a_file_is_run_once_under_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    first = load_app("a.py:A", str(tmp_path))
    assert load_app("../" + tmp_path.name + "/a.py:A", str(tmp_path)) is first
    assert first.__module__.startswith("warren_app_a_")
    assert sys.modules[first.__module__].__file__ == str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text(GOOD + "# changed\n")
    assert load_app("a.py:A", str(tmp_path)) is not first


LATE = """
from warren.apps.protocol import TorchApp
import beside
OWN = []
class A(TorchApp):
    def late(self):
        import later
        return later.NAME
"""


def test_a_copy_has_globals_of_its_own_as_have_its_neighbors(tmp_path: Path) -> None:
    """In a process of its own: where other apps are loaded, imports in functions are refused."""
    (tmp_path / "a.py").write_text(LATE)
    (tmp_path / "beside.py").write_text("THERE = []\n")
    (tmp_path / "later.py").write_text("NAME = 'later'\n")
    code = """
import sys
from warren.live.training.app.app_loader import load_app
one, two = (load_app("a.py:A", sys.argv[1], copy=copy) for copy in (False, True))
assert load_app("a.py:A", sys.argv[1], copy=True) is two
first, second = (sys.modules[each.__module__] for each in (one, two))
assert first is not second and first.OWN is not second.OWN
assert first.beside.THERE is not second.beside.THERE
assert one().late() == two().late() == "later"
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_what_cannot_be_loaded_gets_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    (tmp_path / "syntax.py").write_text("x = 1\nclass\n")
    (tmp_path / "raises.py").write_text("x = 1\n\nimport no_such_module\n")
    assert 'allowed: "path/file.py:Class"' in _line("nonsense", tmp_path)
    assert "cannot be read: No such file" in _line("b.py:A", tmp_path)
    assert "cannot be read: embedded null byte" in _line("\0.py:A", tmp_path)
    assert "no TorchApp class 'B' in it; it has: A" in _line("a.py:B", tmp_path)
    assert "no TorchApp class 'TorchAp'" in _line("a.py:TorchAp", tmp_path)
    assert _line("syntax.py:A", tmp_path).startswith("syntax.py:A:2: app: importing it failed")
    line = _line("raises.py:A", tmp_path)
    assert line.startswith("raises.py:A:3: app: importing it failed: ModuleNotFoundError")
    assert not any("warren_app_raises" in name for name in sys.modules)


def test_neighbors_of_two_apps_may_share_a_name(tmp_path: Path) -> None:
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "common_part.py").write_text(f"VALUE = {value}\n")
        text = "from common_part import VALUE\n" + GOOD.replace("= 1", "= VALUE")
        (folder / "a.py").write_text(text)
    for value in (1, 2):
        assert load_app(f"{value}/a.py:A", str(tmp_path))().x == value
    assert "common_part" not in sys.modules
    assert not any(path.startswith(str(tmp_path)) for path in sys.path)


def test_a_job_gets_its_app_with_its_parameters() -> None:
    job = a_job(app="digits.py:Digits", params={"hidden": 16, "lr": 1})
    app = build_app(job, str(APPS))
    assert (app.hidden, app.lr) == (16, 1.0)
    with pytest.raises(
        SpecError, match=r"digits.py:Digits: params.width: .*: clip_norm, hidden, lr"
    ):
        build_app(a_job(app="digits.py:Digits", params={"width": 3}), str(APPS))
    with pytest.raises(SpecError, match="has no app"):
        build_app(a_job(), str(APPS))
