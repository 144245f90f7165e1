"""Which files of its own folder an app imports: found by reading import statements, never by
running any. They are read once; from then on the app is these texts.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from warren.model.job import AppSource, Job, Sources

Read = Callable[[str], bytes]
"""Reads the content of a file at a path, or raises OSError."""
FILES_MAX: Final = 4096
"""Most files of an app; a folder with more is not its own, but for example one of libraries."""


def read_bytes(path: str) -> bytes:
    """Return the content of a file."""
    return Path(path).read_bytes()


def sources_of(jobs: Iterable[Job], base: str) -> Sources:
    """Return the texts of the jobs' apps by file; leave out those that cannot be read."""
    reader = SourceReader(base)
    found = {}
    for file in dict.fromkeys(job.app_file for job in jobs):
        with suppress(OSError):
            found[file] = reader.app(file)
    return found


class SourceReader:
    """Reads apps, files relative to ``base``, each file once however many apps import it."""

    def __init__(self, base: str, read: Read = read_bytes) -> None:
        self._base, self._read = base, read
        self._texts: dict[Path, bytes] = {}

    def app(self, file: str) -> AppSource:
        """Return an app's file, and all that a statement anywhere in it imports from its folder.

        Raises
        ------
        OSError
            If one of them cannot be read.
        """
        try:
            path = Path(self._base, file).resolve()
        except (ValueError, RuntimeError) as error:  # a null byte, or links in a circle
            raise OSError(str(error)) from None
        texts: dict[str, bytes] = {}
        # A walk over the imports of imports; ``texts`` are the files seen, so circles of them end.
        todo = [path.name]
        while todo:
            name = todo.pop()
            if name in texts:
                continue
            if len(texts) == FILES_MAX:
                raise OSError(f"it imports more than {FILES_MAX} files of its own folder")
            texts[name] = self._text(path.parent / name)
            for module in _imported(texts[name], PurePosixPath(name)):
                todo += _files_of(path.parent, module)
        return AppSource(folder=str(path.parent), main=path.name, texts=texts)

    def _text(self, path: Path) -> bytes:
        if path not in self._texts:
            self._texts[path] = self._read(str(path))
        return self._texts[path]


def _files_of(folder: Path, module: str) -> Iterator[str]:
    """Yield the files that ``import a.b.c`` runs, if they lie in ``folder``.

    ``c`` may be no module, but a name inside ``a.b``.
    """
    at = PurePosixPath()
    for part in module.split("."):
        at /= part
        # Python's own order: a package, then a module, then a folder without ``__init__.py``.
        if (folder / at / "__init__.py").is_file():
            yield str(at / "__init__.py")
        elif (folder / at.with_suffix(".py")).is_file():
            yield str(at.with_suffix(".py"))
            return
        elif not (folder / at).is_dir():
            return


@lru_cache(maxsize=1024)
def _imported(text: bytes, path: PurePosixPath) -> tuple[str, ...]:
    """Return dotted names of modules that a file may import; some may turn out to be no modules."""
    return tuple(_modules_in(text, path))


def _modules_in(text: bytes, path: PurePosixPath) -> Iterator[str]:
    try:
        # Parsing warns of odd escapes in the user's text; Python warns again when it runs.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # importing it will tell
    package = path.parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _imported_from(node, package)
        # ``from package import *`` imports the submodules that ``__all__`` lists.
        elif path.name == "__init__.py" and isinstance(node, ast.Assign):
            yield from (".".join([*package, name]) for name in _all_of(node))


def _imported_from(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules that ``from a import b`` may import: ``a``, and ``a.b`` if it is one."""
    if node.level > len(package):
        return  # beyond the folder: Python refuses it
    # One leading dot is the file's own package, each further dot the package around it.
    within = package[: len(package) + 1 - node.level] if node.level else ()
    module = ".".join([*within, *filter(None, [node.module])])
    yield module
    yield from (f"{module}.{alias.name}" for alias in node.names if alias.name != "*")


def _all_of(node: ast.Assign) -> Iterator[str]:
    """Yield the names of ``__all__ = [...]``, which ``import *`` looks for among submodules."""
    named = any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    if named and isinstance(node.value, ast.List | ast.Tuple):
        for one in node.value.elts:
            if isinstance(one, ast.Constant) and str(one.value).isidentifier():
                yield str(one.value)
