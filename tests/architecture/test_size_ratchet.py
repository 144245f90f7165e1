"""Small files, small functions, a docstring on every public name. The limits only go down."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import house
import pytest

FILE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 60
FOLDER_FILES_MAX: Final = 17
FILE_LINES_MEDIAN: Final = 150
FUNCTION_LINES_MEDIAN: Final = 10

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> dict[str, str]:
    """Every Python file of the project, by its path in the checkout."""
    tracked = {path for path in house.tracked_files() if path.suffix == ".py"}
    paths = sorted(tracked | set(house.PACKAGE.rglob("*.py")))
    return {str(path.relative_to(house.CHECKOUT)): path.read_text() for path in paths}


def function_lines(node: Function) -> int:
    """Lines from ``def`` to the end, without the docstring and without decorators."""
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        text = node.body[0]
        assert text.end_lineno is not None
        lines -= text.end_lineno - text.lineno + 1
    return lines


class Length(NamedTuple):
    """A function, the line it begins in, and how many it has; see ``function_lines``."""

    name: str
    line: int
    lines: int


@cache
def functions(source: str) -> tuple[Length, ...]:
    """All functions of a file: two tests look at those of the product."""
    return tuple(
        Length(node.name, node.lineno, function_lines(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, Function)
    )


def too_long(name: str, source: str) -> Iterator[str]:
    """One line for the file and each function of it above the limit."""
    lines = source.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{name}: {lines} lines, at most {FILE_LINES_MAX}: split it"
    for one in functions(source):
        if one.lines > FUNCTION_LINES_MAX:
            yield (
                f"{name}:{one.line}: {one.name} has {one.lines} lines, "
                f"at most {FUNCTION_LINES_MAX}: split it"
            )


def undocumented(name: str, source: str) -> Iterator[str]:
    """One line for each public module, class, function or method without a docstring."""
    tree = house.tree(source)
    if not ast.get_docstring(tree):
        yield f"{name}: the module has no docstring"
    yield from _undocumented(name, tree)


def _undocumented(name: str, parent: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in parent.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and not _is_overload(node):
            yield f"{name}:{node.lineno}: {node.name} has no docstring"
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(name, node)


def _is_overload(node: Function | ast.ClassDef) -> bool:
    names = (getattr(mark, "attr", None) or getattr(mark, "id", None) for mark in _marks(node))
    return any(name in ("overload", "override") for name in names)


def _marks(node: Function | ast.ClassDef) -> list[ast.expr]:
    return [getattr(mark, "func", mark) for mark in node.decorator_list]


def test_no_file_and_no_function_is_too_long() -> None:
    broken = [line for name, source in sources().items() for line in too_long(name, source)]
    assert not broken, "\n".join(broken)


def test_no_folder_of_the_package_is_a_crowd() -> None:
    folders = {path.parent for path in house.PACKAGE.rglob("*.py")}
    crowds = [one for one in sorted(folders) if len(list(one.glob("*.py"))) > FOLDER_FILES_MAX]
    assert not crowds


def test_every_public_name_of_the_product_has_a_docstring() -> None:
    product = {name: s for name, s in sources().items() if name.startswith(("src/", "examples/"))}
    broken = [line for name, source in product.items() for line in undocumented(name, source)]
    assert not broken, "\n".join(broken)


def test_the_usual_file_and_function_stay_small() -> None:
    product = {name: s for name, s in sources().items() if name.startswith("src/")}
    files = [source.count("\n") for name, source in product.items() if Path(name).stem[0] != "_"]
    lengths = [one.lines for source in product.values() for one in functions(source)]
    assert statistics.median(files) <= FILE_LINES_MEDIAN
    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\n" * 500, 0),
        ("x = 1\n" * 501, 1),
        ("def f():\n" + "    x = 1\n" * 59, 0),
        ("def f():\n" + "    x = 1\n" * 60, 1),
        ('def f():\n    """A.\n' + "\n" * 9 + '    """\n' + "    x = 1\n" * 59, 0),
        ("class A:\n    async def f(self):\n" + "        x = 1\n" * 60, 1),
    ],
)
def test_what_is_too_long_is_found(source: str, found: int) -> None:
    assert len(list(too_long("x.py", source))) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""M."""\ndef f():\n    """F."""\n', 0),
        ("x = 1\n", 1),
        ('"""M."""\ndef f():\n    pass\n', 1),
        ('"""M."""\ndef _f():\n    pass\n', 0),
        ('"""M."""\nclass A:\n    """A."""\n    def f(self):\n        pass\n', 1),
        ('"""M."""\nclass A:\n    x = 1\n', 1),
    ],
)
def test_a_missing_docstring_is_found(source: str, found: int) -> None:
    assert len(list(undocumented("x.py", source))) == found
