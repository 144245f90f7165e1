"""Make a release in a folder: sdist, wheel and notes. Nothing is uploaded, and no tag is set.

.venv/bin/python scripts/release.py dist            # what ``make release`` calls
.venv/bin/python scripts/release.py dist --draft    # although CHANGELOG.md says "unreleased"
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_HEADING: Final = re.compile(r"^## (\S+)(?: \((.*)\))?$", re.MULTILINE)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_IN_SDIST: Final = ("LICENSE", "README.md", "pyproject.toml", "src/warren/__init__.py")
_IN_WHEEL: Final = ("warren/__init__.py", "warren/py.typed", "warren/report/page/templates/")


def notes(changelog: str, version: str) -> str:
    """Return the section of a version in CHANGELOG.md, without its heading; empty if none."""
    found = {one[1]: one for one in _HEADING.finditer(changelog)}
    if version not in found:
        return ""
    rest = changelog[found[version].end() :]
    following = _HEADING.search(rest)
    return rest[: following.start() if following else len(rest)].strip() + "\n"


def problems(root: Path, *, draft: bool) -> list[str]:
    """Return why the texts of a checkout cannot be released, a line each; empty: they can."""
    version = version_of(root)
    found = []
    package = re.search(r'__version__ = "(.*)"', (root / "src/warren/__init__.py").read_text())
    citation = re.search(r'^version: "?([^"\n]+)', (root / "CITATION.cff").read_text(), re.M)
    stated = {"src/warren/__init__.py": package, "CITATION.cff": citation}
    for file, match in stated.items():
        if match is None or match[1] != version:
            has = "no version" if match is None else match[1]
            found.append(f"{file}: has {has}, pyproject.toml has {version}; write {version}")
    changelog = (root / "CHANGELOG.md").read_text()
    date = next((one[2] for one in _HEADING.finditer(changelog) if one[1] == version), "")
    if not notes(changelog, version).strip():
        found.append(
            f"CHANGELOG.md: says nothing of {version}; write a section '## {version} (DATE)'"
        )
    elif not draft and not _DATE.fullmatch(date or ""):
        found.append(f"CHANGELOG.md: '## {version} ({date})': write the date, such as 2026-01-31")
    return found


def version_of(root: Path) -> str:
    """Return the version that pyproject.toml states."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def build(root: Path, out: Path) -> list[Path]:
    """Build the sdist, and the wheel from it, into a folder; return both.

    ``root`` may hold other files than those to be released: a build leaves some, and takes what an
    older one left. So it should be a copy.
    """
    sdist = _called(root, "build_sdist", out)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
        wheel = _called(next(Path(folder).iterdir()), "build_wheel", out)
    return [sdist, wheel]


def _called(source: Path, name: str, out: Path) -> Path:
    """Call a function of the build backend in a folder, and return the file that it made."""
    code = f"import sys, setuptools.build_meta as b; print(b.{name}(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return out / done.stdout.splitlines()[-1]


def check(sdist: Path, wheel: Path, version: str) -> list[str]:
    """Return what is wrong with the built files, a line each."""
    stem = f"warren_scheduler-{version}"
    found = []
    if (sdist.name, wheel.name) != (f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"):
        found.append(f"{sdist.name}, {wheel.name}: have another name than {stem}")
    with tarfile.open(sdist) as packed:
        names = [name.partition("/")[2] for name in packed.getnames()]
    found += [f"{sdist.name}: has no {one}" for one in _IN_SDIST if one not in names]
    with zipfile.ZipFile(wheel) as packed_wheel:
        inside = packed_wheel.namelist()
        metadata = packed_wheel.read(f"{stem}.dist-info/METADATA").decode()
    found += [
        f"{wheel.name}: has no {one}"
        for one in _IN_WHEEL
        if not any(name.startswith(one) for name in inside)
    ]
    if "\nName: warren-scheduler\n" not in metadata:
        found.append(f"{wheel.name}: is not named warren-scheduler")
    strange = [name for name in inside if not name.startswith(("warren/", f"{stem}.dist-info/"))]
    return found + [f"{wheel.name}: has {name}, which is no part of it" for name in strange]


def main(arguments: list[str]) -> None:
    """Make the release, or say what is missing and exit with 2."""
    draft = "--draft" in arguments
    out = Path(next(one for one in arguments if not one.startswith("-"))).resolve()
    version = version_of(ROOT)
    found = problems(ROOT, draft=draft)
    git = ["git", "-C", str(ROOT)]
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True)
    if changed.stdout.strip():
        found.append("the checkout: has changes that are not committed; commit them first")
    if found:
        raise SystemExit("\n".join(f"release: {one}" for one in found))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # What is committed, and nothing else that lies in the checkout.
        tracked = subprocess.run([*git, "archive", "HEAD"], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(tracked)) as packed:
            packed.extractall(folder, filter="data")
        sdist, wheel = build(Path(folder), out)
    if wrong := check(sdist, wheel, version):
        raise SystemExit("\n".join(f"release: {one}" for one in wrong))
    text = out / f"notes-{version}.md"
    text.write_text(notes((ROOT / "CHANGELOG.md").read_text(), version))
    for one in (sdist, wheel, text):
        print(f"{os.path.relpath(one)}  {one.stat().st_size:,} bytes")
    print("Nothing was uploaded. CONTRIBUTING.md says what follows.")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1:])
