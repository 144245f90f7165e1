"""Load user code as a class; only trainers, servers and the plain engine ever do this."""

from __future__ import annotations

import hashlib
import sys
import traceback
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from warren.apps.protocol import TorchApp, make_app
from warren.live.extras import hint
from warren.live.training.app.app_imports import SourceReader
from warren.live.training.app.pinned_modules import FINDER, pinned_spec
from warren.model.errors import Problem, SpecError, one_line
from warren.model.job import AppSource, Job, Sources

_FORM: Final = 'allowed: "path/file.py:Class"'
_PREFIX: Final = "warren_app_"
_pinned: Sources | None = None
"""Texts of the run that this process belongs to; None: apps are read when they are needed."""


def build_app(job: Job, base: str, *, copy: bool = False) -> TorchApp:
    """Build the app of a job with the job's parameters; paths are relative to ``base``.

    ``copy``: of a second module of its file, with globals of its own. Where one object of the app
    computes on a device, tensors in its globals go there, and another could not use them.

    Raises
    ------
    SpecError
        The app cannot be found or loaded, or a parameter does not fit.
    """
    if job.app is None:
        raise SpecError(
            _problem(job.name, f"the job has no app, so it can only be simulated; {_FORM}")
        )
    return make_app(load_app(job.app, base, copy=copy), job.params, where=job.app)


def load_app(app: str, base: str, *, copy: bool = False) -> type[TorchApp]:
    """Load the class named by ``"path/file.py:Class"``, its file relative to ``base``.

    The text is the one pinned for the run (``use_pinned``), otherwise the one on disk. The module
    runs once a process, and once more for a ``copy``, under a name made from its path and text. It
    may import neighbors in its own folder; inside functions only if no other app shares the
    process.

    Raises
    ------
    SpecError
        The name has another form, the file or class is missing, or the module fails.
    """
    file, colon, name = app.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise SpecError(_problem(app, f"unknown app; {_FORM}"))
    module = _load_module(app, _source(app, file, base), "_copy" if copy else "")
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, TorchApp)):
        # Classes that the module only imports are not offered as its own.
        here = [key for key, value in vars(module).items() if _is_app(value, module)]
        listed = ", ".join(here) or "none"
        raise SpecError(_problem(app, f"no TorchApp class {name!r} in it; it has: {listed}"))
    return found


def use_pinned(sources: Sources) -> None:
    """Make these texts the apps of this process from now on, and of processes that it forks."""
    global _pinned
    _pinned = sources


def forget_apps() -> None:
    """Load the modules of apps again from now on, as another process would."""
    for name in [name for name in sys.modules if name.startswith(_PREFIX)]:
        del sys.modules[name]


def _source(app: str, file: str, base: str) -> AppSource:
    path = Path(base, file)
    if _pinned is not None:
        if file not in _pinned:
            raise SpecError(_problem(app, f"could not be read at the beginning: {path}"))
        return _pinned[file]
    try:
        return SourceReader(base).app(file)
    except OSError as error:
        raise SpecError(_problem(app, f"cannot be read: {error.strerror or error}")) from None


def _load_module(app: str, source: AppSource, suffix: str) -> ModuleType:
    path = Path(source.folder, source.main)
    # A name by path and text: two versions of one app in a process are two modules.
    tag = hashlib.sha256(f"{path}\n{source.sha256}".encode()).hexdigest()[:16]
    name = f"{_PREFIX}{path.stem}_{tag}{suffix}"
    if name in sys.modules:
        return sys.modules[name]
    spec = pinned_spec(source, source.main, name)
    # It is registered before it runs, as Python does, so that dataclasses and pickle find it.
    module = sys.modules[name] = module_from_spec(spec)
    assert spec.loader is not None
    try:
        with FINDER.loading(source):
            spec.loader.exec_module(module)
    # A file that was taken for an app may call ``sys.exit``.
    except BaseException as error:
        del sys.modules[name]
        message = f"importing it failed: {one_line(error)}{hint(error) or _hint(error, source)}"
        raise SpecError(_problem(app, message, _line(error, path))) from error
    return module


def _hint(error: BaseException, source: AppSource) -> str:
    """Return advice about a module that is not found, or is Python's and not the app's."""
    name = error.name if isinstance(error, ImportError) else None
    if not isinstance(name, str) or not name.isidentifier():
        return ""
    if name in sys.stdlib_module_names and f"{name}.py" in source.texts:
        return f"; {name}.py beside the app has the name of a module of Python's own: rename it"
    here = Path(f"{name}.py").is_file() or Path(name).is_dir()
    if here and isinstance(error, ModuleNotFoundError):
        return f"; {name} is in the current folder, which is not searched: set PYTHONPATH=."
    return ""


def _line(error: BaseException, path: Path) -> int | None:
    """Return the last line of the app's file that an error passed through; None if none."""
    if isinstance(error, SyntaxError):
        return error.lineno
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else None


def _is_app(value: object, module: ModuleType) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, TorchApp)
        and value.__module__ == module.__name__
    )


def _problem(app: str, message: str, line: int | None = None) -> Problem:
    return Problem(file=app, field="app", line=line, message=message)
