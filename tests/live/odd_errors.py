"""An app that raises what no message expects: ``Odd(which=NAME)`` raises ``ERRORS[NAME]``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from warren.apps.protocol import TorchApp

PHOTO = b"bild-\xe9.png".decode("utf-8", "surrogateescape")


class TextRaises(Exception):
    def __str__(self) -> str:
        raise SystemExit("the text")

    __repr__ = __str__


class OddText(str):
    def split(self, *_: object) -> list[str]:  # type: ignore[override]
        raise ValueError("no")

    def __getitem__(self, _: object) -> str:
        raise ValueError("no")


class GivesOddText(Exception):
    def __str__(self) -> str:
        return OddText("of its own kind")


class NameRaises(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class NoName(Exception, metaclass=NameRaises):
    pass


class NoTruth(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("neither")


class Bare(BaseException):
    pass


def _ring() -> None:
    one, other = ValueError("first"), NoTruth("second")
    one.__cause__, other.__cause__ = other, one
    raise one


def _deep() -> None:
    _deep()


def _long_chain() -> None:
    error: BaseException | None = None
    for at in range(3000):
        error, before = ValueError(f"number {at}"), error
        error.__cause__ = before
    assert error is not None
    raise error


def _raise(error: BaseException) -> None:
    raise error


ERRORS: dict[str, tuple[Callable[[], None], str]] = {
    "surrogate": (
        lambda: _raise(ValueError(f"cannot read {PHOTO}")),
        r"ValueError: cannot read bild-\udce9.png",
    ),
    "any surrogate": (lambda: _raise(OSError(5, "\ud800", PHOTO)), "OSError: [Errno 5]"),
    "bytes": (lambda: _raise(ValueError(b"\xff\x00")), r"ValueError: b'\xff\x00'"),
    "controls": (
        lambda: _raise(ValueError("red \x1b[31m\x07 \u202eback\0")),
        r"ValueError: red \x1b[31m\x07 \u202eback\x00",
    ),
    "lines": (lambda: _raise(ValueError("one\n two\r\n\t three")), "ValueError: one two three"),
    "large": (lambda: _raise(ValueError("x" * 100_000_000)), "ValueError: xxx"),
    "no text": (lambda: _raise(ValueError()), "ValueError"),
    "text raises": (
        lambda: _raise(TextRaises()),
        "TextRaises: its text cannot be read: SystemExit",
    ),
    "odd text": (lambda: _raise(GivesOddText()), "GivesOddText: of its own kind"),
    "name raises": (lambda: _raise(NoName("told")), "NoName: told"),
    "odd name": (lambda: _raise(type("a\n\x1b[1mb", (Exception,), {})()), r"a \x1b[1mb"),
    "exit": (lambda: _raise(SystemExit(3)), "SystemExit: 3"),
    "interrupt": (lambda: _raise(KeyboardInterrupt()), "KeyboardInterrupt"),
    "generator": (lambda: _raise(GeneratorExit()), "GeneratorExit"),
    "bare": (lambda: _raise(Bare("below")), "Bare: below"),
    "group": (
        lambda: _raise(
            BaseExceptionGroup("both", [ExceptionGroup("in", [ValueError(PHOTO)]), Bare()])
        ),
        r"BaseExceptionGroup: both (2 sub-exceptions); first: ValueError: bild-\udce9.png",
    ),
    "ring": (_ring, "ValueError: first"),
    "deep": (_deep, "RecursionError: maximum recursion depth exceeded"),
    "long chain": (_long_chain, "ValueError: number 2999"),
    "memory": (lambda: _raise(MemoryError()), "MemoryError"),
    "notes": (lambda: _noted(), "ValueError: with notes"),
}
"""What raises, and what is to be told of it."""


def _noted() -> None:
    error = ValueError("with notes")
    error.__notes__ = [PHOTO, TextRaises()]  # type: ignore[list-item]
    raise error


class Odd(TorchApp):
    which: str = "surrogate"
    where: str = "loss"

    def model(self) -> nn.Module:
        return nn.Linear(1, 1)

    def dataset(self) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.linspace(-1, 1, 60).unsqueeze(1)
        return x, 3 * x + 1

    def loss(self, model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        if self.where == "loss":
            ERRORS[self.which][0]()
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        if self.where == "evaluate":
            ERRORS[self.which][0]()
        return {f"acc{PHOTO}\x1b[1m": 1.0}
