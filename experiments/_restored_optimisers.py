"""Optimizers that keep something in attributes, in odd keys, in another type or order."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from _restored_base import Base, average, kinds_in
from torch import Tensor, nn, optim


class Warm(optim.SGD):
    """Counts its steps in an attribute."""

    t = 0

    def step(self, closure: Any = None) -> Any:
        """Warm up over six steps."""
        self.t += 1
        for group in self.param_groups:
            group["lr"] = 0.1 * min(1, self.t / 6)
        return super().step(closure)


class CountsSteps(Base):
    separable = True

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        return Warm(parameters, lr=0.1, momentum=0.9, fused=False)


class Slow(optim.SGD):
    """Every third step goes half way back to slow weights in a list."""

    calls = 0
    slow: Any = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        mine = [one for group in self.param_groups for one in group["params"]]
        self.calls += 1
        if self.slow is None:
            self.slow = [one.detach().clone() for one in mine]
        if self.calls % 3 == 0:
            for old, now in zip(self.slow, mine, strict=True):
                old += 0.5 * (now - old)
                now.copy_(old)


class SlowList(Base):
    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        return Slow(parameters, lr=0.1, fused=False)


class SlowByParameter(Base):
    """Slow weights in a dict by parameter."""

    separable = True

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Keyed(optim.SGD):
            def step(self, closure: Any = None) -> Any:
                super().step(closure)
                slow = self.__dict__.setdefault("slow", {})
                with torch.no_grad():
                    for group in self.param_groups:
                        for one in group["params"]:
                            if one.grad is not None:
                                old = slow.setdefault(one, one.detach().clone())
                                old.lerp_(one, 0.3)
                                one.lerp_(old, 0.5)

        return Keyed(parameters, lr=0.1, fused=False)


class SlowLate(Base):
    """The list is made at the fifth step."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Late(Slow):
            def step(self, closure: Any = None) -> Any:
                if self.calls < 4:
                    self.calls += 1
                    return optim.SGD.step(self, closure)
                return super().step(closure)

        return Late(parameters, lr=0.1, fused=False)


class Aliases(Base):
    """A list of the same tensors that are in the state."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Lists(optim.Optimizer):
            def __init__(self, params: Any) -> None:
                super().__init__(params, {"lr": 0.1})
                self.all: list[Tensor] = []

            @torch.no_grad()
            def step(self, closure: Any = None) -> None:
                for one in self.param_groups[0]["params"]:
                    state = self.state[one]
                    if not state:
                        state["m"] = torch.zeros_like(one)
                        self.all.append(state["m"])
                    state["m"].mul_(0.9).add_(one.grad)
                torch._foreach_mul_(self.all, 0.99)
                for one in self.param_groups[0]["params"]:
                    one.sub_(0.1 * self.state[one]["m"])

        return Lists(parameters)


class FlatViews(Base):
    """Momentum in one flat tensor with views, all made with the optimizer."""

    late: ClassVar[bool] = False

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        late = self.late

        class Flat(optim.Optimizer):
            def __init__(self, params: Any) -> None:
                super().__init__(params, {"lr": 0.1})
                self.views: list[Tensor] = []
                if not late:
                    self.make()

            def make(self) -> None:
                mine = self.param_groups[0]["params"]
                self.flat = torch.zeros(sum(one.numel() for one in mine))
                parts = self.flat.split([one.numel() for one in mine])
                self.views = [part.view(one.shape) for part, one in zip(parts, mine, strict=True)]

            @torch.no_grad()
            def step(self, closure: Any = None) -> None:
                if not self.views:
                    self.make()
                self.flat.mul_(0.9)
                for one, view in zip(self.param_groups[0]["params"], self.views, strict=True):
                    view.add_(one.grad)
                    one.sub_(0.1 * view)

        return Flat(parameters)


class FlatViewsLate(FlatViews):
    late = True
    refused = "shares memory with"


class ParameterViews(Base):
    """Views of the parameters, made by the first step."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Views(optim.SGD):
            rows: Any = None
            seen = 0

            @torch.no_grad()
            def step(self, closure: Any = None) -> Any:
                super().step(closure)
                self.seen += 1
                if self.rows is None:
                    self.rows = [one.data[:1] for one in self.param_groups[0]["params"]]
                for row in self.rows:
                    row.mul_(1 - 0.01 * self.seen)

        return Views(parameters, lr=0.1, fused=False)


class OnParameters(Base):
    """State in attributes of parameters."""

    separable = True

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Attributes(optim.SGD):
            @torch.no_grad()
            def step(self, closure: Any = None) -> Any:
                for one in self.param_groups[0]["params"]:
                    if one.grad is not None:
                        old = getattr(one, "heavy", torch.zeros_like(one))
                        one.heavy = 0.9 * old + one.grad
                        one.sub_(0.05 * one.heavy)

        return Attributes(parameters, lr=0.1, fused=False)


