"""Simulations of fluid links keep the rules that a check knows: a second count of their bytes."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_files import files_of
from test_report_links import edit_links, linked_files

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.cluster import Network
from warren.model.run import Grain
from warren.policy.flow.fixed import FixedClasses
from warren.policy.registry import place_policy
from warren.report.checks.check import check
from warren.report.record import Record
from warren.sim.build import sim_port, simulated_costs

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds
import worlds


def simulated(seed, place, grain=None):
    """A drawn run of servers and rings with classes, on three hosts whose links they fill."""
    run, costs = worlds.random_world(seed, jobs=6, devices=6, network="fluid", grain=grain)
    run, costs = question_worlds.on_hosts(run, costs, 3)
    hosts = tuple(
        replace(host, nic_bps=8e6 * rate)
        for host, rate in zip(run.cluster.hosts, (1, 2, 1), strict=True)
    )
    jobs = tuple(
        replace(
            job,
            # These two place no rings.
            sync="ring" if job.index % 3 == 2 and place == "gavel-fifo" else "ps",
            flow_class=1 + job.index % 3,
        )
        for job in run.workload.jobs
    )
    run = replace(
        run,
        cluster=replace(run.cluster, hosts=hosts, network=Network(model="fluid")),
        workload=replace(run.workload, jobs=jobs),
        scheduler=replace(run.scheduler, servers=1 + seed % 3, flow="fixed"),
    )
    sizes = np.array([0 if job.index == 1 else (1 + job.index) * 100_001 for job in jobs])
    costs = simulated_costs(run, replace(costs, model_bytes_J=sizes))
    journal = bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy(place), others=(FixedClasses(),),
        port=sim_port(run, costs), sink=journal.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return Record(run=run, history=read_history(journal), costs=costs)


@pytest.mark.parametrize(
    ("seed", "place"),
    [(seed, place) for seed in range(4) for place in ("srtf", "gavel-fifo", "hare")],
)
def test_what_a_simulation_counted_is_what_its_tasks_had_to_send(seed, place):
    record = simulated(seed, place, Grain(rounds=1 + 2 * (seed % 2)))
    use = record.history.link_use
    assert len(use) > 10
    assert len(np.unique(use.class_R)) > 1
    files = linked_files(record)
    assert check(files) == []

    def one_less(columns):
        row = int(np.argmax(columns["bytes"]))
        columns["bytes"][row] -= 1000

    assert check(edit_links(files, one_less))


@pytest.mark.parametrize("network", ["constant", "contention", "fluid"])
def test_a_ring_of_unequal_devices_waits_for_its_slowest_one_and_that_is_no_fault(network):
    for seed in range(3):
        run, costs = worlds.random_world(seed, devices=6, network=network)
        run, costs = question_worlds.on_hosts(run, costs, 3)
        rings = tuple(replace(job, sync="ring") for job in run.workload.jobs)
        run = replace(run, workload=replace(run.workload, jobs=rings))
        costs = simulated_costs(run, replace(costs, model_bytes_J=np.full(6, 10**5)))
        journal = bytearray()
        core = Core(
            run=run, costs=costs, policy=place_policy("gavel-fifo"), port=sim_port(run, costs),
            sink=journal.extend, world="sim",
        )  # fmt: skip
        core.execute()
        record = Record(run=run, history=read_history(journal), costs=costs)
        line = record.history.timeline
        busy = line.comp_end_ns_R - line.start_ns_R > line.busy_ns_R
        assert busy.any(), "no ring is of unequal devices"
        assert check(files_of(record)) == []
