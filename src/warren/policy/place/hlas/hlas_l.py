"""HLAS-L: HLAS by the rounds that a job has run and those that a fit of its loss expects.

What
    A job's size is (R^r + R^p) times its mean time of a round; R^p is the number of rounds that the
    loss fit of Optimus still expects. Sizes set queues as in ``hlas``, in a queue jobs go by
    arrival.
Source
    Hare with HLAS (TCC'24), section VI-D, "HLAS-L"; the fit: Optimus (Peng et al., EuroSys'18).
Differs
    The paper names the fit and no more. It is repeated as the job runs, after a quarter more rounds
    each time; in between R^p is consumed and the size stays, as in ``hlas-p``. A job counts by the
    rounds it has run, as in ``hlas``, in three cases: it has no target, too little of it was seen
    for a fit, or its fit never comes to its target. Such a fit shows that it is wrong, not that the
    job is endless. The fit knows of no learning rate: a job's ``schedule`` makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import ClassVar

from immutables import Map

from warren.model.view import View
from warren.policy.common.round_times import made_ready
from warren.policy.place.hlas.policy import Hlas
from warren.policy.place.hlas.predicted_rounds import (
    Guesses,
    PredictedRounds,
    RoundsGuess,
    ahead_of,
    guess,
    is_due,
)
from warren.predict.conservative import target_of
from warren.predict.remaining_rounds import optimus_rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class HlasL(Hlas):
    """Schedule as ``hlas`` does, by sizes that count the rounds which a loss fit expects."""

    name: ClassVar[str] = "hlas-l"
    source: ClassVar[str] = "HLAS (TCC'24) VI-D; Optimus (EuroSys'18)"

    def foresight(self, view: View) -> PredictedRounds:
        """Return the foresight before the first decision: no fit is made."""
        return FittedRounds()


@dataclass(frozen=True, slots=True)
class FittedRounds:
    """The latest loss fit of each job, as a value for a policy's memory."""

    guesses: Guesses = field(default_factory=Map)

    def after(self, view: View) -> FittedRounds:
        """Return this foresight with a new fit for each job that is ready and due."""
        guesses = self.guesses
        # Unlike HLAS-P's prediction, a fit is repeated before its R^p is consumed.
        for job in made_ready(view):
            if is_due(guesses.get(job), view.round_J.item(job)):
                guesses = guesses.set(job, _guess(view, job))
        return self if guesses is self.guesses else FittedRounds(guesses)

    def ahead(self, view: View, job: int) -> int:
        """Return R^p: the rounds that the latest fit expects still; 0 if it expects none."""
        return ahead_of(self.guesses, job, view.round_J.item(job))

    def said(self, view: View, job: int) -> str:
        """Say how many rounds are left of the latest fit."""
        made, rounds = self.guesses.get(job), self.ahead(view, job)
        why = f" (fitted after {made.made})" if made and made.until > made.made else ""
        return f"is expected to run {rounds} rounds more{why}"


def _guess(view: View, job: int) -> RoundsGuess:
    """Fit the job's loss curve; unlike HLAS-P, without history or its standing in a search."""
    rounds = view.round_J.item(job)
    stop = view.jobs[job].stop
    progress = view.progress.of(job)
    target = target_of(stop) if stop else None
    if target is None or not len(progress):
        return guess(rounds, 0)
    # Infinite: the fit's level lies above the target. That says nothing of the job.
    expected = optimus_rounds(progress, target)
    return guess(rounds, expected if isfinite(expected) else 0)
