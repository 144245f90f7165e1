"""Where a model keeps its tensors. Looking there is quicker than walking the whole model."""

from __future__ import annotations

from torch import Tensor, nn

from warren.live.training.tensor_layout import tensors


class Places:
    """The tensors of a model in the order of its layout, whatever has been put in their places."""

    def __init__(self, model: nn.Module) -> None:
        modules = dict(model.named_modules())
        self._built = tensors(model)
        self._at: list[tuple[dict[str, Tensor | None], str]] = []
        self._buffers: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
        for name, tensor in self._built.items():
            path, _, leaf = name.rpartition(".")
            if isinstance(tensor, nn.Parameter):
                self._at.append((modules[path]._parameters, leaf))
            else:
                self._at.append((modules[path]._buffers, leaf))
                self._buffers.append((modules[path]._buffers, leaf, tensor))

    def now(self) -> list[Tensor | None]:
        """What is there now; None where something was taken away."""
        return [place.get(leaf) for place, leaf in self._at]

    def put_back_buffers(self) -> None:
        """Each buffer is again the tensor that the model was built with, whatever it holds."""
        for place, leaf, tensor in self._buffers:
            place[leaf] = tensor