class Masters(Base):
    """Float32 masters of bf16 parameters."""

    separable = True

    def model(self) -> nn.Module:
        return super().model().bfloat16()

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Master(optim.Optimizer):
            def __init__(self, params: Any) -> None:
                super().__init__(params, {"lr": 0.05})

            @torch.no_grad()
            def step(self, closure: Any = None) -> None:
                for one in self.param_groups[0]["params"]:
                    if one.grad is None:
                        continue
                    state = self.state[one]
                    if not state:
                        state["master"] = one.float()
                        state["m"] = torch.zeros_like(one, dtype=torch.float32)
                    state["m"].mul_(0.9).add_(one.grad.float())
                    state["master"].sub_(0.05 * state["m"])
                    one.copy_(state["master"])

        return Master(parameters)


class OddKeys(Base):
    """State under the keys 1 and "1", and numbers of many kinds."""

    separable = True

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Keys(optim.Optimizer):
            def __init__(self, params: Any) -> None:
                super().__init__(params, {"lr": np.float32(0.1), "dtype": torch.float32})

            @torch.no_grad()
            def step(self, closure: Any = None) -> None:
                for group in self.param_groups:
                    for one in group["params"]:
                        if one.grad is None:
                            continue
                        state = self.state[one]
                        if not state:
                            state[1], state["1"] = torch.zeros_like(one), torch.ones_like(one)
                            state["turn"], state[(1, "a")] = 1j, np.float32(0.5)
                        state[1].mul_(0.9).add_(one.grad)
                        state["1"].mul_(float(state[(1, "a")]))
                        state["turn"] *= 1j
                        turn = 1 + 0.1 * state["turn"].real
                        one.sub_(float(group["lr"]) * turn * state[1] * (1 + state["1"]))

        return Keys(parameters)


class SetOrder(Base):
    """Parameters in the order of a set."""

    def model(self) -> nn.Module:
        layers = [nn.Sequential(nn.Linear(8, 8, bias=False), nn.Tanh()) for _ in range(5)]
        self.net = nn.Sequential(*layers, nn.Linear(8, 3))
        return self.net

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        self.junk = [torch.empty(int(n)) for n in np.random.SeedSequence().generate_state(40) % 999]
        head = list(self.net[-1].parameters())
        base = list(set(parameters) - set(head))
        groups: list[Any] = [{"params": base}, {"params": head, "lr": 0.05}]
        return optim.SGD(groups, lr=0.1, momentum=0.9, fused=False)


class Unfreezes(Base):
    """A group that is added at the fourth step."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Grows(optim.Adam):
            t = 0

            def step(self, closure: Any = None) -> Any:
                self.t += 1
                if self.t == 4:
                    self.add_param_group({"params": parameters[:2], "lr": 0.02})
                return super().step(closure)

        return Grows(parameters[2:], lr=0.01, fused=False)


class Wrapped(Base):
    """A look-ahead around another optimizer, which has attributes and state of its own."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        class Around(optim.Optimizer):
            def __init__(self, inner: optim.Optimizer) -> None:
                self.inner = inner
                super().__init__(inner.param_groups, {})
                self.param_groups = inner.param_groups
                self.behind = SimpleNamespace(count=0, slow=[])

            @torch.no_grad()
            def step(self, closure: Any = None) -> None:
                self.inner.step()
                mine = self.param_groups[0]["params"]
                behind = self.behind
                behind.slow = behind.slow or [one.detach().clone() for one in mine]
                behind.count += 1
                if behind.count % 2 == 0:
                    average(behind.slow, mine)
                    for one, slow in zip(mine, behind.slow, strict=True):
                        one.copy_(slow)

        return Around(optim.Adam(parameters, lr=0.02, fused=False))


@dataclass
class Memory:
    """What an optimizer remembers."""

    norm: float = 0.0
    seen: int = 0


class InObject(Base):
    """Numbers in an object that is made with the optimizer."""

    anew: ClassVar[bool] = False

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        anew = self.anew

        class Remembers(optim.SGD):
            memory = Memory()

            def __init__(self, params: Any) -> None:
                super().__init__(params, lr=0.1, fused=False)
                self.memory = Memory()

            def step(self, closure: Any = None) -> Any:
                norm = float(sum(one.grad.square().sum() for one in self.param_groups[0]["params"]))
                old = self.memory
                if anew:
                    self.memory = Memory(0.9 * old.norm + norm, old.seen + 1)
                else:
                    old.norm, old.seen = 0.9 * old.norm + norm, old.seen + 1
                self.param_groups[0]["lr"] = 0.1 / (1 + self.memory.norm)
                return super().step(closure)

        return Remembers(parameters)


class InNewObject(InObject):
    anew = True
    refused = "optimizer.memory holds a Memory"


OPTIMISERS = kinds_in(globals())
