"""Gradients are clipped as PyTorch does it, to the same bits however many servers hold them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from training_bench import MixedApp, Points, a_job, mixed_job, serve, serve_split

from warren.apps.protocol import TorchApp, make_app
from warren.live.oracle.plain import train
from warren.live.training.app.app_contract import check_job
from warren.live.training.gradient_clipping import factor_of, squares_of
from warren.model.errors import SpecError


def clipped(chosen: str, limit: float | None) -> TorchApp:
    return MixedApp(chosen=chosen, clip_norm=limit)


@pytest.mark.parametrize("chosen", ["sgd", "adam"])
def test_clipping_gives_the_bits_of_plain_on_any_number_of_servers(chosen: str) -> None:
    job = mixed_job()
    plain = train(clipped(chosen, 0.05), job).digest
    assert plain != train(clipped(chosen, None), job).digest
    assert serve(lambda: clipped(chosen, 0.05), job)[0].digest() == plain
    for parts in (2, 3, 5):
        assert serve_split(lambda: clipped(chosen, 0.05), job, parts)[0].digest() == plain


def test_a_limit_that_is_never_reached_changes_no_bit() -> None:
    job = mixed_job()
    assert train(clipped("sgd", 1e9), job).digest == train(clipped("sgd", None), job).digest


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("limit", [1e-3, 1.0, 1e3])
def test_the_factor_is_that_of_pytorch(limit: float, dtype: torch.dtype, rtol: float) -> None:
    """PyTorch adds squares in the type of the gradients."""
    draw = torch.Generator().manual_seed(3)
    shapes = [(7, 5), (600, 700), (3,), (0,)]
    gradients = [torch.randn(shape, generator=draw, dtype=dtype) for shape in shapes]
    parameters = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, limit)
    factor = factor_of(squares_of(gradients), limit)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        mine = gradient if factor is None else gradient * factor
        torch.testing.assert_close(mine, parameter.grad, rtol=rtol, atol=0)


def test_strides_and_absent_gradients_do_not_matter_to_the_square() -> None:
    gradient = torch.randn(30, 20, generator=torch.Generator().manual_seed(1))
    turned = gradient.t().contiguous().t()
    assert turned.stride() != gradient.stride()
    first, second = squares_of([gradient, turned])
    assert first == second
    assert squares_of([None, torch.tensor([3 + 4j])]) == (0.0, 25.0)


@pytest.mark.parametrize("limit", [0, -1.0, True, "much", float("nan"), float("inf")])
def test_a_limit_that_is_no_number_above_zero_is_refused(limit: object) -> None:
    app = make_app(Points, {"clip_norm": limit}, where="points.py:Points")
    with pytest.raises(SpecError, match="clip_norm: must be a number above 0, or None, not"):
        check_job(app, a_job())


def test_a_job_may_set_the_limit_as_a_parameter_of_any_app() -> None:
    assert make_app(Points, {"clip_norm": 2}, where="points.py:Points").clip_norm == 2
    assert make_app(Points, {}, where="points.py:Points").clip_norm is None
