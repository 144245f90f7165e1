"""Comparison of checkpoint folders, value by value. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from warren.serve.certificate.evidence import CheckedStep, CheckpointFile

_MARGIN_S: Final = 0.01
"""Largest error of the time of a file beside that of a step, in seconds."""
_TORCH_RNG: Final = ("torch.uint8", "array uint8")
_RNG_SHAPES: Final = ([5056], [16], [816])
"""Sizes of PyTorch's random states on a processor and on a GPU, in bytes."""
_NOTES: Final = frozenset(
    [
        "attempt",
        "attempts",
        "restart",
        "restarts",
        "resume",
        "resumes",
        "resumed",
        "preemptions",
        "requeues",
        "elapsed",
        "time",
        "times",
        "timestamp",
        "date",
        "duration",
        "wall",
        "walltime",
        "uptime",
        "seconds",
        "pid",
        "host",
        "hostname",
    ]
)
"""Words in names of single values that tell of a run, and not of its training."""
_PLACES: Final = frozenset(
    ["step", "steps", "iter", "iters", "iteration", "iterations", "update", "updates", "done"]
)
_NO_PLACES: Final = frozenset(
    ["size", "every", "per", "max", "total", "num", "warmup", "interval", "param", "groups"]
)
"""Words in names of numbers that are a place in the training, and of those that are none."""
_BESIDE: Final = frozenset(
    ["ema", "avg", "average", "averages", "averaged", "swa", "teacher", "shadow"]
)
"""Words in names of values that training reads beside the weights that it trains."""


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
    def is_note(self) -> bool:
        """Tell whether it tells of the run alone, such as its time or its number of starts."""
        return not self.is_array and bool(_NOTES & set(_words(self.name)))

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


def saved_after(name: str, file: CheckpointFile, steps: Sequence[CheckedStep]) -> int | None:
    """Return after which step of a run a file was last saved; None if it is not known."""
    if not steps:
        return None
    if file.written + _MARGIN_S > steps[-1].time:
        return len(steps)
    found = [
        k
        for k, step in enumerate(steps)
        if any(one == name or one.startswith(f"{name}/") for one in step.changed)
    ]
    return max(found, default=None)


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


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z]+", name.lower())


def changed_values(
    one: Mapping[str, CheckpointFile],
    other: Mapping[str, CheckpointFile],
    of_one_step: Callable[[str, str], bool] = lambda *_: True,
) -> Iterator[ChangedValue]:
    """Yield the values of ``one`` that differ in ``other``, in the order of the files.

    A file is compared with the one of its name. A name may hold a time or the number of a run: then
    it is the last file whose name differs in numbers alone. ``of_one_step`` tells whether two files
    were saved after the same step; others are not compared.
    """
    alike = {pattern(name): name for name in sorted(other, key=numbers_in)}
    for name, file in one.items():
        if file.format == "json_file":
            continue
        partner = name if name in other else alike.get(pattern(name), name)
        found = other.get(partner)
        if found is not None and not of_one_step(name, partner):
            continue
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


def states_step(files: Mapping[str, CheckpointFile], step: int) -> bool:
    """Tell whether a file states that it is of this step."""
    return any(
        value[0] == "int" and value[2] == step and _is_place(name)
        for file in files.values()
        for name, value in file.values.items()
    )


def _is_place(name: str) -> bool:
    words = set(_words(name))
    return bool(words & _PLACES) and not words & _NO_PLACES


def incomplete_folders(
    at_stop: Mapping[str, CheckpointFile], whole: Mapping[str, CheckpointFile]
) -> list[str]:
    """Return folders at a stop without files that each such folder of a whole run has."""
    needed: dict[str, set[str]] = {}
    for folder, names in _by_folder(whole).items():
        needed[pattern(folder)] = needed.get(pattern(folder), names) & names
    found = _by_folder(at_stop).items()
    return [one for one, names in found if one and needed.get(pattern(one), set()) - names]


def _by_folder(files: Mapping[str, CheckpointFile]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in files:
        folder, _, own = name.rpartition("/")
        found.setdefault(folder, set()).add(pattern(own))
    return found


def parts_apart(
    written: Mapping[str, int], whole: Mapping[str, CheckpointFile], steps: Sequence[CheckedStep]
) -> tuple[str, str] | None:
    """Return two files that a whole run always saves together, and that are of two saves at a stop.

    Parameters
    ----------
    written
        The steps that were done when each file at the stop was written.
    whole, steps
        Files and steps of a whole run.
    """
    saves = {
        name: [k for k, step in enumerate(steps) if name in step.changed]
        for name in sorted(written)
        if name in whole
    }
    for name, other in combinations(saves, 2):
        if saves[name] == saves[other] and abs(written[name] - written[other]) > 1:
            return name, other
    return None


def is_beside_model(name: str) -> bool:
    """Tell whether a value is none of a model or an optimizer, by the words of its name."""
    return bool(_BESIDE & set(_words(name))) and not is_of_optimizer(name)
