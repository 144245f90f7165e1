"""A network stated in a cluster, or in a file that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.model.cluster import Cluster, Network
from warren.model.errors import SpecError
from warren.store.files import read
from warren.workload.run_file import load_cluster, load_run
from warren.workload.specs.write import dump_run

HOSTS = "hosts: [{name: h, devices: {V100: 2}}]\n"
MEASURED = "model: contention\nxi1: 0.5\nxi2: 2 ms\nalpha: 0.1\nouter: 190 Mbit\ninner: 5 Gbps\n"
NETWORK = Network(
    model="contention", xi1=0.5, xi2_s=0.002, alpha=0.1, outer_bps=190e6, inner_bps=5e9
)


def cluster(folder: Path, text: str) -> Cluster:
    (folder / "c.yaml").write_text(HOSTS + text)
    return load_cluster(str(folder / "c.yaml"), read)


def test_a_file_says_the_same_as_the_mapping_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(f"format: 1\n{MEASURED}fit: {{any: thing}}\n")
    inline = "network: {" + MEASURED.replace("\n", ", ") + "}\n"
    assert cluster(tmp_path, "network: n.yaml\n").network == NETWORK
    assert cluster(tmp_path, inline).network == NETWORK


def test_the_resolved_run_holds_the_network_itself(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(MEASURED)
    (tmp_path / "r.yaml").write_text(
        "cluster: {hosts: [{name: h, devices: {V100: 2}}], network: n.yaml}\n"
        "workload: [{name: a, model: resnet50, batch: 32, rounds: 2}]\n"
    )
    run = load_run(str(tmp_path / "r.yaml"), read)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "run.yaml").write_text(dump_run(run))
    again = load_run(str(tmp_path / "elsewhere" / "run.yaml"), read)
    assert again.cluster.network == NETWORK


def test_a_fluid_network_may_state_latency_and_weights_of_classes(tmp_path: Path) -> None:
    weights = "[64, 32, 16, 8, 4, 2, 1]"
    stated = "network: {model: fluid, latency: 2 ms, classes: {weights: " + weights + "}}\n"
    found = cluster(tmp_path, stated).network
    assert (found.latency_s, found.class_weights) == (0.002, (64, 32, 16, 8, 4, 2, 1))
    strict = cluster(tmp_path, "network: {model: fluid, classes: strict}\n").network
    assert strict == Network(model="fluid")
    (tmp_path / "r.yaml").write_text(
        f"cluster:\n  hosts: [{{name: h, devices: {{V100: 2}}}}]\n  {stated}"
        "workload: [{name: a, model: resnet50, batch: 32, rounds: 2}]\n"
    )
    run = load_run(str(tmp_path / "r.yaml"), read)
    (tmp_path / "again.yaml").write_text(dump_run(run))
    assert load_run(str(tmp_path / "again.yaml"), read).cluster.network == found


@pytest.mark.parametrize(
    ("stated", "file", "told"),
    [
        ("n.yaml", None, "no such file"),
        ("n.yaml", "model: contention\nouter: fast\n", "outer"),
        ("n.yaml", "model: contention\nouter: 0 Mbit\n", "outer"),
        ("n.yaml", "model: lane\nouter: 1 Gbps\n", "outer belongs to model: contention"),
        ("n.yaml", "model: contention\nspeed: 1\n", "speed"),
        ("{model: constant, inner: 1 Gbps}", None, "inner belongs to model: contention"),
        ("7", None, "network"),
        ("{model: contention, latency: 1 ms}", None, "latency belongs to model: fluid"),
        ("{model: fluid, latency: -1 ms}", None, "latency"),
        ("{model: fluid, classes: fair}", None, "'fair' is unknown; allowed: strict"),
        ("{model: fluid, classes: [1, 2]}", None, "expected strict, or {weights:"),
        ("{model: fluid, classes: {weights: [1, 2]}}", None, "weights"),
        ("{model: fluid, classes: {weights: [1, 1, 1, 1, 1, 1, 0]}}", None, "weights"),
    ],
)
def test_what_is_wrong_with_it_is_reported_in_one_line(
    tmp_path: Path, stated: str, file: str | None, told: str
) -> None:
    if file is not None:
        (tmp_path / "n.yaml").write_text(file)
    with pytest.raises(SpecError) as caught:
        cluster(tmp_path, f"network: {stated}\n")
    assert len(caught.value.problems) == 1
    assert told in str(caught.value)
