"""Values in corners: subclasses of containers, weak references, slots, modules, iterators."""

from __future__ import annotations

import functools
import itertools
import queue
import weakref
from collections import OrderedDict, UserDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import torch
from _restored_base import Base, kinds_in
from torch import Tensor, nn, optim

_LONG: Final = 20_000


class _Hooked(Base):
    """A hook before each step that divides all gradients by the number that ``number`` gives."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        number = self.number()

        def hook(*_: Any) -> None:
            divisor = 1 + float(number()) % 7
            for one in parameters:
                one.grad = cast("Tensor", one.grad) / divisor

        optimizer.register_step_pre_hook(hook)
        return optimizer

    def number(self) -> Any:
        """What gives the number."""
        raise NotImplementedError


class _Count:
    """Counts its calls."""

    n = 0

    def __call__(self) -> int:
        self.n += 1
        return self.n


def _counting(holder: Any) -> Any:
    """Count in the attribute ``n`` of any object."""

    def count() -> int:
        holder.n = getattr(holder, "n", 0) + 1
        return int(holder.n)

    return count


class _Items(dict[str, int]):
    """A dict with attributes."""


class _Last(deque[int]):
    """A deque with attributes."""


class _Numbers(np.ndarray[Any, Any]):
    """An array with attributes."""


class InDictAttribute(_Hooked):
    def number(self) -> Any:
        return _counting(_Items())


class InDequeAttribute(_Hooked):
    def number(self) -> Any:
        return _counting(_Last())


class InArrayAttribute(_Hooked):
    def number(self) -> Any:
        return _counting(np.zeros(2).view(_Numbers))


class InTensorAttribute(_Hooked):
    def number(self) -> Any:
        return _counting(torch.zeros(2))


class InOrdered(_Hooked):
    """The order counts."""

    def number(self) -> Any:
        book: OrderedDict[int, int] = OrderedDict()

        def turn() -> int:
            book[len(book)] = 1
            book.move_to_end(min(book))
            return next(iter(book)) + len(book)

        return turn


class InUnderscores(_Hooked):
    def number(self) -> Any:
        def count() -> int:
            count.__calls__ += 1  # type: ignore[attr-defined]
            return count.__calls__  # type: ignore[attr-defined, no-any-return]

        count.__calls__ = 0  # type: ignore[attr-defined]
        return count


class _Private:
    __slots__ = ("__n",)

    def __init__(self) -> None:
        self.__n = 0

    def __call__(self) -> int:
        self.__n += 1
        return self.__n


class InPrivateSlot(_Hooked):
    def number(self) -> Any:
        return _Private()


class _Ticks:
    """A descriptor that counts its reads."""

    n = 0

    def __get__(self, *_: Any) -> int:
        self.n += 1
        return self.n


class InDescriptor(_Hooked):
    def number(self) -> Any:
        class Clock:
            tick = _Ticks()

        clock = Clock()
        return lambda: clock.tick


class InWeak(_Hooked):
    """Numbers behind a weak reference."""

    def number(self) -> Any:
        self.strong = _Count()
        weak = weakref.ref(self.strong)
        return lambda: weak()()  # type: ignore[misc]


class InWeakDict(_Hooked):
    refused = "holds a ReferenceType"

    def number(self) -> Any:
        self.strong = _Count()
        seen: Any = weakref.WeakKeyDictionary()
        key = self.strong

        def count() -> int:
            seen[key] = seen.get(key, 0) + 1
            return int(seen[key])

        return count


class InQueue(_Hooked):
    def number(self) -> Any:
        line: queue.Queue[int] = queue.Queue()
        line.put(1)

        def turn() -> int:
            line.put(line.get() + 1)
            return line.queue[0]

        return turn


class InUserDict(_Hooked):
    """An object in a dict of Python's own class."""

    def number(self) -> Any:
        items = UserDict(count=_Count())
        return lambda: items["count"]()


def _early() -> int:
    return 1


def _late() -> int:
    return 3


phase = _early


class Phases(_Hooked):
    """A global is bound to another function at each step."""

    def number(self) -> Any:
        def turn() -> int:
            global phase
            found = phase()
            phase = _late if phase is _early else _early
            return found

        return turn


