"""A late task is started once more on another device, and the first result counts, live."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import job, world

from warren.core.history import History, read_history
from warren.core.loop import Core
from warren.live.controller import LivePort
from warren.model.cluster import Device, DeviceType, Emulate, Host
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.policy.place.registry import place_policy

pytestmark = pytest.mark.live

SLOW, SCALE = 8.0, 0.03
ROUNDS = 4


def two_types(folder: Path) -> tuple[Run, CostTable]:
    """Two devices alike for the profile, 1 s and 0.2 s a task; the first takes eight times that."""
    run, costs = world(folder, [job(0, rounds=ROUNDS)], 2, scale=SCALE, comp_s=1.0, sync_s=0.2)
    names = ("h/slow-0", "h/cpu-1")
    devices = tuple(
        Device(index=i, name=name, type=kind, host="h")
        for i, (name, kind) in enumerate(zip(names, ("slow", "cpu"), strict=True))
    )
    cluster = replace(
        run.cluster,
        hosts=(Host(name="h", devices=names),),
        devices=devices,
        types=(DeviceType(name="slow"), DeviceType(name="cpu")),
        emulate=Emulate(time_scale=SCALE, slower={"slow": SLOW}),
    )
    costs = CostTable(
        comp_ns_JT=costs.comp_ns_JT.repeat(2, axis=1),
        sync_ns_JT=costs.sync_ns_JT.repeat(2, axis=1),
        fits_JT=costs.fits_JT.repeat(2, axis=1),
    )
    return replace(run, cluster=cluster), costs


def trained(folder: Path, place: str, after: float | None) -> History:
    """Train the job; every step of the core is checked."""
    folder.mkdir()
    run, costs = two_types(folder)
    run = replace(run, scheduler=replace(run.scheduler, copies_after=after))
    journal = bytearray()
    with LivePort(run, costs, folder / "out") as port:
        Core(
            run=run,
            costs=costs,
            policy=place_policy(place),
            port=port,
            sink=journal.extend,
            world="live",
            check=True,
        ).execute()
    return read_history(journal)


def test_a_straggler_costs_less_with_copies_and_the_bits_are_the_same(tmp_path: Path) -> None:
    without = trained(tmp_path / "without", "srtf", None)
    for place in ("srtf", "hare"):
        history = trained(tmp_path / place, place, 2.0)
        assert history.copies_won >= 1
        assert history.saved[0].sha256 == without.saved[0].sha256
        assert history.finish_ns_J[0] < 0.7 * without.finish_ns_J[0]
        assert len(history.timeline) == 2 * ROUNDS
