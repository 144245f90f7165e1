"""Two jobs on one link of a testbed under ``shift``: rounds are delayed, with the same bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bed_worlds import on_hosts, standing_bed
from live_worlds import job, world

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.live.control.local_engine import LivePort
from warren.live.testbed.link_test import GOODPUT
from warren.model.cluster import Network
from warren.model.decision import Assignment, Decision, Reason
from warren.model.run import Scheduler
from warren.model.testbed import Bed
from warren.model.view import View
from warren.policy.registry import policy_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

MBIT = 200
WIDTH = 62_500
MODEL_BYTES = 40 * WIDTH
COMP_S = 0.2
ROUNDS = 8


@pytest.fixture(scope="module")
def bed(can_make_testbeds: None) -> Iterator[Bed]:
    with standing_bed(3, MBIT) as made:
        yield made


class Own(q.Bound):
    """Gives job j the device 2 + j: both tasks are on host 2, the servers on hosts 0 and 1."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        ready = view.open_J & view.arrived_J & (view.next_round_J == view.round_J)
        assign = tuple(
            Assignment(2 + job, job, int(view.round_J[job]), 1, (0,))
            for job in ready.nonzero()[0].tolist()
        )
        return Decision(assign=assign, reasons=dict.fromkeys(range(2), Reason.RUNNING)), None


def played(folder: Path, flow: str) -> History:
    jobs = [job(j, scale=1, rounds=ROUNDS, params={"width": WIDTH}) for j in range(2)]
    folder.mkdir()
    run, costs = world(folder, jobs, 4, scale=1.0, comp_s=COMP_S)
    run = on_hosts(run, ["h0", "h1", "h2", "h2"])
    hosts = tuple(replace(one, nic_bps=GOODPUT * MBIT * 1e6) for one in run.cluster.hosts)
    cluster = replace(run.cluster, hosts=hosts, network=Network(model="fluid"))
    run = replace(run, cluster=cluster, scheduler=Scheduler(place="srtf", flow=flow))
    costs = replace(costs, model_bytes_J=np.full(2, MODEL_BYTES))
    others = () if flow == "fair" else (policy_of("flow", flow),)
    journal = bytearray()
    with LivePort(run, costs, folder / "out") as port:
        core = Core(
            run=run, costs=costs, policy=Own(), others=others, port=port,
            sink=journal.extend, world="live",
        )  # fmt: skip
        core.execute()
    return read_history(bytes(journal))


def test_jobs_of_a_testbed_are_shifted_and_keep_their_bits(bed: Bed, tmp_path: Path) -> None:
    """How long their rounds take hangs on the machine; that delays are served is tested apart."""
    fair, shifted = (played(tmp_path / flow, flow) for flow in ("fair", "shift"))
    assert [one.sha256 for one in fair.saved.values()] == [
        shifted.saved[job].sha256 for job in fair.saved
    ]
    assert any(shifted.delays_of(job) for job in range(2))
    assert not any(fair.delays_of(job) for job in range(2))
