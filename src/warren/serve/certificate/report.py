"""The certificate: what a check has found, as people and programs read it. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from warren.serve.certificate import verdict
from warren.serve.certificate.evidence import Difference, Judgement, Level, StoppedRun


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """One stop: how, where, after which step, where the resume began, and what that showed."""

    by: Literal["signal", "kill"]
    place: str
    step: int
    began: int | None
    level: Level
    tensor: str | None
    differs_at: int | None
    causes: tuple[str, ...]


class KindReport(msgspec.Struct, frozen=True, kw_only=True):
    """The worst that stops of one kind have shown; no level without a stop."""

    level: Level | None
    first_difference: dict[str, str | int | None] | None
    likely_cause: str | None
    stops: int


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a command; its fields are those of ``warren check --resume --json``.

    ``level`` is None if two whole runs differ already, if weights are not finite, or if no stop
    could be made.
    ``steps`` and ``saves`` are those of a whole run.
    """

    level: Level | None
    first_difference: dict[str, str | int | None] | None
    likely_cause: str | None
    by_signal: KindReport | None
    by_kill: KindReport | None
    signal: str
    seed: int
    steps: int
    saves: int
    stops: list[StopReport]
    notes: list[str]


def worst_of(found: Sequence[Judgement]) -> KindReport:
    """Return what the worst of some stops has shown."""
    if not found:
        return KindReport(level=None, first_difference=None, likely_cause=None, stops=0)
    level = verdict.worst([judgement.level for judgement in found])
    shown = next(judgement for judgement in found if judgement.level == level)
    return KindReport(
        level=level,
        first_difference=shown_difference(shown.difference),
        likely_cause="; ".join(cause.text for cause in shown.causes) or None,
        stops=len(found),
    )


def shown_difference(found: Difference | None) -> dict[str, str | int | None] | None:
    """Return a difference as JSON holds it."""
    if found is None:
        return None
    return {"tensor": found.tensor, "step": found.step, "file": found.file}


def stop_report(stop: StoppedRun, judgement: Judgement) -> StopReport:
    """Return what a stop has shown."""
    found = judgement.difference
    return StopReport(
        by=stop.by,
        place=stop.place,
        step=stop.steps,
        began=judgement.began,
        level=judgement.level,
        tensor=None if found is None else found.tensor,
        differs_at=None if found is None else found.step,
        causes=tuple(cause.text for cause in judgement.causes),
    )


def stop_line(stop: StoppedRun, judgement: Judgement) -> str:
    """Return what a stop has shown, in a line for a person."""
    began = "" if judgement.began is None else f", resumed after step {judgement.began}"
    causes = "".join(f"; {cause.text}" for cause in judgement.causes[:1])
    return f"{stop.by} {stop.place}, at step {stop.steps}{began}: {judgement.level}{causes}"


def as_mapping(certificate: Certificate) -> Mapping[str, object]:
    """Return a certificate as JSON holds it."""
    found: dict[str, object] = msgspec.to_builtins(certificate)
    return found
