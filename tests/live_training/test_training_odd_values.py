"""What an app keeps may be of any class: the watch over it never fails by itself."""

from __future__ import annotations

import random
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from training_bench import Points, a_job, serve

from warren.live.oracle.plain import train
from warren.model.errors import SpecError

JOB = a_job(rounds=2, scale=2)


class Odd(Points):
    """Points that keeps something; ``use`` is what a task does with it, and adds to its loss."""

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        extra = self.use(model)
        return super().loss(model, batch) * (1 if extra is None else 1 + 0.1 * extra)

    def use(self, model: nn.Module) -> float | None:
        return None


# What depends on tasks before: each is refused, by a line that names it.


class LazyEma(Odd):
    def use(self, model: nn.Module) -> None:
        if not hasattr(self, "ema"):
            self.ema = {k: v.detach().clone() for k, v in model.named_parameters()}
        for k, v in model.named_parameters():
            self.ema[k].mul_(0.9).add_(v.detach() + torch.rand(()), alpha=0.1)


class LazyEmaList(Odd):
    def use(self, model: nn.Module) -> None:
        if not hasattr(self, "ema"):
            self.ema = [v.detach().clone() for v in model.parameters()]
        for old, v in zip(self.ema, model.parameters(), strict=True):
            old.mul_(0.9).add_(v.detach() + torch.rand(()), alpha=0.1)


class LazyNested(Odd):
    def use(self, model: nn.Module) -> None:
        if not hasattr(self, "log"):
            self.log = {"per layer": {"weight": [0]}}
        self.log["per layer"]["weight"][0] += 1


class EmaThroughData(Odd):
    def model(self) -> nn.Module:
        made = super().model()
        self.ema = {k: v.detach().clone() for k, v in made.named_parameters()}
        return made

    def use(self, model: nn.Module) -> float:
        for k, v in model.named_parameters():
            self.ema[k].data.mul_(0.9).add_(v.data, alpha=0.1)
        return float(self.ema["weight"].sum())


class EmaByParameter(Odd):
    def use(self, model: nn.Module) -> None:
        if not hasattr(self, "ema"):
            self.ema = {v: v.detach().clone() for v in model.parameters()}
        for v, old in self.ema.items():
            old.mul_(0.9).add_(torch.rand(()) + v.detach(), alpha=0.1)


@dataclass(slots=True)
class Stats:
    seen: int = 0


class Slots(Odd):
    def __init__(self) -> None:
        self.stats = Stats()

    def use(self, model: nn.Module) -> float:
        self.stats.seen += 1
        return self.stats.seen


class Objects(Odd):
    def __init__(self) -> None:
        self.table = np.array([0, None], dtype=object)

    def use(self, model: nn.Module) -> float:
        self.table[0] += 1
        return float(self.table[0])


class InASet(Odd):
    def __init__(self) -> None:
        self.members = {Counter()}

    def use(self, model: nn.Module) -> float:
        (one,) = self.members
        one.seen += 1
        return float(one.seen)


class Counter:
    def __init__(self) -> None:
        self.seen = 0


class Cycle(Odd):
    def __init__(self) -> None:
        self.ring: list[Any] = [0]
        self.ring.append(self.ring)

    def use(self, model: nn.Module) -> None:
        self.ring[0] += 1


class LongNumber(Odd):
    def __init__(self) -> None:
        self.product = 10**5000

    def use(self, model: nn.Module) -> None:
        self.product += 1


class Raises(dict[str, int]):
    def __getitem__(self, key: str) -> int:
        raise ValueError(key)

    def __iter__(self) -> Iterator[str]:
        raise ValueError

    def __len__(self) -> int:
        raise ValueError

    def items(self) -> Any:
        raise ValueError


class InADictThatRaises(Odd):
    def __init__(self) -> None:
        self.own = Raises(seen=0)

    def use(self, model: nn.Module) -> None:
        self.own["seen"] = dict.__getitem__(self.own, "seen") + 1


class Resized(Odd):
    def __init__(self) -> None:
        self.rows = torch.zeros(1)

    def use(self, model: nn.Module) -> float:
        self.rows.resize_(len(self.rows) + 1).zero_()
        return float(len(self.rows))


class Inference(Odd):
    def __init__(self) -> None:
        with torch.inference_mode():
            self.mean = torch.zeros(1)

    def use(self, model: nn.Module) -> float:
        with torch.inference_mode():
            self.mean.add_(1)
        return float(self.mean)


REFUSED = {
    LazyEma: "loss(): writes 'self.ema', which is no buffer, and its value depends on",
    LazyEmaList: "loss(): changes 'self.ema', which is no buffer, and its value depends on",
    LazyNested: "loss(): changes 'self.log', which is no buffer, and its value depends on",
    EmaThroughData: "loss(): writes \"self.ema['weight']\", which is no buffer",
    EmaByParameter: "loss(): writes 'self.ema', which is no buffer, and its value depends on",
    Slots: "loss(): changes 'self.stats.seen', which is no buffer",
    Objects: "loss(): writes 'self.table', which is no buffer",
    InASet: ".seen', which is no buffer, and",
    Cycle: "loss(): changes 'self.ring', which is no buffer",
    LongNumber: "loss(): changes 'self.product', which is no buffer",
    InADictThatRaises: "loss(): changes \"self.own['seen']\", which is no buffer",
    Resized: "loss(): writes 'self.rows', which is no buffer",
    Inference: "loss(): writes 'self.mean', which is no buffer",
}


