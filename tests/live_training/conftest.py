from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from types import CodeType

import pytest

from warren.live.training.numerics import pin


@pytest.fixture(autouse=True, scope="session")
def _pinned() -> None:
    pin()


@cache
def _compiled(path: str, text: bytes) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)


@pytest.fixture(autouse=True, scope="module")
def _no_text_is_compiled_twice() -> Iterator[None]:
    """Trainers and servers load an app each for itself, here in one process, a thousand times."""

    def source_to_code(loader: object, data: bytes, path: str, **_: int) -> CodeType:
        return _compiled(path, bytes(data))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceFileLoader, "source_to_code", source_to_code)
        yield
