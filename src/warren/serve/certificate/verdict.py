"""The level of a command, from the evidence of its runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from warren.serve.certificate import causes as causing
from warren.serve.certificate.evidence import (
    LEVELS,
    Cause,
    CheckedRun,
    CheckedStep,
    Difference,
    Judgement,
    Level,
    StoppedRun,
)
from warren.serve.certificate.files import (
    ChangedValue,
    changed_values,
    in_order,
    incomplete_folders,
    is_beside_model,
    last_files,
    saved_after,
    torn_files,
)

_COUNTS: Final = ("steps repeated", "steps skipped", "scheduler")
"""Kinds of causes that another part of a checkpoint than the weights brings about."""


def worst(levels: Sequence[Level]) -> Level:
    """Return the worst of some levels; ``exact`` of none."""
    return max(levels, key=LEVELS.index, default="exact")


def difference_of_whole_runs(one: CheckedRun, other: CheckedRun) -> Difference | None:
    """Return where two whole runs differ first; None if they are the same.

    Single numbers and texts of a file may differ, since they may be times.
    """
    step = None
    for lane, steps in one.lanes.items():
        pairs = enumerate(zip_longest(steps, other.lanes.get(lane, [])))
        differing = [k for k, (a, b) in pairs if a is None or b is None or a.after != b.after]
        step = min([k + 1 for k in differing[:1]] + ([] if step is None else [step]), default=None)
    changed = [v for v in changed_at_end(one, other) if v.is_array]
    if step is None and not changed:
        return None
    first = in_order(changed)[0] if changed else ChangedValue("", "parameters", None, None)
    return Difference(tensor=first.name or first.file, file=first.file, step=step)


def why_whole_runs_differ(one: CheckedRun, other: CheckedRun) -> str:
    """Return the likely cause of a difference between two whole runs, in a sentence."""
    used = causing.used_streams(one.first)
    for a, b in zip(one.first, other.first, strict=False):
        if a.after == b.after:
            continue
        drawn = [name for name in used if a.rng.get(name) != b.rng.get(name)]
        if a.before == b.before and not drawn and a.batch != b.batch:
            return (
                "batches differ already in two whole runs though the usual random states are the "
                "same: the order of a set of texts (set PYTHONHASHSEED), the order of files in a "
                "folder, or a generator with a seed from the clock"
            )
        if a.before != b.before or drawn:
            what = "the first weights" if a.before != b.before else "random numbers"
            return (
                f"{what} differ already in two whole runs: a seed is missing, or is taken from the "
                "clock"
            )
        return (
            "two whole runs differ though batches, weights and random states were the same: a "
            "kernel that is not deterministic"
        )
    return "the number of steps or values beside the weights differ in two whole runs"


def not_finite_from(run: CheckedRun) -> int | None:
    """Return the first step with weights that are not finite: bits after it say nothing."""
    found = (k + 1 for k, step in enumerate(run.first) if not step.finite)
    return next(found, None)


def order_of_whole_runs(one: CheckedRun, other: CheckedRun) -> bool:
    """Tell whether two whole runs had the same batches and rates, though their bits differ."""
    pairs = list(zip_longest(one.first, other.first))
    return bool(pairs) and all(
        a is not None and b is not None and a.batch == b.batch and a.lr == b.lr for a, b in pairs
    )


def volatile_values(one: CheckedRun, other: CheckedRun) -> frozenset[tuple[str, str]]:
    """Return the values that differ even between two whole runs, such as times."""
    return frozenset((value.file, value.name) for value in changed_at_end(one, other))


def judged(
    whole: CheckedRun, stop: StoppedRun, volatile: frozenset[tuple[str, str]] = frozenset()
) -> Judgement:
    """Return what a stop and its resume have shown.

    Parameters
    ----------
    whole
        A whole run.
    stop
        The stopped run and its resume.
    volatile
        File and name of values that are not compared.
    """
    place = causing.Alignment(0, False)
    if whole.first and stop.resumed.first:
        place = causing.aligned(whole.first, stop.resumed.first, stop.steps)
    changed = [
        value
        for value in changed_at_end(whole, stop.resumed, place.began)
        if (value.file, value.name) not in volatile and not value.is_note
    ]
    if stop.resumed.status != whole.status:
        return _failed(whole, stop, changed)
    if not whole.lanes:
        return _by_files(whole, stop, changed)
    if not stop.resumed.lanes:
        return _without_steps(whole, stop, changed)
    found = list(causing.lost_work(whole, stop, place.began))
    found += causing.wrong_count(whole, stop.resumed, place.began)
    apart = causing.first_divergence(whole, stop.resumed, place.began)
    if apart is not None:
        found += _of_steps(whole, stop, place, *apart)
        if any(cause.kind in _COUNTS for cause in found):
            found += causing.torn_pair(whole, stop)
        found = _without_effects(_named_state(found, whole))
    elif changed:
        found += _beside(changed, found)
    elif not found:
        found += _missing_ranks(whole.lanes, stop.resumed.lanes)
    step = place.began + apart[0] + 1 if apart is not None else whole.steps
    if (apart is not None or changed) and not found:
        text = "same batches, rates and states, but other bits: the kernels or their order differ"
        found = [Cause("equal order", "kernels", text)]
    return Judgement(
        level=worst([cause.level for cause in found]),
        began=place.began,
        difference=_difference(changed, step, apart is not None),
        causes=_by_weight(found),
    )


def _of_steps(
    whole: CheckedRun, stop: StoppedRun, place: causing.Alignment, until: int, lanes: Sequence[str]
) -> Iterator[Cause]:
    for lane in lanes:
        yield from causing.state_causes(whole, stop, place, until, lane)
        yield from causing.data_causes(whole, stop.resumed, place.began, until, lane)


def _without_effects(found: Sequence[Cause]) -> list[Cause]:
    """Leave out causes that another one explains.

    Another scale of gradients overflows at other steps, which are left out then: rates and batches
    are those of other steps. Where the parts of a checkpoint do not agree, nothing else does.
    Gradients that ranks average differ on all of them.
    """
    kinds = {cause.kind for cause in found}
    if "torn pair" in kinds:
        return [cause for cause in found if cause.kind == "torn pair"][:1]
    effects: set[str] = set()
    if kinds & {"scaler", "torn file", "accumulation"}:
        effects |= {"steps skipped", "steps repeated"}
    if "scaler" in kinds:
        effects |= {"scheduler", "data order"}
    if kinds - {"hidden state"}:
        effects.add("hidden state")
    return [cause for cause in found if cause.kind not in effects]


def _by_weight(found: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return the causes, worst first, each once."""
    once = {cause.text: cause for cause in found}
    return tuple(sorted(once.values(), key=lambda cause: -LEVELS.index(cause.level)))


