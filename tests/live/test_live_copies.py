"""A late task is started once more on another device, and the first result counts, live."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from live_worlds import drive, job, of, world

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.core.ports import Port
from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.model.cluster import Device, DeviceType, Emulate, Host, Network
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import ParamsSaved
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.sim.build import sim_port

pytestmark = [pytest.mark.live, pytest.mark.timed]

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


def run_of(folder: Path, after: float | None) -> tuple[Run, CostTable]:
    """The run, with copies if ``after`` says when."""
    run, costs = two_types(folder)
    return replace(run, scheduler=replace(run.scheduler, copies_after=after)), costs


def history_of(run: Run, costs: CostTable, place: str, port: Port) -> History:
    """What happens in a world; every step of the core is checked."""
    journal = bytearray()
    Core(
        run=run,
        costs=costs,
        policy=place_policy(place),
        port=port,
        sink=journal.extend,
        world="test",
        check=True,
    ).execute()
    return read_history(journal)


def simulated(run: Run, costs: CostTable, place: str) -> History:
    """The same in virtual time, where the first device is as slow as it is live."""
    true = replace(
        costs,
        comp_ns_JT=(costs.comp_ns_JT * [SLOW, 1]).astype(np.int64),
        sync_ns_JT=(costs.sync_ns_JT * [SLOW, 1]).astype(np.int64),
    )
    lane = replace(run, cluster=replace(run.cluster, network=Network(model="lane"), emulate=None))
    return history_of(lane, costs, place, sim_port(lane, true))


@pytest.fixture(scope="module")
def plain_sha256(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plain")
    run, _ = run_of(folder, None)
    with PlainPort(run, folder / "out") as port:
        (saved,) = of(drive(port, [Assignment(0, 0, 0, ROUNDS, (0, 1))]), ParamsSaved)
    return str(saved.sha256)


def test_a_straggler_costs_less_with_copies_as_simulated_and_the_bits_are_the_same(
    tmp_path: Path, plain_sha256: str
) -> None:
    without = simulated(*run_of(tmp_path, None), "hare")
    run, costs = run_of(tmp_path, 2.0)
    expected = simulated(run, costs, "hare")
    with LivePort(run, costs, tmp_path / "out") as port:
        history = history_of(run, costs, "hare", port)
    assert history.saved[0].sha256 == plain_sha256
    assert len(history.timeline) == 2 * ROUNDS
    assert (history.copies, history.copies_won) == (expected.copies, expected.copies_won)
    finish_ns = int(history.finish_ns_J[0])
    assert finish_ns == pytest.approx(int(expected.finish_ns_J[0]), rel=0.05)
    assert finish_ns < 0.5 * int(without.finish_ns_J[0])
