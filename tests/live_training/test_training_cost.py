"""What deterministic kernels cost a task: times in both ways, and the operators behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training_bench import a_job

from warren.live.gpu.trainer_device import STAND_IN, trainer_device
from warren.live.oracle.cost_probe import cost_of, main
from warren.live.oracle.kernel_costs import CostReport, OperatorCost, TaskCost, dearest
from warren.live.process.specs import CostRole
from warren.live.training import numerics

APPS = """
import torch
from torch import nn
from warren.apps.protocol import TorchApp


class Slower(TorchApp):
    def model(self):
        return nn.Linear(3, 1)

    def dataset(self):
        return torch.randn(50, 3)

    def loss(self, model, batch):
        loss = model(batch).square().mean()
        if torch.are_deterministic_algorithms_enabled():  # as a slow kernel would be chosen
            torch.arange(200_000).flip(0).sort()
        return loss


class Puts(Slower):
    def loss(self, model, batch):
        torch.zeros(4).put_(torch.tensor([1, 1]), torch.tensor([1.0, 2.0]))
        return model(batch).square().mean()


class Raises(Slower):
    def loss(self, model, batch):
        raise RuntimeError("no such kernel")
"""


@pytest.fixture
def base(tmp_path: Path) -> str:
    (tmp_path / "apps.py").write_text(APPS)
    return str(tmp_path)


@pytest.mark.slow
def test_the_operator_that_deterministic_kernels_add_is_named_with_its_time(base: str) -> None:
    found = cost_of(a_job(app="apps.py:Slower"), base)
    assert found.deterministic_ms > found.free_ms > 0
    first = found.operators[0]
    assert first.operator == "aten::sort"
    assert first.free_ms == 0 < first.deterministic_ms
    assert found.without == ()
    assert torch.are_deterministic_algorithms_enabled(), "all is pinned again"
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


@pytest.mark.slow
def test_an_operator_without_a_deterministic_kernel_is_named_and_times_are_still_reported(
    base: str,
) -> None:
    on_device = trainer_device(STAND_IN, base).memory_of
    found = cost_of(a_job(app="apps.py:Puts"), base, on_device)
    assert found.without == ("put_",)
    assert found.deterministic_ms > 0
    lines = CostReport("j", "a processor", found).lines
    assert lines[-1] == "  no deterministic kernel: put_; a run fails there"


def test_an_app_that_fails_is_reported_with_its_error(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process of its own has these; this one would keep a folder that is gone later.
    for name in ("set_name", "direct_output", "own_temporary_folder"):
        monkeypatch.setattr(f"warren.live.oracle.cost_probe.{name}", lambda *_: None)
    result = tmp_path / "cost"
    main(CostRole(base, a_job(app="apps.py:Raises"), "", str(result), STAND_IN), -1)
    numerics.pin()
    assert "RuntimeError: no such kernel" in result.read_text()
    report = CostReport("j", "a processor", TaskCost(error="RuntimeError: no such kernel"))
    assert report.lines == ["j on a processor: the app failed: RuntimeError: no such kernel"]


def test_operators_are_listed_by_how_much_their_times_differ() -> None:
    free = {"same": 5.0, "faster": 2.0, "slower": 1.0, "little": 1.0}
    deterministic = {"same": 5.0, "faster": 1.0, "slower": 4.0, "little": 1.1, "new": 2.0}
    found = dearest(free, deterministic, 9.0, 13.0)
    assert found == (
        OperatorCost("slower", 1.0, 4.0),
        OperatorCost("new", 0.0, 2.0),
        OperatorCost("faster", 2.0, 1.0),
    )
    assert dearest(free, deterministic, 9.0, 9.1) == (), "the task takes as long"


def test_a_report_is_one_line_where_nothing_differs_and_a_table_where_something_does() -> None:
    same = TaskCost(free_ms=2.0, deterministic_ms=2.02)
    (line,) = CostReport("j", "a processor", same).lines
    assert line.startswith("j on a processor: deterministic kernels make no difference")
    rows = (OperatorCost("aten::index_put_", 0.5, 3.5),)
    slower = TaskCost(free_ms=4.0, deterministic_ms=7.0, operators=rows)
    assert CostReport("j", "NVIDIA H200", slower).lines == [
        "j on NVIDIA H200: a task takes 7 ms with deterministic kernels, 4 ms free (1.75 times)",
        "  operator            free, ms  deterministic, ms",
        "  aten::index_put_       0.500              3.500",
    ]
