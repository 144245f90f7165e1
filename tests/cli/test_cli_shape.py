"""``warren shape``: who works, who serves, and what each has; what is wrong is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import CHECKOUT, Warren

JOBS = CHECKOUT / "examples" / "shapes" / "jobs.yaml"
CLUSTER = CHECKOUT / "examples" / "shapes" / "cluster.yaml"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Three equal hosts, and a job whose items take a second on them and sending next to none."""
    jobs, cluster = tmp_path / "jobs.yaml", tmp_path / "cluster.yaml"
    cost = "{items: 100, item: {C: 1 s}, model: 1 kB, batch: 10}"
    jobs.write_text(f"format: 1\njobs: [{{name: a, cost: {cost}}}]\n")
    hosts = "[{name: h, count: 3, devices: {C: 2}, nic: 8 Mbps}]"
    cluster.write_text(f"format: 1\nhosts: {hosts}\n")
    return jobs, cluster


def test_the_answer_has_the_fields_that_were_promised(
    warren: Warren, files: tuple[Path, Path]
) -> None:
    """Two work, with two devices each; 1 kB takes 1 ms at 8 Mbit/s, and the server's link carries
    it for all four: 2.5 s and two ways of 4 ms in each of ten rounds, of 3, 3, 2 and 2 items."""
    jobs, cluster = files
    found = warren("shape", jobs, "--cluster", cluster, "--job", "a", "--json")
    assert (found.code, found.err) == (0, [])
    told = found.json
    assert list(told)[1:] == [
        "workers", "servers", "data", "model", "epoch_s", "form", "reading",
    ]  # fmt: skip
    assert (told["workers"], told["servers"]) == (["h-0", "h-1"], ["h-2"])
    assert told["data"] == {"h-0": 60, "h-1": 40}
    assert told["model"] == {"h-2": 1000}
    assert told["epoch_s"] == pytest.approx(10 * (3 + 2 * 0.004))
    assert (told["form"], told["reading"]) == ("fixed-round", "nic")


def test_workers_with_mini_batches_of_their_own_send_less_often(
    warren: Warren, files: tuple[Path, Path]
) -> None:
    jobs, cluster = files
    found = warren("shape", jobs, "--cluster", cluster, "--form", "per-worker", "--json").json
    assert found[0]["epoch_s"] == pytest.approx(25 + 3 * 2 * 0.004)
    once = warren(
        "shape", jobs, "--cluster", cluster, "--form", "per-worker", "--ways", "1", "--json"
    ).json
    assert once[0]["epoch_s"] == pytest.approx(25 + 3 * 0.004)


def test_the_example_is_told_to_people_and_drawn(warren: Warren, tmp_path: Path) -> None:
    picture = tmp_path / "shape.svg"
    found = warren("shape", JOBS, "--cluster", CLUSTER, "--form", "per-worker", "--plot", picture)
    assert found.code == 0
    assert found.out.startswith("nmf: 28 hosts work and 4 serve; an epoch takes 180.2 s (")
    assert "  f-0 to f-3, 4 hosts, each holds 71,000,000 bytes\n" in found.out
    assert "</svg>" in picture.read_text()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("C: 1 s", "D: 1 s"), "a.cost.item: has no time for C, of the cluster"),
        ((", cost: {items", ", app: 'x.py:X', params: {items"), "a.cost: is required: {items: N"),
        (("count: 3", "count: 1"), "hosts: a worker and a server need two machines, of which "),
        (
            (
                "[{name: h, count: 3, devices: {C: 2}, nic: 8 Mbps}]",
                "[" + ", ".join(f"{{name: h{i}, count: 9, devices: {{C: 1}}, nic: {i} Mbps}}"
                                for i in range(1, 8)) + "]",
            ),
            "hosts: 7 kinds of machines have 10000000 ways to serve; allowed: 1000000",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(
    warren: Warren, files: tuple[Path, Path], change: tuple[str, str], line: str
) -> None:
    for file in files:
        file.write_text(file.read_text().replace(*change))
    found = warren("shape", files[0], "--cluster", files[1])
    assert (found.code, found.out) == (2, "")
    assert len(found.err) == 1
    assert line in found.err[0]


def test_hosts_without_devices_serve_and_hosts_of_one_kind_are_told_where_they_stand_together(
    warren: Warren, files: tuple[Path, Path]
) -> None:
    """a, c and d are of one kind, and b stands between them. A round of ten is 3, 3, 2 and 2."""
    jobs, cluster = files
    slow = [f"{{name: {name}, devices: {{C: 1}}, nic: 8 Mbps}}" for name in "acd"]
    hosts = [slow[0], "{name: b, devices: {C: 1}, nic: 80 Mbps}", *slow[1:]]
    cluster.write_text(f"hosts: [{', '.join(hosts)}, {{name: e, nic: 1 Gbps}}]\n")
    lines = warren("shape", jobs, "--cluster", cluster).out.splitlines()
    assert lines[0].startswith("a: 4 hosts work and 1 serve; an epoch takes 30.0")
    assert lines[1:] == [
        "  a to b, 2 hosts, each works on 30 items",
        "  c to d, 2 hosts, each works on 20 items",
        "  e holds 1,000 bytes",
    ]
