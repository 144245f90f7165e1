"""Reasons why a resumed run differs, read from the steps of both. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from warren.serve.certificate.evidence import Cause, CheckedRun, CheckedStep, StoppedRun
from warren.serve.certificate.files import (
    has_optimizer,
    last_files,
    parts_apart,
    states_step,
    torn_files,
)

_ROUNDING: Final = 1e-3
"""Largest relative difference of two gradients that other kernels may make."""


class Alignment(NamedTuple):
    """Where a resumed run went on: its first step is the whole run's step ``began + 1``.

    ``same_weights`` says whether its first parameters are those of the whole run there.
    """

    began: int
    same_weights: bool


def aligned(whole: Sequence[CheckedStep], resumed: Sequence[CheckedStep], stop: int) -> Alignment:
    """Return where a resumed run went on, by its parameters; by the number of its steps if not."""
    first = resumed[0]
    same = [k for k, one in enumerate(whole) if one.before == first.before]
    if same:
        # Parameters stay the same at a rate of zero: then the batch decides, then the place. The
        # first optimizer of a resumed run may be the second one of a whole run.
        best = max(
            same,
            key=lambda k: (
                whole[k].optimizer == first.optimizer,
                whole[k].batch == first.batch,
                k <= stop,
                -abs(stop - k),
            ),
        )
        return Alignment(best, True)
    batches = [k for k, one in enumerate(whole) if one.batch and one.batch == first.batch]
    counted = len(whole) - len(resumed)
    if counted in batches or not batches:
        return Alignment(min(max(0, counted), stop), False)
    return Alignment(max(batches, key=lambda k: (k <= stop, -abs(stop - k))), False)


def same_batch(whole: CheckedStep, resumed: CheckedStep) -> bool:
    """Tell whether two steps had the same data.

    Some inputs are computed by the model, as those of a second one are. Where parameters differ
    already, one tensor that is the same is enough.
    """
    if whole.batch == resumed.batch:
        return True
    if whole.before == resumed.before:
        return False
    return bool(set(whole.batch) & set(resumed.batch))


def first_divergence(
    whole: CheckedRun, resumed: CheckedRun, began: int
) -> tuple[int, list[str]] | None:
    """Return the first resumed step (from 0) with other parameters, and the ranks that have it."""
    found: dict[str, int] = {}
    for lane, steps in resumed.lanes.items():
        pairs = zip(whole.lanes.get(lane, [])[began:], steps, strict=False)
        for k, (one, other) in enumerate(pairs):
            if one.after != other.after or one.before != other.before:
                found[lane] = k
                break
    first = min(found.values(), default=None)
    return None if first is None else (first, [lane for lane in found if found[lane] == first])


def lost_work(whole: CheckedRun, stop: StoppedRun, began: int) -> Iterator[Cause]:
    """Yield why steps were done again that a checkpoint had held, if they were."""
    torn = torn_files(stop.files, whole.files)
    newest = max(stop.newest, default=0)
    if began and (began in stop.newest or states_step(last_files(stop.files, ()), began)):
        # From the newest file of some kind, though one of another kind is newer; or it was written
        # a while after its step.
        return
    if began < newest and torn:
        yield Cause(
            "loses",
            "torn file",
            f"torn file: {torn[0]} could not be read after the stop ({stop.place}), and the run "
            f"went on from step {began} instead of {newest}; save to another name and rename it",
        )
    elif began < newest:
        yield Cause(
            "loses",
            "checkpoint not used",
            f"a checkpoint of step {newest} was there, but the run went on from step {began}",
        )
    elif began == 0 and stop.steps > 1 and not _saves_between(whole):
        yield Cause(
            "loses",
            "no save",
            f"no save but on a signal or at the end: after the stop at step {stop.steps} all steps "
            "were done again",
        )


def _saves_between(whole: CheckedRun) -> bool:
    return any(save.begun < whole.steps for save in whole.saves)


def torn_pair(whole: CheckedRun, stop: StoppedRun) -> Iterator[Cause]:
    """Yield which two files of a checkpoint are of two saves, if some are."""
    found = parts_apart(stop.written, whole.files, whole.first)
    if found is not None:
        one, other = sorted(found, key=lambda name: -stop.written[name])
        yield Cause(
            "loses",
            "torn pair",
            f"parts of the checkpoint do not agree: {one} is of step {stop.written[one]}, {other} "
            f"of step {stop.written[other]}; a stop between two files left a torn pair",
        )


def wrong_count(whole: CheckedRun, resumed: CheckedRun, began: int) -> Iterator[Cause]:
    """Yield why a resumed run makes more or fewer steps than are left, if it does."""
    left = whole.steps - began
    extra = resumed.steps - left
    first = resumed.first[0]
    if not extra:
        return
    again = _place_of(whole.first, first)
    if extra > 0:
        where = ""
        if again is not None and again != began:
            where = f": it read the batch of step {again + 1} again"
        yield Cause(
            "loses",
            "steps repeated",
            f"steps are done twice: {resumed.steps} steps followed step {began}, where {left} were "
            f"left{where}; the place in the data is not restored, as when an epoch begins again",
        )
    else:
        yield Cause(
            "loses",
            "steps skipped",
            f"steps are skipped: {resumed.steps} steps followed step {began}, where {left} were "
            "left; the step or place in the data is not restored as it was saved",
        )


def _place_of(whole: Sequence[CheckedStep], step: CheckedStep) -> int | None:
    if not step.batch:
        return None
    return next((k for k, one in enumerate(whole) if one.batch == step.batch), None)


def state_causes(
    whole: CheckedRun, stop: StoppedRun, place: Alignment, until: int, lane: str
) -> Iterator[Cause]:
    """Yield what the state at the first resumed step of a rank lacks.

    It is looked at once more at the first step of the optimizer whose parameters are the first to
    differ, in step ``until``.
    """
    began = place.began
    steps, resumed = whole.lanes[lane], stop.resumed.lanes[lane]
    one, other = steps[began], resumed[0]
    if not place.same_weights:
        yield from _weights(whole, stop, one)
    late = next(k for k, s in enumerate(resumed) if s.optimizer == resumed[until].optimizer)
    for k in sorted({0, late}):
        same = place.same_weights and steps[began + k].before == resumed[k].before
        yield from _optimizer_causes(steps, resumed[k], began + k, stop, same=same)
    if not place.same_weights:
        return
    if one.buffers != other.buffers:
        yield Cause(
            "loses",
            "buffers",
            "buffers of the model, such as running means, are not restored",
        )
    if len(one.others) == len(other.others) and one.others != other.others:
        yield Cause(
            "loses",
            "values beside the model",
            "weights beside the model, such as those of a teacher or an average, are not restored",
        )


def _optimizer_causes(
    steps: Sequence[CheckedStep], other: CheckedStep, at: int, stop: StoppedRun, *, same: bool
) -> Iterator[Cause]:
    """Yield what an optimizer lacks at its first resumed step, which is step ``at``."""
    one = steps[at]
    if one.state and not other.state:
        held = "is in the file, but is not loaded" if has_optimizer(stop.files) else "not in a file"
        yield Cause(
            "loses", "optimizer", f"optimizer state not restored: it {_is(held)} (step {at})"
        )
    elif one.state != other.state and same:
        yield _other_state(steps, one, other, at)
    if one.settings != other.settings:
        yield Cause(
            "loses", "optimizer", "settings of the optimizer are not those of the whole run"
        )


def _is(text: str) -> str:
    return text if text.startswith("is") else f"is {text}"


def _weights(whole: CheckedRun, stop: StoppedRun, one: CheckedStep) -> Iterator[Cause]:
    kinds = {value[0] for file in stop.files.values() for value in file.values.values() if value[1]}
    small = sorted(kinds & {"torch.float16", "torch.bfloat16", "array float16"} - set(one.types))
    if small:
        yield Cause(
            "equal order",
            "dtype",
            f"dtype casts: weights are {one.types[0]} in training and {small[0]} in the file",
        )
    else:
        yield Cause(
            "loses", "weights", "the weights after the resume are those of no step of the whole run"
        )


def _other_state(
    steps: Sequence[CheckedStep], one: CheckedStep, other: CheckedStep, began: int
) -> Cause:
    elsewhere = next((k for k, s in enumerate(steps) if s.state == other.state), None)
    if elsewhere is not None:
        return Cause(
            "loses",
            "torn pair",
            f"parts of the checkpoint do not agree: weights of step {began}, optimizer state of "
            f"step {elsewhere}; a stop between two files left a torn pair",
        )
    names = [{kind.partition(":")[0] for kind in s.state_kinds} for s in (one, other)]
    if names[0] == names[1] and one.state_kinds != other.state_kinds:
        pair = next(
            (a, b) for a, b in zip(one.state_kinds, other.state_kinds, strict=False) if a != b
        )
        return Cause(
            "equal order",
            "dtype",
            f"dtype casts: the optimizer's state is '{pair[0]}' in the whole run and '{pair[1]}' "
            "after the resume",
        )
    return Cause("loses", "optimizer", "optimizer state restored in part or with other values")


def used_streams(whole: Sequence[CheckedStep]) -> frozenset[str]:
    """Return the random generators from which a whole run draws; another one plays no part."""
    return frozenset(
        name
        for one, other in pairwise(whole)
        for name in one.rng
        if one.rng[name] != other.rng.get(name)
    )


def data_causes(
    whole: CheckedRun, resumed: CheckedRun, began: int, until: int, lane: str
) -> Iterator[Cause]:
    """Yield how rates, batches and random numbers differ up to a resumed step of a rank."""
    mine, theirs = whole.lanes[lane], resumed.lanes[lane]
    pairs = list(zip(mine[began:], theirs, strict=False))[: until + 1]
    for k, (one, other) in enumerate(pairs):
        if one.lr != other.lr:
            yield Cause(
                "loses",
                "scheduler",
                f"learning rate not restored: {other.lr[0]:g} at step {began + k + 1} instead of "
                f"{one.lr[0]:g}; the scheduler's step is not restored",
            )
            break
    for k, (one, other) in enumerate(pairs):
        if one.scale != other.scale:
            yield Cause(
                "loses",
                "scaler",
                f"gradient scaler not restored: its scale is {_power(other.scale)} at step "
                f"{began + k + 1} instead of {_power(one.scale)}",
            )
            break
    for k, (one, other) in enumerate(pairs):
        if not same_batch(one, other):
            yield _cut_sum(one, other, began + k) or _data(mine, one, other, began + k)
            return
    one, other = pairs[-1]
    used = used_streams(mine)
    if one.before == other.before and one.grads != other.grads and one.buffers == other.buffers:
        yield from _random(resumed.lanes, one, other, lane, until, used)


def _power(scale: float | None) -> str:
    return "unknown" if scale is None else f"{scale:g}"


def _cut_sum(one: CheckedStep, other: CheckedStep, done: int) -> Cause | None:
    """Return the cause if a resumed step begins amid the batches whose gradients are added up."""
    mine, theirs = one.batch, other.batch
    if not theirs or theirs[0] not in mine[1:] or theirs[0] == mine[0]:
        return None
    lost = mine.index(theirs[0])
    return Cause(
        "loses",
        "accumulation",
        f"gradient accumulation was cut: step {done + 1} begins after {lost} of its {len(mine)} "
        "inputs, and their gradients are lost; save after an optimizer step alone",
    )


def _data(whole: Sequence[CheckedStep], one: CheckedStep, other: CheckedStep, done: int) -> Cause:
    again = _place_of(whole, other)
    used = used_streams(whole)
    streams = " and ".join(sorted(k for k in used if one.rng.get(k) != other.rng.get(k)))
    why = f" (RNG of {streams} not restored)" if streams else ""
    if again is not None:
        return Cause(
            "restarts",
            "data order",
            f"data order not restored: step {done + 1} read the batch of step {again + 1}{why}",
        )
    known = {row for step in whole for _, _, rows in step.inputs for row in rows}
    rows = [row for _, _, found in other.inputs for row in found]
    if set(one.batch) & set(other.batch):
        return Cause(
            "restarts",
            "samples",
            f"samples are changed at random when read, from step {done + 1} on: other values of "
            "the same rows; the RNG is not that of the whole run when batches are fetched",
        )
    if rows and sum(row in known for row in rows) >= 0.9 * len(rows):
        return Cause(
            "restarts",
            "data order",
            f"data order not restored: other rows of the same data from step {done + 1} on; the "
            f"shuffle is not that of the whole run{why}",
        )
    return Cause(
        "restarts",
        "samples",
        f"other samples from step {done + 1} on: data are drawn, or changed when read, by an RNG "
        f"that is not restored{why}",
    )


def _random(
    lanes: Mapping[str, list[CheckedStep]],
    one: CheckedStep,
    other: CheckedStep,
    lane: str,
    until: int,
    used: frozenset[str],
) -> Iterator[Cause]:
    differing = sorted(k for k in used if one.rng.get(k) != other.rng.get(k))
    if differing and all(one.rng_at_step.get(k) == other.rng.get(k) for k in differing):
        yield Cause(
            "restarts",
            "RNG",
            f"RNG of {', '.join(differing)} from within a step: the checkpoint was saved between "
            "the forward pass and the end of a step, which is done again with the state after it",
        )
        return
    if not differing:
        if abs(one.norm - other.norm) > _ROUNDING * abs(one.norm):
            yield Cause(
                "restarts",
                "hidden state",
                "gradients differ though weights, batch and the usual random states are the same: "
                "labels, a random generator of its own or a hidden state is not restored",
            )
        return
    first = min(lanes)
    of_first = lanes[first][until].rng if len(lanes[first]) > until else {}
    if lane != first and all(of_first.get(k) == other.rng.get(k) for k in differing):
        yield Cause(
            "restarts",
            "RNG",
            f"rank {first.strip()}'s RNG on all ranks: rank {lane.strip()} has its random state "
            "after the resume, and so other dropout masks than in the whole run",
        )
    else:
        yield Cause(
            "restarts",
            "RNG",
            f"RNG not restored ({', '.join(differing)}): same batches and rates, but other random "
            "numbers within the step, such as dropout masks",
        )
