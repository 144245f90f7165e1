"""The README and the guides are read once: their sentences are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import mean
from typing import Final

import pytest
from test_docs import documents

MOST_WORDS: Final = 35
MEAN_WORDS: Final = 18
PAGES: Final = sorted(
    name
    for name in documents()
    if name == "README.md" or name.startswith(("docs/guides/", "docs/tutorials/"))
)


def sentences(text: str) -> Iterator[str]:
    """Sentences of a Markdown page, and cells of its tables; headings and code are left out."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(#|!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)  # the address of a link is not read
    text = re.sub(r"`[^`\n]+`", "`code`", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-|])|\|", text):
        yield from filter(None, re.split(r"(?<=[.?!;:])\s", " ".join(paragraph.split())))


def words(sentence: str) -> int:
    return len(re.findall(r"[\w'`-]*\w[\w'`-]*", sentence))


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    found = {one: words(one) for one in sentences(documents()[page]) if words(one)}
    assert not [one for one, count in found.items() if count > MOST_WORDS]
    assert mean(found.values()) <= MEAN_WORDS


def test_a_long_sentence_is_found_and_code_is_not_read() -> None:
    long = "A " + "very " * 40 + "long one.\n\n```\n" + "code " * 50 + "\n```\n"
    assert [words(one) > MOST_WORDS for one in sentences(long)] == [True]
