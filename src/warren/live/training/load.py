"""User code becomes a class: only trainers, servers and the plain engine ever do this."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from warren.apps.protocol import TorchApp, make_app
from warren.model.errors import Problem, SpecError
from warren.model.job import Job

REGISTERED: Final = ("nmf", "lda", "mlr", "lasso")
_FORM: Final = 'allowed: "path/file.py:Class"'


def build_app(job: Job, base: str) -> TorchApp:
    """The app of a job, with the job's parameters; paths are relative to ``base``.

    Raises
    ------
    SpecError
        The app cannot be found or loaded, or a parameter does not fit.
    """
    if job.app is None:
        raise SpecError(
            _problem(job.name, f"the job has no app, so it can only be simulated; {_FORM}")
        )
    return make_app(load_app(job.app, base), job.params, where=job.app)


def load_app(app: str, base: str) -> type[TorchApp]:
    """The class named by ``"path/file.py:Class"``, its file relative to ``base``.

    The module runs once a process under a name made from its path and text. It may import
    neighbours in its own folder at the top of the file (not later, inside functions).

    Raises
    ------
    SpecError
        The name has another form, the file or class is missing, or the module fails.
    """
    if app in REGISTERED:
        raise SpecError(_problem(app, f"this registered app is not available yet; {_FORM}"))
    file, colon, name = app.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise SpecError(_problem(app, f"unknown app; {_FORM}"))
    path = (Path(base) / file).resolve()
    module = _load_module(app, path)
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, TorchApp)):
        here = [key for key, value in vars(module).items() if _is_app(value, module)]
        listed = ", ".join(here) or "none"
        raise SpecError(_problem(app, f"no TorchApp class {name!r} in it; it has: {listed}"))
    return found


def _load_module(app: str, path: Path) -> ModuleType:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise SpecError(_problem(app, f"cannot be read: {error.strerror or error}")) from None
    tag = hashlib.sha256(str(path).encode() + b"\n" + source).hexdigest()[:16]
    name = f"warren_app_{path.stem}_{tag}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        with _neighbours(path.parent):
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102
    except Exception as error:
        del sys.modules[name]
        line = _line(error, path)
        message = f"importing it failed: {type(error).__name__}: {error}"
        raise SpecError(_problem(app, message, line)) from error
    return module


@contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Let a module import files beside it, without handing them to apps of other folders."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            app = name.startswith("warren_app_") or file is None
            if not app and Path(str(file)).is_relative_to(folder):
                del sys.modules[name]


def _line(error: Exception, path: Path) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return lines[-1] if lines else None


def _is_app(value: object, module: ModuleType) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, TorchApp)
        and value.__module__ == module.__name__
    )


def _problem(app: str, message: str, line: int | None = None) -> Problem:
    return Problem(file=app, field="app", line=line, message=message)