class BindsStatic(_Hooked):
    """A static method of a class is another one after each step."""

    refused = "rule holds a staticmethod"

    def number(self) -> Any:
        class Rules:
            rule = staticmethod(_early)

        def turn() -> int:
            found = Rules.rule()
            Rules.rule = staticmethod(_late if found == 1 else _early)
            return found

        return turn


class OtherDefault(_Hooked):
    """A defaultdict calls another function after each step."""

    refused = "has changed, which a checkpoint cannot keep"

    def number(self) -> Any:
        found: defaultdict[int, int] = defaultdict(_early)

        def turn() -> int:
            last = found.pop(0, 0) or found[1]
            found.default_factory = _late if found.default_factory is _early else _early
            del found[1]
            return last

        return turn


@dataclass(frozen=True, slots=True)
class _Frozen:
    n: int = 0


class InFrozen(_Hooked):
    def number(self) -> Any:
        frozen = _Frozen()

        def count() -> int:
            object.__setattr__(frozen, "n", frozen.n + 1)
            return frozen.n

        return count


class Repeats(_Hooked):
    """A tensor of one element in four places."""

    refused = "has elements that share memory"

    def number(self) -> Any:
        self.repeated: Any = None

        def count() -> float:
            last = 0.0 if self.repeated is None else float(self.repeated[0])
            self.repeated = torch.tensor([last + 1]).expand(4)
            return float(self.repeated[3])

        return count


class BehindCache(_Hooked):
    def number(self) -> Any:
        count = _Count()

        @functools.lru_cache(0)
        def cached() -> int:
            return count()

        return lambda: cached()


class InLongList(_Hooked):
    refused = "a list, goes on at each step"

    def number(self) -> Any:
        numbers = [0] * _LONG

        def count() -> int:
            numbers[7] += 1
            return numbers[7]

        return count


class Cycles(_Hooked):
    refused = "a cycle, goes on at each step"

    def number(self) -> Any:
        turns = itertools.cycle([1, 2, 3, 4, 5])
        return lambda: next(turns)


class Maps(_Hooked):
    refused = "a count, goes on at each step"

    def number(self) -> Any:
        def square(one: int) -> int:
            return one * one

        squares = map(square, itertools.count(1))
        return lambda: next(squares)


class InFields(_Hooked):
    refused = "holds a ndarray"

    def number(self) -> Any:
        table = np.zeros(2, [("n", "i4"), ("x", "f4")])

        def count() -> int:
            table["n"][0] += 1
            return int(table["n"][0])

        return count


class _Tempered(nn.Sequential):
    temperature = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", super().forward(x)) / self.temperature


class Anneals(Base):
    """A hook changes what the loss depends on, where no task sees it."""

    refused = "model.temperature is changed at the barrier"

    def model(self) -> nn.Module:
        self.net = _Tempered(*super().model().children())
        return self.net

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)

        def hook(*_: Any) -> None:
            self.net.temperature *= 0.8

        optimizer.register_step_post_hook(hook)
        return optimizer


class GradientHookCounts(Base):
    """A hook of a parameter's gradient counts the tasks of its process."""

    refused = "depends on"

    def model(self) -> nn.Module:
        net = super().model()
        count = _Count()
        next(net.parameters()).register_hook(lambda grad: grad / count())
        return net


class BackwardHookCounts(Base):
    """A hook of a module's backward pass does."""

    refused = "depends on"

    def model(self) -> nn.Module:
        net = super().model()
        count = _Count()
        last = list(net.children())[-1]
        last.register_full_backward_pre_hook(lambda _, grads: tuple(g / count() for g in grads))
        return net


class LossCycles(Base):
    refused = "changes 'self.turns'"

    def model(self) -> nn.Module:
        self.turns = itertools.cycle([1, 2, 3])
        return super().model()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / next(self.turns)


class MetricQueue(Base):
    refused = "depend on what it keeps in 'self.line.queue"

    def model(self) -> nn.Module:
        self.line: queue.Queue[int] = queue.Queue()
        return super().model()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.line.put(1)
        return {"seen": float(self.line.qsize())}


class MetricUnderscores(Base):
    """An evaluation counts in an attribute of its class, whose name begins with underscores."""

    refused = "depend on what it keeps in 'MetricUnderscores.__n"

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        kind = type(self)
        setattr(kind, "__n", getattr(kind, "__n", 0) + 1)
        return {"n": float(getattr(kind, "__n"))}


CORNERS = kinds_in(globals())
