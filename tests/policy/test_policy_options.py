"""Options of a place policy: the plain type that its class states is what is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from warren.model.errors import SpecError
from warren.policy.registry import build, place_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A dataclass, as the shipped policies are."""

    count: int = 1
    share: float = 0.5
    quick: bool = False
    label: str = ""
    most: int | None = None
    free: list[int] | None = None


class Written:
    """A class with an ``__init__`` of its own, one option of which is required."""

    def __init__(self, width: int, depth: int = 1) -> None:
        self.width, self.depth = width, depth


class Bare:
    """A class without options."""


def refused(cls: type, **options: object) -> str:
    with pytest.raises(SpecError) as caught:
        build(cls, "mine", options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("count", "3", "policy: count: mine expects a whole number, got '3'"),
        ("count", 1.5, "expects a whole number, got 1.5"),
        ("count", True, "expects a whole number, got True"),
        ("share", "half", "expects a number, got 'half'"),
        ("quick", 1, "expects true or false, got 1"),
        ("label", 3, "expects text, got 3"),
        ("most", "all", "expects a whole number or nothing, got 'all'"),
        ("cuont", 3, "did you mean count? allowed: count, share, quick, label, most, free"),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_is_allowed(
    option: str, value: object, told: str
) -> None:
    assert told in refused(Stated, **{option: value})


def test_values_of_the_stated_type_and_of_no_plain_type_pass() -> None:
    good = {"count": 2, "share": 1, "quick": True, "label": "x", "most": None, "free": "any"}
    assert build(Stated, "mine", good) == Stated(**good)  # type: ignore[arg-type, comparison-overlap]


def test_a_class_of_any_kind_lists_its_options() -> None:
    assert "does not accept this option; allowed: none" in refused(Bare, width=1)
    told = refused(Written, widht=1, depth="x")
    assert "did you mean width? allowed: width, depth" in told
    assert "width: is required by mine" in told
    assert "depth: mine expects a whole number, got 'x'" in told
    assert "__init__" not in told


def test_a_name_that_is_nearly_right_is_guessed() -> None:
    with pytest.raises(
        SpecError, match=r"'srft'; did you mean srtf\? allowed: braid, braid-online, fifo, "
    ):
        place_policy("srft")
