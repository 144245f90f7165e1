"""What a view shows of servers that no policy has placed, and of bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import question_worlds as q

from warren.core.state import State
from warren.model.cluster import Host, static_server_hosts


def hosts(*memory_bytes: int | None) -> list[Host]:
    return [Host(name=f"h{i}", devices=(), memory_bytes=one) for i, one in enumerate(memory_bytes)]


def test_servers_go_round_hosts_of_one_memory_from_the_jobs_own_number() -> None:
    assert static_server_hosts(hosts(None, None, None), job=1, servers=3) == (1, 2, 0)
    assert static_server_hosts(hosts(8, 8), job=2, servers=3) == (0, 1, 0)


def test_hosts_with_more_memory_come_first_and_one_that_states_none_before_all() -> None:
    assert static_server_hosts(hosts(4, 16, None, 16), job=0, servers=4) == (2, 1, 3, 0)


def test_a_view_shows_servers_under_static_and_the_bytes_of_a_round() -> None:
    run, costs = q.small_world(3)
    jobs = run.workload.jobs
    jobs = (jobs[0], replace(jobs[1], sync="ring", scale=3), jobs[2])
    scheduler = replace(run.scheduler, servers=2)
    run = replace(run, workload=replace(run.workload, jobs=jobs), scheduler=scheduler)
    costs = replace(costs, model_bytes_J=np.array([100, 10, 0]))
    view = State(run, costs, blind=False).view()
    assert list(view.servers_J) == [(0, 1), (), (0, 1)]
    # 2 m for each task; 2 m (w - 1) of a ring; of the last job no size is known.
    assert view.round_bytes_J.tolist() == [200 * jobs[0].scale, 40, -1]
    blind = State(run, costs, blind=True)
    assert len(blind.view().round_bytes_J) == len(blind.view().servers_J) == 0
