"""``warren shape``: who works, who serves, and what each has; what is wrong is one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, Warren

from warren.cli.views.shape_text import shape_text
from warren.runs.studies.job_shape import ShapeAdvice

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
        "workers", "servers", "data", "model", "epoch_s", "form", "reading", "bound_s",
    ]  # fmt: skip
    assert (told["workers"], told["servers"]) == (["h-0", "h-1"], ["h-2"])
    assert told["data"] == {"h-0": 60, "h-1": 40}
    assert told["model"] == {"h-2": 1000}
    assert told["epoch_s"] == pytest.approx(10 * (3 + 2 * 0.004))
    assert (told["form"], told["reading"]) == ("fixed-round", "nic")
    assert told["bound_s"] == told["epoch_s"]


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


def test_the_example_is_reported_to_people_and_drawn(warren: Warren, tmp_path: Path) -> None:
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


def test_hosts_without_devices_serve_and_hosts_of_one_kind_are_reported_where_they_stand_together(
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


def paper(folder: Path, extra: str = "") -> tuple[Path, Path]:
    """NMF of Cruise's Table 3.3 on 32 equal machines; an item takes what makes 22 work."""
    jobs, cluster = folder / "jobs.yaml", folder / "cluster.yaml"
    cost = f"{{items: 1900000, item: {{C: 1.8 ms}}, model: 284 MB, batch: 10000{extra}}}"
    jobs.write_text(f"jobs: [{{name: nmf, cost: {cost}}}]\n")
    cluster.write_text("hosts: [{name: h, count: 32, devices: {C: 1}, nic: 1.25 Gbps}]\n")
    return jobs, cluster


def test_the_change_of_the_paper_moves_36_blocks_of_either_with_four_switches(
    warren: Warren, tmp_path: Path
) -> None:
    """3.4.6: (18, 14) to (22, 10), in at most 18 and 12 moves; 95 MB and 2.2 MB a block."""
    jobs, cluster = paper(tmp_path, ", data: 19 GB")
    command = ("shape", jobs, "--cluster", cluster, "--form", "per-worker", "--from", "18,14")
    (told,) = warren(*command, "--json").json
    assert (len(told["workers"]), len(told["servers"])) == (22, 10)
    plan = told["plan"]
    assert (len(plan["from"]["workers"]), len(plan["from"]["servers"])) == (18, 14)
    data, model = plan["moved"]["data"], plan["moved"]["model"]
    assert (data["blocks"], data["of"], data["bytes"]) == (36, 200, 36 * 95_000_000)
    assert (model["blocks"], model["of"], model["bytes"]) == (36, 128, 36 * 2_218_750)
    assert data["moves"] <= 18
    assert model["moves"] <= 12
    switches = [one for one in plan["steps"] if one["kind"] != "move"]
    assert [(one["kind"], one["role"]) for one in switches] == [("switch", "worker")] * 4
    first, second = plan["stages"]
    assert [plan["steps"][place] for place in second] == switches
    assert len(first) == data["moves"] + model["moves"]
    lines = warren(*command).out.splitlines()
    assert lines[3] == (
        "  from 18 that work and 14 that serve: 36 of 200 blocks of data move (3,420,000,000 "
        "bytes), 36 of 128 blocks of the model move (79,875,000 bytes), 4 hosts switch"
    )
    assert lines[4] == f"  1. at once: {len(first)} moves"
    assert lines[5 + len(first) :] == [
        "  2. at once: 4 hosts switch", *(f"     h-{at} switches, to work" for at in range(18, 22))
    ]  # fmt: skip


