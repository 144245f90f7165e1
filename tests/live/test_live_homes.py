"""The hosts of servers: those of ``static``, or those of a shape; near is where a role says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from live_worlds import job, virtual

from warren.live.control.run_context import RunContext
from warren.live.control.servers import Migration, ServerGroup, Servers
from warren.live.transport.server_messages import OwnershipMoved
from warren.model.cluster import Host, Local, static_server_hosts
from warren.model.decision import Shape

MEMORY = st.lists(st.none() | st.integers(1, 3), min_size=1, max_size=5)


def servers_on(memory: list[int | None], servers: int, testbed: str | None = "bed") -> Servers:
    """Of three jobs, on hosts with so much memory each."""
    run, _ = virtual([job(index) for index in range(3)], 1)
    hosts = tuple(
        Host(name=f"h{i}", devices=(), memory_bytes=size) for i, size in enumerate(memory)
    )
    cluster = replace(run.cluster, hosts=hosts, local=Local(testbed=testbed))
    scheduler = replace(run.scheduler, servers=servers)
    run = replace(run, cluster=cluster, scheduler=scheduler)
    context: Any = RunContext.__new__(RunContext)
    context.run, context.gpus = run, (None,)
    return Servers(context, lambda job: None, lambda *_: None)  # type: ignore[arg-type, return-value]


@given(MEMORY, st.integers(1, 4), st.integers(0, 2))
def test_servers_that_no_shape_places_are_where_static_has_them(
    memory: list[int | None], servers: int, one: int
) -> None:
    at = servers_on(memory, servers)
    hosts = [Host(name="", devices=(), memory_bytes=size) for size in memory]
    assert at.homes(one) == static_server_hosts(hosts, one, servers)


def test_a_shape_places_the_servers_of_its_job_alone() -> None:
    at = servers_on([1, 2], 1)
    assert at.homes(0) == (1,)
    assert at.placed(0, Shape((0,), ()))
    assert at.placed(0, Shape(None, (1,)))
    assert not at.placed(0, Shape(None, (0, 1, 1), (5, 3, 2)))
    at.place(0, Shape(None, (0, 1, 1), (5, 3, 2)))
    assert (at.homes(0), at.homes(1)) == ((0, 1, 1), (0,))
    assert at.placed(0, Shape((0,), (0, 1, 1), (5, 3, 2))), "only its workers changed"
    assert not at.placed(0, Shape(None, (0, 1, 1), (5, 2, 3)))


def test_without_a_testbed_all_servers_are_on_the_one_machine() -> None:
    at = servers_on([1, 2], 3, testbed=None)
    assert at.homes(0) == (0, 0, 0)
    at.place(0, Shape(None, (1, 0)))
    assert at.homes(0) == (0, 0)


def test_a_run_waits_for_blocks_on_their_way_and_not_for_a_barrier_that_nobody_brings() -> None:
    at = servers_on([1, 2], 1)
    moving = Migration(Shape(None, (1,)), ServerGroup(1))
    at._migrations[0] = moving
    assert not at.handing_over()
    moving.begins = OwnershipMoved(job=0, generation=1, round=3, since_ns=0)
    assert at.handing_over()
