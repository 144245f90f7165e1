"""Texts are read once: short sentences in the README and the guides, plain words in the package."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from statistics import mean
from typing import Any, Final

import house
import pytest
import typer
from test_docs import documents

from warren.cli.app import app
from warren.workload.specs.json_schema import KINDS, json_schema

MOST_WORDS: Final = 35
MEAN_WORDS: Final = 18
PAGES: Final = sorted(
    name
    for name in documents()
    if name == "README.md"
    or name.startswith(("docs/guides/", "docs/reference/", "docs/tutorials/"))
)
STUMBLES_LEFT: Final = 3
"""Most places of the package with a phrase of ``PLAIN``. Only ever lowered."""
PLAIN: Final = {
    "so (?:many|much|long)": "name the quantity: after ``rounds`` rounds; most workers",
    "nobody|somebody": "name the process, job or user; or write: unknown, not counted",
    "told": "write: known, reported, asked, separated",
    "anew": "write: again",
    "one that": "repeat the noun: a job that",
}
"""Phrases at which a reader stops, and what to write instead."""
STEMS: Final = re.compile(
    r"(?:synchronis|optimis(?!ti)|neighbour|behaviour|colour|utilis|favour|licence|realised"
    r"|modell(?:ed|ing)|serialis|honour|minimis|maximis|centred|normalis|labelled|amortis"
    r"|discretis|initialis|recognis|organis|summaris|analys(?:e|ing)|\bcentres?\b|\bgrey\b)",
    re.IGNORECASE,
)
"""Parts of British spellings, of which pages and shown texts have the American ones."""
BRITISH: Final = re.compile(rf"\w*{STEMS.pattern}\w*", re.IGNORECASE)
"""The words with them; they take five times as long to look for."""


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


def help_texts(command: Any, path: str) -> Iterator[tuple[str, str]]:
    """The text of a command, of its options, and of the commands below it, each with its name."""
    yield path, command.help or ""
    for option in command.params:
        yield f"{path} {option.name}", getattr(option, "help", None) or ""
    context = command.context_class(command, info_name=path)
    for name in getattr(command, "commands", ()):
        yield from help_texts(command.get_command(context, name), f"{path} {name}")


def test_sentences_of_help_are_short_plain_and_american() -> None:
    texts = list(help_texts(typer.main.get_command(app), "warren"))
    assert len(texts) > 150
    counts = {one: words(one) for _, text in texts for one in sentences(text) if words(one)}
    assert not [one for one, count in counts.items() if count > MOST_WORDS]
    assert mean(counts.values()) <= MEAN_WORDS
    awkward = re.compile(rf"\b(?:{'|'.join(PLAIN)})\b", re.IGNORECASE)
    assert not [path for path, text in texts if awkward.search(text) or in_british(text)]


def descriptions(schema: object, path: str) -> Iterator[tuple[str, str]]:
    """The descriptions in a JSON Schema, each with the path of what it describes."""
    if isinstance(schema, list):
        for index, one in enumerate(schema):
            yield from descriptions(one, f"{path}[{index}]")
    elif isinstance(schema, dict):
        if isinstance(text := schema.get("description"), str):
            yield path, text
        for key, one in schema.items():
            yield from descriptions(one, f"{path}.{key}")


FRAGMENT: Final = re.compile(r"(?:Of|Whose|It|Its|Give|Omit|The same|Default:)\b")
"""Beginnings that say nothing without the name of the field."""


def test_descriptions_of_fields_name_the_thing_in_short_plain_american_sentences() -> None:
    texts = [one for kind in KINDS for one in descriptions(json_schema(kind), kind)]
    assert len(texts) > 200
    counts = {one: words(one) for _, text in texts for one in sentences(text) if words(one)}
    assert not [one for one, count in counts.items() if count > MOST_WORDS]
    assert mean(counts.values()) <= MEAN_WORDS
    awkward = re.compile(rf"\b(?:{'|'.join(PLAIN)})\b", re.IGNORECASE)
    assert not [path for path, text in texts if awkward.search(text) or in_british(text)]
    assert not [path for path, text in texts if FRAGMENT.match(text)]


def test_a_long_sentence_is_found_and_code_is_not_read() -> None:
    long = "A " + "very " * 40 + "long one.\n\n```\n" + "code " * 50 + "\n```\n"
    assert [words(one) > MOST_WORDS for one in sentences(long)] == [True]
    assert len(long_sentences(long)) == 1


def in_british(text: str) -> list[str]:
    """Words of a page in British spelling; code and addresses of links are left out."""
    if not STEMS.search(text):
        return []
    text = re.sub(r"^```.*?^```|`[^`\n]+`|\]\([^)]*\)", "", text, flags=re.MULTILINE | re.DOTALL)
    return BRITISH.findall(text)


@pytest.mark.parametrize("page", sorted(documents()))
def test_pages_have_american_spelling(page: str) -> None:
    assert not in_british(documents()[page])


def test_a_british_word_is_found_and_code_is_not_read() -> None:
    text = "Optimisers of neighbours. An optimistic, modeled `colour`:\n```\ngrey = 1\n```\n"
    assert in_british(text) == ["Optimisers", "neighbours"]


@cache
def texts(source: str) -> tuple[tuple[int, str], ...]:
    """Strings, docstrings and blocks of comments of a file, each with its first line."""
    return tuple(_texts(source))


def _texts(source: str) -> Iterator[tuple[int, str]]:
    for node in house.nodes(house.tree(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    block: list[str] = []
    line = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != line + len(block):
                yield line, "\n".join(block)
                block, line = [], token.start[0]
            block.append(token.string.lstrip("#"))
    yield line, "\n".join(block)


def test_texts_of_the_package_have_american_spelling() -> None:
    found = {
        str(path.relative_to(house.PACKAGE)): words
        for path in sorted(house.PACKAGE.rglob("*.py"))
        if (words := [one for _, text in texts(path.read_text()) for one in in_british(text)])
    }
    assert not found


TABLE: Final = re.compile(r"\S {2,}\S")
"""Columns, as in a table of symbols."""


def docstrings(source: str) -> Iterator[str]:
    """Paragraphs of the docstrings of a file; tables and formulas are left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in house.nodes(house.tree(source)):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        for paragraph in re.split(r"\n\s*\n", text or ""):
            if not TABLE.search(paragraph):
                yield paragraph


