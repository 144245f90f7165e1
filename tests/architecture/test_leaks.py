"""The project works anywhere: no path of one machine, no chosen package index, no unknown host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import house
import pytest

PATTERNS: Final = {
    "an absolute path of one machine": re.compile(
        r"(?<![\w.~}*-])/(?:work|root|home|Users|opt|srv)/\w"
    ),
    "a chosen package index": re.compile(
        r"--(?:extra-)?index[-]url|--find[-]links|PIP_(?:EXTRA_)?INDEX[_]URL|/simple/[ \n\"']"
    ),
    "a text that is not part of the project": re.compile(
        r"\b(?:DESIGN|STYLE|PRACTICE|READING|PEERS)[.]md|\bDESIGN[ ]section"
    ),
}
URL: Final = re.compile(r"(?:https?|ftp|git\+ssh)://([\w.-]+)")
HOSTS: Final = frozenset(
    {
        "www.apache.org",
        "www.w3.org",
        "arxiv.org",
        "doi.org",
        "github.com",
        "localhost",
        "127.0.0.1",
    }
)
"""Hosts a text of the project may point to."""


def leaks(name: str, text: str) -> Iterator[str]:
    """One line for each thing that ties a text to one machine or one network."""
    for number, line in enumerate(text.splitlines(), start=1):
        for what, pattern in PATTERNS.items():
            if pattern.search(line + "\n"):
                yield f"{name}:{number}: {what}"
        for host in URL.findall(line):
            if host not in HOSTS:
                yield f"{name}:{number}: a link to {host}"


def texts() -> Iterator[tuple[str, str]]:
    """Every tracked file that is text."""
    for path in house.tracked_files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield str(path.relative_to(house.CHECKOUT)), data.decode()


def test_no_tracked_file_leaks() -> None:
    this = "tests/architecture/test_leaks.py"
    found = [line for name, text in texts() if name != this for line in leaks(name, text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "data = '/srv/data'",
        "see /home/ana/warren",
        "open('/opt/x')",
        "pip install --index-url x",
        "as DESIGN.md says",
        "https://example.org/page",
    ],
)
def test_a_leak_is_found(text: str) -> None:
    assert list(leaks("x", text))


@pytest.mark.parametrize(
    "text",
    ["benchmarks/home/x", "https://doi.org/10.1000/1", "./root/x", "at work/home", "/tmp/x"],
)
def test_what_is_no_leak_is_not_found(text: str) -> None:
    assert not list(leaks("x", text))
