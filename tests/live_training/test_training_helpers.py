"""Threads that share work give what one gives, whatever the sizes."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch import optim

from warren.live.training import helpers
from warren.live.training.app.app_contract import _TENSORWISE
from warren.live.training.gradient_sum import GradientMeans
from warren.live.training.helpers import Helpers
from warren.live.training.memory.shared_memory import copy_all
from warren.live.training.shared_step import shared_step
from warren.live.training.tensor_layout import Layout


@pytest.fixture(autouse=True)
def _all_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "_WORTH_BYTES", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_parts_give_comes_in_their_order(count: int) -> None:
    seen: set[int] = set()

    def work(at: int) -> int:
        seen.add(threading.get_ident())
        return at * at

    assert Helpers(count).each(work, [7, 0, 3, 3, 100, 1, 2]) == [at * at for at in range(7)]
    assert (seen == {threading.get_ident()}) == (count < 2)


def test_an_error_of_a_part_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Helpers(2).each(lambda at: 1 // (at - 3), [1] * 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_shared_means_and_copies_have_the_bits_of_one_thread(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    model = torch.nn.ParameterList(
        [torch.nn.Parameter(torch.randn(size, dtype=dtype)) for size in (3, 700_001, 40_000)]
    )
    layout = Layout.of(model)
    ranges = ((0, layout.total_bytes),)
    updates = []
    for _ in range(3):
        flat = torch.zeros(layout.total_bytes, dtype=torch.uint8)
        for view in layout.views(flat).values():
            view.copy_(torch.randn(view.shape, dtype=dtype))
        updates.append([memoryview(flat.numpy())])
    found = []
    for several in (helpers.ALONE, Helpers(3)):
        means = GradientMeans(layout, ranges, several)
        means.compute(updates)
        copies = [torch.empty_like(mean) for _, _, mean in means.views()]
        copy_all(copies, [mean for _, _, mean in means.views()], several)
        found.append(copies)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("kind", sorted(_TENSORWISE, key=lambda kind: kind.__name__))
def test_a_shared_step_has_the_bits_of_one_thread(kind: type[optim.Optimizer]) -> None:
    def trained(several: Helpers) -> list[torch.Tensor]:
        torch.manual_seed(1)
        tensors = [torch.nn.Parameter(torch.randn(1 + 97 * at)) for at in range(20)]
        # Two groups, a rate of their own, and one tensor without a gradient.
        groups = [{"params": tensors[:7], "lr": 0.02}, {"params": tensors[7:]}]
        optimizer = kind(groups, lr=0.01)
        schedule = optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.3)
        for _ in range(5):
            for one in tensors[1:]:
                one.grad = torch.randn_like(one)
            shared_step(optimizer, several) if several is not helpers.ALONE else optimizer.step()
            schedule.step()
        assert [len(group["params"]) for group in optimizer.param_groups] == [7, 13]
        rest = [value for one in tensors for value in optimizer.state[one].values()]
        return tensors + [torch.as_tensor(value) for value in rest if value is not None]

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a schedule says so if it has missed a step
        one, other = trained(helpers.ALONE), trained(Helpers(3))
    assert len(one) == len(other)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
