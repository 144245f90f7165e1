"""Packages that some commands need and Warren does not bring, and the command to install them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from typing import Final

from warren.model.errors import Problem, SpecError

DISTRIBUTION: Final = "warren-scheduler"
"""Warren's name as an installed package; on PyPI, ``warren`` is another project."""
_MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    "live": {"torch": "PyTorch", "xxhash": "xxhash"},
    "ray": {"ray": "Ray"},
    "frames": {"pandas": "pandas"},
    "examples": {"sklearn": "scikit-learn"},
    "serve": {"fastapi": "FastAPI", "uvicorn": "uvicorn"},
    "notify": {"apprise": "Apprise"},
}
"""By extra, the modules that it brings, and people's name of each."""


def need(extra: str) -> None:
    """Refuse to go on without the packages of an extra.

    Raises
    ------
    SpecError
        If one is missing; with the command that installs all of them.
    """
    absent = [name for module, name in _MODULES[extra].items() if find_spec(module) is None]
    if absent:
        are = "is" if len(absent) == 1 else "are"
        message = f"{' and '.join(absent)} {are} not installed; run: {install_command(extra)}"
        raise SpecError(Problem(file="", message=message))


def hint(error: BaseException) -> str:
    """Return the command for the module that an import did not find; empty for other errors.

    Modules of other projects are the user's own matter.
    """
    top = (getattr(error, "name", None) or "").partition(".")[0]
    extras = [extra for extra, modules in _MODULES.items() if top in modules]
    found = isinstance(error, ModuleNotFoundError) and extras
    return f"; run: {install_command(extras[0])}" if found else ""


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages in this very installation."""
    pip = [sys.executable, "-m", "pip", "install"]
    # The distribution itself is on no index, so its requirements are named.
    try:
        stated = [one.partition(";") for one in requires(DISTRIBUTION) or ()]
    except PackageNotFoundError:
        return f"{shlex.join([*pip, f'.[{extra}]'])}, in a checkout of Warren"
    wanted = [name.strip() for name, _, when in stated if when.strip() == f'extra == "{extra}"']
    return shlex.join([*pip, *wanted])
