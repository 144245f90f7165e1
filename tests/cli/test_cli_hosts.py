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
    row("10.0.0.2", "10.0.0.2", CPU=2.0),
    row("", "10.0.0.4", memory=2e9),
)
GPU_ROWS = (
    row("twin", "10.0.0.5", {"ray.io/accelerator-type": "A100"}, CPU=2.0, GPU=8.0),
    row("twin", "10.0.0.6", CPU=1.0, GPU=1.0, **{"accelerator_type:T4": 1.0}),
    row("odd", "10.0.0.7", GPU=2.0, **{"accelerator_type:A (1/2)": 1.0}),
)


def test_each_node_with_processors_is_a_host_of_a_file_that_can_be_used(tmp_path: Path) -> None:
    text = cluster_yaml("10.0.0.1:6379", [node_of(one) for one in ROWS])
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    cluster = load_cluster(str(path), read)
    assert cluster.ray == "10.0.0.1:6379"
    assert {one.name: len(one.devices) for one in cluster.hosts} == {"yes": 4, "10.0.0.2": 2}
    assert [one.memory_bytes for one in cluster.hosts] == [8_200_000_000, None]
    assert '# "10.0.0.4" has no processors for tasks' in text


def test_where_nodes_have_gpus_these_are_the_devices_by_the_name_that_ray_knows(
    tmp_path: Path,
) -> None:
    text = cluster_yaml("10.0.0.1:6379", [node_of(one) for one in (*ROWS, *GPU_ROWS)])
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    cluster = load_cluster(str(path), read)
    assert {one.name: len(one.devices) for one in cluster.hosts} == {
        "10.0.0.5": 8, "10.0.0.6": 1, "odd": 2
    }  # fmt: skip
    assert cluster.type_names == ("A100", "T4", "cuda")
    assert '# "yes" has no GPU; {CPU: 4} would compute other bits' in text
    assert '# "10.0.0.4" has no GPU for tasks' in text


def test_where_no_node_has_devices_for_tasks_there_is_no_file() -> None:
    with pytest.raises(EngineError, match="no node has processors or GPUs for tasks"):
        cluster_yaml("10.0.0.1:6379", [node_of(ROWS[-1])])


def test_what_is_no_address_is_reported_with_one(warren: Warren) -> None:
    found = warren("hosts", "10.0.0.1")
    assert found.code == 2
    assert "hosts: ADDRESS: '10.0.0.1' is no HOST:PORT, such as 10.0.0.1:6379" in found.complaint
