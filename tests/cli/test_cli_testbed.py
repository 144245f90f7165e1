"""``warren testbed``: options, refusals, and one testbed from ``up`` to ``down``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import Warren

NAME = f"cli-{os.getpid()}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("up", "testbed: --hosts: is missing; allowed: --hosts N --link RATE, or --file"),
        ("up --hosts 2", "testbed: --link: is missing"),
        ("up --hosts 1 --link 1Gbit", "testbed: --hosts: must be 2 to 64 hosts"),
        ("up --file x --hosts 2 --cpus 1", "testbed: --file: says it all; leave out --hosts, --cp"),
        (
            "up --hosts 2 --link 1Gbit --queue lifo",
            "testbed: --queue: 'lifo' is not known; allow",
        ),
        ("up --file x --queue fair", "testbed: --file: says it all; leave out --queue"),
        ("up --file none.yaml", "none.yaml: cannot be read: no such file"),
        ("up --hosts 2 --link 1Gbit --name A", "testbed: --name: 'A' is not a name"),
        ("down --name ../x", "testbed: --name: '../x' is not a name"),
        ("status --name -x-", "testbed: --name: '-x-' is not a name"),
        ("exec h0", "testbed exec: -- COMMAND is missing"),
        ("exec h0 --name A -- ls", "testbed: --name: 'A' is not a name"),
        ("exec h0 ls -l", "testbed exec: no option -l"),
        ("start", "no command 'start'; did you mean status? allowed: up, exec, status, down"),
    ],
)
def test_what_is_typed_wrongly_is_reported_in_one_line(
    warren: Warren, arguments: str, told: str
) -> None:
    found = warren("testbed", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert told in found.complaint


@pytest.mark.parametrize(
    "arguments", ["up --hosts 2 --link 1Gbit", "down", "status", "exec h0 -- ls"]
)
def test_without_the_rights_each_command_is_refused_in_one_line(
    warren: Warren, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.setattr("warren.live.testbed.iproute._lacking", lambda _: ["CAP_NET_ADMIN"])
    found = warren("testbed", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert "testbed: needs root, or at least CAP_NET_ADMIN" in found.complaint


def test_a_quota_without_a_cpu_controller_is_refused(
    warren: Warren, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.live.testbed.lifecycle.check_usable", lambda: None)
    monkeypatch.setattr("warren.live.testbed.cpu_quota.cgroup_roots", list)
    found = warren("testbed", "up", "--hosts", "2", "--link", "1Gbit", "--cpus", "0.5")
    assert found.code == 2
    assert "testbed: cpus: no cgroup with a cpu quota can be made here" in found.complaint


@pytest.fixture
def _gone_afterwards(can_make_testbeds: None) -> Iterator[None]:
    from warren.live.testbed.lifecycle import remove

    yield
    remove(NAME)


@pytest.mark.live
@pytest.mark.machine
@pytest.mark.usefixtures("_gone_afterwards")
def test_a_testbed_is_made_measured_used_and_removed(warren: Warren, tmp_path: Path) -> None:
    file = tmp_path / "bed.yaml"
    file.write_text("format: 1\nhosts: [{name: a, link: 50 Mbit}, {name: b, link: 50 Mbit}]\n")
    up = ("testbed", "up", "--file", file, "--name", NAME)
    found = warren(*up, "--json")
    assert (found.code, found.json["changed"]) == (0, True)
    rates = [row["goodput_bps"] for row in found.json["measured"]]
    assert len(rates) == 2
    assert all(0 < rate < 1.1 * 50e6 for rate in rates)
    again = warren(*up, "--no-measure")
    assert (again.code, again.err) == (0, [f"{NAME} is up already; nothing was changed"])
    assert "a     10.77.0.1  50 Mbit/s  all   0          warren-" in again.out
    other = warren("testbed", "up", "--hosts", "2", "--link", "50Mbit", "--name", NAME)
    assert (other.code, "another shape" in other.complaint) == (2, True)
    status = warren("testbed", "status", "--name", NAME, "--measure")
    assert status.code == 0
    assert "a out, b in  a -> b  47.82 Mbit/s" in status.out
    (row,) = warren("testbed", "status", "--name", NAME, "--json").json
    assert (row["faults"], [host["name"] for host in row["hosts"]]) == ([], ["a", "b"])
    assert "no host 'c' in" in warren("testbed", "exec", "c", "--name", NAME, "--", "ls").complaint
    assert warren("testbed", "down", "--name", NAME, "--json").json["changed"]
    gone = warren("testbed", "status", "--name", NAME, "--json")
    assert (gone.code, gone.json) == (0, [])
    assert warren("testbed", "down", "--name", NAME).err == [f"{NAME} is not up; nothing to remove"]


@pytest.mark.live
@pytest.mark.machine
@pytest.mark.usefixtures("_gone_afterwards")
def test_a_command_in_a_host_has_its_own_exit_status_streams_and_environment(
    warren: Warren,
) -> None:
    up = ("up", "--hosts", "2", "--link", "100Mbit", "--name", NAME, "--no-measure")
    assert warren("testbed", *up).code == 0
    code = (
        "import os, signal, socket, sys; word = sys.stdin.read(); "
        "print(word, socket.gethostbyname('h1'), os.environ.get('OPENBLAS_NUM_THREADS')); "
        "os.write(2, b'said'); sys.exit(7)"
    )
    prefix = [sys.executable, "-m", "warren", "testbed", "exec", "h0", "--name", NAME, "--"]
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code],
        input="word", capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (7, "word 10.77.0.2 None\n", "said")
    kill = subprocess.run([*prefix, "sh", "-c", "kill -TERM $$"], env=environment)
    assert kill.returncode == -15
