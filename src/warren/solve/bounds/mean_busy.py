"""Preemptive WSPT on one machine of speed 1, with release dates: the mean busy times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.agenda import Agenda, new_agenda, pop, push
from warren.solve.common.compile import kernel


class _Machine(NamedTuple):
    release_ns_J: Any
    by_release_N: Any
    rank_J: Any  # the released job of least rank is served
    volume_s_J: Any
    left_s_J: Any
    moment_J: Any  # of the volume served, about the job's release
    delay_s_J: Any
    waiting: Agenda


def mean_busy_delays(release_ns_J: Any, weight_J: Any, volume_s_J: Any) -> Any:
    """M_j - r_j (s) of the schedule that always serves the released job of largest w / volume.

    This minimises sum w_j M_j over all preemptive, fractional schedules (Goemans 1996). A job of
    no volume has a delay of 0. ``release_ns_J`` are int64; time is counted from the start of each
    busy period, so that a late release costs no precision: a delay is off by some rounding
    errors of its busy period's length, never of its date.
    """
    jobs = len(release_ns_J)
    key_J = np.full(jobs, np.inf)
    np.divide(volume_s_J, weight_J, out=key_J, where=weight_J > 0)
    rank_J = np.empty(jobs, np.int64)
    rank_J[np.argsort(key_J, kind="stable")] = np.arange(jobs)
    machine = _Machine(
        release_ns_J=np.array(release_ns_J),
        by_release_N=np.argsort(release_ns_J, kind="stable"),
        rank_J=rank_J,
        volume_s_J=np.array(volume_s_J),
        left_s_J=np.array(volume_s_J),
        moment_J=np.zeros(jobs),
        delay_s_J=np.zeros(jobs),
        waiting=new_agenda(jobs),
    )
    _serve(machine)
    return machine.delay_s_J


@kernel
def _serve(machine: _Machine) -> None:
    order_N, volume_J, left_J = machine.by_release_N, machine.volume_s_J, machine.left_s_J
    waiting, jobs = machine.waiting, len(order_N)
    origin_ns, time, place = np.int64(0), 0.0, 0
    while place < jobs or waiting.count[0] > 0:
        if waiting.count[0] == 0:
            origin_ns, time = machine.release_ns_J[order_N[place]], 0.0
        while place < jobs and (machine.release_ns_J[order_N[place]] - origin_ns) / 1e9 <= time:
            job = order_N[place]
            if volume_J[job] > 0:
                push(waiting, machine.rank_J[job], job)
            place += 1
        if waiting.count[0] == 0:
            continue
        job = waiting.who_E[0]
        served, is_done = left_J[job], True
        until = time + served
        if place < jobs:
            following = (machine.release_ns_J[order_N[place]] - origin_ns) / 1e9
            if following < until:
                served, until, is_done = following - time, following, False
        left_J[job] -= served
        waited = time - (machine.release_ns_J[job] - origin_ns) / 1e9
        machine.moment_J[job] += served * (waited + served / 2)
        time = until
        if is_done:
            pop(waiting)
            machine.delay_s_J[job] = machine.moment_J[job] / volume_J[job]
