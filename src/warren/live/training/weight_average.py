"""Keep the moving average of an app's weights (``ema``), which its evaluations use.

After the first step the average is the weights; after each later step it is

    average + (weights - average) * (1 - ema),

as ``torch.optim.swa_utils.AveragedModel`` has it with ``get_ema_multi_avg_fn(ema)``. Each of the
three operations is rounded by itself, so the bits depend on no order and no division among servers.
Buffers have no average: the model's own stand beside the averaged weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save
from torch import Tensor, nn

from warren.live.training.checkpoints.files import make_folder, write_whole
from warren.live.training.tensor_layout import host_copy
from warren.live.transport.frames import Buffer

_FOLDER: Final = "ema"
"""Name of the folder of averaged weights, beside that of trained parameters."""


@torch.no_grad()
def update_average(
    averages: dict[Tensor, Tensor], weights: Iterable[Tensor], ema: float | None
) -> None:
    """Update the averages by weights that were just stepped; ``ema`` None: the app keeps none.

    A frozen weight has no average. That of a weight of 16 bits is kept in float32, where small
    changes are not lost.
    """
    if ema is None:
        return
    there: list[tuple[Tensor, Tensor]] = []
    for weight in weights:
        if not weight.requires_grad:
            continue
        now = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
        average = averages.get(weight)
        if average is None:
            averages[weight] = now.clone()
        elif average.is_cpu:
            average.add_((now - average).mul_(1 - ema))
        else:
            there.append((average, now))
    if there:
        # In few calls, each of which takes some microseconds on a GPU whatever it computes.
        kept, latest = ([pair[at] for pair in there] for at in (0, 1))
        changes = torch._foreach_sub(latest, kept)
        torch._foreach_mul_(changes, 1 - ema)
        torch._foreach_add_(kept, changes)


@contextmanager
def averaged(model: nn.Module, averages: Mapping[Tensor, Tensor]) -> Iterator[None]:
    """Let a model have the averages as its weights during the block; then it has its own again."""
    own: dict[Tensor, Tensor] = {
        weight: weight.detach().clone() for weight in model.parameters() if weight in averages
    }
    try:
        _put({weight: averages[weight] for weight in own})
        yield
    finally:
        _put(own)


def averaged_state(model: nn.Module, averages: Mapping[Tensor, Tensor]) -> dict[str, Tensor] | None:
    """Return the model's ``state_dict`` with the averages as weights, as copies in main memory.

    None: the app keeps no average.
    """
    if not averages:
        return None
    with averaged(model, averages):
        return {name: host_copy(value) for name, value in sorted(model.state_dict().items())}


@torch.no_grad()
def _put(values: Mapping[Tensor, Tensor]) -> None:
    for weight, value in values.items():
        weight.copy_(value)


def average_path(params: str | Path) -> Path:
    """Return the file of a job's averaged weights; ``params``: that of its parameters."""
    path = Path(params)
    return path.parent.parent / _FOLDER / path.name


def safetensors_of(state: Mapping[str, Tensor]) -> bytes:
    """Return a state_dict as the bytes of a safetensors file, equal for equal parameters."""
    return save({name: value.cpu().contiguous() for name, value in sorted(state.items())})


def write_params(
    params: str, state: Buffer, average: Mapping[str, Tensor] | None, *, forget: bool = False
) -> None:
    """Write a job's trained parameters, and before them their average if the app keeps one.

    ``state``: the parameters as the bytes of a safetensors file; ``forget`` as for ``write_whole``.

    Raises
    ------
    OSError
        With the name of the file.
    """
    if average is not None:
        path = average_path(params)
        make_folder(path.parent)
        write_whole(path, safetensors_of(average))
    write_whole(params, state, forget=forget)
