from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import pytest

from warren.apps.protocol import TorchApp, declared, make_app
from warren.model.errors import SpecError


class Attributes(TorchApp):
    lr: float = 0.1
    widths: tuple[int, ...] = (8,)
    nesterov: bool = False
    name: str | None = None
    kind: ClassVar[str] = "line"
    _hidden: int = 3


class Derived(Attributes):
    lr = 0.2
    depth: int = 2


class Explicit(TorchApp):
    def __init__(self, size: int, *, lr: float = 0.1) -> None:
        self.size, self.lr = size, lr


def _lines(app: type[TorchApp], params: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as caught:
        make_app(app, params, where="a.py:A")
    return [str(problem) for problem in caught.value.problems]


def test_annotated_attributes_are_parameters() -> None:
    app = make_app(Derived, {"lr": 1, "widths": [4, 5], "name": "x"}, where="")
    assert vars(app) == {
        "clip_norm": None, "lr": 1.0, "widths": (4, 5), "nesterov": False, "name": "x", "depth": 2
    }  # fmt: skip
    assert make_app(Derived, {}, where="").lr == 0.2
    assert Attributes.lr == 0.1


def test_keyword_arguments_are_parameters() -> None:
    assert make_app(Explicit, {"size": 3}, where="").lr == 0.1
    assert sorted(declared(Explicit)) == ["lr", "size"]
    assert _lines(Explicit, {}) == ["a.py:A: params.size: is required"]


def test_all_wrong_parameters_are_named_at_once() -> None:
    assert _lines(Attributes, {"lt": 1, "lr": "fast", "nesterov": 1, "widths": 3}) == [
        "a.py:A: params.lt: unknown parameter; allowed: clip_norm, lr, name, nesterov, widths",
        "a.py:A: params.lr: 'fast' is not float like 0.1",
        "a.py:A: params.nesterov: 1 is not bool like False",
        "a.py:A: params.widths: 3 is not tuple like (8,)",
    ]
    assert _lines(Attributes, {"lr": True}) == ["a.py:A: params.lr: True is not float like 0.1"]


def test_an_app_without_parameters_says_so() -> None:
    class Bare(TorchApp):
        def __init__(self) -> None:
            pass

    assert _lines(Bare, {"lr": 1}) == ["a.py:A: params.lr: unknown parameter; allowed: none"]


@pytest.mark.parametrize("method", ["model", "dataset", "loss"])
def test_a_missing_method_is_named(method: str) -> None:
    arguments = (None, None) if method == "loss" else ()
    with pytest.raises(NotImplementedError, match=f"Attributes must define {method}"):
        getattr(Attributes(), method)(*arguments)


def test_importing_the_protocol_is_cheap() -> None:
    program = "import sys, warren.apps.protocol; print({'torch', 'numpy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "set()"
