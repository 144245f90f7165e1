"""``warren hosts``: the nodes of a Ray cluster as a cluster file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_runs import Warren

from warren.live.process.agents.ray_discovery import node_of
from warren.model.errors import EngineError
from warren.runs.studies.ray_hosts import cluster_yaml
from warren.store.files import read
from warren.workload.run_file import load_cluster


def row(name: str, address: str, labels: dict[str, str] | None = None, **has: float) -> Any:
    return {
        "NodeName": name, "NodeManagerAddress": address, "Labels": labels, "Resources": has
    }  # fmt: skip


ROWS = (
    row("yes", "10.0.0.1", CPU=4.0, memory=8.25e9, object_store_memory=1e9),
    row("twin", "10.0.0.2", {"ray.io/accelerator-type": "A100"}, CPU=2.0, GPU=8.0),
    row("twin", "10.0.0.3", CPU=1.0, GPU=1.0, **{"accelerator_type:T4": 1.0}),
    row("", "10.0.0.4", memory=2e9),
)


def test_each_node_with_processors_is_a_host_of_a_file_that_can_be_used(tmp_path: Path) -> None:
    text = cluster_yaml("10.0.0.1:6379", [node_of(one) for one in ROWS])
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    cluster = load_cluster(str(path), read)
    assert cluster.ray == "10.0.0.1:6379"
    assert {one.name: len(one.devices) for one in cluster.hosts} == {
        "yes": 4, "10.0.0.2": 2, "10.0.0.3": 1
    }  # fmt: skip
    assert [one.memory_bytes for one in cluster.hosts] == [8_200_000_000, None, None]
    assert "# and 8 GPUs (A100): tasks run on GPUs of one machine alone" in text
    assert "# and 1 GPUs (T4)" in text
    assert '# "10.0.0.4" has no processors for tasks' in text


def test_where_no_node_has_processors_for_tasks_there_is_no_file() -> None:
    with pytest.raises(EngineError, match="no node has processors for tasks"):
        cluster_yaml("10.0.0.1:6379", [node_of(ROWS[-1])])


def test_what_is_no_address_is_told_with_one(warren: Warren) -> None:
    found = warren("hosts", "10.0.0.1")
    assert found.code == 2
    assert "hosts: ADDRESS: '10.0.0.1' is no HOST:PORT, such as 10.0.0.1:6379" in found.complaint
