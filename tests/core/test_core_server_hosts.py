"""Where servers are that no policy has placed."""

from __future__ import annotations

from warren.model.cluster import Host, static_server_hosts


def hosts(*memory_bytes: int | None) -> list[Host]:
    return [Host(name=f"h{i}", devices=(), memory_bytes=one) for i, one in enumerate(memory_bytes)]


def test_servers_go_round_hosts_of_one_memory_from_the_jobs_own_number() -> None:
    assert static_server_hosts(hosts(None, None, None), job=1, servers=3) == (1, 2, 0)
    assert static_server_hosts(hosts(8, 8), job=2, servers=3) == (0, 1, 0)


def test_hosts_with_more_memory_come_first_and_one_that_states_none_before_all() -> None:
    assert static_server_hosts(hosts(4, 16, None, 16), job=0, servers=4) == (2, 1, 3, 0)
