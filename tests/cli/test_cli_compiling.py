"""Compiling kernels is shown and counted as what it is, and not as planning or deciding."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
from cli_runs import Warren

from warren.cli.views import progress
from warren.cli.views.summary_text import summary_lines
from warren.runs import choose_policy, compose, notices
from warren.runs.choose_policy import TimedPolicy
from warren.runs.notices import CompileClock
from warren.solve.common.compile_listeners import KERNELS, NOT_KEPT

TWO_KERNELS = """\
from warren.solve.common.compile import kernel

@kernel
def inner(x):
    return x + 1

@kernel
def outer(x):
    return 2 * inner(x)
"""


@dataclass
class Stub:
    """A clock that says what a test states."""

    seconds: float = 0.0
    is_compiling: bool = False
    line: str = "compiling kernels (once), 7 of about 24, 9 s"

    def watch(self) -> None:
        """Hear of nothing."""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Two kernels that were never compiled; one calls the other."""
    name = f"warren.fresh_{tmp_path.name}"
    (tmp_path / "fresh.py").write_text(TWO_KERNELS)
    spec = importlib.util.spec_from_file_location(name, tmp_path / "fresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_the_clock_goes_while_kernels_are_compiled_and_stands_when_they_run(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(notices, "say_once", said.append)
    clock = CompileClock()
    clock.watch()
    assert kernels.outer(3) == 8
    assert said == ["compiling kernels: once, until Warren or numba changes"]
    assert (clock.done, clock.is_compiling) == (2, False)
    assert {"inner", "outer"} <= set(KERNELS)
    passed_s = clock.seconds
    assert passed_s > 0
    assert kernels.outer(4) == 10
    assert (clock.done, clock.seconds) == (2, passed_s)


def test_where_no_folder_can_keep_kernels_they_run_and_a_line_says_so(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core.caching import CompileResultCacheImpl

    said: list[str] = []
    monkeypatch.setattr(notices, "say_once", said.append)
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    CompileClock().watch()
    assert kernels.outer(3) == 8
    assert NOT_KEPT == ["outer", "inner"]
    NOT_KEPT.clear()
    assert "at each start" in said[0]
    assert said[0].endswith("NUMBA_CACHE_DIR=DIR names one")


def test_what_a_decision_took_to_compile_is_no_cost_of_deciding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Stub()
    monkeypatch.setattr(choose_policy, "COMPILING", clock)
    monkeypatch.setattr(choose_policy, "perf_counter", iter([100.0, 110.0]).__next__)

    def decide(view: Any, memory: Any) -> Any:
        clock.seconds += 7.0
        return "decision", memory

    policy: Any = Mock(decide=decide, answers=frozenset())
    timed = TimedPolicy(policy)
    assert timed.decide(Mock(), None) == ("decision", None)
    assert timed.decide_s == 3.0


def test_the_summary_tells_compiling_apart_where_there_was_any(
    warren: Warren, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def summary(at: int) -> Any:
        assert warren("simulate", tiny, "--out", tmp_path / f"{at}").code == 0
        assert warren("report", tmp_path / f"{at}").code == 0
        return json.loads((tmp_path / f"{at}" / "summary.json").read_text())

    clock = Stub()
    monkeypatch.setattr(compose, "COMPILING", clock)
    first = summary(0)
    assert "compile_s" not in first
    assert "compiled" not in "\n".join(summary_lines(first, (), None))
    read = iter([1.0, 6.0])
    monkeypatch.setattr(Stub, "seconds", property(lambda _: next(read)))
    second = summary(1)
    assert second["compile_s"] == 5.0
    assert "compiled in 5 s (once), " in "\n".join(summary_lines(second, (), None))


def test_a_line_of_progress_says_compiling_and_not_planning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Stub(is_compiling=True)
    monkeypatch.setattr(progress, "COMPILING", clock)
    core: Any = Mock()
    assert progress._line(core, 55.0) == f"  {clock.line}"
