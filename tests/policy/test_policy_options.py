"""Options of a place policy: the plain type that its class states is what is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from warren.model.errors import SpecError
from warren.policy.registry import build, place_policy, policy_of


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


class Picky:
    """A class that refuses values of its own, one of them only beside another."""

    def __init__(self, width: int, low: int = 0, high: int = 9, name: str = "a") -> None:
        if width < 1:
            raise ValueError("allowed: 1 and more")
        if low < 0:
            raise ValueError("low is 0 or more")
        if name != "a":
            raise TypeError("allowed: a")
        if low > high:
            raise ValueError("low is at most high")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"width": 0, "low": 1}, ["policy: width: mine does not accept 0: allowed: 1 and more"]),
        (
            {"width": 1, "low": -1, "high": 5, "name": "b" * 99},
            [
                "policy: low: mine does not accept -1: low is 0 or more",
                f"policy: name: mine does not accept '{'b' * 56}...: allowed: a",
            ],
        ),
        (
            {"width": 1, "low": 7, "high": 6},
            ["policy: width, low, high: mine does not accept 1, 7, 6: low is at most high"],
        ),
    ],
)
def test_a_value_that_a_class_refuses_is_named_with_its_option(
    options: dict[str, object], told: list[str]
) -> None:
    assert refused(Picky, **options).splitlines() == told


class Broken:
    """A class that cannot be made, whatever its option is."""

    def __init__(self, width: int = 1) -> None:
        raise ValueError("no licence")


@pytest.mark.parametrize("options", [{}, {"width": 3}])
def test_a_class_that_fails_by_itself_is_no_fault_of_an_option(options: dict[str, object]) -> None:
    assert refused(Broken, **options) == "policy: mine cannot be made: no licence"


@pytest.mark.parametrize(
    ("question", "name", "options", "told"),
    [
        (
            "place",
            "hare",
            {"objective": "makespan", "budget": -1},
            "budget: hare does not accept -1",
        ),
        (
            "place",
            "gittins",
            {"patience": 0.5},
            "patience: gittins does not accept 0.5: patience is a",
        ),
        ("place", "sjf-bco", {"horizon": 5, "kappa": -2}, "kappa: sjf-bco does not accept -2: "),
        ("flow", "maif", {"gain": "x", "error": 0.5}, "flow.gain: maif does not accept 'x': "),
        ("shape", "cruise", {"after": 2, "every": 0}, "shape.every: cruise does not accept 0: "),
        (
            "joint",
            "harmony",
            {"least": 0, "sooner": 0.1},
            "joint.least: harmony does not accept 0: ",
        ),
    ],
)
def test_a_policy_of_warrens_names_the_one_option_that_it_refuses(
    question: str, name: str, options: dict[str, object], told: str
) -> None:
    with pytest.raises(SpecError) as caught:
        policy_of(question, name, options)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"policy: {told}")
    assert any(words in problem.message for words in ("allowed: ", " or more", "one of "))


def test_a_name_that_is_nearly_right_is_guessed() -> None:
    with pytest.raises(
        SpecError, match=r"'srft'; did you mean srtf\? allowed: braid, braid-online, fifo, "
    ):
        place_policy("srft")