def changed_at_end(one: CheckedRun, other: CheckedRun, began: int = 0) -> list[ChangedValue]:
    """Return the values of the last checkpoint that differ, as they are named to a person.

    A command that saves by the clock ends with checkpoints of other steps: they are not compared.
    ``began`` is the number of steps before those of ``other``.
    """

    def of_one_step(mine: str, theirs: str) -> bool:
        first = saved_after(mine, one.files[mine], one.first)
        second = saved_after(theirs, other.files[theirs], other.first)
        if first is None or second is None:
            return True
        return first == began + second or (first == one.steps and second == other.steps)

    files = last_files(one.files, one.first)
    return in_order(list(changed_values(files, other.files, of_one_step)))


def _difference(changed: Sequence[ChangedValue], step: int, is_apart: bool) -> Difference | None:
    if changed:
        return Difference(
            tensor=changed[0].name or changed[0].file, file=changed[0].file, step=step
        )
    return Difference(tensor="parameters", file="", step=step) if is_apart else None


def _missing_ranks(
    whole: Mapping[str, list[CheckedStep]], resumed: Mapping[str, list[CheckedStep]]
) -> Iterator[Cause]:
    missing = sorted(set(whole) - set(resumed))
    if missing:
        yield Cause("loses", "ranks", f"rank {missing[0].strip()} makes no step after the resume")


