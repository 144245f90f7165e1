"""Refuse changes of a barrier that no task sees, or that no checkpoint can put back.

Tasks have another build of the app. A task sees the parameters and buffers of its round, and else
the app as it was built. So a number that a hook of the optimizer changes and ``loss`` reads stays
as it was there, and so do modules, hooks of modules, and ``requires_grad``. Tensors keep their
shapes and types, since a checkpoint is written into those of a fresh build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import is_
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.checkpoints.barrier_objects import (
    BarrierObjects,
    Known,
    is_as_seen,
    is_leaf,
    same,
    see_unchanged,
    unchanged,
    values,
)
from warren.live.training.checkpoints.data_changes import FIXED_DATA, DataChanges
from warren.live.training.checkpoints.marks import mark, outline
from warren.live.training.checkpoints.saved_values import CannotKeep
from warren.live.training.isolation.kept_values import KeptValue, is_a
from warren.live.training.isolation.task_reads import HOOKS, TaskReads, hooks_of

_NOTHING: Final = object()
_SHAPED: Final = (torch.Tensor, np.ndarray)
_SMALL_BYTES: Final = 1 << 16
"""Size in bytes up to which a tensor is compared after each step, and not after some."""
_OF_ALL_MODULES: Final = tuple(
    one
    for name, one in vars(torch_module).items()
    if name.startswith("_global_") and "hooks" in name
)
"""Hooks that torch calls for every module."""


class UnseenChanges:
    """Watches, from the build on, the model's modules and the values that tasks read.

    ``left``: returns what tasks and evaluations have left in this process; ``is_left``: tells
    whether a value is among that.
    """

    def __init__(
        self,
        built: BuiltApp,
        objects: BarrierObjects,
        left: Callable[[], Iterable[KeptValue]],
        is_left: Callable[[Known, Any], bool],
    ) -> None:
        self._model = built.model
        self._objects = objects
        self._is_left = is_left
        reads = TaskReads(built)
        self._attributes: list[tuple[Known, tuple[Any, ...]]] = []
        self._contents: list[Known] = []
        for known in objects.at.values():
            whole = is_leaf(known.value) or known.is_container
            if isinstance(known.value, tuple | frozenset):
                continue
            if whole and reads.has(known.value):
                self._contents.append(known)
            elif isinstance(known.before, dict) and (keys := tuple(reads.keys(known.value))):
                self._attributes.append((known, keys))
        self._params = list(built.model.parameters())
        self._dicts = list(_dicts_of(built.model))
        self._parts = dict(_parts_of(built.model))
        self._before = self._flat()
        # Buffers may be replaced: they are looked up where modules have them.
        self._of_model = [
            (f"model.{path}.{leaf}" if path else f"model.{leaf}", place, leaf, _form(one))
            for path, module in built.model.named_modules()
            for place in (module._parameters, module._buffers)
            for leaf, one in place.items()
            if one is not None
        ]
        shaped = (one for one in objects.at.values() if is_a(one.value, *_SHAPED))
        self._shaped = [(one, _form(one.value)) for one in shaped]
        self._data = DataChanges(built, objects, left)

    def check(self, looked_at: bool) -> None:
        """Refuse such a change by name, after a step.

        ``looked_at``: compare the content of large tensors too.

        Raises
        ------
        CannotKeep
            There is one.
        """
        self._check_forms()
        found = self._flat()
        if len(found) != len(self._before) or not all(map(is_, found, self._before)):
            self._check_parts()
        for known, keys in self._attributes:
            now = _values_of(known)
            for key in keys:
                one, old = now.get(key, _NOTHING), known.before.get(key, _NOTHING)
                if one is not old and not same(one, old):
                    self._refuse(known, key)
        for known in self._contents:
            if _differs(known, looked_at):
                self._refuse(known, None)
        for name in self._data.changed(looked_at):
            raise CannotKeep(f"{name} is changed at the barrier, {FIXED_DATA}")

    def _refuse(self, known: Known, key: Any) -> None:
        name = known.name if key is None else self._objects.label(known, key)
        if self._objects.is_scratch(name) or self._is_left(known, key):
            return
        raise CannotKeep(
            f"{name} is changed at the barrier, and tasks read it, which do not see that; make it "
            "a buffer of the model, or name it in scratch where no result depends on it"
        )

    def _check_forms(self) -> None:
        """Refuse the first tensor or array that has another shape or type than at first."""
        for name, place, leaf, form in self._of_model:
            # What was taken away has a line of its own.
            if (one := place.get(leaf)) is not None and _form(one) != form:
                raise CannotKeep(
                    f"{name} is changed at the barrier from {_text(form)} to {_text(_form(one))}; "
                    "a model keeps the shapes and types that model() gives"
                )
        for known, form in self._shaped:
            now = _form(known.value)
            if now != form and form is not None and not self._is_left(known, None):
                raise CannotKeep(
                    f"{known.name} is changed in place from {_text(form)} to {_text(now)}, which "
                    "no checkpoint can put back; bind the name to a new one instead"
                )

    def _flat(self) -> list[Any]:
        """Return all that tasks have as the model was built, to be compared by identity."""
        found = list(chain.from_iterable(one.values() for one in self._dicts))
        for one in self._params:
            found += (one.requires_grad, one._backward_hooks, one._post_accumulate_grad_hooks)
        return found

    def _check_parts(self) -> None:
        """Refuse the first part of the model that is another than at first."""
        now = dict(_parts_of(self._model))
        for name in sorted(now.keys() | self._parts.keys()):
            if now.get(name, _NOTHING) is not self._parts.get(name, _NOTHING):
                raise CannotKeep(
                    f"{name} is changed at the barrier, where no task sees it; set it in model(), "
                    "for good"
                )


def _form(value: Any) -> tuple[Any, Any] | None:
    """Return the shape and type of a tensor or an array; None: it has none, as a nested one."""
    try:
        return value.shape, value.dtype
    except Exception:  # whatever its class says
        return None


def _text(form: tuple[Any, Any] | None) -> str:
    return "none" if form is None else f"{str(form[1]).removeprefix('torch.')} {tuple(form[0])}"


def _differs(known: Known, looked_at: bool) -> bool:
    """Tell whether a container or leaf has another content than at first."""
    if isinstance(known.before, dict):
        if is_as_seen(known):
            return False
        if unchanged(values(known), known.before):
            see_unchanged(known)
            return False
        return True
    # Long lists and large tensors take time.
    if isinstance(known.before, int):
        return looked_at and outline(known.value) != known.before
    # Tensors that are not dense have no number of bytes, and are looked at where large ones are.
    dense = getattr(known.value, "layout", torch.strided) is torch.strided
    # Each look at a tensor on a device would wait for it.
    here = getattr(known.value, "is_cpu", True)
    small = here and dense and getattr(known.value, "nbytes", 0) <= _SMALL_BYTES
    return (small or looked_at) and mark(known.value) != known.before


def _dicts_of(model: nn.Module) -> Iterator[dict[Any, Any]]:
    """Yield the dicts in which a model has its modules, parameters and hooks."""
    yield from _OF_ALL_MODULES
    for module in model.modules():
        yield from (module._modules, module._parameters)
        yield from (one for kind in HOOKS if (one := getattr(module, kind, None)) is not None)
    for parameter in model.parameters():
        yield from (one for kind in HOOKS if (one := getattr(parameter, kind, None)) is not None)


def _parts_of(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the same with names."""
    for at, hook in enumerate(chain.from_iterable(one.values() for one in _OF_ALL_MODULES)):
        yield f"hook {at} of all modules", hook
    for path, module in model.named_modules():
        prefix = f"model.{path}" if path else "model"
        yield from ((f"{prefix}.{name}", one) for name, one in module._modules.items())
        yield from ((f"{prefix}.{place}", hook) for place, hook in hooks_of(module))
        for name, parameter in module._parameters.items():
            yield f"{prefix}.{name}", parameter
            if parameter is not None:
                yield f"{prefix}.{name}.requires_grad", parameter.requires_grad
                hooks = hooks_of(parameter)
                yield from ((f"{prefix}.{name}.{place}", hook) for place, hook in hooks)


def _values_of(known: Known) -> dict[Any, Any]:
    """Return the values of an object as they are now."""
    # Those of modules, and of objects without slots, lie in one dict.
    own = None if isinstance(known.value, type) else getattr(known.value, "__dict__", None)
    whole = isinstance(own, dict) and own.keys() >= known.before.keys()
    return own if own is not None and whole else values(known)
