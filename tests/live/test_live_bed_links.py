"""Jobs with servers whose bytes pass the links of a testbed: how long their rounds are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from bed_worlds import on_hosts, standing_bed
from live_worlds import drive, job, of, world

from warren.live.control.local_engine import LivePort
from warren.live.testbed.link_test import GOODPUT
from warren.model.cluster import Network
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import RoundsDone, TasksDone
from warren.model.run import Run
from warren.model.testbed import Bed

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

MBIT = 200
WIDTH = 62_500
MODEL_BYTES = 40 * WIDTH
COMP_S = 0.1
ROUNDS = 10


@pytest.fixture(scope="module")
def bed(can_make_testbeds: None) -> Iterator[Bed]:
    with standing_bed(2, MBIT) as made:
        yield made


def linked(folder: Path) -> tuple[Run, CostTable]:
    """One job whose server is on h0; T^s would be endless."""
    one = job(0, scale=1, rounds=ROUNDS, params={"width": WIDTH})
    run, costs = world(folder, [one], 2, scale=1.0, comp_s=COMP_S, sync_s=1000.0)
    run = on_hosts(run, ["h0", "h1"])
    return replace(run, cluster=replace(run.cluster, network=Network(model="fluid"))), costs


def test_a_round_takes_its_bytes_there_and_back_and_its_comp_between(
    bed: Bed, tmp_path: Path
) -> None:
    run, costs = linked(tmp_path)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, [Assignment(1, 0, 0, ROUNDS, (0,))])
    way_s = 8 * MODEL_BYTES / (GOODPUT * MBIT * 1e6)
    ends = [one.barrier_ns / 1e9 for one in of(events, RoundsDone)]
    rounds = [after - before for before, after in pairwise(ends)]
    (row,) = of(events, TasksDone)
    assert row.busy_ns / 1e9 >= ROUNDS * COMP_S
    # No less, over all rounds: one that is disturbed may make the one after it shorter. How much
    # more hangs on the machine: ``benchmarks/testbed_rates.py`` measures it.
    assert sum(rounds) >= 0.96 * len(rounds) * (2 * way_s + COMP_S)
