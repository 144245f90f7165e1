"""Drawn worlds of servers and rings on links: the simulator against a second simulation.

Policies, most of which answer at random, decide; the second simulation (``fluid_steps``, written
from the model alone) plays what they decided. ``experiments/fluid_worlds.py`` plays a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest
from fluid_compare import Compared, compared
from fluid_draws import FluidWorld, drawn_world, journal, played
from fluid_model import Model

from warren.model.events import TasksDone
from warren.sim.build import simulated_costs

WORLDS = 40


@cache
def compared_once(seed: int) -> Compared:
    return compared(drawn_world(seed))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_times_bytes_and_rates_are_those_of_the_second_simulation(seed: int) -> None:
    """Starts, ends of COMP, ends and barriers, to a nanosecond or so for each rounding on the way.

    Bytes are conserved, no link is above its rate, classes are strict or share by weight, rates are
    max-min fair within one, and a plan has the same times in compiled code.
    """
    found = compared_once(seed)
    assert not found.broken, "\n".join(found.broken[:5])


def test_nearly_all_worlds_are_compared_time_by_time() -> None:
    """A *sensitive* one, where a nanosecond moves much, is rare."""
    found = [compared_once(seed) for seed in range(10)]
    assert sum(one.sensitive for one in found) <= 1
    assert sum(one.times for one in found) > 500


def with_servers() -> list[FluidWorld]:
    worlds = [drawn_world(seed) for seed in range(30)]
    return [one for one in worlds if "servers" in one.kinds and one.style == "usual"][:6]


@pytest.mark.parametrize(
    "change",
    [
        lambda model: replace(model, latency_ns=model.latency_ns + 1000),
        lambda model: replace(model, up=tuple(rate * 1.00001 for rate in model.up)),
        lambda model: replace(model, look_ahead=5 - model.look_ahead),
        lambda model: replace(model, xi2_ns=model.xi2_ns + 1000),
        lambda model: replace(model, comp_ns=lambda *task: model.comp_ns(*task) + 100),
    ],
    ids=["latency", "rates", "look-ahead", "what hosts add to rings", "COMP"],
)
def test_a_model_that_is_a_little_other_is_found(change: Callable[[Model], Model]) -> None:
    assert any(compared(world, change).broken for world in with_servers())


def pushes(world: FluidWorld) -> Iterator[tuple[int, int]]:
    """Of each task of a job with servers: how long its push took, and T^s as bounds count it."""
    sync_ns_JT = simulated_costs(world.run, world.costs).sync_ns_JT
    jobs, sizes = world.run.workload.jobs, world.costs.model_bytes_J
    assert sizes is not None
    for event in played(journal(world)).events:
        if isinstance(event, TasksDone) and jobs[event.job].sync == "ps" and sizes[event.job]:
            kind = world.run.cluster.type_of_device[event.device]
            yield event.end_ns - event.comp_end_ns, int(sync_ns_JT[event.job, kind])


def test_no_push_is_faster_than_the_t_s_that_bounds_count_and_some_are_as_fast() -> None:
    found = [one for seed in range(20) for one in pushes(drawn_world(seed))]
    assert all(took_ns >= least_ns for took_ns, least_ns in found)
    assert any(least_ns > 0 and took_ns <= least_ns + 10 for took_ns, least_ns in found)
