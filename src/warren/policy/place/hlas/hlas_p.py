"""HLAS-P: HLAS by the rounds that a job has run and those it will almost surely run still.

What
    A job's size is (R^r + R^p) times its mean time of a round: R^r rounds have run, R^p more are
    predicted, conservatively, from its loss curve, from similar jobs that have ended and from how
    it stands in its search. Sizes set queues as in ``hlas``. Inside a queue jobs with R^p > 0 go
    first, the largest R^p before all, then the others by arrival.
Source
    Hare with HLAS (TCC'24), section V, Figs. 12 and 13.
Differs
    ``warren.predict.conservative`` makes the prediction, ``predicted_rounds`` decides how often;
    the rest: ``hlas``. Similar jobs are sought among those that ended before the run or in it
    (``job_history``). They have the same name but for numbers at its ends, the user's own before
    those of others; else they are of the same user. No curve promises rounds beyond the next cut of
    the job's ``schedule``. A new prediction is made when the job takes its place in the line, and
    holds until it is consumed, whichever jobs join its search. That the largest R^p goes first
    inside a queue looks like the longest job first, against Fig. 12(c), where the jobs of unknown
    size run before the job that is known to be long. Both hold: the long job stands in a later
    queue, for its size. Among jobs of about the same size, which are in one queue, the largest R^p
    is the least attained R^r. R^p is compared in rounds, as printed, though rounds of different
    jobs last differently. A round that is partly placed goes before both parts of its queue, as in
    ``hlas``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from immutables import Map

from warren.model.events import JobArrived
from warren.model.job import Job
from warren.model.view import View
from warren.policy.common.job_history import JobHistory, kinds_by_name, records_of, similar
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
from warren.predict.conservative import averaged, beyond, standing, target_of
from warren.predict.curve_kind import kind_of
from warren.predict.remaining_rounds import sure_rounds

_OTHERS: Final = 64
"""Most other jobs of a search that are looked at, the latest to arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HlasP(Hlas):
    """Schedule as ``hlas`` does, by sizes that count rounds which are predicted conservatively."""

    name: ClassVar[str] = "hlas-p"
    source: ClassVar[str] = "HLAS (TCC'24) V"
    by_ahead: ClassVar[bool] = True

    def foresight(self, view: View) -> PredictedRounds:
        """Return the foresight before the first decision: jobs of the past, no prediction yet."""
        return ConservativeRounds(records=records_of(view.past, kinds_by_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConservativeRounds:
    """The latest prediction of each job and its inputs, as a value for a memory.

    ``records``: rounds of ended jobs by name; ``searches``: jobs of each search that have arrived.
    """

    records: JobHistory
    guesses: Guesses = field(default_factory=Map)
    searches: Map[str, tuple[int, ...]] = field(default_factory=Map)

    def after(self, view: View) -> ConservativeRounds:
        """Return this foresight with a prediction for each ready job that has consumed its last."""
        known, guesses = self._learned(view), self.guesses
        for job in made_ready(view):
            # V-B: R stays until R^p is consumed; only then may a new prediction change it.
            made, rounds = guesses.get(job), view.round_J.item(job)
            # Both: due after a quarter more rounds, and R^p consumed.
            if is_due(made, rounds) and not ahead_of(guesses, job, rounds):
                guesses = guesses.set(job, known._guess(view, job))
        return known if guesses is self.guesses else replace(known, guesses=guesses)

    def ahead(self, view: View, job: int) -> int:
        """Return R^p: predicted rounds that the job has not run yet; 0 if none are."""
        return ahead_of(self.guesses, job, view.round_J.item(job))

    def said(self, view: View, job: int) -> str:
        """Say how many rounds are left of the latest prediction, and where it came from."""
        made, rounds = self.guesses.get(job), self.ahead(view, job)
        why = f" (predicted after {made.made}: {made.why})" if made else ""
        return (
            f"will run at least {rounds} rounds more{why}" if rounds else f"may end any time{why}"
        )

    def _learned(self, view: View) -> ConservativeRounds:
        """Return this foresight with jobs that have ended and those that have joined a search."""
        records, searches = self.records.learned(view), self.searches
        for event in view.changes:
            if isinstance(event, JobArrived) and (group := view.jobs[event.job].group):
                latest = (searches.get(group) or ())[-_OTHERS:]
                searches = searches.set(group, (*latest, event.job))
        if records is self.records and searches is self.searches:
            return self
        return replace(self, records=records, searches=searches)

    def _guess(self, view: View, job: int) -> RoundsGuess:
        """Predict by Fig. 13: the fit, then history, then the standing in the search."""
        # Alpha from the curve; averaged with the rounds that similar jobs ran beyond this one;
        # then shrunk for a job that is far behind the others of its search.
        one, rounds = view.jobs[job], view.round_J.item(job)
        kind, past_rounds = similar(self.records, one)
        fit, past = _fit(view, one), beyond(past_rounds, rounds)
        share = self._standing(view, one)
        why = ["no curve to fit" if fit is None else f"its curve says {fit}"]
        if past is not None:
            why.append(f"{len(past_rounds)} jobs of the same {kind} {past}")
        if share < 1:
            why.append(f"{share:.0%} of that, far behind in its search")
        return guess(rounds, averaged(fit, past) * share, ", ".join(why))

    def _standing(self, view: View, one: Job) -> float:
        """Return the share of a prediction left by the job's standing in its search, at most 1."""
        if not one.group or one.stop is None:
            return 1.0
        # Only jobs that are measured by the same metric can be compared.
        metric, others = one.stop.metric, (self.searches.get(one.group) or ())[-_OTHERS:]
        seen = [
            view.progress.of(other)
            for other in others
            if other != one.index and (stop := view.jobs[other].stop) and stop.metric == metric
        ]
        return standing(one.stop, view.progress.of(one.index), seen)


def _fit(view: View, one: Job) -> int | None:
    """Return alpha, the rounds that the fit promises (V-A); None if there is no curve yet."""
    target = target_of(one.stop) if one.stop else None
    progress = view.progress.of(one.index)
    if target is None or not len(progress):
        return None
    return sure_rounds(progress, target, kind=kind_of(one))
