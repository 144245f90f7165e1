"""Modules that an app imports from its own folder, run from pinned text instead of from disk.

Python asks a finder for each module that is not loaded yet. This one answers for pinned modules, as
if the app's folder were first on ``sys.path``, and refuses modules in that folder that are not
pinned. All other modules are libraries and are left to Python.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, Final

from warren.model.job import AppSource


class NotPinned(ModuleNotFoundError):
    """Refuses to import a file of the app's folder whose text the run does not have."""


class PinnedLoader(SourceFileLoader):
    """Runs a module from a text, under the path of the file it was read from."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self._text = text

    def get_data(self, path: str) -> bytes:
        """Return the pinned text; any other path that a package asks for is data on disk."""
        return self._text if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Raise OSError, so that no bytecode beside the file is read or written."""
        raise OSError(path)


class _Refusal(Loader):
    """Raises an error when a module is really imported; merely looking for it is no fault."""

    def __init__(self, name: str, message: str) -> None:
        self._error = NotPinned(message, name=name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Raise the error that says why the module is not imported."""
        raise self._error

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: ``create_module`` has raised before."""


class PinnedModules:
    """The pinned modules of one app, by dotted name."""

    def __init__(self, source: AppSource) -> None:
        self.source = source
        self.folder = Path(source.folder)
        self._given: dict[str, ModuleSpec] = {}
        # The file by module name; None means a folder of modules without ``__init__.py``.
        self._files: dict[str, str | None] = {}
        for file in source.texts:
            path = PurePosixPath(file)
            parts = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
            self._files[".".join(parts)] = file
        # Every package around a pinned module can be imported too, with or without a file.
        for name in list(self._files):
            while "." in name:
                name = name.rpartition(".")[0]
                self._files.setdefault(name, None)

    def has(self, name: str) -> bool:
        """Tell whether a module of this name was pinned."""
        return name in self._files

    def find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return the loading specification of a module; None if it is not in the app's own folder.

        A module of the folder that was not pinned gets a loader that refuses it.
        """
        where = str(self.folder.joinpath(*name.split(".")[:-1]))
        if path is not None and where not in path:
            return None  # of a package that is no neighbor
        spec = self._pinned(name) if self.has(name) else self._not_pinned(name, where, path)
        if spec is not None:
            self._given[name] = spec
        return spec

    def take_out(self) -> None:
        """Remove the app's modules from those that Python knows by name."""
        for name, spec in self._given.items():
            # Another module may have taken the name since; that one stays.
            if getattr(sys.modules.get(name), "__spec__", None) is spec:
                del sys.modules[name]

    def _pinned(self, name: str) -> ModuleSpec | None:
        file = self._files[name]
        folder = str(self.folder.joinpath(*name.split(".")))
        if file is not None:
            package = PurePosixPath(file).name == "__init__.py"
            return pinned_spec(self.source, file, name, [folder] if package else None)
        library = None if "." in name else PathFinder.find_spec(name)
        if library is not None and library.origin is not None:
            return None  # as ever, a folder without __init__.py comes after all others
        return _folder_spec(name, folder)

    def _not_pinned(self, name: str, where: str, path: Sequence[str] | None) -> ModuleSpec | None:
        here = PathFinder.find_spec(name, [where])
        library = None if here is None or path is not None else PathFinder.find_spec(name)
        # Nothing of that name is there, or it is compiled, which makes it a library.
        if here is None or isinstance(here.loader, ExtensionFileLoader):
            return here
        # Python finds a library of the same name, and takes that one.
        if library is not None and library.origin != here.origin:
            return None
        if here.origin is None:
            folder = Path(where, name.rpartition(".")[2])
            return _folder_spec(name, str(folder)) if any(folder.glob("*.py")) else None
        message = (
            f"{here.origin} was not read when the run began: only what {self.source.main} imports "
            f"by import statements is; write `import {name}` somewhere in it"
        )
        return spec_from_file_location(name, here.origin, loader=_Refusal(name, message))


class AppFinder(MetaPathFinder):
    """Finds modules beside the app that is being loaded, else beside the only app there is."""

    def __init__(self) -> None:
        self._apps: list[PinnedModules] = []
        self._loading: PinnedModules | None = None
        # Whether something was loaded, and all of it is one app, or copies of that.
        self._one = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer Python's question where to find a module."""
        app = self._loading or (self._apps[-1] if self._one else None)
        if app is not None:
            return app.find(fullname, path)
        if path is None and any(app.has(fullname) for app in self._apps):
            message = (
                f"{fullname}: several apps share this process; import it at the top of the file, "
                "not inside a function"
            )
            return ModuleSpec(fullname, _Refusal(fullname, message))
        return None

    @contextmanager
    def loading(self, source: AppSource) -> Iterator[None]:
        """Load an app's own file within; its imports go to no other app of this process."""
        if self not in sys.meta_path:
            at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
            sys.meta_path.insert(at, self)
        show_lines(source)
        app = PinnedModules(source)
        for one in self._apps:
            one.take_out()
        before, self._loading = self._loading, app
        try:
            yield
            self._apps.append(app)
            self._one = all(one.source == app.source for one in self._apps)
        except BaseException:
            app.take_out()
            raise
        finally:
            self._loading = before
            if not self._one:
                app.take_out()


FINDER: Final = AppFinder()


def _folder_spec(name: str, folder: str) -> ModuleSpec:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [folder]
    return spec


def pinned_spec(
    source: AppSource, file: str, name: str, folders: list[str] | None = None
) -> ModuleSpec:
    """Return the specification to run one file of an app as a module; ``folders``: a package."""
    path = str(Path(source.folder, file))
    loader = PinnedLoader(name, path, source.texts[file])
    spec = spec_from_file_location(name, path, loader=loader, submodule_search_locations=folders)
    assert spec is not None
    return spec


def show_lines(source: AppSource) -> None:
    """Let tracebacks show lines of the text that runs, whatever is on disk by then."""
    for file, text in source.texts.items():
        path = str(Path(source.folder, file))
        with suppress(SyntaxError, UnicodeDecodeError):
            lines = decode_source(text).splitlines(keepends=True)
            linecache.cache[path] = (len(text), None, lines, path)