@pytest.mark.parametrize("make", REFUSED)
def test_what_depends_on_tasks_before_is_named_wherever_it_is_kept(make: type[Odd]) -> None:
    for engine in (train, serve):
        with pytest.raises(SpecError) as found:
            engine(make if engine is serve else make(), JOB)  # type: ignore[operator]
        assert REFUSED[make] in str(found.value)
        assert "name it in scratch" in str(found.value)


# What no result depends on: nothing is said, whatever its class does.


class Hostile:
    """Raises wherever it is asked anything."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __eq__(self, other: object) -> bool:
        raise ValueError

    def __hash__(self) -> int:
        raise ValueError

    def __len__(self) -> int:
        raise ValueError

    def __bool__(self) -> bool:
        raise ValueError

    def __repr__(self) -> str:
        raise ValueError

    def __deepcopy__(self, memo: Any) -> Any:
        raise ValueError

    @property
    def __class__(self) -> Any:
        raise ValueError

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise ValueError


class Stream:
    """An iterator that tells nothing of itself."""

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return 0

    def __length_hint__(self) -> int:
        raise ValueError

    def __repr__(self) -> str:
        raise ValueError


class Strict(Tensor):
    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise ValueError


class Kind(type):
    def __eq__(cls, other: object) -> bool:
        raise ValueError

    def __hash__(cls) -> int:
        raise ValueError


class Classed(metaclass=Kind):
    pass


class Fixed(tuple[int, ...]):
    def __len__(self) -> int:
        raise ValueError


def _deep() -> list[Any]:
    one: list[Any] = []
    for _ in range(3000):
        one = [one]
    return one


def _shared() -> list[Any]:
    one: list[Any] = [1]
    for _ in range(60):
        one = [one, one]
    return one


def _gone() -> Any:
    return weakref.proxy(Counter())


KEPT = {
    "an object that raises": Hostile,
    "one in a list, a dict and a tuple": lambda: [{1: Hostile()}, (Hostile(),)],
    "an iterator that raises": Stream,
    "a dict that raises": lambda: Raises(a=1),
    "a tuple that raises": lambda: Fixed((1, 2)),
    "a class whose class raises": lambda: [Classed, Classed()],
    "a tensor whose class raises": lambda: torch.ones(3).as_subclass(Strict),
    "a tensor without memory": lambda: torch.ones(3, device="meta"),
    "a sparse one": lambda: torch.eye(3).to_sparse(),
    "a nested one": lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
    "an expanded one": lambda: torch.ones(1).expand(5),
    "a quantised one": lambda: torch.zeros(3, dtype=torch.float8_e4m3fn),
    "a number without text": lambda: 10**5000,
    "keys without text": lambda: {10**5000: 1, (10**5000,): 2, Counter(): 3, torch.ones(2): 4},
    "a generator without state": random.SystemRandom,
    "what is dead": _gone,
    "a list of 3,000 levels": _deep,
    "a list of 60 levels that doubles at each": _shared,
    "records": lambda: np.zeros(2, dtype=[("a", object), ("b", "f4")]),
    "text that is none": lambda: "\ud800" * 2000,
}


@pytest.mark.parametrize("kind", KEPT)
def test_a_value_of_any_class_may_be_kept(kind: str) -> None:
    class Keeps(Odd):
        def __init__(self) -> None:
            self.value = KEPT[kind]()

        def use(self, model: nn.Module) -> None:
            self.lazy = KEPT[kind]()
            self.last = float(torch.rand(()))

    job = a_job(rounds=2, scale=2)
    store, _ = serve(Keeps, job)
    assert store.digest() == train(Keeps(), job).digest


class Deletes(Odd):
    def __init__(self) -> None:
        self.once = 1

    def use(self, model: nn.Module) -> None:
        if hasattr(self, "once"):
            del self.once


class Grows(Odd):
    def __init__(self) -> None:
        self.sizes: OrderedDict[int, int] = OrderedDict()

    def use(self, model: nn.Module) -> None:
        key = random.randrange(5)
        self.sizes.setdefault(key, key * key)
        self.sizes.move_to_end(key)
        assert list(self.sizes)[-1] == key


class KeysThatAreNoNames(Odd):
    def use(self, model: nn.Module) -> None:
        vars(self)[3] = vars(self)[None] = 1  # type: ignore[index]


class SlotMadeLate(Odd):
    def __init__(self) -> None:
        self.stats = Stats()
        del self.stats.seen

    def use(self, model: nn.Module) -> None:
        self.stats.seen = 3


@pytest.mark.parametrize("make", [Deletes, Grows, KeysThatAreNoNames, SlotMadeLate])
def test_what_comes_to_the_same_in_whatever_order_may_be_kept(make: type[Odd]) -> None:
    store, _ = serve(make, JOB)
    assert store.digest() == train(make(), JOB).digest
