"""Threads that share work give what one gives, whatever the sizes."""

from __future__ import annotations

import threading

import pytest
import torch

from warren.live.training import helpers
from warren.live.training.gradient_sum import GradientMeans
from warren.live.training.helpers import Helpers
from warren.live.training.memory.shared_memory import copy_all
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
