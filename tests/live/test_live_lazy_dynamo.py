"""Optimizers step without torch's compiler, and who wants to compile has it all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch
from warren.live.process.lazy_dynamo import LazyDynamo, keep_out
keep_out()
one = torch.nn.Parameter(torch.ones(2))
def lazy():
    return isinstance(sys.modules["torch._dynamo"], LazyDynamo)
def step(kind):
    optimizer = kind([one], lr=0.25)
    one.grad = torch.ones(2)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    torch.optim.lr_scheduler.StepLR(optimizer, 2).step()
step(torch.optim.SGD)
print(lazy(), one.tolist())
step(torch.optim.Adam)
torch._dynamo.trace_rules.clear_lru_cache()
print(lazy())
import torch._dynamo.config
print(lazy(), torch._dynamo is sys.modules["torch._dynamo"])
print(torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(2)).tolist())
one.data.fill_(1.0)
step(torch.optim.SGD)
print(one.tolist())
"""


@pytest.mark.slow
def test_optimizers_step_without_the_compiler_and_compiled_code_runs_afterwards() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "True [0.75, 0.75]",
        "True",
        "False True",
        "[2.0, 2.0]",
        "[0.75, 0.75]",
    ]


def test_what_is_loaded_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from warren.live.process.lazy_dynamo import NAME, keep_out

    marker = object()
    monkeypatch.setitem(sys.modules, NAME, marker)  # type: ignore[arg-type]
    keep_out()
    assert sys.modules[NAME] is marker
