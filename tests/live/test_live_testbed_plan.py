"""A testbed before anything is made: names, commands, records, and which flows measure it."""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.testbed import records as record
from warren.live.testbed.cpu_quota import cgroup_roots
from warren.live.testbed.iproute import check_usable
from warren.live.testbed.link_test import GOODPUT, MeasuredLink, expected_bps, plan_flows
from warren.live.testbed.names import hosts_text, namespace, namespaces, owner, port
from warren.live.testbed.records import TestbedRecord, TestbedRecords
from warren.live.testbed.setup_commands import batches
from warren.model.errors import SpecError
from warren.model.testbed import QUEUES, Bed, BedHost, Queue

BED = Bed(
    name="lab",
    subnet="10.77.0.0/24",
    hosts=(BedHost(name="h0", link_bps=200_000_000), BedHost(name="h1", link_bps=50_000_000)),
)
RECORD = TestbedRecord(bed=BED, namespaces=tuple(namespaces(BED)), cgroups=("/x/warren-lab-0",))


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?", fullmatch=True), st.integers(0, 63))
def test_a_namespace_belongs_to_the_testbed_that_named_it_and_to_no_other(
    name: str, index: int
) -> None:
    assert owner(namespace(name, index)) == name


@pytest.mark.parametrize("name", ["warren-lab", "warren--0", "warren-lab-100", "xwarren-lab-0"])
def test_what_others_named_belongs_to_no_testbed(name: str) -> None:
    assert owner(name) is None


def test_names_of_links_fit_into_what_linux_allows() -> None:
    lines = [line for batch in batches(BED) for line in batch.lines]
    devices = [
        name for line in lines for name in re.findall(r"(?:dev|add|name|master) (\w+)", line)
    ]
    assert {"br0", "eth0", port(0)} <= {*devices}
    assert max(len(port(63)), *map(len, devices)) <= 15


@pytest.mark.parametrize("queue", QUEUES)
def test_every_port_is_shaped_at_both_ends_to_the_rate_of_its_host(queue: Queue) -> None:
    found = {}
    for batch in batches(replace(BED, queue=queue)):
        for line in batch.lines if batch.tool == "tc" else ():
            if match := re.match(r"class add dev (\w+) parent 1: .* rate (\d+)bit", line):
                found[batch.where, match[1]] = int(match[2])
    assert found == {
        ("warren-lab-sw", "p0"): 200_000_000,
        ("warren-lab-sw", "p1"): 50_000_000,
        ("warren-lab-0", "eth0"): 200_000_000,
        ("warren-lab-1", "eth0"): 50_000_000,
    }


def test_the_machines_name_is_the_hosts_own_address_in_each_host() -> None:
    for i, address in enumerate(("10.77.0.1", "10.77.0.2")):
        lines = hosts_text(BED, i, "box").splitlines()
        assert {"10.77.0.1 h0", "10.77.0.2 h1", f"{address} box"} <= {*lines}
    assert hosts_text(BED, 0, "h1").count("h1") == 1


def test_a_record_is_read_back_as_written_and_goes_with_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    with TestbedRecords(folder) as records:
        assert records.names() == []
        records.write(RECORD)
    with TestbedRecords(folder) as records:
        assert (records.names(), records.read("lab")) == (["lab"], RECORD)
        assert records.read("other") is None
        (folder / ".lab.part").write_text("{")  # what a killed write leaves
        records.remove("lab")
    assert not folder.exists()


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text('{"bed": 3}')
    with TestbedRecords(tmp_path) as records, pytest.raises(SpecError, match="cannot be read"):
        records.read("lab")


def test_a_lock_holds_until_all_who_inherited_it_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a command does whose caller was killed: what it still makes must not be overlooked."""
    monkeypatch.setattr(record, "_PATIENCE_S", 0.1)
    folder = tmp_path / "records"
    with TestbedRecords(folder) as records:
        inherited = os.dup(records.lock)
        records.write(RECORD)
    with pytest.raises(SpecError, match="in use by another command"), TestbedRecords(folder):
        pass
    os.close(inherited)
    with TestbedRecords(folder):
        pass


def test_a_folder_that_went_while_it_was_opened_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    old = os.open(folder, os.O_RDONLY)
    folder.rmdir()
    fcntl.flock(old, fcntl.LOCK_EX)
    with TestbedRecords(folder) as records:
        assert os.fstat(records.lock).st_ino == folder.stat().st_ino
    os.close(old)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=9))
def test_flows_meet_the_rate_of_each_host_once_out_and_once_in(rates_H: list[int]) -> None:
    """As far as all others together carry it; and every flow of a group shares one host."""
    planned = plan_flows([float(rate) for rate in rates_H])
    fills = [fill for flows in planned for fill in flows.fills]
    assert sorted(fills) == sorted((h, way) for h in range(len(rates_H)) for way in ("in", "out"))
    for flows in planned:
        assert all(a != b for a, b in flows.flows)
        for host, way in flows.fills:
            ends = {a if way == "out" else b for a, b in flows.flows}
            assert ends == {host}
            most = min(rates_H[host], sum(rates_H) - rates_H[host])
            assert expected_bps(rates_H, flows) == pytest.approx(GOODPUT * most)


def test_equal_hosts_are_measured_by_one_flow_each() -> None:
    assert len(plan_flows([1.0] * 8)) == 8


def test_a_rate_is_fine_within_ten_percent_and_no_further() -> None:
    flows = plan_flows([1.0, 1.0])[0]
    rates = [(85.0, False), (91.0, True), (109.0, True), (111.0, False)]
    assert [(rate, MeasuredLink(flows, rate, 100.0).ok) for rate, _ in rates] == rates


@pytest.mark.parametrize(
    ("effective", "told"),
    [
        ("0000000000000000", "needs root, or at least CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        ("0000000000001000", "needs root, or at least CAP_SYS_ADMIN"),
        ("0000000000200000", "needs root, or at least CAP_NET_ADMIN"),
    ],
)
def test_lacking_rights_are_named(tmp_path: Path, effective: str, told: str) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\twarren\nCapEff:\t{effective}\n")
    with pytest.raises(SpecError, match=told):
        check_usable(status)
    with pytest.raises(SpecError, match="needs Linux"):
        check_usable(tmp_path / "none")


def test_a_missing_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path / "status"
    status.write_text("CapEff:\t000001ffffffffff\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool, told in (("", "ip"), ("ip", "tc")):
        if tool:
            (tmp_path / tool).write_text("")
            (tmp_path / tool).chmod(0o755)
        with pytest.raises(SpecError, match=f"the command {told}, which is not here"):
            check_usable(status)


def test_a_quota_is_made_where_the_cpu_controller_is(tmp_path: Path) -> None:
    second = tmp_path / "two"
    second.mkdir()
    mounts = tmp_path / "mountinfo"
    lines = [
        f"30 1 0:26 / {tmp_path}/memory rw - cgroup cgroup rw,memory",
        f"31 1 0:27 / {tmp_path}/one rw shared:3 - cgroup cgroup rw,cpu,cpuacct",
        f"32 1 0:28 / {second} rw - cgroup2 cgroup2 rw",
    ]
    mounts.write_text("\n".join(lines))
    assert cgroup_roots(mounts) == [tmp_path / "one"]
    (second / "cgroup.subtree_control").write_text("cpuset cpu io\n")
    assert cgroup_roots(mounts) == [tmp_path / "one", second]
    assert cgroup_roots(tmp_path / "none") == []
