"""Comparison of checkpoint folders, value by value. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from warren.serve.certificate.evidence import CheckedStep, CheckpointFile

_TORCH_RNG: Final = ("torch.uint8", "array uint8")
_RNG_SHAPES: Final = ([5056], [16], [816])
"""Sizes of PyTorch's random states on a processor and on a GPU, in bytes."""


class ChangedValue(NamedTuple):
    """A value that differs between two folders; each description is None where it is missing."""

    file: str
    name: str
    one: list[Any] | None
    other: list[Any] | None

    @property
    def is_array(self) -> bool:
        """Tell whether it has elements: a tensor, an array, bytes or many numbers."""
        return any(one is not None and bool(one[1]) for one in (self.one, self.other))

    @property
    def is_random_state(self) -> bool:
        """Tell whether it is the state of a random generator, by its kind and size."""
        found = self.one or self.other or ["", []]
        kind, shape = found[0], found[1]
        if kind in _TORCH_RNG:
            return shape in _RNG_SHAPES
        return (kind, shape) in (("numbers", [625]), ("array uint32", [624]))


def pattern(name: str) -> str:
    """Return the name of a file with ``#`` for each number."""
    return re.sub(r"\d+", "#", name)


def numbers_in(name: str) -> list[int]:
    """Return the numbers in a name, in order: by them 10 comes behind 9."""
    return [int(one) for one in re.findall(r"\d+", name)]


def steps_at(time: float, steps: Sequence[CheckedStep]) -> int:
    """Return the number of steps that were done at a time."""
    return sum(one.time <= time for one in steps)


def last_files(
    files: Mapping[str, CheckpointFile], steps: Sequence[CheckedStep]
) -> dict[str, CheckpointFile]:
    """Return the files of the last save: no numbered file of an earlier one.

    Files whose names differ in a number are of one save if no optimizer step came between them, as
    those of several ranks are.
    """
    newest: dict[str, str] = {}
    for name in sorted(files, key=numbers_in):
        newest[pattern(name)] = name

    def belongs(name: str) -> bool:
        last = newest[pattern(name)]
        done = steps_at(files[name].written, steps)
        return name == last or (bool(steps) and done == steps_at(files[last].written, steps))

    return {name: file for name, file in files.items() if belongs(name)}


def _counts(description: list[Any]) -> bool:
    """Tell whether a value is compared: a text may hold a path or a time."""
    return description[0] not in ("str", "NoneType")


def changed_values(
    one: Mapping[str, CheckpointFile], other: Mapping[str, CheckpointFile]
) -> Iterator[ChangedValue]:
    """Yield the values of ``one`` that differ in ``other``, in the order of the files."""
    for name, file in one.items():
        if file.format == "json_file":
            continue
        found = other.get(name)
        if found is None or bool(found.error) != bool(file.error):
            yield ChangedValue(name, "", ["file", [1], ""], None)
            continue
        for key in dict.fromkeys([*file.values, *found.values]):
            mine, theirs = file.values.get(key), found.values.get(key)
            if mine != theirs and any(v is not None and _counts(v) for v in (mine, theirs)):
                yield ChangedValue(name, key, mine, theirs)


def in_order(changed: Sequence[ChangedValue]) -> list[ChangedValue]:
    """Return values as they are named to a person: weights first, then optimizers, then counts."""
    return sorted(changed, key=lambda one: (not one.name, _rank(one)))


def _rank(one: ChangedValue) -> int:
    if not one.is_array:
        return 3
    if one.is_random_state:
        return 2
    return 1 if is_of_optimizer(one.name) or is_of_optimizer(one.file) else 0


def is_of_optimizer(name: str) -> bool:
    """Tell whether a value belongs to an optimizer, by the words of its name."""
    parts = re.split(r"[./_]", name.lower())
    return any(part.startswith("opt") for part in parts) or "param_groups" in name


def has_optimizer(files: Mapping[str, CheckpointFile]) -> bool:
    """Tell whether some file holds the state of an optimizer."""
    keys = (f"{file}.{name}" for file, found in files.items() for name in found.values)
    return any(is_of_optimizer(key) or "exp_avg" in key or "momentum" in key for key in keys)


def torn_files(
    at_stop: Mapping[str, CheckpointFile], whole: Mapping[str, CheckpointFile]
) -> list[str]:
    """Return the files that could not be read at a stop, though a whole run has readable ones."""
    readable = {pattern(name) for name, file in whole.items() if not file.error}
    return [name for name, file in at_stop.items() if file.error and pattern(name) in readable]