def long_sentences(paragraph: str) -> list[str]:
    """Sentences of a paragraph with more than ``MOST_WORDS``; few have so many words in all."""
    if len(re.findall(r"\w+", paragraph)) <= MOST_WORDS:
        return []
    return [one for one in sentences(paragraph) if words(one) > MOST_WORDS]


def test_sentences_of_docstrings_are_short() -> None:
    found = [
        f"{path.relative_to(house.CHECKOUT)}: {one}"
        for path in sorted(house.PACKAGE.rglob("*.py"))
        for text in docstrings(path.read_text())
        for one in long_sentences(text)
    ]
    assert not found


def stumbles(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a file with a phrase of ``PLAIN``, and what to write there instead."""
    any_phrase = re.compile("|".join(PLAIN).replace(" ", r"\s+"), re.IGNORECASE)
    for line, text in texts(source):
        if not any_phrase.search(text):
            continue
        for phrase, instead in PLAIN.items():
            split = phrase.replace(" ", r"\s+")  # a phrase may go over the end of a line
            for found in re.finditer(rf"\b(?:{split})\b", text, re.IGNORECASE):
                yield line + text.count("\n", 0, found.start()), f"'{found[0]}': {instead}"


def test_texts_of_the_package_need_no_second_reading() -> None:
    found = [
        f"{path.relative_to(house.CHECKOUT)}:{line}: {rewrite}"
        for path in sorted(house.PACKAGE.rglob("*.py"))
        for line, rewrite in stumbles(path.read_text())
    ]
    assert len(found) <= STUMBLES_LEFT, "rewrite some of these:\n" + "\n".join(found)


def test_a_stumble_is_found_in_docstrings_comments_and_messages_and_names_are_not_read() -> None:
    source = (
        '"""Nobody asks."""\n# a job, so\n# many of them\ntold = one = 1  # told\n'
        'def f(anew):\n    """What it is.\n\n    Or one\n    that is not.\n    """\n'
        '    raise ValueError(f"{told} is made anew")\n'
    )
    lines = sorted(line for line, _ in stumbles(source))
    assert lines == [1, 2, 4, 8, 11]
    assert not list(stumbles('"""So few untold jobs, one of them that."""'))
