"""An app is the text that was read when its run began, its neighbors included."""

from __future__ import annotations

import importlib
import os
import py_compile
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.live.training.app import app_loader as load
from warren.live.training.app.app_imports import SourceReader
from warren.live.training.app.app_loader import load_app
from warren.live.training.app.pinned_files import INDEX, load_pins, pin_files, save_pins
from warren.live.training.app.pinned_modules import AppFinder
from warren.model.errors import SpecError
from warren.model.job import AppSource

APP = "from warren.apps.protocol import TorchApp\n"


def write(folder: Path, **files: str) -> None:
    """``pkg__a="..."`` is ``pkg/a.py``; ``pkg__`` its ``__init__.py``."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ("__init__.py" if name[-2:] == "__" else ".py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read(folder: Path, file: str = "a.py") -> AppSource:
    return SourceReader(str(folder)).app(file)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has no other app."""
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if one != load.FINDER])
    monkeypatch.setattr(load, "FINDER", AppFinder())
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        if name.startswith(("warren_app_", "near", "pkg", "plain_folder")):
            del sys.modules[name]


def pin(monkeypatch: pytest.MonkeyPatch, folder: Path, *files: str) -> None:
    """The apps of this process are these texts from now on."""
    reader = SourceReader(str(folder))
    monkeypatch.setattr(load, "_pinned", {file: reader.app(file) for file in files or ("a.py",)})


def failure(folder: Path, app: str = "a.py:A") -> str:
    with pytest.raises(SpecError) as caught:
        load_app(app, str(folder))
    return str(caught.value)


def test_what_is_read_is_what_statements_import_from_the_apps_folder(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="import os, near, json.decoder\nfrom pkg.deep import x\nfrom plain_folder import one\n"
        "def f():\n  try:\n    import late.sub\n  except ImportError:\n    pass\n"
        "from pkg import listed, a_function\nfrom . import impossible\nfrom .. import above\n",
        near="import nearer\nimport near\n",
        nearer="this is no Python, which importing it will tell",
        json="import never  # a module that is loaded long before goes first, but who knows\n",
        late__="",
        late__sub="from ..near import no\nfrom .. import near\nfrom .other import y\n",
        late__other="",
        pkg__="from .inner import z\n__all__ = ['listed', 'starred', 'not a name']\n",
        pkg__inner="from . import sibling\nimport os.path\n",
        pkg__sibling="",
        pkg__listed="",
        pkg__starred="",
        pkg__unused="",
        pkg__deep__="",
        pkg__deep__x="",
        plain_folder__one="",
        plain_folder__two="",
        never="",
        impossible="",
        a_function="",
        unused="",
    )
    source = read(tmp_path)
    assert (source.folder, source.main) == (str(tmp_path), "a.py")
    assert sorted(source.texts) == [
        "a.py", "json.py", "late/__init__.py", "late/other.py", "late/sub.py", "near.py",
        "nearer.py", "never.py", "pkg/__init__.py", "pkg/deep/__init__.py", "pkg/deep/x.py",
        "pkg/inner.py", "pkg/listed.py", "pkg/sibling.py", "pkg/starred.py",
        "plain_folder/one.py",
    ]  # fmt: skip


def test_the_hash_of_an_app_is_what_sha256sum_prints(tmp_path: Path) -> None:
    write(tmp_path, a="x = 1\n", b="import a, c\n", c="")

    def printed(command: str) -> str:
        return subprocess.check_output(command, shell=True, cwd=tmp_path, text=True).split()[0]

    assert read(tmp_path).sha256 == printed("sha256sum a.py")
    assert read(tmp_path, "b.py").sha256 == printed("sha256sum a.py b.py c.py | sha256sum")


def test_a_pinned_app_is_what_it_was_whatever_becomes_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        a=APP + "from pathlib import Path\nimport near\nfrom pkg import part\n\n\n"
        "class A(TorchApp):\n    x = near.X, part.Y\n"
        "    def model(self):\n        raise KeyError  # here\n"
        "    def dataset(self):\n"
        "        return (Path(__file__).parent / 'data.csv').read_text(), near.data()\n",
        near="from pathlib import Path\nX = 1\n"
        "def data():\n    return Path(__file__).with_name('data.csv').read_text()\n",
        pkg__="",
        pkg__part="Y = 1\n",
    )
    (tmp_path / "near.py").rename(tmp_path / "kept.py")
    write(tmp_path, near="X = 'from bytecode'\n")
    py_compile.compile(str(tmp_path / "near.py"))
    cached = next((tmp_path / "__pycache__").iterdir())
    before = cached.read_bytes()
    (tmp_path / "kept.py").rename(tmp_path / "near.py")
    pin(monkeypatch, tmp_path)
    write(tmp_path, a="raise SystemExit\n", near="X = 2\n")
    (tmp_path / "pkg" / "part.py").unlink()
    app = load_app("a.py:A", str(tmp_path))()
    assert app.x == (1, 1)
    assert sys.modules[type(app).__module__].__file__ == str(tmp_path / "a.py")
    (tmp_path / "data.csv").write_text("some data")
    assert app.dataset() == ("some data", "some data")
    try:
        app.model()
    except KeyError:
        told = traceback.format_exc()
    assert f'File "{tmp_path}/a.py", line 10, in model\n    raise KeyError  # here\n' in told
    assert cached.read_bytes() == before
    assert len(list(tmp_path.rglob("*.pyc"))) == 1
    assert f"could not be read at the beginning: {tmp_path}/b.py" in failure(tmp_path, "b.py:A")


