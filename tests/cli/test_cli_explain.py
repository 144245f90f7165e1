"""``warren policies NAME --explain CLUSTER``: what a policy makes of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import CLUSTER, ROUND_ROBIN, Warren

METHOD = """
    def explain_cluster(self, cluster, costs):
        from warren.policy.place.hlas.gpu_groups import cluster_text
        return cluster_text(cluster, costs, groups=2)
"""


@pytest.fixture
def grouping(tmp_path: Path) -> str:
    """A policy that groups the GPUs of a cluster."""
    source = Path(ROUND_ROBIN.rpartition(":")[0]).read_text()
    (tmp_path / "groups.py").write_text(f"{source.rstrip()}\n{METHOD}")
    return f"{tmp_path}/groups.py:RoundRobin"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Two V100 and a K80."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    return tmp_path / "cluster.yaml"


def test_groups_of_the_cluster_are_reported(warren: Warren, grouping: str, cluster: Path) -> None:
    found = warren("policies", grouping, "--explain", cluster)
    assert found.code == 0
    assert found.out.startswith("3 GPUs in 2 groups:\n  group 0: 1 V100 + 1 K80\n  group 1: 1 V100")
    assert "eq. 4" in found.out
    assert "No grouping has less." in found.out
    as_json = warren("policies", grouping, "--explain", cluster, "--json").json
    assert as_json["text"] == found.out.rstrip("\n")


def test_what_cannot_be_explained_is_one_line(
    warren: Warren, grouping: str, cluster: Path, tmp_path: Path
) -> None:
    def complaint(*arguments: str | Path) -> str:
        found = warren("policies", *arguments)
        assert (found.code, found.out, len(found.err)) == (2, "", 1)
        return found.complaint

    assert "needs the NAME of a policy" in complaint("--explain", cluster)
    assert "srtf prepares nothing for a cluster" in complaint("srtf", "--explain", cluster)
    assert "no such file" in complaint(grouping, "--explain", tmp_path / "none.yaml")
    small = tmp_path / "small.yaml"
    small.write_text("format: 1\nhosts: [{name: a, devices: {V100: 1}}]\n")
    assert "2 groups of 1 GPUs; allowed" in complaint(grouping, "--explain", small)
    other = tmp_path / "other.yaml"
    other.write_text("format: 1\nhosts: [{name: a, devices: {H200: 2}}]\n")
    told = f"{other}: device_types: no shipped model runs on H200; there are times for: K80, M60, "
    assert complaint(grouping, "--explain", other).startswith(told)


@pytest.mark.parametrize(("devices", "told"), [(4, "4 GPUs in 1 group:"), (1, "1 GPU in 1 group:")])
def test_one_group_is_reported_in_the_singular(
    warren: Warren, tmp_path: Path, devices: int, told: str
) -> None:
    few = tmp_path / "few.yaml"
    few.write_text(f"hosts: [{{name: a, devices: {{V100: {devices}}}}}]\n")
    assert warren("policies", "hlas", "--explain", few).out.startswith(f"{told}\n")


def test_a_device_type_without_times_is_not_taken_for_another(
    warren: Warren, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed.yaml"
    mixed.write_text("hosts: [{name: a, devices: {TPU9: 2, K80: 2, H200: 1}}]\n")
    found = warren("policies", "hlas", "--explain", mixed)
    assert (found.code, found.out) == (2, "")
    assert "no shipped model runs on TPU9, H200; there are times for: K80, " in found.complaint


@pytest.mark.parametrize("name", ["hlas-p", "hlas-l"])
def test_kin_of_hlas_tell_its_groups(warren: Warren, cluster: Path, name: str) -> None:
    told = [warren("policies", one, "--explain", cluster) for one in ("hlas", name)]
    assert told[0].out == told[1].out != ""
