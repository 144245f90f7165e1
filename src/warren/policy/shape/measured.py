"""Measurements of jobs with servers: moving averages a host and a round, by mini-batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from immutables import Map

from warren.model.costs import FloatArray
from warren.model.events import (
    Event,
    JobArrived,
    RolledBack,
    RoundsDone,
    ServersMoved,
    TasksDone,
)
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.link_loads import server_shares_H

K = TypeVar("K")
V = TypeVar("V")
TOLD: Final[frozenset[type[Event]]] = frozenset(
    {JobArrived, TasksDone, RoundsDone, ServersMoved, RolledBack}
)
"""Events after which a policy that keeps this must be asked: a view shows one instant."""
_NEWEST: Final = 0.3
"""The weight of the newest value in a moving average."""
_MOST_VALUES: Final = 2 / _NEWEST - 1
"""Number of values whose plain mean is as sure as a moving average of many."""
_LONG: Final = 0.05
"""The weight of the newest value in the mean of squared deviations, once it has many."""
_HALF_ROUNDS: Final = 50
"""The age in rounds at which a mean counts for half as many values."""
_DEVIATIONS: Final = 4.0
"""The difference of two means, in its standard deviations, up to which it may be noise.

Large, since it is looked at again and again.
"""
_BIN: Final = 1.1
"""Largest factor between task times of hosts that count as one kind of machine."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of jobs so far; each change returns a new object.

    ``comp_s``: the computation of a task on a host, by (job, host). ``turn_s``: the time that a
    task keeps its device if another goes before it, with all other work there meanwhile: from the
    end of the other's computation to that of its own. While it computes the other's update is sent.
    Links may keep a third task waiting, so later tasks count only if the update before was gone
    when the other's computation had ended. ``round_s``: from barrier to barrier, by job;
    ``rounds``: number of these rounds, since the shape was last answered or reached.

    ``weight``: by (job, host), how many values a mean counts for, and the last round of these: the
    older it is, the less it is worth. ``noise``: by job, the mean square by which a value deviates
    from its mean before, as a part of that, and how many values this is of.

    ``free_ns``: by device, when the last computation there ended. ``waits``: by job, of each device
    that has worked in this round its host, and how long after the barrier its first task had the
    state, in ns; -1: not known, since the device was at work. ``slower``: by job, how many times as
    long all pulls of a round took as by the stated rates of links.
    """

    comp_s: Map[tuple[int, int], float] = field(default_factory=Map)
    turn_s: Map[tuple[int, int], float] = field(default_factory=Map)
    last: Map[tuple[int, int], tuple[TasksDone, ...]] = field(default_factory=Map)
    """By (job, device): the last two tasks, if they are of one round."""
    round_s: Map[int, float] = field(default_factory=Map)
    rounds: Map[int, int] = field(default_factory=Map)
    barrier_ns: Map[int, int] = field(default_factory=Map)
    weight: Map[tuple[int, int], tuple[float, int]] = field(default_factory=Map)
    noise: Map[int, tuple[float, int]] = field(default_factory=Map)
    free_ns: Map[int, int] = field(default_factory=Map)
    waits: Map[int, tuple[tuple[int, int], ...]] = field(default_factory=Map)
    slower: Map[int, float] = field(default_factory=Map)

    def after(self, view: View) -> Measured:
        """Return it with the events of this instant."""
        seen = self
        for event in view.changes:
            match event:
                case TasksDone():
                    seen = seen.computed(event, int(view.hosts.host_D[event.device]))
                case RoundsDone():
                    seen = seen._pulled(view, event.job)._passed(event)
                case ServersMoved():
                    seen = seen.anew(event.job)
                case RolledBack():
                    # A round may run again: no turn is from a task of before to one of after.
                    last = {key: row for key, row in seen.last.items() if key[0] != event.job}
                    seen = replace(seen.anew(event.job), last=Map(last))
        return seen

    def anew(self, job: int) -> Measured:
        """Return it without the rounds of a job: its shape is another."""
        return replace(
            self,
            round_s=without(self.round_s, job),
            rounds=without(self.rounds, job),
            barrier_ns=without(self.barrier_ns, job),
            waits=without(self.waits, job),
        )

    def rate_H(self, view: View, job: int) -> FloatArray:
        """Return the rates of all links, in bytes a second, as the job's pulls have shown them.

        Links are taken to be as unequal as is stated.
        """
        rate_H: FloatArray = np.array(view.cluster.link_bytes_per_s, dtype=float)
        return rate_H / self.slower.get(job, 1.0)

    def task_s_H(self, view: View, job: int) -> FloatArray:
        """Return the time of a task of the job on one device of each host; infinite: on none.

        It is measured on hosts where the job has run. Elsewhere it is the known time of the host's
        devices, times the ratio of measured to known times where tasks have run. Hosts with equal
        knowledge have equal times until means differ by more than noise; means grow unsure with
        age.
        """
        known_H = _known_s_H(view, job)
        ran = {host: took_s for (one, host), took_s in self.comp_s.items() if one == job}
        ran |= {host: took_s for (one, host), took_s in self.turn_s.items() if one == job}
        longer = [took_s / known_H[host] for host, took_s in ran.items() if known_H[host] < np.inf]
        task_s_H: FloatArray = known_H * (float(np.median(longer)) if longer else 1.0)
        for host, took_s in ran.items():
            task_s_H[host] = took_s
        weight_H = self._weights(job, len(known_H), int(view.round_J[job]))
        noise, _ = self.noise.get(job, (0.0, 0))
        return _binned(_pooled(task_s_H, known_H, weight_H, noise))

    def _weights(self, job: int, hosts: int, now: int) -> FloatArray:
        """Return the number of values that the mean of each host counts for in this round."""
        weight_H = np.zeros(hosts)
        for (one, host), (values, last) in self.weight.items():
            if one == job:
                weight_H[host] = values * 0.5 ** (max(0, now - last) / _HALF_ROUNDS)
        return weight_H

    def computed(self, event: TasksDone, host: int) -> Measured:
        """Return it with tasks on a host that have ended."""
        key, count = (event.job, host), event.rounds * len(event.shards)
        seen = self._weighed(key, event.round + event.rounds - 1)
        value_s = event.busy_ns / count / NS_PER_S
        if key not in self.turn_s:
            seen = seen._deviates(event.job, value_s, self.comp_s.get(key))
        comp_s = _mean(self.comp_s, key, value_s)
        where, turn_s = (event.job, event.device), self.turn_s
        before = self.last.get(where, ())
        if not before or before[-1].round != event.round:
            seen = seen._waited(event, host)
        free_ns = self.free_ns.set(event.device, event.comp_end_ns)
        if count > 1 or not before or before[-1].round != event.round:
            before = ()
        elif len(before) == 1 or before[0].end_ns <= before[1].comp_end_ns:
            took_ns = event.comp_end_ns - before[-1].comp_end_ns
            seen = seen._deviates(event.job, took_ns / NS_PER_S, turn_s.get(key))
            turn_s = _mean(turn_s, key, took_ns / NS_PER_S)
        last = self.last.set(where, (*before[-1:], event))
        return replace(seen, comp_s=comp_s, turn_s=turn_s, last=last, free_ns=free_ns)

    def _waited(self, event: TasksDone, host: int) -> Measured:
        """Return it with the first task of a device in a round."""
        barrier_ns = self.barrier_ns.get(event.job)
        if barrier_ns is None:
            return self
        free = self.free_ns.get(event.device, 0) <= barrier_ns
        one = host, max(1, event.start_ns - barrier_ns) if free else -1
        waits = self.waits.set(event.job, (*self.waits.get(event.job, ()), one))
        return replace(self, waits=waits)

    def _pulled(self, view: View, job: int) -> Measured:
        """Return it with the pulls of a round that has ended, if all of them are known.

        By the stated rates they take as long as on the link that takes longest
        (``warren.solve.shapes.task_rounds``).
        """
        waits = self.waits.get(job, ())
        seen = replace(self, waits=without(self.waits, job))
        model = view.costs.model_bytes_J
        if not waits or min(wait for _, wait in waits) < 0 or model is None:
            return seen
        share_H = server_shares_H(view, job)
        pulls_H = np.bincount([host for host, _ in waits], minlength=len(share_H))
        parts_H = np.maximum(share_H * (len(waits) - pulls_H), (1 - share_H) * pulls_H)
        stated_s = float((parts_H * model[job] / np.array(view.cluster.link_bytes_per_s)).max())
        if not share_H.any() or not stated_s:
            return seen
        took_s = max(wait for _, wait in waits) / NS_PER_S
        return replace(seen, slower=_mean(self.slower, job, took_s / stated_s))

    def _weighed(self, key: tuple[int, int], newest: int) -> Measured:
        """Return it with one more value in a mean."""
        values, last = self.weight.get(key, (0.0, newest))
        kept = values * 0.5 ** (max(0, newest - last) / _HALF_ROUNDS)
        weight = self.weight.set(key, (min(_MOST_VALUES, kept + 1), newest))
        return replace(self, weight=weight)

    def _deviates(self, job: int, value: float, before: float | None) -> Measured:
        """Return it with the deviation of a value from the mean before; None: there was none."""
        if not before:
            return self
        mean, values = self.noise.get(job, (0.0, 0))
        step = max(_LONG, 1 / (values + 1))
        mean += step * ((value / before - 1) ** 2 - mean)
        return replace(self, noise=self.noise.set(job, (mean, values + 1)))

    def _passed(self, event: RoundsDone) -> Measured:
        """Return it with a barrier that has passed; the first one is no whole round's end."""
        job, before = event.job, self.barrier_ns.get(event.job)
        seen = replace(self, barrier_ns=self.barrier_ns.set(job, event.barrier_ns))
        if before is None:
            return seen
        took_s = (event.barrier_ns - before) / event.rounds / NS_PER_S
        rounds = self.rounds.set(job, self.rounds.get(job, 0) + event.rounds)
        return replace(seen, round_s=_mean(self.round_s, job, took_s), rounds=rounds)