def _beside(changed: Sequence[ChangedValue], found: Sequence[Cause]) -> Iterator[Cause]:
    """Yield what differs in the files though all parameters of all steps are the same."""
    values = [value for value in changed if value.name]
    arrays = [value for value in values if value.is_array]
    if arrays and all(value.is_random_state for value in arrays):
        yield Cause(
            "restarts",
            "RNG",
            f"RNG not restored: the random state '{arrays[0].name}' of the last checkpoint differs",
        )
    elif arrays:
        name = next(value.name for value in arrays if not value.is_random_state)
        yield Cause(
            "loses",
            "values beside the model",
            f"'{name}' differs though all weights in training are the same: a value beside the "
            "model, such as averaged weights or running means, is not restored",
        )
    elif values and not found:
        yield Cause(
            "loses",
            "counter",
            f"'{values[0].name}' is not restored: {_shown(values[0].other)} instead of "
            f"{_shown(values[0].one)}",
        )
    elif changed and not found:
        yield Cause(
            "loses", "files", f"{changed[0].file} of the whole run is missing or unreadable"
        )


def _shown(value: list[object] | None) -> str:
    return "nothing" if value is None else str(value[2])


def _failed(whole: CheckedRun, stop: StoppedRun, changed: Sequence[ChangedValue]) -> Judgement:
    torn = torn_files(stop.files, whole.files) or incomplete_folders(stop.files, whole.files)
    what = f"the resumed command failed (exit status {stop.resumed.status}"
    text = f"{what}) after a stop {stop.place}: {stop.resumed.last_line}"
    cause = Cause("loses", "failed", text)
    if torn:
        cause = Cause(
            "loses", "torn file", f"torn file: {torn[0]} ({stop.place}); {what}); rename into place"
        )
    return Judgement(
        level="loses",
        began=None,
        difference=_difference(changed, stop.steps + 1, False),
        causes=(cause,),
    )


def _without_steps(
    whole: CheckedRun, stop: StoppedRun, changed: Sequence[ChangedValue]
) -> Judgement:
    if not changed and stop.steps >= whole.steps:
        return Judgement(level="exact", began=stop.steps)
    text = f"the resumed run makes no step, though it was stopped at {stop.steps} of {whole.steps}"
    return Judgement(
        level="loses",
        began=None,
        difference=_difference(changed, stop.steps + 1, False),
        causes=(Cause("loses", "steps skipped", f"steps are skipped: {text}"),),
    )


def _by_files(whole: CheckedRun, stop: StoppedRun, changed: Sequence[ChangedValue]) -> Judgement:
    """Return what the files alone say, where no optimizer step was seen."""
    made, again = len(whole.saves), len(stop.resumed.saves)
    found = []
    if made - again < stop.saves - 1 or (stop.saves > 1 and again >= made > 1):
        torn = torn_files(stop.files, whole.files)
        text = f"{again} of {made} saves were made again after a stop that {stop.saves} preceded"
        kind = "torn file" if torn else "checkpoint not used"
        found.append(Cause("loses", kind, f"{kind}: {text}"))
    elif stop.saves == 0 and made == 1 and again == 1:
        text = "no save but on a signal or at the end: all is done again after a stop"
        found.append(Cause("loses", "no save", text))
    if changed:
        found += _changed_alone(changed)
    return Judgement(
        level=worst([cause.level for cause in found]),
        began=None,
        difference=None
        if not changed
        else Difference(tensor=changed[0].name or changed[0].file, file=changed[0].file, step=None),
        causes=_by_weight(found),
    )


def _changed_alone(changed: Sequence[ChangedValue]) -> Iterator[Cause]:
    counts = [value for value in changed if value.name and not value.is_array]
    whole_numbers = [v for v in counts if v.one and v.one[0] == "int"]
    if whole_numbers:
        yield next(iter(_beside(whole_numbers, ())))
    elif any(value.is_random_state for value in changed):
        yield Cause("restarts", "RNG", "RNG not restored: a random state in the file differs")
    else:
        yield Cause(
            "restarts",
            "unknown",
            "the last values differ; no optimizer step of PyTorch was seen, so the cause may be "
            "the RNG, the data order or a state that is not saved",
        )


def _named_state(found: Sequence[Cause], whole: CheckedRun) -> list[Cause]:
    """Name what a hidden state may be, where the checkpoints hold values beside the model."""
    names = [name for file in whole.files.values() for name, one in file.values.items() if one[1]]
    beside = next((name for name in names if is_beside_model(name)), None)
    if beside is None:
        return list(found)
    text = (
        f"gradients differ though weights, batch and random states are the same: values beside the "
        f"model, such as '{beside}', are not restored"
    )
    named = Cause("loses", "values beside the model", text)
    return [named if cause.kind == "hidden state" else cause for cause in found]
