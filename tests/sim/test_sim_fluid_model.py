"""The second simulation of bytes on links against numbers by hand and the closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fluid_checks import broken_rates
from fluid_model import Assigned, Classed, Interval, Model, ModelJob, fair_rates
from fluid_steps import Simulation
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.cost.parameter_server import ServerLinks, equal_parts_P, transfer_s_W

MB = 1e6
S = 10**9
RATE = MB / S


def model(jobs: list[ModelJob], host_D: list[int], **fields: Any) -> Model:
    """Links of 1 MB/s, nothing within hosts, a second of COMP."""
    hosts = 1 + max([*host_D, *(host for job in jobs for host in job.server_hosts)])
    known: dict[str, Any] = {
        "up": (RATE,) * hosts,
        "inner": (math.inf,) * hosts,
        "comp_ns": lambda job, round_, shard, device: S,
        "sync_ns": lambda job, round_, shard, device: 3 * S,
    }
    return Model(jobs=tuple(jobs), host_D=tuple(host_D), **{**known, **fields})


def served(mb: float, servers: list[int], rounds: int = 1, scale: int = 1) -> ModelJob:
    return ModelJob(0, scale, rounds, tuple(servers), tuple(mb * MB for _ in servers))


def tasks(job: int, device: int, rounds: int = 1, shards: tuple[int, ...] = (0,)) -> list[Assigned]:
    """One assignment a round, all made at time 0."""
    return [Assigned(0, device, job, round_, 1, shards) for round_ in range(rounds)]


def spans(done: Simulation, job: int = 0) -> list[tuple[float, float, float]]:
    """Start, end of COMP and end of each task of a job in seconds, by round and shard."""
    of = sorted((one.round, one.shard, one) for one in done.tasks if one.job == job)  # type: ignore[type-var]
    return [(t.start_ns / S, t.comp_end_ns / S, t.end_ns / S) for _, _, t in of]


def close(values: list[tuple[float, float, float]]) -> Any:
    return [pytest.approx(one) for one in values]


def test_a_round_is_a_pull_a_computation_and_a_push() -> None:
    """2 MB at 1 MB/s each way and a second of COMP, twice; 10 ms of latency a transfer."""
    one = model([served(2, [1], rounds=2)], [0], latency_ns=S / 100)
    done = Simulation(one, tasks(0, 0, 2)).run()
    assert spans(done) == close([(2.01, 3.01, 5.02), (7.03, 8.03, 10.04)])
    assert done.barriers[0, 1] == pytest.approx(10.04 * S)


def test_within_a_host_bytes_have_the_inner_rate_alone_and_no_latency() -> None:
    one = model([served(2, [0])], [0], latency_ns=S, inner=(4 * RATE,))
    assert spans(Simulation(one, tasks(0, 0)).run()) == close([(0.5, 1.5, 2.0)])
    free = replace(one, inner=(math.inf,))
    assert spans(Simulation(free, tasks(0, 0)).run()) == close([(0.0, 1.0, 1.0)])


def test_a_push_overlaps_the_next_task_and_a_third_one_waits_for_the_first_push() -> None:
    """Three shards on one device: pulled once, till 2 s. Pushes share the uplink: 3-5 and 4-6 s
    alone; together the first has 1 MB left at 4 s and ends at 6 s, the second 1 MB then: 7 s. The
    third starts at 6 s, when there is one update left, and is pushed from 7 s on."""
    one = model([served(2, [1], scale=3)], [0])
    found = spans(Simulation(one, tasks(0, 0, shards=(0, 1, 2))).run())
    assert found == close([(2, 3, 6), (3, 4, 7), (6, 7, 9)])


def test_the_next_job_s_state_comes_while_a_device_computes() -> None:
    """Pulled from another server at once, the second has its state at 2 s, too: on two uplinks, and
    one downlink of 2 MB/s. Without look-ahead it is wanted only when the first has started."""
    jobs = [served(2, [1]), served(2, [2])]
    one = model(jobs, [0], up=(2 * RATE, RATE, RATE))
    queued = tasks(0, 0) + tasks(1, 0)
    assert spans(Simulation(one, queued).run(), 1)[0][:2] == pytest.approx((3, 4))
    late = replace(one, look_ahead=0)
    assert spans(Simulation(late, queued).run(), 1)[0][:2] == pytest.approx((4, 5))


def test_a_first_class_has_the_link_to_itself_from_the_order_s_change_on() -> None:
    """Two jobs pull 4 MB from one host: 1 MB each till 2 s; then job 1, in class 1 before class 2,
    takes all of it, till 5 s; job 0 has its last 3 MB at 8 s."""
    one = model([served(4, [2]), served(4, [2])], [0, 1])
    changes = [Classed(0, 0, 1), Classed(0, 1, 1), Classed(2 * S, 0, 2)]
    done = Simulation(one, tasks(0, 0) + tasks(1, 1), changes).run()
    assert [spans(done, job)[0][0] for job in (0, 1)] == pytest.approx([8, 5])


def test_the_class_is_that_of_the_job_at_the_sending_host() -> None:
    """As above, but said of the servers' host alone; of the workers' it would change nothing."""
    one = model([served(4, [2]), served(4, [2])], [0, 1])
    queued = tasks(0, 0) + tasks(1, 1)
    at_server = Simulation(one, queued, [Classed(0, 0, 3, 2), Classed(0, 1, 2)]).run()
    assert [spans(at_server, job)[0][0] for job in (0, 1)] == pytest.approx([8, 4])
    at_worker = Simulation(one, queued, [Classed(0, 0, 3, 0)]).run()
    assert [spans(at_worker, job)[0][0] for job in (0, 1)] == pytest.approx([8, 8])


def test_weights_part_a_link_between_flows() -> None:
    """3 to 1: 4 MB are there at 16/3 s, the others' 4/3 MB by then and the rest at 8 s."""
    one = model([served(4, [2]), served(4, [2])], [0, 1], weights=(3.0, 1.0, 1, 1, 1, 1, 1))
    done = Simulation(one, tasks(0, 0) + tasks(1, 1), [Classed(0, 0, 1), Classed(0, 1, 2)]).run()
    assert [spans(done, job)[0][0] for job in (0, 1)] == pytest.approx([16 / 3, 8])


