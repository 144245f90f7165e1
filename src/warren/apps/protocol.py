"""Define the interface of user code: one class an app.

Importing this module is cheap; torch is imported only where a default needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from warren.model.errors import Problem, SpecError

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim.lr_scheduler import LRScheduler

_REQUIRED = inspect.Parameter.empty


class TorchApp:
    """A PyTorch model, its data and its loss; Warren decides where and when each task runs.

    A round is ``scale`` tasks, one batch each, then a barrier: gradients are added in task order
    and divided by ``scale``, the optimizer steps once, then the schedule. The class is loaded in
    several processes, so every method must give the same answer wherever it is called.

    Parameters of a job (``params:`` in the job file) are declared either as annotated class
    attributes with defaults (``lr: float = 0.1``; they become attributes of the instance) or as
    keyword arguments of an ``__init__`` of your own. A name that is not declared is refused.

    Rules that follow from the promise "same job, any schedule, same bits":

    - ``model()``, ``dataset()``, ``optimizer()`` and ``schedule()`` are called in this order,
      once in every process that trains or serves the job.
    - Randomness comes from the global generators of ``random``, ``numpy`` and ``torch``; they
      are reseeded before each of these four, before each task and at each barrier. Before each
      sample of a ``Dataset`` they are reseeded by the job's seed, the round, the task and the
      number of the sample in it, and once more before ``collate``.
    - A task may change gradients and buffers of the model. Parameters written in ``loss``, and
      values kept elsewhere that make a task depend on those before it, are refused by name.
    - What a task changes in the model and the next task needs must be a buffer. Float buffers
      are averaged over the tasks of a round, integer buffers are taken from task 0. Keep
      constants out of float buffers: the average of equal numbers may differ in the last bit.
    - Gradients are never shown to the app. ``clip_norm`` clips a round's mean gradient by its
      global norm before the step, to the same bits on one server, on several and in a ring, as
      ``torch.nn.utils.clip_grad_norm_`` would in double precision: an attribute of the app, or a
      parameter of the job. An optimizer whose ``step`` needs a closure (``LBFGS``), a fused
      one and a schedule that wants a metric (``ReduceLROnPlateau``) are refused.
    - ``ema = 0.999`` keeps a moving average of the weights, updated after each step. ``evaluate``
      is given the model with the averaged weights, and what it writes into them is undone. Buffers
      have no average. ``params(ema=True)`` of a job's result gives the average. The class states
      it; with a type (``ema: float = 0.999``) it is a parameter of the job as well.

    A job may have several parameter servers, each with some of the tensors. ``separable = True``
    says that an optimizer of your own may be split so: that it steps each tensor by its own
    gradient and state alone, and draws no random numbers. Those of ``torch.optim`` are known.

    ``scratch`` names what the app keeps that no result depends on, such as counters for its log:
    ``("self.calls", "model.seen", "dataset.asked", "Net.calls", "a_global")``.
    """

    separable: ClassVar[bool] = False
    scratch: ClassVar[tuple[str, ...]] = ()
    clip_norm: float | None = None

    def __init__(self, **params: Any) -> None:
        for name, value in {**declared(type(self)), **params}.items():
            setattr(self, name, value)

    def model(self) -> nn.Module:
        """Return the untrained network. Called first."""
        raise NotImplementedError(f"{type(self).__name__} must define model()")

    def dataset(self) -> Any:
        """Return a map-style ``Dataset``, a tensor, or a tuple or dict of tensors of equal length.

        A batch is then the result of ``collate``, a tensor, a tuple or a dict. Servers call it too,
        so that ``evaluate`` finds the attributes it sets.
        """
        raise NotImplementedError(f"{type(self).__name__} must define dataset()")

    def collate(self, samples: list[Any]) -> Any:
        """Return a batch made of samples of a ``Dataset``. Default: torch's ``default_collate``.

        Define it where samples differ in length. It may draw random numbers. Tensors given by
        ``dataset()`` are indexed, and need none.
        """
        from torch.utils.data import default_collate

        return default_collate(samples)

    def sampler(self, epoch: int, length: int) -> Sequence[int]:
        """Return the samples of an epoch in their order. Default: a shuffle by the job's seed.

        Any list of indices below ``length``, the number of samples: one may be left out or come
        several times. Each epoch has equally many, a batch or more. It may draw random numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no order of its own")

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the mean loss of one batch, a scalar that can be differentiated."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(model, batch)")

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """Return the optimizer, stepped once a round. Default: plain SGD at learning rate 0.1."""
        import torch

        return torch.optim.SGD(list(named_parameters), lr=0.1, fused=False)

    def schedule(self, optimizer: torch.optim.Optimizer) -> LRScheduler | None:
        """Return the schedule of the learning rate, stepped once a round after the optimizer."""
        return None

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Return named numbers about the model (in eval mode, no gradients), inside the barrier."""
        return {}

    def finished(self, metrics: Mapping[str, float]) -> bool:
        """Tell whether the job ends here, asked after each evaluation with its metrics.

        For a job that no one knows the length of (no ``rounds``) and no single metric ends; its
        answer may depend on ``metrics`` alone, since a server that was lost asks again.
        """
        return False


def declared(app: type[TorchApp]) -> dict[str, Any]:
    """Return an app's parameters and their defaults (``inspect.Parameter.empty``: required)."""
    if app.__init__ is not TorchApp.__init__:
        return {
            name: parameter.default
            for name, parameter in list(inspect.signature(app.__init__).parameters.items())[1:]
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
    # From the base class down, so that the default of the nearest class counts.
    found = {}
    for base in reversed(app.__mro__):
        for name, kind in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_") and "ClassVar" not in str(kind) and hasattr(app, name):
                found[name] = getattr(app, name)
    return found


def make_app(app: type[TorchApp], params: Mapping[str, Any], *, where: str) -> TorchApp:
    """Build an app with a job's parameters; ``where`` names the app in messages.

    Raises
    ------
    SpecError
        A parameter is unknown, missing, or of another type than its default; None is of every
        type that is annotated so.
    """
    kinds, known = _kinds(app), declared(app)
    for name, default in known.items():
        # ``lr: float = 1`` is meant as a float: 0.5 must not be refused for being no int.
        known[name] = _as(default, 0.0) if "float" in kinds.get(name, "") else default
    problems = [
        _problem(where, name, value, known)
        for name, value in params.items()
        # None fits a parameter only where its annotation allows None.
        if value is not None or "None" not in kinds.get(name, "")
    ]
    problems += [
        Problem(file=where, field=f"params.{name}", message="is required")
        for name, default in known.items()
        if default is _REQUIRED and name not in params
    ]
    found = [problem for problem in problems if problem is not None]
    if found:
        raise SpecError(found)
    return app(**{name: _as(value, known[name]) for name, value in params.items()})


def _kinds(app: type[TorchApp]) -> dict[str, str]:
    """Return the annotations of an app's attributes, as text; the nearest class counts."""
    return {
        name: str(kind)
        for base in reversed(app.__mro__)
        for name, kind in vars(base).get("__annotations__", {}).items()
    }


def _problem(where: str, name: str, value: Any, known: Mapping[str, Any]) -> Problem | None:
    """Return the fault of one parameter of a job; None if there is none."""
    field = f"params.{name}"
    if name not in known:
        allowed = ", ".join(sorted(known)) or "none"
        return Problem(file=where, field=field, message=f"unknown parameter; allowed: {allowed}")
    default = known[name]
    # Without a default there is no type to compare with.
    if default is None or default is _REQUIRED or _fits(value, default):
        return None
    wanted = type(default).__name__
    return Problem(file=where, field=field, message=f"{value!r} is not {wanted} like {default!r}")


def _fits(value: Any, default: Any) -> bool:
    """Tell whether a value is of the type of a default, or becomes so without loss."""
    # bool is a subclass of int: 1 is no True, and True is no 1.
    if isinstance(value, bool) != isinstance(default, bool):
        return False
    return isinstance(_as(value, default), type(default))


def _as(value: Any, default: Any) -> Any:
    """Return ``value`` in the type of ``default`` where that loses nothing; else unchanged."""
    # YAML has no tuples, and people write 1 for 1.0.
    if isinstance(default, float) and isinstance(value, int):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    return value
