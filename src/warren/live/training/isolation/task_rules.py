"""Let a task change gradients and buffers, and refuse every other change by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import is_
from typing import Any, Final, NoReturn

import torch
from torch import Tensor, nn

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.app_contract import refuse
from warren.live.training.app.model_contract import check_memory
from warren.live.training.isolation.outside_state import OutsideState, OutsideTasks
from warren.live.training.memory.shared_memory import first_difference
from warren.live.training.tensor_layout import tensors
from warren.model.job import Job

_ALL: Final = 3
"""Number of first rounds of a job of which all tasks have the bytes of parameters compared."""
_LEAST: Final = 4
_MOST: Final = 32
"""Number of later rounds of which one task has them compared, by the size of parameters."""
_EACH_BYTES: Final = 1 << 23
"""Bytes of parameters by which there is one round more: comparing takes 1 % of a task or less."""


class TaskRules:
    """Watches one model while its tasks are computed, one after another::

    for _ in rules.passes():  # once for most tasks
        ...                   # the state of the round is put in place
        rules.begin(round_no, shard)
        ...                   # generators, batch, forward and backward
        rules.end(loss, state)

    Versions of parameters are compared after every task. A write past autograd (``.data``, an
    array, a fused step) moves no version. No result depends on it, since each task and each step
    begins with the state of the round; still it is refused, once bytes are compared. The round and
    the shard alone say after which tasks: every engine refuses in the same round.
    """

    def __init__(self, built: BuiltApp, job: Job) -> None:
        self._model = built.model
        self._job = job
        found = dict(built.model.named_parameters())
        self._names, self._params = list(found), list(found.values())
        buffers = dict(built.model.named_buffers())
        modules = dict(built.model.named_modules())
        # The dicts in which modules keep their tensors: looking there costs less than a walk.
        self._at = [(modules[path]._parameters, leaf) for path, leaf in map(_split, self._names)]
        self._trained = [parameter.requires_grad for parameter in self._params]
        self._parts = [
            part
            for module in modules.values()
            for part in (module._parameters, module._buffers, module._modules)
        ]
        self._sizes = list(map(len, self._parts))
        self._buffers = [(modules[path]._buffers, leaf) for path, leaf in map(_split, buffers)]
        self._built = list(buffers.values())
        # Names that are registered as None: a task may not fill them.
        self._empty = [
            (part, leaf) for part in self._parts for leaf, one in part.items() if one is None
        ]
        self._known = tensors(built.model)
        self._versions: list[int] = []
        self._addresses: list[int] = []
        self._task = 0, 0
        self._here = all(parameter.is_cpu for parameter in self._params)
        nbytes = sum(parameter.nbytes for parameter in self._params)
        self._every = min(_MOST, _LEAST + nbytes // _EACH_BYTES)
        self._outside = OutsideTasks(built, job)
        self._app = vars(built.app)
        # An app may keep its optimizer or schedule; in a task a stand-in takes their places.
        steppers = (built.optimizer, built.schedule)
        self._stepped = {
            name: value
            for name, value in self._app.items()
            if value is not None and any(value is one for one in steppers)
        }
        self._unseen = {name: _Unseen(name, job) for name in self._stepped}

    def passes(self) -> Iterator[None]:
        """Yield once for each time that the present task must be computed (``OutsideTasks``)."""
        return self._outside.passes()

    @property
    def looking(self) -> bool:
        """Tell whether the present task is looked at, so that its user code must run here."""
        return self._outside.looking

    @property
    def kept(self) -> OutsideState:
        """Return the state that tasks have left outside the model."""
        return self._outside.kept

    def begin(self, round_no: int, shard: int) -> None:
        """Note the present values, with the state of the round in place for a task of it."""
        self._task = round_no, shard
        if self._outside.watching:
            self._outside.begin(round_no)
        self._app.update(self._unseen)
        self._versions = [parameter._version for parameter in self._params]
        self._addresses = [parameter.data_ptr() for parameter in self._params]

    def end(self, loss: Tensor, before: Iterable[Tensor]) -> None:
        """Refuse forbidden changes of the task; ``before`` is the state it was given, in order.

        Raises
        ------
        SpecError
            It has changed a forbidden value; the message names it.
        """
        params = self._params
        # One quick pass after each task; only if it fails is the changed value looked up.
        same = (
            [parameter._version for parameter in params] == self._versions
            and [parameter.requires_grad for parameter in params] == self._trained
            and list(map(len, self._parts)) == self._sizes
            and all(map(is_, [place.get(leaf) for place, leaf in self._at], params))
            and all(place.get(leaf) is None for place, leaf in self._empty)
            and all(map(_fits, [place.get(leaf) for place, leaf in self._buffers], self._built))
        )
        if not same:
            self._refuse_changed()
        for name, parameter in zip(self._names, params, strict=True):
            if parameter.grad is not None and parameter.grad.layout is not torch.strided:
                raise refuse(self._job, name, "has a sparse gradient; use dense ones, sparse=False")
        moved = [parameter.data_ptr() for parameter in params] != self._addresses
        if (moved and self._here) or self._is_compared():
            self._compare(before)
        # Other memory with the same numbers in it is allowed, such as that of flattened weights.
        if moved:
            check_memory(self._model, self._job, "loss()")
        self._app.update(self._stepped)
        if self._outside.watching:
            self._outside.end(loss)

    def _refuse_changed(self) -> NoReturn:
        """Find the change that the quick pass has noticed, and raise an error that names it."""
        now = tensors(self._model)
        for name in sorted(now.keys() - self._known.keys()):
            kind = "parameter" if isinstance(now[name], nn.Parameter) else "buffer"
            raise self._refuse(f"registers {kind} {name!r}; register it in model()")
        for name in sorted(self._known.keys() - now.keys()):
            raise self._refuse(f"takes {name!r} away from the model")
        for name, tensor in now.items():
            if not _fits(tensor, built := self._known[name]):
                one, other = (f"{t.dtype} {tuple(t.shape)}" for t in (built, tensor))
                raise refuse(self._job, name, f"changed from {one} to {other} during a task")
        for name, parameter, version, trained in zip(
            self._names, self._params, self._versions, self._trained, strict=True
        ):
            if now.get(name) is not parameter:
                raise self._refuse(f"replaces parameter {name!r}; {_ALLOWED}")
            if parameter._version != version:
                raise self._refuse(f"writes parameter {name!r}; {_ALLOWED}")
            if parameter.requires_grad != trained:
                message = f"sets requires_grad of parameter {name!r}; set it in model(), for good"
                raise self._refuse(message)
        raise self._refuse("adds modules to the model, or takes some away; do so in model()")

    def _is_compared(self) -> bool:
        """Tell whether the bytes of parameters are compared after the task at hand."""
        round_no, shard = self._task
        # Each shard in its turn: a task's changes may depend on its batch.
        turn, rest = divmod(round_no + 1, self._every)
        return round_no < _ALL or (rest == 0 and turn % self._job.scale == shard)

    def _compare(self, before: Iterable[Tensor]) -> None:
        """Refuse parameters whose bytes are not those of the round's state."""
        at = first_difference(zip(self._params, before, strict=False))
        if at is not None:
            raise self._refuse(f"writes parameter {self._names[at]!r}; {_ALLOWED}")

    def _refuse(self, message: str) -> Exception:
        return refuse(self._job, "loss()", message)


_ALLOWED: Final = "a task may change gradients and buffers only, the optimizer steps at the barrier"


class _Unseen:
    """Stands for the app's optimizer or schedule in a task, where its copy of them never steps."""

    def __init__(self, name: str, job: Job) -> None:
        # Past ``__setattr__`` and ``__getattr__``, which is asked for every attribute not found.
        self.__dict__["_what"] = name, job

    def __getattr__(self, key: str) -> Any:
        name, job = self.__dict__["_what"]
        message = f"reads {key!r} of 'self.{name}', which steps at the barrier, where no task runs"
        raise refuse(job, "loss()", message)


def _fits(now: Tensor | None, built: Tensor) -> bool:
    """Tell whether a tensor has the shape and type that it had when the model was built."""
    if now is built:
        return True
    return now is not None and (now.shape, now.dtype) == (built.shape, built.dtype)


def _split(name: str) -> tuple[str, str]:
    path, _, leaf = name.rpartition(".")
    return path, leaf
