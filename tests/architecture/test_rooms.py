"""Who may import whom. The table is ``house.ROOMS``; docs/background/structure.md explains it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import house
import pytest
from house import FACE, HEAVY_LIBRARIES, ROOMS, Module

NOT_FOR_HELP = ["torch", "numba", "scipy", "pydantic", "pyarrow", "matplotlib", "sklearn", "zmq"]


def broken_rules(module: Module) -> Iterator[str]:
    """One line for each import that the table does not allow."""
    for imported in house.imports(module):
        place = f"{module.name}:{imported.line}"
        library, _, rest = imported.module.partition(".")
        if library == "warren":
            broken = _broken_room(module.room, rest)
            if broken:
                yield f"{place}: {broken}"
        elif module.room not in HEAVY_LIBRARIES.get(library, {module.room}):
            allowed = ", ".join(sorted(HEAVY_LIBRARIES[library]))
            yield f"{place}: {library} is imported in {allowed} only"


def _broken_room(room: str, target: str) -> str | None:
    target_room = target.partition(".")[0]
    if target_room not in ROOMS:
        return None if target in ("", "__version__") else f"there is no room {target_room!r}"
    if target_room == room:
        return None
    allowed = frozenset({"runs", "cli"}) if room == FACE else ROOMS[room]
    if any(target == one or target.startswith(f"{one}.") for one in allowed):
        return None
    return f"{room} may not import {target}; allowed: {', '.join(sorted(allowed)) or 'nothing'}"


def test_every_import_keeps_to_the_table() -> None:
    broken = [line for module in house.modules() for line in broken_rules(module)]
    assert not broken, "\n".join(broken)


def test_every_folder_is_a_room_of_the_table() -> None:
    folders = {path.name for path in house.PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders <= set(ROOMS)
    modules = {path.name for path in house.PACKAGE.glob("*.py")}
    assert modules <= {"__init__.py", "__main__.py"}, "a module belongs to a room"


def test_the_table_has_no_cycle_and_sim_never_meets_live() -> None:
    def reach(room: str) -> set[str]:
        direct = {target.partition(".")[0] for target in ROOMS[room]}
        return direct.union(*map(reach, sorted(direct)))

    for room in ROOMS:
        assert room not in reach(room)
    assert not reach("sim") & {"live", "runs", "cli"}
    assert not reach("live") & {"sim", "runs", "cli"}
    assert not reach("policy") & {"core", "sim", "live"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("warren.model.x", "from warren.core.state import State"),
        ("warren.core.x", "from warren.policy.place.hare.srtf import Srtf"),
        ("warren.core.x", "import warren.policy"),
        ("warren.sim.x", "from warren.core.state import State"),
        ("warren.sim.x", "from warren.live import anything"),
        ("warren.live.x", "from warren import sim"),
        ("warren.live.x", "def f():\n    import warren.sim.port"),
        ("warren.report.x", "from warren.core.loop import Core"),
        ("warren.policy.x", "from ..core import state"),
        ("warren.policy.x", "if TYPE_CHECKING:\n    import warren.sim"),
        ("warren.solve.x", "from warren.model.units import NS_PER_S"),
        ("warren.core.x", "import_module('warren.live.control.local_engine')"),
        ("warren.model.x", "REGISTRY = {'a': 'warren.cli.main:main'}"),
        ("warren.cli.x", "from warren.sim.port import SimPort"),
        ("warren.cli.x", "from warren.core.loop_rules import X"),
        ("warren.cli.x", "def f():\n    from warren.workload.specs.write import dump_run"),
        ("warren.store.x", "from warren.policy.protocol import AnyPolicy"),
        ("warren.sim.x", "from warren.attic import thing"),
        ("warren.policy.place.x", "from numba import njit"),
        ("warren.core.x", "import torch.nn"),
        ("warren", "from warren.sim.port import SimPort"),
    ],
)
def test_a_forbidden_import_is_found(name: str, source: str) -> None:
    assert list(broken_rules(house.parse(source, name)))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("warren.core.x", "from warren.policy.protocol import AnyPolicy"),
        ("warren.sim.x", "from warren.core.ports import Port\nfrom warren.core import ports"),
        ("warren.report.x", "from warren.core.journal_reader import decode"),
        ("warren.cli.x", "from warren.core.loop import Core, Observer"),
        ("warren.cli.x", "from warren.live.testbed.lifecycle import make"),
        ("warren.runs.x", "from warren import __version__\nimport warren.sim.port"),
        ("warren.policy.x", "from .registry import POLICIES"),
        ("warren.policy.x", "POLICIES = {'srtf': 'warren.policy.place.hare.srtf:Srtf'}"),
        ("warren.sim.x", "from numba import njit"),
        ("warren", "def simulate():\n    from warren.runs.api import simulate"),
        ("warren.core.x", '"""A text may mention warren.sim.port in a sentence."""'),
    ],
)
def test_an_allowed_import_is_not_found(name: str, source: str) -> None:
    assert not list(broken_rules(house.parse(source, name)))


def test_a_room_opens_with_a_docstring_and_nothing_else() -> None:
    packages = [module for module in house.modules() if module.is_package and module.room != FACE]
    busy = [module.name for module in packages if len(module.tree.body) != 1]
    assert not busy, "import from the submodule instead"
    assert all(ast.get_docstring(module.tree) for module in packages)


def test_help_loads_no_heavy_library() -> None:
    program = (
        "import sys\nfrom warren.cli.main import main\n"
        "sys.argv = ['warren', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.exit(' '.join(sorted(set({NOT_FOR_HELP}) & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module",
    ["oracle.determinism_check", "measure.machine", "control.local_engine", "control.plain_engine"],
)
def test_what_only_starts_processes_that_train_does_not_load_torch(module: str) -> None:
    """It would lengthen each start, and hold memory beside what the zygote shares."""
    program = f"import sys, warren.live.{module}\nsys.exit('torch' in sys.modules)"
    assert not subprocess.run([sys.executable, "-c", program]).returncode
