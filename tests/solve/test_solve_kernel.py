"""What a process loads to run kernels whose machine code is on disk."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warren.solve.common import compile as kernel

pytestmark = pytest.mark.slow

NOT_NEEDED = ("numba.np.arraymath", "numba.cpython.unicode", "numpy.ma", "scipy")
PROGRAM = f"""
import sys
import numpy as np
from warren.solve.bounds.mean_busy_time import mean_busy_delays

delay_J = mean_busy_delays(np.array([0, 10**9]), np.ones(2), np.array([3.0, 1.0]))
assert np.allclose(delay_J, [6.5 / 3, 0.5]), delay_J
print(*sorted(set({NOT_NEEDED}) & set(sys.modules)))
"""


def test_machine_code_on_disk_needs_nothing_of_the_compiler() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[1].stdout == "\n"


KERNELS = """
from warren.solve.common.compile import kernel

@kernel
def inner(value):
    return value + 1

@kernel
def outer(value):
    return 2 * inner(value)

@kernel
def other(value):
    return 3 * inner(value)
"""


def test_a_kernel_from_disk_is_linked_with_one_that_is_compiled(tmp_path: Path) -> None:
    """Its bitcode is parsed then, and not before.

    ``other`` alone is so: ``inner`` as kernels call it is on disk since ``outer`` was compiled.
    """
    (tmp_path / "kernels.py").write_text(KERNELS)
    calls = (
        "kernels.inner(1)",
        "kernels.inner(2), kernels.outer(3)",
        "kernels.other(3)",
        "kernels.outer(3), kernels.inner(3), kernels.other(3)",
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", f"import kernels; print({call})"],
            capture_output=True, text=True, check=True, cwd=tmp_path,
        ).stdout
        for call in calls
    ]  # fmt: skip
    assert found == ["2\n", "3 8\n", "12\n", "8 4 12\n"]


NAMED = """
from typing import Any, NamedTuple
from warren.solve.common.compile import kernel

class {name}(NamedTuple):
    value: Any

@kernel
def doubled(pair):
    return 2 * pair.value
"""


def test_machine_code_of_a_version_with_other_names_is_made_again(tmp_path: Path) -> None:
    """The index beside it names classes; one that is gone is no reason not to start."""
    found = []
    for name in ("Before", "After", "After"):
        (tmp_path / "kernels.py").write_text(NAMED.format(name=name))
        call = f"import kernels; print(kernels.doubled(kernels.{name}(3)))"
        run = subprocess.run(
            [sys.executable, "-c", call], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        found.append((run.stdout, run.stderr))
    assert found == [("6\n", "")] * 3


INNER = """
from warren.solve.common.compile import kernel

@kernel
def inner(value):
    return value + {more}
"""
OUTER = """
from warren.solve.inner import inner
from warren.solve.common.compile import kernel

@kernel
def outer(value):
    return 2 * inner(value)
"""


def test_a_change_in_a_file_that_a_kernel_calls_into_is_seen(tmp_path: Path) -> None:
    solve = tmp_path / "warren" / "solve"
    (solve / "common").mkdir(parents=True)
    for init in (solve.parent, solve, solve / "common"):
        (init / "__init__.py").write_text("")
    for name in ("compile.py", "compile_listeners.py"):
        source = Path(kernel.__file__).with_name(name)
        (solve / "common" / name).write_text(source.read_text())
    (solve / "outer.py").write_text(OUTER)
    found = []
    for more in (1, 1, 20):
        (solve / "inner.py").write_text(INNER.format(more=more))
        call = "from warren.solve.outer import outer; print(outer(1))"
        found.append(
            subprocess.run(
                [sys.executable, "-c", call], capture_output=True, text=True, cwd=tmp_path,
                check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)},
            ).stdout
        )  # fmt: skip
    assert found == ["4\n", "4\n", "42\n"]


def test_whoever_listens_learns_once_before_kernels_are_compiled_and_not_when_they_are_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    program = (
        "from warren.solve.common.compile_listeners import LISTENERS\n"
        "import kernels\n"
        "LISTENERS.append(lambda: print('compiling'))\n"
        "print(kernels.inner(1)); print(kernels.outer(3))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        ).stdout.split()
        for _ in range(2)
    ]
    assert found == [["compiling", "2", "8"], ["2", "8"]]


CALLERS = """
from warren.solve.common.compile import kernel

@kernel
def inner(value, twice):
    return value + value if twice else value

@kernel
def outer(value):
    return inner(0, True) + inner(1, True) + inner(value, True) + inner(value, False)
"""


def test_a_kernel_is_compiled_once_for_all_integers_that_stand_in_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not so yes and no, and the entry for Python, each of which makes a variant of its own."""
    (tmp_path / "callers.py").write_text(CALLERS)
    monkeypatch.syspath_prepend(tmp_path)
    callers: Any = importlib.import_module("callers")

    def variants(name: str) -> int:
        return len(list((tmp_path / "__pycache__").glob(f"callers.{name}-*.nbc")))

    assert callers.outer(20) == 62
    assert (variants("outer"), variants("inner")) == (1, 2)
    assert callers.inner(21, True) == 42
    assert callers.outer(20) == 62
    assert (variants("outer"), variants("inner")) == (1, 3)
