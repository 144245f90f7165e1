"""States and updates are copied with the bits of torch's own copy, however it is done."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from warren.live.training.memory.shared_memory import copy_all


def _sources() -> dict[str, Tensor]:
    """Tensors of 256 KiB and more, of every kind that a gradient or a parameter may be."""
    torch.manual_seed(0)
    real = torch.randn(300, 320)
    real[0, :3] = torch.tensor([-0.0, float("nan"), float("inf")])
    return {
        "float32": real,
        "float64": real.double(),
        "bfloat16": real.bfloat16(),
        "int64": torch.arange(60_000),
        "complex, conjugated": torch.complex(real, real.flip(0)).conj(),
        "negated": torch.complex(real, real.flip(0)).conj().imag,
        "transposed": real.T,
        "a part": torch.randn(300, 640)[:, ::2],
        "a parameter": nn.Parameter(real.clone()),
        "small": real[0],
    }


@pytest.mark.parametrize("kind", _sources())
@pytest.mark.parametrize("strides", ["row-major", "transposed"])
def test_a_copy_has_the_bits_and_leaves_the_marks_of_torchs_own(kind: str, strides: str) -> None:
    source = _sources()[kind]
    shape = source.shape if strides == "row-major" else source.shape[::-1]
    targets = [torch.zeros(shape, dtype=source.dtype) for _ in range(2)]
    if strides == "transposed":
        targets = [target.permute(*reversed(range(target.dim()))) for target in targets]
    before = targets[0]._version
    copy_all([targets[0]], [source])
    with torch.no_grad():
        targets[1].copy_(source)
    found, expected = (one.contiguous().view(-1).view(torch.uint8) for one in targets)
    assert torch.equal(found, expected)
    assert targets[0]._version > before, "autograd would not see the change"


def test_a_copy_into_another_type_or_shape_is_torchs_own() -> None:
    source = torch.randn(300, 320)
    target = torch.zeros(300, 320, dtype=torch.float64)
    copy_all([target], [source])
    assert torch.equal(target, source.double())
    with pytest.raises(RuntimeError, match="size"):
        copy_all([torch.zeros(320, 300)], [source])
