"""Least cost of each job when device time has a price: the kernels of the priced bound.

*Prices.* A second of COMP on a device of type t at time x costs price_t(x) >= 0. One device runs
one COMP at a time, so all jobs together pay at most sum_t D_t times the integral of price_t. Hence
for any prices

    sum_j w_j (C_j - a_j) >= sum_j (least of w_j (C_j - a_j) + what job j pays) - sum_t D_t integral

where each job may choose its schedule as if it were alone: a Lagrangian relaxation of (8).

*One job.* R rounds of n tasks; W_t = R n T^c_t; q the least time of a round (``rounds``);
l_t = max(q, T^c_t + T^s_t) and P_t = R l_t. A round with a task on type t takes l_t or longer, so
C >= a + min P_t. For a number mu >= 0 ("what the whole job may pay") let

    pi(x) = max(0, max_t (mu - price_t(x) W_t) / P_t).

*Claim.* A schedule of the job alone that ends at C pays at least

    mu - integral of pi over [a, C] - L V,

L the largest l_t, V the total variation of pi over (a, C). *Proof.* Let pi'(y) be the supremum of
pi over all times of [a, C] not farther than L from y. Take a task on type t, in a round with the
window [b, e], and a moment z of the window. As e - b >= l_t, a part U of the window has the length
l_t and contains z; no y in U is farther than L from z, so

    (mu - price_t(z) W_t) / R <= l_t pi(z) <= integral of pi' over U <= integral over [b, e].

The average over the moments at which the task computes, T^c_t or longer, one after the other or
with breaks: mu / R - n (what the task pays) <= integral of pi' over [b, e]. (T^c_t = 0: any z.)
The mean over the n tasks: the round pays at least mu / R minus the integral of pi' over its
window. The windows of the rounds follow one another inside [a, C]: sum over the rounds. Last,
pi'(y) - pi(y) is at most the rises of pi within L after y plus its falls within L before y. Each
rise or fall counts for a length L of y: the integrals of pi' and pi differ by at most L V.

So w (C - a) + mu - integral - L V bounds the job's cost for a given C and every mu. Prices are
constant on the intervals of a grid and 0 after it; for C within an interval, V taken with the
change at the interval's begin, the bound is linear in C, so its least is at one of the ends (or at
a + min P_t). ``respond`` takes, for each interval that C may lie in, the best mu that it finds,
and then the least over the intervals. A poor mu makes the bound weaker, never wrong.

*Rounding.* The computed pi serves as pi: its distance from the exact one is some epsilons of itself
and of mu, and so is the loss in the claim. Each sum is lowered by its number of terms times their
magnitudes times epsilon. An arrival must not be later than the job's own: if it is rounded up to an
edge, the interval before the edge is missing altogether.

Longer tasks, tasks with breaks and synchronizations that queue are all covered, so the bound holds
for every grain and for the networks ``constant`` and ``lane``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel

EPS: Final = float(np.finfo(np.float64).eps)
PASSES: Final = 60
"""Most values of mu that are tried for a job."""
CLOSE: Final = 1e-7
"""A maximum over mu is known well enough when it can grow by no more than this part of itself."""
MARGIN: Final = 1.1
"""Largest cost of ending, over that of the last answer, at which an interval matters; a guess."""
CERTIFIED, LOW_MU, LOW, LOW_SLOPE, HIGH_MU, HIGH, HIGH_SLOPE = range(7)
"""Rows of ``ResponseScratch.bracket``: per interval the best bound; and of the function of mu whose
maximum is sought (without V) a point before the maximum and one behind it: mu, value, slope."""


class LagrangianBound(NamedTuple):
    """The jobs and the grid of the relaxation; float seconds.

    Types that a job cannot use have infinite ``path_s_JT`` and ``work_s_JT``.
    """

    weight_J: FloatArray
    arrival_s_J: FloatArray  # no later than the true ones
    path_s_JT: FloatArray  # P
    work_s_JT: FloatArray  # W
    longest_s_J: FloatArray  # L
    devices_T: FloatArray  # float
    grid_s_E: FloatArray  # edges of the intervals: 0, ..., horizon


class ResponseScratch(NamedTuple):
    """Arrays that ``respond`` writes.

    Guesses of each job's mu and of the intervals that matter to it, brackets of the job at hand,
    and the device time (s) that all jobs buy.
    """

    mu_J: FloatArray
    stop_J: IntArray
    bracket_BI: FloatArray  # (7, I + 1): the last interval is all that follows the grid
    bought_s_TI: FloatArray


def new_scratch(problem: LagrangianBound) -> ResponseScratch:
    """Make the arrays of ``respond`` for one grid."""
    jobs, types = problem.path_s_JT.shape
    intervals = len(problem.grid_s_E) - 1
    return ResponseScratch(
        mu_J=np.zeros(jobs),
        stop_J=np.full(jobs, intervals + 1),
        bracket_BI=np.zeros((7, intervals + 1)),
        bought_s_TI=np.zeros((types, intervals)),
    )


@kernel
def respond(problem: LagrangianBound, price_TI: FloatArray, scratch: ResponseScratch) -> float:
    """Compute the bound on sum w (C - a) for these prices; write ``bought_s_TI``.

    Each job's least cost, added up, minus sum_t D_t times the integral of price_t.
    """
    scratch.bought_s_TI[:] = 0.0
    total = size = 0.0
    for job in range(len(problem.weight_J)):
        at = _search(problem, price_TI, scratch, job)
        least = scratch.bracket_BI[CERTIFIED, at]
        total += least
        size += abs(least)
        _buy_best(problem, price_TI, scratch, job, at)
    # The most that all devices could earn is subtracted.
    types, intervals = price_TI.shape
    for kind in range(types):
        for i in range(intervals):
            length = problem.grid_s_E[i + 1] - problem.grid_s_E[i]
            paid = price_TI[kind, i] * problem.devices_T[kind] * length
            total -= paid
            size += paid
    # A sum of n terms is off by at most n epsilons of their magnitudes.
    terms = len(problem.weight_J) + types * intervals + 8
    return float(total - 2 * EPS * terms * size)


@kernel
def _search(
    problem: LagrangianBound, price_TI: FloatArray, scratch: ResponseScratch, job: Int
) -> int:
    """Fill the brackets of a job, and return the interval with the least bound.

    A job that ends in an interval costs at least its cost without paying, which grows from one to
    the next. So those after the first where that is more than the least bound found do not matter;
    which is the first is guessed from the last prices, and then looked at.
    """
    bracket, last = scratch.bracket_BI, scratch.bracket_BI.shape[1] - 1
    stop, mu = scratch.stop_J[job], scratch.mu_J[job]
    at = _search_until(problem, price_TI, scratch, job, stop)
    # The guess was too near: an interval not looked at may have a smaller bound.
    if stop <= last and not bracket[CERTIFIED, at] < _unpaid(problem, job, stop):
        scratch.mu_J[job] = mu
        at = _search_until(problem, price_TI, scratch, job, last + 1)
    # The guess for the next prices.
    stop, enough = at + 1, MARGIN * bracket[CERTIFIED, at]
    while stop <= last and _unpaid(problem, job, stop) <= enough:
        stop += 1
    scratch.stop_J[job] = stop
    return int(at)


@inlined
def _unpaid(problem: LagrangianBound, job: Int, i: Int) -> float:
    """Return the bound of a job that ends in an interval and pays nothing.

    Infinite where the interval ends before the job can: no job ends before its path.
    """
    arrival, early = problem.arrival_s_J[job], _least_path(problem, job)
    if i < len(problem.grid_s_E) - 1 and problem.grid_s_E[i + 1] - arrival <= early:
        return np.inf
    begin = problem.grid_s_E[i] - arrival
    begin -= 4 * EPS * (problem.grid_s_E[i] + arrival)
    return float(problem.weight_J[job] * max(begin, early) * (1 - 4 * EPS))


@kernel
def _search_until(
    problem: LagrangianBound, price_TI: FloatArray, scratch: ResponseScratch, job: Int, stop: Int
) -> int:
    """Fill the brackets of the first ``stop`` intervals, as ``_search``, by trying values of mu."""
    bracket, first = scratch.bracket_BI, 0
    while first + 1 < stop and problem.grid_s_E[first + 1] <= problem.arrival_s_J[job]:
        first += 1
    # mu = 0 is the first point before the maximum: the value is w (C - a), the slope 1.
    for i in range(first, stop):
        bracket[CERTIFIED, i] = bracket[LOW, i] = _unpaid(problem, job, i)
        bracket[LOW_MU, i], bracket[LOW_SLOPE, i] = 0.0, 1.0
        bracket[HIGH_MU, i] = bracket[HIGH, i] = np.inf
    mu = scratch.mu_J[job]
    # Without a guess: about the cost of the whole job alone.
    if mu <= 0.0:
        mu = problem.weight_J[job] * _least_path(problem, job)
    # Each mu is tried for all intervals at once, and chosen for the interval that binds.
    at = first
    for _ in range(PASSES):
        _sweep(problem, price_TI, bracket, job, mu, first, stop)
        at = first
        for i in range(first + 1, stop):
            if bracket[CERTIFIED, i] < bracket[CERTIFIED, at]:
                at = i
        mu = _next_mu(bracket, at)
        if mu < 0.0:
            break
    scratch.mu_J[job] = bracket[LOW_MU, at]
    return at


@inlined
def _least_path(problem: LagrangianBound, job: Int) -> float:
    """Return min P_t of a job (s)."""
    least = np.inf
    for kind in range(problem.path_s_JT.shape[1]):
        least = min(least, float(problem.path_s_JT[job, kind]))
    return least


@kernel
def _next_mu(bracket: FloatArray, i: Int) -> float:
    """Return where to look for the maximum; -1 if it is known well enough.

    Between the two points if there are, else farther out. The function is concave, so the
    tangents meet above the maximum; it is known if that is close to the better of the points.
    """
    low_mu: float = bracket[LOW_MU, i]
    high_mu: float = bracket[HIGH_MU, i]
    if high_mu == np.inf:
        return 2 * low_mu + 1e-9
    # No value is known behind the maximum, only that it is there: bisection.
    if bracket[HIGH, i] == -np.inf:
        return 0.5 * (low_mu + high_mu) if high_mu - low_mu > CLOSE * high_mu else -1.0
    slope, fall = bracket[LOW_SLOPE, i], bracket[HIGH_SLOPE, i]
    rise = bracket[HIGH, i] - fall * (high_mu - low_mu) - bracket[LOW, i]
    step: float = rise / (slope - fall)
    top = bracket[LOW, i] + slope * step
    if top - max(bracket[LOW, i], bracket[HIGH, i]) <= CLOSE * abs(top):
        return -1.0
    # Never at a point itself: the bracket gets narrower by a thousandth at least.
    return low_mu + min(max(step, 1e-3 * (high_mu - low_mu)), 0.999 * (high_mu - low_mu))


@inlined
def _best_rate(
    problem: LagrangianBound, price_TI: FloatArray, job: Int, i: Int, mu: Float
) -> tuple[float, int]:
    """Return pi in an interval for a mu, and the type that has it, -1 if pi is 0."""
    # pi = max(0, max_t (mu - price_t W_t) / P_t); after the grid prices are 0.
    rate, best = 0.0, -1
    for kind in range(problem.path_s_JT.shape[1]):
        path = problem.path_s_JT[job, kind]
        if path == np.inf:
            continue
        paid = price_TI[kind, i] * problem.work_s_JT[job, kind] if i < price_TI.shape[1] else 0.0
        if mu - paid > rate * path:
            rate, best = (mu - paid) / path, kind
    return rate, best


@kernel
def _sweep(
    problem: LagrangianBound,
    price_TI: FloatArray,
    bracket: FloatArray,
    job: Int,
    mu: Float,
    first: Int,
    stop: Int,
) -> None:
    """Improve bounds and brackets of the intervals from ``first`` to before ``stop`` by one mu.

    Times are since the arrival. For the begin of each interval ``total`` is mu minus the integral
    of pi, ``left`` its derivative by mu, ``varied`` L times the variation of pi. ``size`` is
    the sum of the magnitudes of all terms, for their rounding errors.
    """
    weight, arrival = problem.weight_J[job], problem.arrival_s_J[job]
    early, last = _least_path(problem, job), bracket.shape[1] - 1
    total = mu
    left = 1.0
    varied = 0.0
    before = -1.0  # pi of the interval before; below 0: there is none
    size = mu
    for i in range(first, stop):
        end = problem.grid_s_E[i + 1] - arrival if i < last else np.inf
        if end <= 0.0:
            continue
        begin = max(problem.grid_s_E[i] - arrival, 0.0)
        rate, kind = _best_rate(problem, price_TI, job, i, mu)
        if before >= 0.0:
            varied += problem.longest_s_J[job] * abs(rate - before)
        before = rate
        # w (C - a) + mu - integral - L V is linear in C with the slope w - pi: least at one end,
        # or at min P_t, where the job can end first.
        if end > early:
            finish = max(begin, early)
            if rate > weight:
                finish = end
            # After the grid pi exceeds w: the later the job ends the less, so mu is too large.
            if finish == np.inf:
                _narrow(bracket, i, mu, -np.inf, -1.0, -np.inf)
                break
            value = total + weight * finish - rate * (finish - begin)
            terms = size + (weight + rate) * (finish + begin + 2 * arrival) + varied
            slope = left - (finish - begin) / problem.path_s_JT[job, kind] if kind >= 0 else left
            _narrow(bracket, i, mu, value, slope, value - varied - 8 * EPS * (i + 4) * terms)
        if i < last:
            total -= rate * (end - begin)
            size += rate * (end + begin + 2 * arrival)
            left -= (end - begin) / problem.path_s_JT[job, kind] if kind >= 0 else 0.0


@inlined
def _narrow(
    bracket: FloatArray, i: Int, mu: Float, value: Float, slope: Float, bound: Float
) -> None:
    """Keep a larger bound, and the point if it is nearer to the maximum on its side."""
    bracket[CERTIFIED, i] = max(bracket[CERTIFIED, i], bound)
    if slope > 0.0 and mu >= bracket[LOW_MU, i]:
        bracket[LOW_MU, i] = mu
        bracket[LOW, i] = value
        bracket[LOW_SLOPE, i] = slope
    if slope <= 0.0 and mu <= bracket[HIGH_MU, i]:
        bracket[HIGH_MU, i] = mu
        bracket[HIGH, i] = value
        bracket[HIGH_SLOPE, i] = slope


@kernel
def _buy_best(
    problem: LagrangianBound, price_TI: FloatArray, scratch: ResponseScratch, job: Int, at: Int
) -> None:
    """Add the job's purchase if it ends in interval ``at``: a mix of both ends of its bracket.

    Before the maximum it buys less than the whole job, behind it at least the whole.
    """
    low, high = scratch.bracket_BI[LOW_SLOPE, at], scratch.bracket_BI[HIGH_SLOPE, at]
    high_mu, share = scratch.bracket_BI[HIGH_MU, at], 0.0
    # The slope is the part of the job that is not bought: the mix in which it is 0 buys all of it.
    if high_mu < np.inf and scratch.bracket_BI[HIGH, at] > -np.inf:
        share = low / (low - high)
        _buy(problem, price_TI, scratch, job, at, high_mu, share)
    _buy(problem, price_TI, scratch, job, at, scratch.bracket_BI[LOW_MU, at], 1.0 - share)


@inlined
def _buy(
    problem: LagrangianBound,
    price_TI: FloatArray,
    scratch: ResponseScratch,
    job: Int,
    at: Int,
    mu: Float,
    share: Float,
) -> None:
    """Add ``share`` of the job's purchase with this mu if it ends in interval ``at``.

    In an interval it buys the type of pi: the part (length / P_t) of the work W_t.
    """
    early = problem.arrival_s_J[job] + _least_path(problem, job)
    for i in range(min(at + 1, price_TI.shape[1])):
        begin = max(problem.grid_s_E[i], problem.arrival_s_J[job])
        rate, kind = _best_rate(problem, price_TI, job, i, mu)
        until = problem.grid_s_E[i + 1]
        # The end within interval ``at`` that ``_sweep`` takes.
        if i == at and rate <= problem.weight_J[job]:
            until = max(begin, early)
        if kind >= 0 and until > begin:
            done = (until - begin) / problem.path_s_JT[job, kind]
            scratch.bought_s_TI[kind, i] += share * done * problem.work_s_JT[job, kind]
