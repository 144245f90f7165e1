"""A release is made of one version, of what is committed, and under the name on PyPI."""

from __future__ import annotations

import importlib.util
import shutil
import tarfile
from pathlib import Path
from types import ModuleType

import house
import pytest


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "release", house.CHECKOUT / "scripts" / "release.py"
    )
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The few files of the checkout that a release is made of, with one module of the package."""
    (tmp_path / "src" / "warren" / "report" / "page").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(house.CHECKOUT / name, tmp_path)
    for name in ("__init__.py", "py.typed"):
        shutil.copy(house.PACKAGE / name, tmp_path / "src" / "warren")
    (tmp_path / "src" / "warren" / "report" / "__init__.py").touch()
    (tmp_path / "src" / "warren" / "report" / "page" / "__init__.py").touch()
    pages = "report/page/templates"
    shutil.copytree(house.PACKAGE / pages, tmp_path / "src" / "warren" / pages)
    return tmp_path


def test_the_checkout_states_one_version_and_has_notes_for_it(release: ModuleType) -> None:
    assert release.problems(house.CHECKOUT, draft=True) == []


def test_what_stands_in_the_way_of_a_release_is_said_line_by_line(
    release: ModuleType, copy: Path
) -> None:
    version = release.version_of(copy)
    changelog = copy / "CHANGELOG.md"
    changelog.write_text(f"# Changes\n\n## {version} (unreleased)\n\n- a\n\n## 0.0.9\n\n- b\n")
    assert release.notes(changelog.read_text(), version) == "- a\n"
    assert release.problems(copy, draft=True) == []
    (line,) = release.problems(copy, draft=False)
    assert line.startswith(f"CHANGELOG.md: '## {version} (unreleased)': write the date")
    changelog.write_text(changelog.read_text().replace("unreleased", "2026-12-01"))
    assert release.problems(copy, draft=False) == []
    (copy / "src" / "warren" / "__init__.py").write_text('__version__ = "9"\n')
    changelog.write_text("# Changes\n")
    assert release.problems(copy, draft=False) == [
        f"src/warren/__init__.py: has 9, pyproject.toml has {version}; write {version}",
        f"CHANGELOG.md: says nothing of {version}; write a section '## {version} (DATE)'",
    ]


@pytest.mark.slow
def test_sdist_and_wheel_are_named_after_the_distribution_and_are_whole(
    release: ModuleType, copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("dist")
    version = release.version_of(copy)
    sdist, wheel = release.build(copy, out)
    assert release.check(sdist, wheel, version) == []
    assert sdist.name == f"warren_scheduler-{version}.tar.gz"
    with tarfile.open(sdist, "w:gz"):
        pass
    assert f"{sdist.name}: has no LICENSE" in release.check(sdist, wheel, version)
