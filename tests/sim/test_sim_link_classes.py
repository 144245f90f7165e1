"""Classes on a busy link in virtual time: who has how much of it, by the run's record."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warren.core.journal_reader import read_history
from warren.model.cluster import Network
from warren.model.decision import NOTHING, Assignment, Decision, Question, Reason
from warren.model.events import JobArrived, Woken
from warren.model.run import Scheduler
from warren.model.view import View
from warren.policy.registry import policy_of
from warren.sim.build import sim_port

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds
import worlds
from question_worlds import Answering, S


class Behind:
    """Places job j on the device of host j + 1."""

    name, source, offline, needs_rounds = "behind", "test", False, False
    triggers = frozenset({JobArrived})

    def initial(self, view: View) -> None:
        return None

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        arrived = [event.job for event in view.changes if isinstance(event, JobArrived)]
        assign = tuple(Assignment(job + 1, job, 0, 1, (0,)) for job in arrived)
        return Decision(assign=assign, reasons=dict.fromkeys(arrived, Reason.RUNNING)), None

    def explain(self, view: View, memory: None, job: int) -> str:
        return "runs"


def test_the_first_class_has_a_busy_link_of_200_mbit_from_its_change_on() -> None:
    """Two jobs pull 100 MB each from one host, at 25 MB/s in all; at 2 s one of them goes first."""

    def flow(view: View, memory: int) -> Decision:
        if view.now_ns < 2 * S:
            return Decision(classes={0: 1, 1: 1}, wake_ns=2 * S) if memory == 0 else NOTHING
        return Decision(classes={0: 2}) if view.class_J[0] != 2 else NOTHING

    cluster = question_worlds.hosts(3, 1)
    cluster = replace(
        cluster,
        hosts=tuple(replace(host, nic_bps=200e6) for host in cluster.hosts),
        network=Network(model="fluid"),
    )
    jobs = [worlds.job(index, server_hosts=("h0",)) for index in range(2)]
    run = replace(worlds.run(cluster, jobs), scheduler=Scheduler(flow="order", shape="fixed"))
    costs = replace(
        worlds.costs([[1.0]] * 2, [[0.0]] * 2), model_bytes_J=np.array([100_000_000] * 2)
    )
    triggers = frozenset({JobArrived, Woken})
    core, _, journal = question_worlds.core_of(
        run, costs, Behind(),
        (policy_of("shape", "fixed"), Answering("order", flow, Question.FLOW, triggers=triggers)),
        sim_port(run, costs),
    )  # fmt: skip
    core.execute()
    use = read_history(bytes(journal)).link_use
    assert use is not None

    def share(begin_s: float, end_s: float) -> float:
        """Of the bytes of the servers' uplink, those of job 1."""
        at_s = use.bin_R * use.bin_ns / S
        then_R = (use.link_R == 0) & (at_s >= begin_s) & (at_s + use.bin_ns / S <= end_s)
        return float(use.bytes_R[then_R & (use.job_R == 1)].sum() / use.bytes_R[then_R].sum())

    assert share(0, 2) == pytest.approx(0.5, abs=0.01)
    assert share(2, 3) > 0.99
