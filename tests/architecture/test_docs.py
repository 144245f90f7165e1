"""What the documents name exists: files, headings, make targets, commands, and the room table."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import house
import pytest

FOLDERS: Final = ["src", "tests", "docs", "examples", "scripts", "benchmarks", "experiments"]
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NAMED_PATH: Final = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")
_MAKE: Final = re.compile(r"^(?:\$ )?make ([a-z]+)|`make ([a-z]+)`", re.MULTILINE)
_WARREN: Final = re.compile(
    r"^(?:\$ )?(?:\.venv/bin/)?warren ([a-z]+(?:-[a-z]+)*)|`warren ([a-z]+(?:-[a-z]+)*)",
    re.MULTILINE,
)
_ROW: Final = re.compile(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", re.MULTILINE)


def documents() -> dict[str, str]:
    """Every Markdown file of the project, by its path in the checkout."""
    paths = (path for path in house.tracked_files() if path.suffix == ".md")
    return {str(path.relative_to(house.CHECKOUT)): path.read_text() for path in paths}


def broken_links(name: str, text: str) -> Iterator[str]:
    """One line for each relative link or path in backticks that leads nowhere."""
    for target in _LINK.findall(_CODE.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        path = (house.CHECKOUT / name).parent / file if file else house.CHECKOUT / name
        if not path.exists():
            yield f"{name}: link to {target}: there is no such file"
        elif anchor and path.is_file() and anchor not in _anchors(path.read_text()):
            yield f"{name}: link to {target}: there is no such heading"
    for named in _NAMED_PATH.findall(text):
        if "NNNN" not in named and not (house.CHECKOUT / named).exists():
            yield f"{name}: {named} does not exist"


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _named(pattern: re.Pattern[str]) -> set[str]:
    every = (match for text in documents().values() for match in pattern.finditer(text))
    return {match[1] or match[2] for match in every}


def test_every_relative_link_and_named_file_exists() -> None:
    broken = [line for name, text in documents().items() for line in broken_links(name, text)]
    assert not broken, "\n".join(broken)


def test_every_decision_is_in_their_index_once() -> None:
    index = documents()["docs/background/decisions/README.md"]
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index)
    assert sorted(listed) == [path.name for path in decisions()]


def test_a_broken_link_is_found() -> None:
    text = "[a](attic.md) [b](README.md#no-such-heading) `src/warren/attic.py` [c](README.md)"
    text += '\n```python\nnets["g"](noise)\n```\n'  # code, no link
    assert len(list(broken_links("CONTRIBUTING.md", text))) == 3


_INSTALLS: Final = re.compile(r"pip install\b[^`\n&;|]*?[\s'\"](warren[\w-]*)")


def test_no_message_or_page_installs_a_package_of_that_name_from_an_index() -> None:
    # ``warren`` on PyPI is another project, and this one is on no index.
    files = [path for path in house.tracked_files() if path.suffix in {".md", ".py", ".sh", ""}]
    lines = [
        f"{path}: {found[0]}"
        for path in files
        if path.is_file() and path != Path(__file__)
        for found in _INSTALLS.finditer(path.read_text(errors="replace"))
    ]
    assert len(files) > 500
    assert not lines, "\n".join(lines)
    for wrong in ("pip install 'warren[live]'", "pip install -U warren", 'pip install "warren"'):
        assert _INSTALLS.search(wrong)
    for right in ("pip install '.[live]'", "pip install . && warren run", "pip install ./warren"):
        assert not _INSTALLS.search(right)


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (house.CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = _named(_MAKE)
    assert {"demo", "test"} <= named
    assert named <= targets


def test_every_command_that_is_named_exists() -> None:
    named = _named(_WARREN)
    assert {"run", "simulate", "compare"} <= named
    program = (
        "import sys\nfrom warren.cli.main import main\n"
        "for name in sys.argv[1:]:\n"
        "    sys.argv = ['warren', name, '--help']\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n"
        "        if end.code: sys.exit(name)\n"
    )
    command = [sys.executable, "-c", program, *sorted(named)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_readme_is_short_and_shows_how_to_try_and_test_it() -> None:
    lines = documents()["README.md"].splitlines()
    assert len(lines) <= 130
    assert [line.split()[:2] for line in lines if line.startswith("make ")] == [
        ["make", name] for name in ("install", "demo", "test")
    ]


def _code(text: str) -> set[str]:
    """The lines of a piece of Python, without indent and remarks."""
    return {line.partition("  #")[0].strip() for line in text.splitlines()} - {""}


def test_the_classes_and_values_that_contributing_shows_stand_in_the_source() -> None:
    text = documents()["CONTRIBUTING.md"]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    defining = [one for one in blocks if re.search(r"^(class|[A-Z]+:) ?", one, re.MULTILINE)]
    folders = [house.CHECKOUT / "src", house.CHECKOUT / "examples"]
    sources = [_code(path.read_text()) for one in folders for path in one.rglob("*.py")]
    assert len(defining) >= 2
    assert not [block for block in defining if not any(_code(block) <= one for one in sources)]


def test_the_room_table_of_the_documents_is_the_one_enforced() -> None:
    rows = _ROW.findall(documents()["docs/background/structure.md"])
    shown = {room: frozenset(re.findall(r"`([\w.]+)`", allowed)) for room, allowed in rows}
    assert "| `runs` |" in documents()["docs/background/structure.md"]
    shown["runs"] = frozenset(house.ROOMS) - {"runs", "serve", "cli"}
    assert shown == dict(house.ROOMS)


def decisions() -> list[Path]:
    """Every file of the folder but its index."""
    folder = house.CHECKOUT / "docs" / "background" / "decisions"
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("path", decisions())
def test_a_decision_has_the_six_parts(path: Path) -> None:
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
    headings = re.findall(r"^## (.*)$", path.read_text(), re.MULTILINE)
    assert headings == ["Context", "Goals", "Non-goals", "Choice", "Drawbacks", "Alternatives"]
    assert len(path.read_text().splitlines()) <= 80


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in decisions()]
    assert numbers == list(range(1, len(numbers) + 1))