def test_hosts_are_added_before_blocks_come_and_deleted_when_theirs_have_gone(
    warren: Warren, files: tuple[Path, Path]
) -> None:
    """By reading ``server`` no more servers than workers hold something: of three beside two
    workers one holds nothing. How many bytes the data has is not known unless stated."""
    jobs, cluster = files
    hosts = "[{name: s, count: 3, nic: 80 Mbps}, {name: w, count: 2, devices: {C: 1}, nic: 8 Mbps}]"
    cluster.write_text(f"hosts: {hosts}\n")
    jobs.write_text(jobs.read_text().replace("1 kB", "1 MB"))
    command = ("shape", jobs, "--cluster", cluster, "--job", "a", "--reading", "server")
    refused = warren(*command, "--from", "1+1,2+0")
    assert refused.code == 2
    assert "--from: '1+1,2+0'; hosts as s-0 have no device to work on" in refused.err[0]
    told = warren(*command, "--from", "0+1,3+0", "--blocks", "10,8", "--json").json
    assert told["model"] == {"s-0": 500_000, "s-1": 500_000, "s-2": 0}
    plan = told["plan"]
    steps, stages = plan["steps"], plan["stages"]
    kinds = [[(steps[at]["kind"], steps[at]["host"]) for at in places] for places in stages]
    assert sorted(kinds[0]) == [("add", "w-1"), ("move", "s-2"), ("move", "s-2")]
    assert sorted(kinds[1]) == [("delete", "s-2"), ("move", "w-0")]
    assert plan["moved"]["data"] == {"moves": 1, "blocks": 5, "of": 10, "bytes": None}
    assert plan["moved"]["model"]["blocks"] == 2
    assert plan["moved"]["model"]["bytes"] == 250_000


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--from", "3"), "--from: '3'; allowed: W,S, how many hosts work and how many serve"),
        (("--from", "-1,2"), "--from: '-1,2'; allowed: W,S, how many hosts work and how many"),
        (("--from", "2,2"), "'2,2'; allowed: as many hosts of a kind as there are: 3 as h-0"),
        (("--from", "3,0"), "--from: '3,0'; allowed: a host that works and another that serves"),
        (("--from", "1+1,1"), "'1+1,1'; allowed: W,S, a number for each kind of hosts: 3 as h-0"),
        (("--from", "1,2", "--blocks", "0,1"), "--blocks: '0,1'; allowed: DATA,MODEL, blocks of"),
        (("--blocks", "1,1"), "--blocks: goes with --from W,S"),
    ],
)
def test_a_shape_that_cannot_be_stated_is_one_line(
    warren: Warren, files: tuple[Path, Path], options: tuple[str, ...], line: str
) -> None:
    found = warren("shape", files[0], "--cluster", files[1], *options)
    assert (found.code, found.out) == (2, "")
    assert len(found.err) == 1
    assert line in found.err[0]


def test_a_shape_that_is_the_best_one_needs_no_steps(
    warren: Warren, files: tuple[Path, Path]
) -> None:
    command = ("shape", files[0], "--cluster", files[1], "--from", "2,1")
    assert warren(*command).out.splitlines()[-1] == (
        "  from 2 that work and 1 that serve: 0 of 200 blocks of data move (0 bytes), "
        "0 of 128 blocks of the model move (0 bytes)"
    )
    assert warren(*command, "--json").json[0]["plan"]["steps"] == []


def test_a_plan_for_thousands_of_hosts_is_reported_in_short(warren: Warren, tmp_path: Path) -> None:
    jobs, cluster = paper(tmp_path)
    cluster.write_text(cluster.read_text().replace("32", "4000"))
    found = warren(
        "shape", jobs, "--cluster", cluster, "--form", "per-worker", "--from", "190,3810",
        "--blocks", "100000,4000",
    )  # fmt: skip
    assert found.code == 0
    assert len(found.out.splitlines()) < 200
    assert "more, which --json tells\n" in found.out


def test_a_shape_without_a_proof_is_reported_with_what_no_shape_is_below() -> None:
    one = ShapeAdvice(
        job="a", form="per-worker", reading="published", epoch_s=3.0, bound_s=2.5, hosts=("x", "y"),
        items={"x": 7}, server_bytes={"y": 9}, epochs_s={},
    )  # fmt: skip
    line = "  not proved to be the best; none takes less than 2.5 s"
    assert line in shape_text(one).splitlines()
    assert line not in shape_text(replace(one, bound_s=3.0 * (1 - 1e-9))).splitlines()