def still_moving(moving: frozenset[int], view: View) -> frozenset[int]:
    """Return the jobs whose servers were to move, less those that have moved or started again."""
    there = (one.job for one in view.changes if isinstance(one, ServersMoved | RolledBack))
    return moving.difference(there)


def refused_shapes(refused: Map[int, int], view: View) -> Map[int, int]:
    """Count, by job, how often in turn its servers did not come up where its shape had them."""
    for event in view.changes:
        if isinstance(event, ServersMoved) and event.reason:
            refused = refused.set(event.job, refused.get(event.job, 0) + 1)
        elif isinstance(event, ServersMoved):
            refused = without(refused, event.job)
    return refused


def _known_s_H(view: View, job: int) -> FloatArray:
    """Return the time of a task on the slowest device of each host, by the table of costs."""
    task_s_H = np.full(len(view.hosts.devices_H), np.inf)
    comp_T, fits_T = view.costs.comp_ns_JT[job] / NS_PER_S, view.costs.fits_JT[job]
    for host, devices_T in enumerate(view.hosts.devices_HT):
        kinds = np.flatnonzero((devices_T > 0) & fits_T)
        if len(kinds):
            task_s_H[host] = max(1e-9, float(comp_T[kinds].max()))
    return task_s_H


def _pooled(
    task_s_H: FloatArray, known_H: FloatArray, weight_H: FloatArray, noise: float
) -> FloatArray:
    """Let measured hosts of which the same is known have one time if noise may be all between them.

    From the fastest on: a host joins those before it where its time is not beyond their mean by
    more than ``_DEVIATIONS``, each mean with the variance ``noise / weight_H``. A host that was not
    measured takes the mean of all.
    """
    pooled_H = task_s_H.copy()
    for known_s in np.unique(known_H[weight_H > 0]).tolist():
        hosts = np.flatnonzero((known_H == known_s) & (weight_H > 0))
        pool = list[int]()
        for host in hosts[np.argsort(task_s_H[hosts], kind="stable")].tolist():
            if pool:
                mean_s, weight = pooled_H[pool[0]], weight_H[pool].sum()
                variance = noise * (mean_s**2 / weight + task_s_H[host] ** 2 / weight_H[host])
                if task_s_H[host] - mean_s > _DEVIATIONS * np.sqrt(variance):
                    pool = []
            pool.append(host)
            pooled_H[pool] = np.average(task_s_H[pool], weights=weight_H[pool])
        pooled_H[(known_H == known_s) & (weight_H == 0)] = np.average(
            task_s_H[hosts], weights=weight_H[hosts]
        )
    return pooled_H


def _binned(task_s_H: FloatArray) -> FloatArray:
    """Give hosts whose tasks take about as long one time, their mean."""
    some = np.isfinite(task_s_H)
    bins = np.full(len(task_s_H), -1, dtype=np.int64)
    order = np.argsort(task_s_H[some], kind="stable")
    hosts = np.flatnonzero(some)[order]
    first = -np.inf
    for host in hosts.tolist():
        if task_s_H[host] > first * _BIN:
            first = task_s_H[host]
            bins[host] = bins.max() + 1
        else:
            bins[host] = bins.max()
    for one in range(bins.max() + 1):
        task_s_H[bins == one] = task_s_H[bins == one].mean()
    return task_s_H


def _mean(means: Map[K, float], key: K, value: float) -> Map[K, float]:
    """Return moving averages with one more value; the first one counts whole."""
    before = means.get(key)
    mean = value if before is None else before + _NEWEST * (value - before)
    return means.set(key, mean)


def without(kept: Map[int, V], job: int) -> Map[int, V]:
    """Return the values kept by job without those of one job."""
    return kept.delete(job) if job in kept else kept
