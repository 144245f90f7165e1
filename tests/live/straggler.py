"""A straggler: two devices alike for the profile, the first of which takes eight times as long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.core.ports import Port
from warren.model.cluster import Device, DeviceType, Emulate, Host, Network
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.sim.build import sim_port

COMP_S, SYNC_S, SCALE, SLOW = 1.0, 0.2, 0.03, 8.0
Told = tuple[Run, CostTable]


def with_straggler(told: Told, after: float | None) -> Told:
    """A run of one type of device, as one of two; with copies if ``after`` says when."""
    run, costs = told
    names = ("h/slow-0", "h/cpu-1")
    devices = tuple(
        Device(index=at, name=name, type=kind, host="h")
        for at, (name, kind) in enumerate(zip(names, ("slow", "cpu"), strict=True))
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
    scheduler = replace(run.scheduler, copies_after=after)
    return replace(run, cluster=cluster, scheduler=scheduler), costs


def history_of(told: Told, port: Port) -> History:
    """What happens in a world; every step of the core is checked."""
    (run, costs), journal = told, bytearray()
    Core(
        run=run, costs=costs, policy=place_policy("hare"), port=port, sink=journal.extend,
        world="test", check=True,
    ).execute()  # fmt: skip
    return read_history(journal)


def simulated(told: Told) -> History:
    """The same in the simulator, where the first device is as slow as it is live."""
    run, costs = told
    true = replace(
        costs,
        comp_ns_JT=(costs.comp_ns_JT * [SLOW, 1]).astype(np.int64),
        sync_ns_JT=(costs.sync_ns_JT * [SLOW, 1]).astype(np.int64),
    )
    lane = replace(run, cluster=replace(run.cluster, network=Network(model="lane"), emulate=None))
    return history_of((lane, costs), sim_port(lane, true))