def test_a_ring_goes_once_over_each_of_its_hosts_links_and_shares_them_with_servers() -> None:
    """A second of COMP, 20 ms for two hosts, then 1 MB beside a pull of 4 MB that began at 0:
    half of the link each till 3.02 s. The pull has 1.02 + 1 MB by then, and its end at 5 s."""
    jobs = [ModelJob(0, 2, 1, ring_bytes=MB), served(4, [0])]
    one = model(jobs, [0, 1, 1], xi2_ns=S / 100)
    queued = [Assigned(0, device, 0, 0, 1, (device,)) for device in (0, 1)] + tasks(1, 2)
    done = Simulation(one, queued).run()
    assert spans(done, 0)[0] == pytest.approx((0, 1, 3.02))
    assert spans(done, 1)[0][0] == pytest.approx(5)


def test_a_job_of_unknown_size_keeps_its_t_s() -> None:
    one = model([ModelJob(0, 1, 2)], [0])
    assert spans(Simulation(one, tasks(0, 0, 2)).run()) == close([(0, 1, 4), (4, 5, 8)])


def test_a_switch_comes_between_all_that_a_task_waits_for_and_its_start() -> None:
    jobs = [served(2, [1]), served(2, [1])]
    one = model(jobs, [0], switch_ns=lambda job, device: 5.0 * S)
    done = Simulation(one, tasks(0, 0) + tasks(1, 0)).run()
    # Both states at 4 s over one uplink; job 1 follows at 5 s, and 5 s later.
    assert [spans(done, job)[0][:2] for job in (0, 1)] == close([(4, 5), (10, 11)])  # type: ignore[list-item]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 50), st.integers(1, 50))
@settings(max_examples=30)
def test_a_round_of_equal_workers_and_servers_takes_eq_16_each_way(
    workers: int, servers: int, at_w: int, at_ps: int
) -> None:
    hosts = workers + servers
    job = served(3 / servers, [*range(workers, hosts)], scale=workers)
    one = model([job], [*range(workers)])
    one = replace(one, up=(at_w * RATE,) * workers + (at_ps * RATE,) * servers)
    queued = [Assigned(0, worker, 0, 0, 1, (worker,)) for worker in range(workers)]
    links = ServerLinks(
        server_bytes_P=equal_parts_P(3 * MB, servers),
        server_rate_P=np.full(servers, at_ps * MB),
        worker_rate_W=np.full(workers, at_w * MB),
    )
    way_s = float(transfer_s_W(links)[0])
    found = spans(Simulation(one, queued).run())
    assert found == close([(way_s, way_s + 1, 2 * way_s + 1)] * workers)


def test_rates_that_rise_by_weight_stay_where_a_link_is_full_or_a_flow_has_enough() -> None:
    flows = [((0, 1), math.inf, 1.0), ((0,), math.inf, 2.0), ((1,), 3.0, 1.0), ((), 7.0, 1.0)]
    assert fair_rates(flows, {0: 9.0, 1: 9.0}) == pytest.approx([3.0, 6.0, 3.0, 7.0])


@pytest.mark.parametrize(
    ("rates", "wrong"),
    [
        ((0.5, 0.5, 0.0), None),
        ((0.6, 0.5, 0.0), "link 0 carries"),
        ((0.6, 0.4, 0.0), "job 1 could have more"),
        ((0.4, 0.4, 0.2), "job 0 could have more"),
        ((0.4, 0.4, 0.0), "job 2 could have more"),
    ],
)
def test_rates_that_are_too_much_or_unfair_or_not_strict_are_found(
    rates: tuple[float, float, float], wrong: str | None
) -> None:
    """Two flows of class 1 on one link, and one of class 2."""
    one = model([served(1, [1])], [0])
    flows = tuple(
        ((0,), kind, math.inf, rate * RATE, job)
        for job, (kind, rate) in enumerate(zip((1, 1, 2), rates, strict=True))
    )
    found = list(broken_rates(one, Interval(0, 1, flows)))
    assert any(wrong in line for line in found) if wrong else not found
