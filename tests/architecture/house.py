"""The rooms of the house and how to read them: which modules there are, what each one imports."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = CHECKOUT / "src" / "warren"


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


ROOMS: Final[Mapping[str, frozenset[str]]] = {
    "model": frozenset(),
    "workload": frozenset({"model"}),
    "profile": frozenset({"model"}),
    "cost": frozenset({"model"}),
    "predict": frozenset({"model", "cost", "solve"}),
    "solve": frozenset(),
    "policy": frozenset({"model", "cost", "predict", "solve"}),
    "core": frozenset({"model", "policy.protocol"}),
    "sim": frozenset({"model", "cost", "profile", "solve", "core.ports"}),
    "apps": frozenset({"model"}),
    # What orders flows of foreign jobs over hosts puts them into classes as flow policies do.
    # Files of a run's folder, which anybody may have changed, are read in one way.
    "live": frozenset(words("model apps predict core.ports solve.flows.class_order store.files")),
    # Slow-downs divide by the least time of a job alone, which bounds and policies know, too.
    "report": frozenset(words("model core.journal core.journal_reader solve.common.round_time")),
    "store": frozenset({"model"}),
    "runs": frozenset(
        words("model workload profile cost predict solve policy core sim apps live report store")
    ),
    # The service keeps jobs by itself; what trains and what simulates is reached through ``runs``.
    "serve": frozenset(words("model runs store")),
    # What watches a run is called by the core's loop at each step, with its state. A testbed is
    # made and looked at without a run. The schema of a file is printed as it is. To these ``runs``
    # would add nothing but a name.
    "cli": frozenset(
        words(
            "model report store runs serve core.loop core.state core.wait_reasons live.testbed "
            "live.enforcement workload.specs.json_schema"
        )
    ),
}
"""Room to what it may import: a room, or one module or folder of it.

docs/background/structure.md shows the same."""

FACE: Final = "warren"
"""The package's own modules: ``warren.simulate`` and its like hand over to ``cli`` when called."""

HEAVY_LIBRARIES: Final[Mapping[str, frozenset[str]]] = {
    "numba": frozenset({"solve", "sim"}),
    "torch": frozenset({"apps", "live", "runs"}),
    "zmq": frozenset(),
    "typer": frozenset({"cli"}),
}
"""Library to the rooms that may import it."""

_DOTTED: Final = re.compile(r"warren(\.\w+)+(?=:\w+$|$)")


class Import(NamedTuple):
    """``module`` is what is imported, in full; ``line`` where."""

    module: str
    line: int


class Module(NamedTuple):
    """One source file. ``name`` is dotted; ``room`` its second part, or FACE."""

    name: str
    room: str
    tree: ast.Module
    is_package: bool


def parse(source: str, name: str, *, is_package: bool = False) -> Module:
    """The module ``name`` with this source text."""
    parts = name.split(".")
    is_face = len(parts) == 1 or (len(parts) == 2 and parts[1] not in ROOMS)
    room = FACE if is_face else parts[1]
    return Module(name, room, tree(source), is_package)


@cache
def tree(source: str) -> ast.Module:
    """The syntax tree of a text: several rules look at that of each module."""
    return ast.parse(source)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, in path order."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["warren", *path.relative_to(PACKAGE).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(parse(path.read_text(), name, is_package=is_package))
    return tuple(found)


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a tree; every rule looks at all of them."""
    return tuple(ast.walk(tree))


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Everything a module imports anywhere in it, also for types only, also by dotted name.

    ``from a import b`` counts as ``a.b``. A string like ``"warren.room.module:Class"`` counts,
    because that is how a registry names what it loads later.
    """
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[Import]:
    for node in nodes(module.tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = _DOTTED.match(node.value)
            if match:
                yield Import(match[0], node.lineno)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + module.is_package
    return ".".join([*parts[:keep], *filter(None, [node.module])])


@cache
def tracked_files() -> tuple[Path, ...]:
    """The files of the project: what git tracks, or without git what is not ignored by name."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
        return tuple(path for name in names if (path := CHECKOUT / name).is_file())
    skipped = re.compile(
        r"(^|/)(\.venv|\.git|\.\w+_cache|__pycache__|build|dist|out)(/|$)|egg-info"
    )
    every = (path for path in sorted(CHECKOUT.rglob("*")) if path.is_file())
    return tuple(p for p in every if not skipped.search(str(p.relative_to(CHECKOUT))))
