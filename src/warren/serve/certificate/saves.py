"""Saves of a run, read from changes of its folder; stops, drawn by progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from numpy.random import Generator

from warren.serve.certificate.evidence import CheckedRun, CheckedStep, CheckpointFile, Save
from warren.serve.certificate.files import pattern
from warren.serve.certificate.folder_events import FolderEvent

_PAUSE_S: Final = 0.1
"""Shortest time between two saves where no steps are seen, in seconds."""
_SLOW_S: Final = 0.05
"""Time of a save from which on it can be hit by waiting, in seconds."""
_TWICE: Final = 2
"""Number of the stop after which a resumed run is stopped once more."""
_TRIES_WITHIN: Final = 3
"""Most draws of a stop within a save; it comes between saves then."""


class PlannedStop(NamedTuple):
    """Where a run is to be stopped.

    ``step`` is the optimizer step after which it waits (0: no steps are seen), or the step before a
    save if it waits at its ``write``, the number of a file opened or renamed. The stop comes
    ``delay_s`` later. ``after_saves`` and ``delay_s`` are all there is without steps. A resumed run
    is stopped once more after ``again`` steps of its own (0: it is not).
    """

    step: int
    within_save: bool
    delay_s: float
    write: int = 0
    after_saves: int = 0
    again: int = 0

    @property
    def place(self) -> str:
        """The place in words."""
        return "within a save" if self.within_save else "between saves"


def step_s(steps: Sequence[CheckedStep]) -> float:
    """Return the usual time of a step in seconds."""
    times = [b.time - a.time for a, b in pairwise(steps)]
    return median(times) if times else 0.1


def saves_of(
    events: Sequence[FolderEvent],
    steps: Sequence[CheckedStep],
    at_end: str = "",
    files: Mapping[str, CheckpointFile] | None = None,
) -> tuple[Save, ...]:
    """Return the saves of a run.

    The steps say after which of them a checkpoint changed. Changes after steps in a row are one
    save, which goes on beside the training, unless that would be most of the run. Without steps,
    changes without a long pause between them are a save.

    Parameters
    ----------
    events
        Changes of the folder.
    steps
        The steps of the first rank.
    at_end
        State of the folder when the run had ended.
    files
        The checkpoints of a whole run; other files, such as logs, are no save. None: all are.
    """
    if not steps:
        groups = _groups(events)
        return tuple(Save(0, 0, group[-1].time - group[0].time) for group in groups)
    changed = [k for k, step in enumerate(steps) if k and _checkpoints(step.changed, files)]
    if at_end != steps[-1].folder:
        changed.append(len(steps))
    chains: list[list[int]] = []
    for step in changed:
        if chains and chains[-1][-1] == step - 1 and len(changed) < 0.5 * len(steps):
            chains[-1].append(step)
        else:
            chains.append([step])
    return tuple(_save(chain, steps) for chain in chains)


def newest_saves(
    steps: Sequence[CheckedStep], files: Mapping[str, CheckpointFile]
) -> tuple[int, ...]:
    """Return after which step each kind of checkpoint file was last saved, before the last step."""
    newest: dict[str, int] = {}
    for k, step in enumerate(steps):
        newest |= dict.fromkeys(_checkpoints(step.changed, files), k)
    return tuple(sorted({step for step in newest.values() if step}))


def _checkpoints(
    changed: Sequence[str], files: Mapping[str, CheckpointFile] | None
) -> frozenset[str]:
    """Return the patterns of checkpoints among names of files that changed."""
    if files is None:
        return frozenset(map(pattern, changed))
    known = {pattern(name) for name, file in files.items() if file.format != "json_file"}
    return frozenset(
        one
        for one in known
        for name in map(pattern, changed)
        if name == one or name.startswith(f"{one}/")
    )


def _groups(events: Sequence[FolderEvent]) -> list[list[FolderEvent]]:
    groups: list[list[FolderEvent]] = []
    for event in events:
        if groups and event.time - groups[-1][-1].time < _PAUSE_S:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _save(chain: Sequence[int], steps: Sequence[CheckedStep]) -> Save:
    """Return a save after some steps: the step after it came later than steps do."""
    first = chain[0]
    if first == len(steps):
        return Save(first, first)
    later = steps[first].time - steps[first - 1].time
    return Save(first, chain[-1], max(0.0, later - step_s(steps)), steps[first].writes)


def drawn_stop(whole: CheckedRun, number: int, tries: int, chance: Generator) -> PlannedStop | None:
    """Return where to stop; None if the run is too short for a stop.

    The third stop comes early, and is followed by another one after the resume.

    Parameters
    ----------
    whole
        A whole run.
    number
        Number of the stop: every second one is within a save, where there are saves.
    tries
        Number of stops before it that came after the run's own end: this one comes earlier.
    chance
        Where the draw comes from.
    """
    if not whole.steps:
        return _stop_by_saves(whole, 0.9 * 0.6**tries, chance)
    if number != _TWICE:
        return _drawn(whole, number, tries, chance)
    plan = _drawn(whole, number, tries + 1, chance)
    again = int(chance.integers(max(1, whole.steps // 6), max(2, whole.steps // 3)))
    return None if plan is None else plan._replace(again=again)


def _drawn(whole: CheckedRun, number: int, tries: int, chance: Generator) -> PlannedStop | None:
    share = 0.9 * 0.6**tries
    inner = [save for save in whole.saves if 0 < save.begun < whole.steps]
    first = inner[0].ended if inner else 0
    last = max(first + 1, min(int(whole.steps * share), whole.steps - 2))
    later = [save for save in inner[1:] if save.begun <= max(last, inner[1].begun)]
    # A command that saves by the clock may not save there again.
    if number % 2 == 1 and later and tries < _TRIES_WITHIN:
        return _within(later[int(chance.integers(len(later)))], chance)
    if whole.steps < 3 or last >= whole.steps:
        return None
    # A stop right at a save would be one within it.
    free = [k for k in range(first + 1, last + 1) if all(k != save.begun for save in inner)]
    step = int(chance.choice(free or [last]))
    return PlannedStop(step, False, float(chance.uniform(0, 1)) * step_s(whole.first))


def _within(save: Save, chance: Generator) -> PlannedStop:
    """Return a stop within a save: some time after its first write if it is slow, else at a write.

    Where no write is known, the time goes from the step.
    """
    slow = save.seconds > _SLOW_S
    delay_s = float(chance.uniform(0.02, 0.9)) * save.seconds if slow or not save.writes else 0.0
    write = 1 if slow else int(chance.integers(1, max(2, save.writes + 1)))
    return PlannedStop(save.begun, True, delay_s, min(write, save.writes))


def _stop_by_saves(whole: CheckedRun, share: float, chance: Generator) -> PlannedStop | None:
    made = len(whole.saves)
    if made < 2:
        return PlannedStop(0, False, float(chance.uniform(0.6, 1)) * share * whole.seconds)
    each_s = whole.seconds / made
    after = int(chance.integers(1, max(2, int(made * share))))
    return PlannedStop(0, False, float(chance.uniform(0, 0.8)) * each_s, 0, after)
