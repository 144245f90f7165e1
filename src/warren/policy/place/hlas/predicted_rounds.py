"""Predictions of HLAS and its variants of rounds to come, as a value that a policy remembers.

*Source.* HLAS (TCC'24), section V-B. The prediction for a job is R_n = R_n^r + R_n^p: the rounds it
has run and those it will still run. While it runs, R^r grows, R^p is consumed and R stays.
*Differs.* The paper says when R may change, once R^p is consumed, and not how often. A prediction
takes time and changes little from one round to the next: a job gets the next one after a quarter
more rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from immutables import Map

from warren.model.decision import ENDLESS
from warren.model.view import View


class PredictedRounds(Protocol):
    """A foresight: the predictions of jobs. It is immutable: ``after`` gives the next one."""

    def after(self, view: View) -> PredictedRounds:
        """Return the predictions once the view's changes are known."""
        ...

    def ahead(self, view: View, job: int) -> int:
        """Return R^p: predicted rounds that the job has not run yet; 0 if nothing is predicted."""
        ...

    def said(self, view: View, job: int) -> str:
        """Return the prediction of a job and its reason; empty if there are no predictions."""
        ...


@dataclass(frozen=True, slots=True)
class NoPrediction:
    """The foresight of plain HLAS: no rounds are predicted of any job."""

    def after(self, view: View) -> NoPrediction:
        """Return itself: nothing is learned."""
        return self

    def ahead(self, view: View, job: int) -> int:
        """Return 0 rounds: nothing is predicted."""
        return 0

    def said(self, view: View, job: int) -> str:
        """Return an empty text: there is nothing to say."""
        return ""


class RoundsGuess(NamedTuple):
    """A prediction of one job: that it will run until it has run ``until`` rounds (R).

    ``made``: R^r when it was made. ``why``: the reason in words, if there is one.
    """

    made: int
    until: int
    why: str = ""


Guesses: TypeAlias = Map[int, RoundsGuess]
"""The latest prediction of each job."""


def guess(rounds: int, ahead: float, why: str = "") -> RoundsGuess:
    """Make the prediction that a job which has run ``rounds`` will run ``ahead`` more.

    Not a number counts as none, infinite as ``ENDLESS``.
    """
    # A comparison with nan is false, so nan takes the branch of 0.
    whole = int(min(ahead, ENDLESS)) if ahead > 0 else 0
    return RoundsGuess(rounds, rounds + whole, why)


def ahead_of(guesses: Guesses, job: int, rounds: int) -> int:
    """Return R^p of a job that has run ``rounds`` rounds: the rest of its latest prediction."""
    made = guesses.get(job)
    return max(0, made.until - rounds) if made else 0


def is_due(made: RoundsGuess | None, rounds: int) -> bool:
    """Tell whether a job has run a quarter more rounds, at least one, since its last prediction."""
    # rounds >= 5/4 made.made, in whole numbers.
    return made is None or (rounds > made.made and 4 * rounds >= 5 * made.made)