def test_two_apps_of_one_process_have_each_its_own_neighbors_and_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        text = APP + "from near import VALUE, late\nclass A(TorchApp):\n    x = VALUE\n"
        text += "    def model(self):\n        return late()\n"
        near = f"VALUE = {name!r}\ndef late():\n    import near\n    return near.VALUE\n"
        write(tmp_path / name, a=text, near=near)
    pin(monkeypatch, tmp_path, "one/a.py", "two/a.py")
    apps = [load_app(f"{name}/a.py:A", str(tmp_path)) for name in ("one", "two")]
    assert [app.x for app in apps] == ["one", "two"]
    assert load_app("one/a.py:A", str(tmp_path)) is apps[0]
    assert "near" not in sys.modules
    for app in apps:
        with pytest.raises(ImportError, match="near: several apps share this process; import it"):
            app().model()


def test_a_file_that_no_statement_imports_is_refused_by_name_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None
) -> None:
    body = "import importlib, sys, pathlib\n{}\nclass A(TorchApp):\n    pass\n"
    write(tmp_path, near="", pkg__="", pkg__part="", plain_folder__two="")
    advice = "only what a.py imports by import statements is; write `import "
    for line, file, name in (
        ("importlib.import_module('near')", "near.py", "near"),
        ("import pkg; importlib.import_module('pkg.part')", "pkg/part.py", "pkg.part"),
        ("importlib.import_module('.part', 'pkg')", "pkg/__init__.py", "pkg"),
        ("importlib.import_module('plain_folder.two')", "plain_folder/two.py", "plain_folder.two"),
        ("__import__('near')", "near.py", "near"),
        # The usual ways to have the folder on the path change nothing.
        ("sys.path.insert(0, str(pathlib.Path(__file__).parent)); __import__('near')",
         "near.py", "near"),
    ):  # fmt: skip
        write(tmp_path, a=APP + body.format(line))
        monkeypatch.setattr(sys, "path", list(sys.path))
        told = failure(tmp_path)
        place = f"{tmp_path}/{file} was not read when the run began: {advice}{name}`"
        assert told.startswith("a.py:A:3: app: importing it failed: NotPinned: ")
        assert place in told
    write(tmp_path, a=APP + body.format("import absent"))
    assert "ModuleNotFoundError: No module named 'absent'" in failure(tmp_path)


def test_inside_functions_an_app_alone_in_its_process_finds_its_neighbors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None
) -> None:
    text = APP + "import near\nclass A(TorchApp):\n    def model(self):\n        import near_late\n"
    text += "        return near, near_late.VALUE\n    def dataset(self):\n"
    text += "        return __import__('near_other')\n"
    write(tmp_path, a=text, near="", near_late="VALUE = 1\n", near_other="")
    pin(monkeypatch, tmp_path)
    app = load_app("a.py:A", str(tmp_path))()
    write(tmp_path, near_late="VALUE = 2\n")
    monkeypatch.chdir(tmp_path)  # where Python looks first, started with -m
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert app.model() == (sys.modules["near"], 1)
    with pytest.raises(ImportError, match=r"near_other.py was not read when the run began"):
        app.dataset()


def test_libraries_are_found_as_ever_whatever_lies_in_the_apps_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None
) -> None:
    libraries = tmp_path / "libraries"
    write(libraries, near_lib="import near_dep\n", near_dep="X = 'library'\n", near_ns__="X = 3\n")
    write(
        tmp_path / "app",
        a=APP + "import near_lib, near_ns, importlib.util, importlib.resources, pkg\n"
        "class A(TorchApp):\n    x = near_lib.near_dep.X, near_ns.X\n"
        "    asked = importlib.util.find_spec('near_absent'), importlib.util.find_spec('runs')\n"
        "    data = importlib.resources.files(pkg).joinpath('data.csv').read_text()\n",
        near_dep="X = 'not meant by a library'\n",
        near_ns__sub="",
        pkg__="",
    )
    (tmp_path / "app" / "runs").mkdir()
    (tmp_path / "app" / "pkg" / "data.csv").write_text("1")
    monkeypatch.syspath_prepend(str(libraries))
    app = load_app("app/a.py:A", str(tmp_path))
    assert (app.x, app.asked, app.data) == (("library", 3), (None, None), "1")
    importlib.invalidate_caches()


def test_pins_come_back_from_their_folder_or_say_what_is_wrong_with_it(tmp_path: Path) -> None:
    write(tmp_path, a="import near\n", b="import near\n", near="x = 1\n")
    reader = SourceReader(str(tmp_path))
    first = {"a.py": reader.app("a.py"), "./b.py": reader.app("./b.py")}
    write(tmp_path, near="x = 2\n")
    # A file is read once, however many apps import it, and whatever is there by then.
    assert reader.app("a.py") == first["a.py"] != read(tmp_path)
    folder = tmp_path / "apps"
    save_pins(folder, first)
    assert load_pins(folder) == [first]
    second = {"a.py": read(tmp_path)}
    for name, data in pin_files([first, second]).items():
        (folder / name).write_bytes(data)
    assert load_pins(folder) == [first, second]
    assert len(os.listdir(folder)) == 4

    def told() -> str:
        with pytest.raises(SpecError) as caught:
            load_pins(folder)
        return str(caught.value)

    text = folder / f"{second['a.py'].hashes['near.py']}.py"
    text.write_text("x = 3\n")
    assert told() == f"{text}: is damaged: its text has another hash than its name says"
    text.unlink()
    assert told() == f"{text}: is missing"
    index = folder / INDEX
    index.write_text(index.read_text().replace('"main": "a.py"', '"main": "c.py"'))
    assert told() == f"{index}: is damaged: no file 'c.py'"
    index.write_text('{"sets": [{"a.py": 1}]}')
    assert told().startswith(f"{index}: is damaged: Expected `object`, got `int`")
    index.unlink()
    assert told() == f"{index}: is missing"
